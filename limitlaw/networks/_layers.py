"""Layers around attention, and layers made of layers; each a frozen description. Every occurrence draws fresh weights."""

from collections.abc import Callable
from math import inf, isinf
from typing import Any

import equinox as eqx

from .. import _arguments
from ..numerics import Activation, activation as resolve_activation
from ._described import Layer, Layout

_MOST_REPETITIONS = 1_000_000


class MLP(Layer):
    """A two-layer perceptron on every token: `phi(X W_1) W_2`, weights `N(0, std^2 / fan_in)`.

    The hidden width is `ratio` times the width of the model, or `width` itself (a number or `inf`). `gated=True` is
    `(phi(X W_g) * X W_1) W_2`: SwiGLU with "silu", GeGLU with "gelu". Biases have entries `N(0, bias_std^2)`; the hidden ones
    (both, if gated) share `in_bias_std`. Given its input the output is Gaussian, with the covariance `out_std^2 phi(h) phi(h)^T / m`, whose limit is
    the dual activation (Cho and Saul 2009), in closed form or by a series in the correlation.

    !!! Example

        >>> import limitlaw as ll
        >>> ll.MLP("silu", gated=True, ratio=3.5)
        MLP(activation=silu, ratio=3.5, gated=True)
    """

    activation: Activation = eqx.field(static=True)
    ratio: Any = 4.0
    width: Any = None
    in_std: Any = 1.0
    out_std: Any = 1.0
    gated: bool = eqx.field(static=True, default=False)
    gate_std: Any = 1.0
    in_bias_std: Any = 0.0
    out_bias_std: Any = 0.0

    def __init__(
        self,
        activation: str | Activation | Callable[[Any], Any] = "relu",
        ratio: float = 4.0,
        width: int | float | None = None,
        in_std: float = 1.0,
        out_std: float = 1.0,
        *,
        gated: bool = False,
        gate_std: float = 1.0,
        in_bias_std: float = 0.0,
        out_bias_std: float = 0.0,
    ):
        self.activation = resolve_activation(activation)
        self.ratio = _arguments.non_negative("ratio", ratio)
        if self.ratio == 0:
            raise ValueError("ratio=0: a hidden layer needs units; give a positive ratio, such as 4.")
        self.width = None if width is None else _arguments.positive_integer("width", width, infinite=True)
        self.in_std = _arguments.non_negative("in_std", in_std)
        self.out_std = _arguments.non_negative("out_std", out_std)
        if not isinstance(gated, bool):
            raise TypeError(f"gated={gated!r}: must be True or False.")
        self.gated = gated
        self.gate_std = _arguments.non_negative("gate_std", gate_std)
        self.in_bias_std = _arguments.non_negative("in_bias_std", in_bias_std)
        self.out_bias_std = _arguments.non_negative("out_bias_std", out_bias_std)

    @property
    def ends_fresh(self) -> bool:
        return True

    def width_at(self, width: int | float) -> int | float:
        """The hidden width at this width of the model.

        !!! Example

            >>> import limitlaw as ll
            >>> [ll.MLP(ratio=2.5).width_at(64), ll.MLP(width=100).width_at(64), ll.MLP().width_at(float("inf"))]
            [160, 100, inf]
        """
        if self.width is not None:
            return self.width
        return inf if isinf(width) else round(self.ratio * width)

    def check_width(self, width: int | float) -> None:
        units = self.ratio * width
        if self.width is None and not isinf(width) and (abs(units - round(units)) > 1e-6 or round(units) < 1):
            raise ValueError(
                f"ratio={self.ratio:g} at width={width}: {units:g} hidden units are not a positive whole number; give width=..., or another ratio."
            )
        _arguments.countable("hidden width", self.width_at(width))
        if isinf(self.width_at(width)):
            self.activation.check_kernel()

    def is_deterministic(self, width: int | float) -> bool:
        return isinf(self.width_at(width))


class Residual(Layer):
    """A skip connection around layers: `skip x + f(x)`. The last of the layers must end in a fresh matrix.

    !!! Example

        >>> import limitlaw as ll
        >>> ll.Residual(ll.LayerNorm(), ll.Attention(heads=2), skip=0.5)
        Residual(LayerNorm(), Attention(heads=2), skip=0.5)
    """

    layers: tuple[Layer, ...]
    skip: Any = 1.0

    def __init__(self, *layers: Layer, skip: float = 1.0):
        self.layers = _layers("Residual", layers)
        if not self.layers[-1].ends_fresh:
            raise ValueError(
                f"Residual(..., {layers[-1]!r}): the branch must end in a fresh matrix (Attention or MLP), so that it is Gaussian given what came before; "
                f"move the last layer out of the branch."
            )
        self.skip = _arguments.finite_number("skip", skip)

    def __repr__(self) -> str:
        return _call("Residual", *self.layers, **({} if self.skip == 1.0 else {"skip": self.skip}))

    @property
    def inner(self) -> tuple[Layer, ...]:
        return self.layers


