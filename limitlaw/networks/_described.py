"""What inputs and layers have in common: frozen descriptions, and where their tokens stand."""

import abc
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import numpy as np


class Described(eqx.Module):
    """A module that prints as the call that makes it, defaults left out."""

    def __repr__(self) -> str:
        parts = [
            f"{f.name}={_show(getattr(self, f.name))}"
            for f in dataclasses.fields(self)
            if f.repr and not _is_default(getattr(self, f.name), f.default)
        ]
        return f"{type(self).__name__}({', '.join(parts)})"


def _show(value: Any) -> str:
    return (
        np.array2string(value, separator=", ", threshold=36).replace("\n", "")
        if isinstance(value, np.ndarray)
        else repr(value)
    )


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (not isinstance(value, np.ndarray) and value == default)


@dataclass(frozen=True)
class Layout:
    """Where tokens stand: the lengths of the sequences that are stacked, one after the other, in one token matrix.

    !!! Example

        >>> from limitlaw.networks import Layout
        >>> layout = Layout((3, 2))
        >>> print(layout.sequence, layout.position)
        [0 0 0 1 1] [0 1 2 0 1]
    """

    lengths: tuple[int, ...]

    @property
    def size(self) -> int:
        """How many tokens in all."""
        return sum(self.lengths)

    @property
    def sequence(self) -> np.ndarray:
        """The sequence of each token."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @property
    def position(self) -> np.ndarray:
        """The place of each token in its sequence."""
        return np.concatenate([np.arange(length) for length in self.lengths])


class InputLayer(Described):
    """Where a network starts: a family of laws of the token matrix `X` (tokens x width), one for each width.

    A subclass says how many tokens there are and what their Gram matrix tends to, and refuses widths at which it does not exist (`check_width`). A reading
    needs one rule for it: the dense reading makes `X`, the Gram reading makes what is known of `X X^T / n`.

    !!! Example

        >>> import limitlaw as ll
        >>> from limitlaw.networks import InputLayer
        >>> inputs = ll.Inputs(tokens=2, activation="relu")
        >>> isinstance(inputs, InputLayer), inputs.size, inputs.layout
        (True, 2, Layout(lengths=(2,)))
        >>> inputs.limit_gram().round(6).tolist()  # E phi^2 = 1/2, (E phi)^2 = 1/(2 pi)
        [[0.5, 0.159155], [0.159155, 0.5]]
    """

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """How many tokens."""

    @property
    def layout(self) -> Layout:
        """How the tokens form sequences: one, unless a subclass says otherwise."""
        return Layout((self.size,))

    @abc.abstractmethod
    def limit_gram(self) -> np.ndarray:
        """The Gram matrix at infinite width, float64."""

    def check_width(self, width: int | float, *, mean: bool = False) -> None:
        """Raise if no such tokens exist at this width; `mean` says that a layer looks at their coordinate mean."""

    def vanishing(self) -> np.ndarray:
        """Which tokens are zero with certainty."""
        return np.diagonal(self.limit_gram()) <= 0


class Layer(Described):
    """A map from one stream of tokens to the next, with weights of its own.

    A subclass refuses layouts of tokens and widths at which it makes no sense. A reading needs one rule for it: the dense
    reading draws its weights, the Gram reading maps what is known of one stream to what is known of the next.

    !!! Example

        >>> import limitlaw as ll
        >>> block = ll.Repeat(3, ll.Residual(ll.LayerNorm(), ll.Attention()), ll.MLP())
        >>> [(type(layer).__name__, count) for layer, count in block.walk()]
        [('Repeat', 1), ('Residual', 3), ('LayerNorm', 3), ('Attention', 3), ('MLP', 3)]
        >>> block.needs_mean, ll.MLP().needs_mean, ll.MLP().ends_fresh
        (True, False, True)
    """

    @property
    def inner(self) -> tuple["Layer", ...]:
        """The layers that this one is made of."""
        return ()

    @property
    def times(self) -> int:
        """How often it applies them."""
        return 1

    @property
    def ends_fresh(self) -> bool:
        """Whether its output ends in a fresh matrix, so that a coordinate of a token is Gaussian given the state."""
        return False

    @property
    def needs_mean(self) -> bool:
        """Whether it looks at the coordinate mean of a token, which then must be tracked."""
        return any(layer.needs_mean for layer in self.inner)

    def check_layout(self, layout: Layout) -> None:
        """Raise if the layer cannot act on tokens that stand like this."""
        for layer in self.inner:
            layer.check_layout(layout)

    def check_width(self, width: int | float) -> None:
        """Raise if the layer cannot act at this width."""
        for layer in self.inner:
            layer.check_width(width)

    def is_deterministic(self, width: int | float) -> bool:
        """Whether the covariance of the output is a fixed function of the Gram matrix of the input."""
        return bool(self.inner) and all(layer.is_deterministic(width) for layer in self.inner)

    def walk(self) -> Iterator[tuple["Layer", int]]:
        """The layer and those within it, each with how often it is applied."""
        yield self, 1
        for inner in self.inner:
            for layer, count in inner.walk():
                yield layer, self.times * count
