"""A network is written once and read several ways."""

from collections.abc import Callable, Iterator, Sequence
from math import inf, isinf
from typing import Any

import equinox as eqx
import numpy as np

from .. import _arguments, _html
from ..netsor import Program
from ..numerics import DEFAULT_MEMORY, draw_blocks
from . import _dense, _gram, _laws, _lowering
from ._attention import Attention
from ._described import Described, InputLayer, Layer, Layout
from ._layers import MLP, Readout
from ._trajectory import Trajectory, trajectory
from ._vanishing import refuse_zero_tokens

_OBSERVABLES = ("output", "covariance", "gram", "scores")
_SAMPLERS = {"gram": _gram.sampler, "lazy": _lowering.sampler, "dense": _dense.sampler}


class Network(Described):
    """Tokens, and layers that act on them in turn.

    One object is the finite network at every width and its limit; `reading` says how it is sampled. "dense" draws every
    weight matrix, "lazy" reveals the matrices of `program()` as they are needed, "gram" (the default) tracks the tokens'
    Gram matrix, which is all that later layers see: exact too, thousands of times faster, and the only one at `width=inf`.

    !!! Example

        >>> import limitlaw as ll
        >>> net = ll.Network(ll.Inputs(tokens=4, activation=ll.clip(100.0)), ll.Attention(heads=2))
        >>> y = net.sample(20_000, width=64, seed=0)
        >>> bool(abs(y.var() - 0.4031) < 0.015)
        True
    """

    inputs: InputLayer
    layers: tuple[Layer, ...]
    own_width: int | float = eqx.field(static=True, default=inf)

    def __init__(self, inputs: InputLayer, *layers: Layer, width: int | float = inf) -> None:
        if not isinstance(inputs, InputLayer):
            raise TypeError(
                f"inputs={inputs!r}: a network starts with Inputs, GramInputs, GaussianInputs or Embedding."
            )
        for layer in layers:
            if not isinstance(layer, Layer):
                raise TypeError(f"layer={layer!r}: after the inputs come layers, such as Attention(heads=2).")
            layer.check_layout(inputs.layout)
        for layer in layers[:-1]:
            if isinstance(layer, Readout):
                raise ValueError(f"layer={layer!r}: a Readout ends a network; put it last.")
        refuse_zero_tokens(inputs, layers)
        self.inputs, self.layers = inputs, layers
        self.own_width = _arguments.positive_integer("width", width, infinite=True)

    def __repr__(self) -> str:
        width = [] if isinf(self.own_width) else [f"width={self.own_width}"]
        return f"Network({', '.join([*map(repr, (self.inputs, *self.layers)), *width])})"

    def _repr_html_(self) -> str:
        parts = [("inputs", repr(self.inputs)), *((f"layer {i}", repr(part)) for i, part in enumerate(self.layers, 1))]
        return _html.table((f"Network of {self.tokens} tokens", f"width {self.own_width}"), parts)

    def plot(self, ax: Any = None, *, width: int | float | None = None, token: int = 0, kind: str = "pdf") -> Any:
        """Draw the law of a token's output on matplotlib axes (the current ones unless given) and return them; `kind` as for `Law.plot`.

        !!! Example

            >>> import matplotlib
            >>> matplotlib.use("agg")
            >>> import limitlaw as ll
            >>> axes = ll.Network(ll.Inputs(tokens=3), ll.Attention(heads=2)).plot()
            >>> axes.lines[0].get_label()
            'limit'
        """
        return self.law(width=width, token=token).plot(ax, kind=kind)

    @property
    def width(self) -> int | float:
        """The network's own width, used where none is given; `inf` if it has none."""
        return self.own_width

    @property
    def layout(self) -> Layout:
        """How the tokens form sequences."""
        return self.inputs.layout

    @property
    def tokens(self) -> int:
        """How many tokens."""
        return self.inputs.size

    def program(self) -> Program:
        """The network as a Netsor program, line by line.

        !!! Example

            >>> import limitlaw as ll
            >>> print(ll.Network(ll.Inputs(tokens=1), ll.Attention(heads=1)).program())  # doctest: +ELLIPSIS
            matrices
            ...
        """
        return _lowering.lower(self).program

    def sample(
        self,
        samples: int,
        *,
        width: int | float | None = None,
        token: int | Sequence[int] | None = None,
        observe: str = "output",
        seed: int = 0,
        reading: str = "gram",
        max_memory: int = DEFAULT_MEMORY,
    ) -> np.ndarray:
        """Independent draws of the network at initialisation: fresh weights (and random inputs) for each.

        `observe` is what is returned, float32:

        - "output": coordinate 0 of `token` (default 0) after a layer that ends in a fresh matrix, a fresh read-out
          `X w`, `w ~ N(0, I/n)`, after anything else; shape `(samples,)`, or `(samples, k)` for a list of tokens;
        - "covariance": of the output of all tokens (or of those in the list `token`) given what came before its last
          matrix, `(samples, s, s)`; the output is Gaussian given it;
        - "gram": the Gram matrix `X X^T / n` of the last stream, `(samples, s, s)`;
        - "scores": of the last attention layer, before the mask, `(samples, H, s, s)`; with `token`, its row alone.

        Draw `i` depends on the seed and `i` alone. Memory stays below `max_memory` bytes.

        !!! Example

            >>> import numpy as np, limitlaw as ll
            >>> net = ll.Network(ll.GramInputs(np.eye(3)), ll.Attention(heads=2, head_dim=8))
            >>> net.sample(5, width=16, observe="scores").shape
            (5, 2, 3, 3)
            >>> net.sample(5, width=16, token=[0, 2]).shape
            (5, 2)
        """
        samples = int(_arguments.positive_integer("samples", samples))
        seed = _arguments.seed(seed)
        max_memory = int(_arguments.positive_integer("max_memory", max_memory))
        _arguments.one_of("observe", observe, _OBSERVABLES)
        _arguments.one_of("reading", reading, _SAMPLERS)
        width = self.checked_width(width)
        if reading != "gram":
            self._check_finite(reading, width)
        rows, pick = self._wanted(token, observe)
        block = _SAMPLERS[reading](self, width, observe, rows)
        return pick(draw_blocks(block, samples=samples, seed=seed, max_memory=max_memory))

    def trajectory(
        self,
        samples: int,
        *,
        width: int | float | None = None,
        seed: int = 0,
        jit: bool = True,
        max_memory: int = DEFAULT_MEMORY,
    ) -> Trajectory:
        """Independent draws of the network, observed after the input and after every block: variance, kurtosis, cosines, effective rank, attention entropy.

        A new kind of network is compiled first, for seconds. With `jit=False` NumPy runs the same program in place of the compiler's: a few hundred draws
        are there in a fraction of that time, many take longer. They are the same draws up to rounding, unless rounding decides a rank (more tokens than the width).

        !!! Example

            >>> import numpy as np, limitlaw as ll
            >>> net = ll.Network(ll.GramInputs(np.eye(3)), ll.Repeat(6, ll.Residual(ll.Attention(heads=2))))
            >>> t = net.trajectory(500, width=32)
            >>> print(t.cosine[:, 0, 1].round(1))  # tokens become alike
            [0.  0.2 0.4 0.6 0.7 0.8 0.9]
        """
        samples = int(_arguments.positive_integer("samples", samples))
        if samples < 2:
            raise ValueError(f"samples={samples}: a standard error takes at least two draws.")
        max_memory = int(_arguments.positive_integer("max_memory", max_memory))
        width, seed = self.checked_width(width), _arguments.seed(seed)
        return trajectory(self, samples, width, seed, max_memory, jit)

    def law(
        self,
        *,
        width: int | float | None = None,
        token: int | Sequence[int] = 0,
        observe: str = "output",
        key: int | None = None,
        seed: int = 0,
        samples: int | None = None,
        accuracy: float = 1e-4,
        method: str = "auto",
        max_memory: int = DEFAULT_MEMORY,
    ) -> Any:
        """The law of the output of one token over the initialisation, of several jointly, or of a score.

        Given the scores and the tokens the output is Gaussian, so its law is the mixture of `N(0, v)` over `v`, at every width.

        - At infinite width, after one random layer, it is exact: the characteristic function is `M(t^2 / 2H)^H`, with `M` the
          Laplace transform of one head's variance, an integral over its scores by quadrature (up to four dimensions; more by
          randomised quasi-Monte Carlo, with its error, from `samples` points or 2^21); `heads=inf` is a `Gaussian`.
        - Elsewhere `v` is drawn (Rao-Blackwell: nothing is lost to the last Gaussian): `samples` of them, or as many as bring
          the relative standard error of `var()` to `accuracy` and that of `kurtosis()` to `10 accuracy (1 + kurtosis)`, within
          2^22 draws and about half a minute. `method="draws"` does so at infinite width too.

        Laws at different widths, and `sample` with the same seed, are independent of each other.

        `method` may also be "mixture" or "fourier", how densities are found (see `laws.ScaleMixture`). `token=[0, 1]` is the joint
        law, a `laws.GaussianMixture` from draws. `observe="scores"` with `token=i` and `key=j` is the law of one head's score
        of query `i` and key `j` in the last attention layer.

        !!! Example

            >>> import limitlaw as ll
            >>> net = ll.Network(ll.Inputs(tokens=4, activation=ll.clip(100.0)), ll.Attention(heads=2))
            >>> law = net.law()  # infinite width
            >>> print(f"{law.var():.10f} {law.kurtosis():.10f}")
            0.3919714436 0.1216592126
            >>> net.law(width=256, observe="scores", token=0, key=1, samples=2**16).kurtosis().covers(0.1672, 0.999)
            True
        """
        width = self.checked_width(width)
        seed = _arguments.seed(seed)
        _arguments.one_of("observe", observe, ("output", "scores"))
        _arguments.one_of("method", method, ("auto", "draws", "mixture", "fourier"))
        if samples is not None and _arguments.positive_integer("samples", samples) < 2:
            raise ValueError(f"samples={samples!r}: a standard error takes at least two draws.")
        if _arguments.non_negative("accuracy", accuracy) == 0:
            raise ValueError(f"accuracy={accuracy!r}: must be positive, such as 1e-3.")
        count = None if samples is None else int(samples)
        exact = isinf(width) and method != "draws"
        inner = "auto" if method == "draws" else method

        own = _laws.seed_of(seed, width)

        def draw(net: Network, samples: int, **what: Any) -> np.ndarray:
            return net.sample(samples, **{"width": width, "seed": own, "max_memory": max_memory, **what})

        if observe == "scores":
            row, column = self._score_position(token, key)
            layers = _gram.until_last_attention(self.layers)
            law = _laws.exact_score(self, layers, row, column) if exact else None
            return law or _laws.drawn_score(self, layers, row, column, width, draw, count)
        if key is not None:
            raise ValueError(f"key={key!r} with observe='output': a key belongs to a score; use observe='scores'.")
        gaussian = self._is_gaussian(width)
        if token is None:
            raise TypeError("token=None: a law is that of one token, or of a list of them; give token=0, say.")
        if not isinstance(token, int | np.integer) or isinstance(token, bool):
            tokens = self._distinct_tokens(token)
            return _laws.drawn_joint(self, tokens, width, draw, count, gaussian)
        index = _arguments.index("token", token, self.tokens, "tokens")
        law = _laws.exact_output(self, index, seed, count, inner) if exact else None
        return law or _laws.drawn_output(self, index, width, draw, count, accuracy, inner, gaussian)

    def _score_position(self, token: Any, key: Any) -> tuple[int, int]:
        """Query and key of a score."""
        if key is None:
            raise ValueError("key=None with observe='scores': a score has a query and a key; give token=i and key=j.")
        self._wanted(None, "scores")
        row = _arguments.index("token", token, self.tokens, "tokens")
        column = _arguments.index("key", key, self.tokens, "tokens")
        return row, column

    def _distinct_tokens(self, token: Any) -> list[int]:
        rows, _ = self._wanted(token, "covariance")
        assert rows is not None
        if len(rows) < len(token):
            raise ValueError(f"token={token!r}: a token is named twice, so there is no joint density; name each once.")
        return list(rows)

    def _is_gaussian(self, width: int | float) -> bool:
        """Whether nothing is left to mix over: the Gram matrix of every stream is deterministic."""
        return isinf(width) and all(layer.is_deterministic(width) for layer in self.layers)

    def checked_width(self, width: int | float | None = None) -> int | float:
        """The width as an integer or `inf` (None: the network's own), refused if the network cannot have it.

        !!! Example

            >>> import limitlaw as ll
            >>> ll.Network(ll.Inputs(tokens=4), ll.Attention(heads=8, head_dim="split")).checked_width(64)
            64
        """
        width = self.width if width is None else _arguments.positive_integer("width", width, infinite=True)
        self.inputs.check_width(width, mean=_gram.needs_mean(self.inputs, self.layers))
        for layer in self.layers:
            layer.check_width(width)
        return width

    def _check_finite(self, reading: str, width: int | float) -> None:
        if isinf(width):
            raise ValueError(
                f"reading={reading!r} at width=inf: it handles vectors of that length; give a finite width, or use reading='gram'."
            )
        for layer in self._parts():
            if isinstance(layer, Attention) and isinf(layer.head_dim_at(width)):
                raise ValueError(
                    f"reading={reading!r} with head_dim=inf: it handles vectors of that length; give a finite head_dim, or use reading='gram'."
                )
            if isinstance(layer, MLP) and isinf(layer.width_at(width)):
                raise ValueError(
                    f"reading={reading!r} with MLP(width=inf): it handles vectors of that length; give a finite width, or use reading='gram'."
                )

    def _parts(self) -> Iterator[Layer]:
        """All layers, with those within them."""
        return (layer for top in self.layers for layer, _ in top.walk())

    def _wanted(
        self, token: int | Sequence[int] | None, observe: str
    ) -> tuple[tuple[int, ...] | None, Callable[[np.ndarray], np.ndarray]]:
        """The tokens to compute (each once; None for all of them), and what to make of them."""
        if observe == "scores":
            heads = [layer.heads for layer in self._parts() if isinstance(layer, Attention)]
            if not heads:
                raise ValueError(
                    "observe='scores': the network has no attention layer; add one, or observe 'output' or 'gram'."
                )
            if isinf(heads[-1]):
                raise ValueError(
                    "observe='scores' with heads=inf: there is no end of them; use heads=1, every head has the same law."
                )
        if observe == "gram" and token is not None:
            raise ValueError(
                f"token={token!r} with observe='gram': the Gram matrix is that of all tokens; leave token out."
            )
        if token is None:
            if observe != "output":
                return None, lambda draws: draws
            token = 0
        if isinstance(token, int | np.integer):
            only = _arguments.index("token", token, self.tokens, "tokens")
            axes = {"output": (1,), "covariance": (1, 2), "scores": (2,)}[observe]
            return (only,), lambda draws: draws.squeeze(axes)
        if not isinstance(token, Sequence | np.ndarray) or isinstance(token, str) or np.ndim(token) != 1:
            raise TypeError(f"token={token!r}: must be an integer, or a list of them.")
        tokens = [_arguments.index("token", t, self.tokens, "tokens") for t in token]
        if not tokens:
            raise ValueError(f"token={token!r}: name at least one token.")
        rows = tuple(dict.fromkeys(tokens))
        index = np.array([rows.index(t) for t in tokens])
        if len(rows) == len(tokens):
            return rows, lambda draws: draws
        if observe == "output":
            return rows, lambda draws: draws[:, index]
        if observe == "covariance":
            return rows, lambda draws: draws[:, index][:, :, index]
        return rows, lambda draws: draws[:, :, index]