class Repeat(Layer):
    """The same layers `count` times over, with fresh weights each time. They are compiled once, however often they are repeated.

    !!! Example

        >>> import limitlaw as ll
        >>> ll.Repeat(12, ll.Residual(ll.LayerNorm(), ll.MLP("gelu")))
        Repeat(12, Residual(LayerNorm(), MLP(activation=gelu)))
    """

    count: int = eqx.field(static=True)
    layers: tuple[Layer, ...]

    def __init__(self, count: int, *layers: Layer):
        self.count = int(_arguments.positive_integer("count", count))
        if self.count > _MOST_REPETITIONS:
            raise ValueError(f"count={count}: at most {_MOST_REPETITIONS:,} repetitions can be held; make it smaller.")
        self.layers = _layers("Repeat", layers)

    def __repr__(self) -> str:
        return _call("Repeat", self.count, *self.layers)

    @property
    def inner(self) -> tuple[Layer, ...]:
        return self.layers

    @property
    def times(self) -> int:
        return self.count

    @property
    def ends_fresh(self) -> bool:
        return self.layers[-1].ends_fresh


class Only(Layer):
    """Layers that act on the tokens of one sequence; the others pass by unchanged, and can be looked at through `Attention(context=...)`.

    With two sequences, source and target, this makes encoders and decoders.

    !!! Example

        >>> import limitlaw as ll
        >>> ll.Only(1, ll.Residual(ll.Attention(heads=2, context=0)))
        Only(1, Residual(Attention(heads=2, context=0)))
    """

    sequence: int = eqx.field(static=True)
    layers: tuple[Layer, ...]

    def __init__(self, sequence: int, *layers: Layer):
        self.sequence = _arguments.natural("sequence", sequence)
        self.layers = _layers("Only", layers)
        if any(isinstance(part, Only) for layer in self.layers for part, _ in layer.walk()):
            raise ValueError(
                f"{self!r}: layers act on one sequence at a time; put one Only after the other, not into it."
            )

    def __repr__(self) -> str:
        return _call("Only", self.sequence, *self.layers)

    @property
    def inner(self) -> tuple[Layer, ...]:
        return self.layers

    def check_layout(self, layout: Layout) -> None:
        if self.sequence >= len(layout.lengths):
            raise ValueError(
                f"Only({self.sequence}, ...): the inputs have {len(layout.lengths)} sequences; give them more with sequences=..., or a smaller number."
            )
        super().check_layout(layout)


class Readout(Layer):
    """The end of a network: layers (a final norm, say), then a fresh matrix, `f(X) W`, entries `N(0, std^2 / n)`, and a bias.

    It is no block of a trajectory. `observe="gram"` shows the Gram matrix of what the matrix reads.

    !!! Example

        >>> import limitlaw as ll
        >>> ll.Readout(ll.LayerNorm(), std=0.5)
        Readout(LayerNorm(), std=0.5)
    """

    layers: tuple[Layer, ...]
    std: Any = 1.0
    bias_std: Any = 0.0

    def __init__(self, *layers: Layer, std: float = 1.0, bias_std: float = 0.0):
        self.layers = _layers("Readout", layers, least=0)
        self.std = _arguments.non_negative("std", std)
        self.bias_std = _arguments.non_negative("bias_std", bias_std)

    def __repr__(self) -> str:
        given = {"std": self.std, "bias_std": self.bias_std}
        usual = {"std": 1.0, "bias_std": 0.0}
        return _call("Readout", *self.layers, **{name: value for name, value in given.items() if value != usual[name]})

    @property
    def inner(self) -> tuple[Layer, ...]:
        return self.layers

    @property
    def ends_fresh(self) -> bool:
        return True

    def is_deterministic(self, width: int | float) -> bool:
        return all(layer.is_deterministic(width) for layer in self.layers)


def _layers(name: str, layers: tuple[Any, ...], least: int = 1) -> tuple[Layer, ...]:
    for layer in layers:
        if not isinstance(layer, Layer):
            raise TypeError(
                f"{name}(..., {layer!r}): must be made of layers, such as Attention(heads=2) or LayerNorm()."
            )
        if isinstance(layer, Readout):
            raise ValueError(f"{name}(..., {layer!r}): a Readout ends a network; put it last in Network(...).")
    if len(layers) < least:
        raise ValueError(f"{name}(): needs at least one layer, such as Attention(heads=2).")
    return layers


def _call(name: str, *parts: Any, **named: Any) -> str:
    """The call that makes a layer of layers."""
    return f"{name}({', '.join([*map(repr, parts), *(f'{key}={value!r}' for key, value in named.items())])})"
