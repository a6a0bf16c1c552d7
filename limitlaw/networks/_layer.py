"""The abstract classes of layers, row maps, combinators and inputs. Their docstrings hold the whole contract."""

import abc
import inspect
import itertools
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf, isinf
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from .. import _checks
from .._checks import ArgumentError, ArgumentTypeError
from ..numerics import random
from .described import Described
from .registry import register

if TYPE_CHECKING:
    from ..laws import Atoms
    from ..netsor import Program, Scalar, Vector
    from .state import Rule, Scope, State

BY_TOKEN = ("scores", "entropy")  # observables of shape (heads, tokens, ...), which can be returned for one token
_ROUNDING = 1e-6  # distance from a whole number that is rounding in a column count such as ratio * width


@dataclass(frozen=True)
class Layout:
    """The lengths of the sequences that are stacked, one after the other, in one token matrix.

    Attributes:
        lengths: The number of tokens of each sequence.

    Example:
        >>> from limitlaw.networks import Layout
        >>> layout = Layout((3, 2))
        >>> print(layout.sequence, layout.position)
        [0 0 0 1 1] [0 1 2 0 1]
    """

    lengths: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of tokens in all sequences."""
        return sum(self.lengths)

    @property
    def sequence(self) -> np.ndarray:
        """The index of the sequence of each token, `(tokens,)`."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @property
    def position(self) -> np.ndarray:
        """The position of each token in its sequence, from 0, `(tokens,)`."""
        return np.concatenate([np.arange(length) for length in self.lengths])


class Matrix(Described):
    """A weight matrix of a layer, with independent entries `N(0, std^2 / fan_in)`.

    Its bias, one entry `N(0, bias_std^2)` for each column, is added to the product of the stream and the matrix.

    Args:
        columns: The number of columns, a whole number or `inf`. A value within 1e-6 of a whole number is rounded, so
            `ratio * width` is a valid argument.
        std: The standard deviation of an entry times the square root of the number of rows.
        bias_std: The standard deviation of an entry of the bias; 0 for no bias.
        reads: The array that the matrix multiplies: `"stream"`, or the name of one of the layer's latents.
        same_as: The name of another matrix of the layer whose standard normals this one shares (tied weights). The two
            may have different `std`, but must have equal `reads` and `columns`.
        fan_in: The divisor in the variance, if it is not the number of rows.

    Raises:
        ArgumentError: If `columns` is zero or a fraction, or a standard deviation is negative.

    Example:
        >>> import limitlaw as ll
        >>> ll.Matrix(0.25 * 64, bias_std=0.1)
        Matrix(columns=16, bias_std=0.1)
    """

    columns: int | float
    std: float = 1.0
    bias_std: float = 0.0
    reads: str = eqx.field(static=True, default="stream")
    same_as: str | None = eqx.field(static=True, default=None)
    fan_in: float | None = None

    def __init__(
        self,
        columns: int | float,
        std: float = 1.0,
        bias_std: float = 0.0,
        reads: str = "stream",
        same_as: str | None = None,
        fan_in: float | None = None,
    ):
        if isinstance(columns, bool) or not isinstance(columns, int | float | np.number):
            raise ArgumentTypeError("columns", f"columns={columns!r} must be a positive whole number or inf.")
        if columns != inf:
            if not (columns >= 1 - _ROUNDING and abs(columns - round(columns)) <= _ROUNDING):
                raise ArgumentError("columns", f"columns={columns:g} must be a positive whole number or inf.")
            columns = round(columns)
        self.columns = columns
        self.std = _checks.standard_deviation("std", std)
        self.bias_std = _checks.standard_deviation("bias_std", bias_std)
        for name, value in (("reads", reads), ("same_as", same_as)):
            if not isinstance(value, str) and not (name == "same_as" and value is None):
                raise ArgumentTypeError(name, f"{name}={value!r} must be the name of an array, text.")
        self.reads, self.same_as = reads, same_as
        if fan_in is not None and _checks.is_zero(_checks.non_negative("fan_in", fan_in)):
            raise ArgumentError("fan_in", f"fan_in={fan_in!r} must be positive.")
        self.fan_in = fan_in

    @property
    def has_bias(self) -> bool:
        """Whether the bias may differ from zero."""
        return _checks.is_traced(self.bias_std) or bool(self.bias_std != 0)


class Context(eqx.Module):
    """The random keys, the layout and the column counts that a layer or an input may use.

    `Layer.inner`, `Layer.latents` and `InputLayer.tokens_at` receive the context of one draw. A contracted rule and the
    `start` of inputs receive that of a whole batch.

    Attributes:
        root: The key from which `key` derives.
        network_root: The key from which `network_key` derives.
        layout: The lengths of the sequences.
        columns: The column counts of the layer's matrices, by name; empty in a contracted rule and for inputs.

    Example:
        >>> import jax, jax.numpy as jnp, numpy as np, limitlaw as ll
        >>> class Dropped(ll.Layer):
        ...     def matrices(self, width, layout):
        ...         return {"in": ll.Matrix(width), "out": ll.Matrix(width)}
        ...     def inner(self, u, context):
        ...         return u["in"] * jax.random.rademacher(context.key("signs"), u["in"].shape, jnp.float32)
        >>> ll.Network(ll.GramInputs(np.eye(2)), Dropped()).sample(3, width=8).shape
        (3,)
    """

    root: PRNGKeyArray
    network_root: PRNGKeyArray
    layout: Layout = eqx.field(static=True)
    columns: Mapping[str, Any] = eqx.field(default_factory=dict)

    def key(self, name: str) -> PRNGKeyArray:
        """The key of a named stream of random numbers that belongs to this layer, this repetition and this draw.

        Args:
            name: A name that no matrix of the layer has: the matrix "in" is drawn from `key("in")`.

        Returns:
            The key. The same name gives the same key.
        """
        return random.fold_in(self.root, digest(name))

    def network_key(self, name: str) -> PRNGKeyArray:
        """The key of a named stream that all layers and repetitions of one draw of the network share.

        Args:
            name: The name of the stream.

        Returns:
            The key.
        """
        return random.fold_in(self.network_root, digest(name))


def digest(name: str) -> np.uint32:
    """A 32-bit hash of a name. Unlike `hash`, it is the same in every process, so draws are reproducible."""
    return np.uint32(zlib.crc32(name.encode()))


@dataclass(frozen=True)
class Cost:
    """The work and memory of one draw of a node in the Gram reading.

    Attributes:
        matrices: The number of token matrices (tokens x tokens) that are computed.
        units: The number of coordinates that are drawn for each token.
        usual_units: The `units` that set the size of a batch. It is at least a few thousand where small widths should
            share one batch size, and so one compilation.
        held: The number of further float32 numbers in memory at once.
        copies: The number of token matrices in memory at once where other nodes need one.

    Example:
        >>> from limitlaw.networks import Cost
        >>> (Cost(matrices=4.0) + Cost(units=128.0)).times(3)
        Cost(matrices=12.0, units=384.0, usual_units=0.0, held=0.0, copies=1)
    """

    matrices: float = 0.0
    units: float = 0.0
    usual_units: float = 0.0
    held: float = 0.0
    copies: int = 1

    def __add__(self, other: "Cost") -> "Cost":
        """The cost of two nodes, one after the other."""
        return Cost(
            self.matrices + other.matrices,
            self.units + other.units,
            self.usual_units + other.usual_units,
            max(self.held, other.held),
            max(self.copies, other.copies),
        )

    def times(self, count: int) -> "Cost":
        """The cost of a node that is applied `count` times."""
        return Cost(self.matrices * count, self.units * count, self.usual_units * count, self.held, self.copies)


@dataclass(frozen=True)
class Purpose:
    """The observables and derivatives for which rules are made.

    Attributes:
        observed: The names of the requested observables.
        differentiable: Whether reverse-mode derivatives are needed. JAX differentiates a loop in reverse mode only if
            its number of steps is not traced.

    Example:
        >>> from limitlaw.networks import Purpose
        >>> Purpose().static(12), Purpose(differentiable=True).static(12)
        (None, 12)
    """

    observed: frozenset[str] = frozenset()
    differentiable: bool = False

    def static(self, count: int | float) -> int | None:
        """The number of steps of a loop, if it must be known at compile time.

        Args:
            count: The number of steps; `inf` where the loop is replaced by its limit.

        Returns:
            The number, 0 for `inf`; None if it may be traced.
        """
        if not self.differentiable:
            return None
        return 0 if isinf(count) else int(count)


class Node(Described):
    """A part of a network after its inputs: a `Layer`, a `RowMap` or a `Combinator`.

    The *stream* is the token matrix `X` (tokens x width). A *reading* is a way to compute with it: the dense reading
    holds `X` itself, the Gram reading a factor of `K = X X^T / n`, where `n` is the width.

    The drivers use the properties and methods below and never test the class of a node. A subclass is registered by its
    name when it is defined, so plain data, TOML files and studies can refer to it.

    Example:
        >>> import limitlaw as ll
        >>> block = ll.Repeat(12, ll.Residual(ll.RMSNorm(), ll.Attention()))
        >>> [(type(node).__name__, count) for node, count in block.walk()]
        [('Repeat', 1), ('Residual', 12), ('RMSNorm', 12), ('Attention', 12)]
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        register(cls)

    @property
    def parts(self) -> tuple["Node", ...]:
        """The nodes that this one consists of, in the order in which they act."""
        return ()

    @property
    def unrolled(self) -> tuple["Node", ...]:
        """Nodes that have the same effect one after the other: the node itself, unless it only arranges others."""
        return (self,)

    @property
    def times(self) -> int:
        """The number of times that the node applies its parts, one after the other."""
        return 1

    @property
    def ends_fresh(self) -> bool:
        """Whether the last step is a fresh Gaussian matrix, so that the node can be a residual branch."""
        return False

    @property
    def keeps_stream(self) -> bool:
        """Whether the output is the unscaled input stream plus the outputs of branches."""
        return False

    @property
    def needs_mean(self) -> bool:
        """Whether the node reads the coordinate mean of a token, which the Gram reading must then track."""
        return any(part.needs_mean for part in self.parts)

    @property
    def observables(self) -> tuple[str, ...]:
        """The names of the arrays that the node can observe, such as "scores" and "entropy" of attention."""
        return ()

    @property
    def boundaries(self) -> int | None:
        """The number of trajectory boundaries within it in a network without `Block`; None if only its end is one."""
        return None

    @property
    def is_block(self) -> bool:
        """Whether its end is a boundary of a trajectory, in place of the ends of other nodes."""
        return False

    @property
    def ends_network(self) -> bool:
        """Whether it must be the last node of a network."""
        return False

    @property
    def acts_on_sequence(self) -> bool:
        """Whether its parts act on the tokens of one sequence only, as in `OnSequence`."""
        return False

    @property
    def replaces_stream(self) -> bool:
        """Whether the output is a new stream whose joint law with the old one is not available."""
        return False

    def check_layout(self, layout: Layout) -> None:
        """Refuse a layout of tokens that the node cannot act on.

        Args:
            layout: The lengths of the sequences.

        Raises:
            ArgumentError: If the node cannot act on them.
        """
        for part in self.parts:
            part.check_layout(layout)

    def check_width(self, width: int | float) -> None:
        """Refuse a width that the node cannot have.

        Args:
            width: The width of the stream, a positive integer or `inf`.

        Raises:
            ArgumentError: If the node is not defined at this width.
        """
        for part in self.parts:
            part.check_width(width)

    def check_finite(self, width: int | float, layout: Layout, reading: str) -> None:
        """Refuse a reading that computes every coordinate, if there are infinitely many.

        Args:
            width: The width of the stream.
            layout: The lengths of the sequences.
            reading: "dense" or "lazy".

        Raises:
            ArgumentError: If a matrix has infinitely many columns at this width.
        """
        for part in self.parts:
            part.check_finite(width, layout, reading)

    def is_deterministic(self, width: int | float) -> bool:
        """Whether the Gram matrix of the input determines the covariance of the output.

        Args:
            width: The width of the stream.

        Returns:
            True if it does. If all nodes do at infinite width, the law of the output is Gaussian.
        """
        return bool(self.parts) and all(part.is_deterministic(width) for part in self.parts)

    def limit_gram(self, gram: np.ndarray, layout: Layout) -> np.ndarray | None:
        """The Gram matrix after the node at infinite width, if it is not random and needs no integral.

        It is asked only where the coordinate means of all tokens are 0, as they are after a fresh matrix.

        Args:
            gram: The Gram matrix before the node, float64, `(tokens, tokens)`.
            layout: The lengths of the sequences.

        Returns:
            The Gram matrix, float64, `(tokens, tokens)`; None if it is random or not known.
        """
        del gram, layout
        return None

    def limit_variance(
        self, gram: np.ndarray, token: int, layout: Layout, seed: int, samples: int | None, exact: bool
    ) -> "tuple[Atoms, int | float] | None":
        """The law of the variance of a token's output at infinite width, given the Gram matrix before the node.

        Args:
            gram: The Gram matrix before the node, float64, `(tokens, tokens)`.
            token: The token.
            layout: The lengths of the sequences.
            seed: The seed of randomised quasi-Monte Carlo, if it is needed.
            samples: The number of its points; None for the default of the node.
            exact: Whether only an exact law (by quadrature) is of use.

        Returns:
            The law of one copy, and the number of independent copies of which the variance is the average; None if the
            law is not known, or if `exact=True` and it is not known exactly.
        """
        del gram, token, layout, seed, samples, exact
        return None

    def score_scale(self, width: int | float) -> tuple[float, int | float] | None:
        """The variance of a score given the tokens, `c K_ii K_jj chi2(d) / d`.

        Args:
            width: The width of the stream.

        Returns:
            `(c, d)`, with `d` an integer or `inf`; None if a score is not Gaussian given this chi-square, or if there
            are no scores.
        """
        del width
        return None

    def degrees_of_freedom(self, width: int | float) -> int | float:
        """The degrees of freedom of the chi-square to which a token's variance is proportional, given the scores.

        A single degree of freedom makes the density of the output infinite at 0.

        Args:
            width: The width of the stream.

        Returns:
            The degrees of freedom; `inf` if the variance is not proportional to a chi-square.
        """
        del width
        return inf

    def zero_tokens(self, zero: np.ndarray, active: np.ndarray, layout: Layout) -> np.ndarray:
        """The tokens that are zero in every draw after the node.

        Args:
            zero: The tokens that are zero in every draw before the node, boolean, `(tokens,)`.
            active: The tokens that the node acts on, boolean, `(tokens,)`. The result counts for these only.
            layout: The lengths of the sequences.

        Returns:
            Boolean, `(tokens,)`; False where in doubt.

        Raises:
            ArgumentError: If the node cannot act on a zero token, as a norm with `eps=0`.
        """
        del active, layout
        return np.zeros_like(zero)

    def cost(self, width: int | float, layout: Layout) -> Cost:
        """The cost of one draw.

        Args:
            width: The width of the stream.
            layout: The lengths of the sequences.

        Returns:
            The cost, that of all repetitions of the parts included.
        """
        total = Cost()
        for part in self.parts:
            total = total + part.cost(width, layout)
        return total.times(self.times)

    @abc.abstractmethod
    def bind(self, width: int | float, layout: Layout, purpose: Purpose) -> "Rule":
        """The rule of the node in the Gram reading, at one width.

        Args:
            width: The width of the stream, an integer or `inf`.
            layout: The lengths of the sequences.
            purpose: The observables and derivatives that are needed.

        Returns:
            The rule. Its property `traced` is a pytree whose leaves are its numbers, so one compiled program serves all
            their values. Its method `apply(stream, scope)` returns the stream after the node.
        """

    @abc.abstractmethod
    def apply_dense(self, stream: Any, scope: "Scope") -> Any:
        """Apply the node in the dense reading, in which every matrix is drawn.

        Args:
            stream: The `Activity` of one draw, which holds the tokens with all their coordinates, `(tokens, width)`.
            scope: The place in the network: keys of random numbers, active tokens, and weights if they are given.

        Returns:
            The `Activity` after the node.
        """

    def walk(self) -> Iterator[tuple["Node", int]]:
        """The node and all nodes within it, each with the number of times that it is applied."""
        yield self, 1
        for part in self.parts:
            for node, count in part.walk():
                yield node, self.times * count

    def until_last(self, observable: str) -> tuple["Node", ...] | None:
        """The nodes to apply up to and including the last layer that has an observable.

        Args:
            observable: The name of the observable.

        Returns:
            Nodes to apply one after the other, the last of which is that layer; None if no layer has the observable.
        """
        if observable in self.observables:
            return (self,)
        for i in reversed(range(len(self.parts))):
            inner = self.parts[i].until_last(observable)
            if inner is not None:
                return self.cut(i, inner)
        return None

    def cut(self, index: int, inner: tuple["Node", ...]) -> tuple["Node", ...]:
        """The nodes to apply up to a point within the last repetition of the parts.

        Args:
            index: The number of the part that contains the point.
            inner: The nodes that replace this part.

        Returns:
            Nodes with the effect of all earlier repetitions, of the parts before `index`, and of `inner`.
        """
        return (*self.parts[:index], *inner)

    def lower(self, program: "Program", tokens: list["Vector"], number: int, layers: int, layout: Layout) -> "Lowered":
        """Append the node to a netsor program, for `reading='lazy'`.

        Args:
            program: The program, to which lines are appended.
            tokens: The vectors of the stream before the node, one for each token.
            number: The number of the node in the network, from 1.
            layers: The number of nodes in the network.
            layout: The lengths of the sequences.

        Returns:
            The vectors after the node, its scores and its head dimensions.

        Raises:
            ArgumentError: If the node cannot be written as a netsor program.
        """
        del program, tokens, number, layers, layout
        raise ArgumentError(
            "reading",
            f"{type(self).__name__} has no netsor program, so reading='lazy' and net.program() are not available. "
            f"Use reading='gram' or reading='dense'.",
        )


@dataclass(frozen=True)
class Lowered:
    """A node as lines of a netsor program.

    Attributes:
        tokens: The vectors of the stream after the node, one for each token.
        scores: The scores of attention, `scores[head][query][key]`; None for other nodes.
        head_dims: The dimension of each space of heads as a function of the width, by the name of the space; None if
            the node has no heads.
    """

    tokens: list["Vector"]
    scores: list[list[list["Scalar"]]] | None = None
    head_dims: Mapping[str, Any] | None = None


class Layer(Node):
    """A layer with weights, `f(X W_1, X W_2, ...) W_out`, defined by its matrices and its inner map `f`.

    A subclass is a frozen dataclass (an `equinox.Module`), so its fields are its arguments. It defines

    - `matrices(width, layout)`: the weight matrices by name. The one named `"out"` multiplies the result of `inner`
      and writes the stream, so it must have `width` columns. Without `"out"`, `inner` returns the new stream itself,
      `width` coordinates per token. A layer whose only matrix is `"out"` has no `inner`: the matrix reads the stream.
    - `inner(u, context)`: the map `f` for one draw, a function of JAX arrays.
    - `latents(u, context)`, if a matrix has `reads="name of a latent"`.

    The other methods have defaults. The dense reading draws the matrices and multiplies. The *derived* rule of the Gram
    reading uses that, given the Gram matrix `K` of the tokens, the columns of `X W` are i.i.d.
    `N(0, std^2 K + bias_std^2)`, and those of `Z W_out` are i.i.d. with covariance `std^2 Z Z^T / fan_in + bias_std^2`.
    It draws `columns` numbers per token and is compiled once for each set of column counts.

    A number in a field whose annotation contains `float` and not `int` is traced by JAX, and so is an array of floats.
    One compilation serves all their values, so `inner` must not branch on them in Python. `int`, `bool`, `str`,
    callables and `None` are static.

    A *contracted* rule needs Gram matrices only. It is an optimisation: its cost need not depend on the column counts,
    and it may admit infinitely many columns. `contract` returns it. A subclass inherits it, together with the other
    methods that rely on the exact law (`limit_gram`, `limit_variance`, `score_scale`, `degrees_of_freedom`,
    `zero_tokens`, `is_deterministic`, `cost` and `lower`), if it adds only fields, dunder names, `check...` methods and
    implementations of abstract methods, or if it sets the class attribute `keeps_contracted = True`. A subclass that
    changes anything else uses the derived rule.

    Example:
        >>> import jax.numpy as jnp, numpy as np, limitlaw as ll
        >>> class Bottleneck(ll.Layer):
        ...     ratio: float = 0.25
        ...     def matrices(self, width, layout):
        ...         return {"in": ll.Matrix(self.ratio * width), "out": ll.Matrix(width)}
        ...     def inner(self, u, context):
        ...         return jnp.tanh(u["in"])
        >>> net = ll.Network(ll.GramInputs(np.eye(2)), ll.Residual(Bottleneck()))
        >>> net.sample(5, width=16, observe="gram").shape
        (5, 2, 2)
    """

    keeps_contracted: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _drop_inherited_law(cls)

    def __check_init__(self) -> None:
        if type(self).matrices is Layer.matrices:
            self.matrices(1, Layout((1,)))  # its error names the missing method

    def matrices(self, width: int | float, layout: Layout) -> dict[str, Matrix]:
        """The weight matrices of the layer.

        Args:
            width: The width of the stream, an integer or `inf`.
            layout: The lengths of the sequences.

        Returns:
            The matrices by name. The names are the same at every width.

        Raises:
            ArgumentError: If a matrix does not exist at this width.
        """
        raise ArgumentTypeError(
            "matrices",
            f"{type(self).__name__} has no method matrices(width, layout). A layer declares its weight matrices; "
            f"return a dictionary such as {{'in': ll.Matrix(width), 'out': ll.Matrix(width)}}.",
        )

    def inner(self, u: dict[str, Array], context: Context) -> Any:
        """The inner map `f`, for one draw.

        Args:
            u: For each matrix but "out", the stream (or latent) times the matrix, plus its bias, `(tokens, columns)`.
            context: The layout, the column counts, and keys for random numbers other than weights.

        Returns:
            `Z`, `(tokens, m)`, which the matrix "out" reads, or the new stream if there is no "out". Or the pair of `Z`
            and a dictionary of observed arrays, whose names `observables` lists. "scores" and "entropy" are
            `(heads, tokens, ...)`, so that `token=` can select; arrays of other names may have any shape.
        """
        raise ArgumentTypeError(
            "inner",
            f"{type(self).__name__} has no method inner(u, context). A layer with a matrix other than 'out' gives the "
            f"map from u['name'] of shape (tokens, columns) to what the matrix 'out' reads.",
        )

    def latents(self, u: dict[str, Array], context: Context) -> dict[str, Array]:
        """The arrays that matrices with `reads="name of a latent"` read, for one draw.

        Args:
            u: For each matrix that reads the stream, the stream times the matrix, plus its bias, `(tokens, columns)`.
            context: As for `inner`.

        Returns:
            The latents by name, each `(tokens, rank)`. Their matrices have `rank` rows.
        """
        del u, context
        return {}

    def contract(self, width: int | float, layout: Layout, purpose: Purpose) -> "Rule | None":
        """The contracted rule at one width.

        Args:
            width: The width of the stream, an integer or `inf`.
            layout: The lengths of the sequences.
            purpose: The observables and derivatives that are needed.

        Returns:
            A rule, in most cases a `ContractedRule`; None to use the derived rule.
        """
        del width, layout, purpose
        return None

    def visible_keys(self, layout: Layout) -> np.ndarray:
        """The number of key tokens that each query token may attend to, which bounds the entropy of attention.

        Args:
            layout: The lengths of the sequences.

        Returns:
            The numbers, `(tokens,)`.
        """
        return np.full(layout.size, layout.size)

    @property
    def ends_fresh(self) -> bool:
        """Whether the layer has a matrix "out"."""
        # The names of the matrices are the same at every width and for every layout at which the layer exists.
        for width, tokens in itertools.product((_ROUND_WIDTH, inf), _FEW_LAYOUTS):
            try:
                return "out" in self.matrices(width, Layout((tokens,)))
            except (ArgumentError, OverflowError, ValueError):
                continue
        raise ArgumentError(
            "matrices",
            f"{type(self).__name__}.matrices refused every layout that was tried, so the library does not know whether "
            f"there is a matrix 'out'. Override the property ends_fresh.",
        )

    @property
    def replaces_stream(self) -> bool:
        return not self.ends_fresh

    def check_finite(self, width: int | float, layout: Layout, reading: str) -> None:
        for name, matrix in self.matrices(width, layout).items():
            if isinf(matrix.columns):
                raise ArgumentError(
                    "reading",
                    f"reading={reading!r} needs finitely many coordinates, but the matrix {name!r} of {self!r} has "
                    f"infinitely many columns at width={width}. Use reading='gram', or finite numbers.",
                )

    @property
    def has_contracted(self) -> bool:
        """Whether the class defines a contracted rule or inherits one unchanged."""
        return inspect.getattr_static(type(self), "contract") is not vars(Layer)["contract"]

    def bind(self, width: int | float, layout: Layout, purpose: Purpose) -> "Rule":
        from ._rules import derived_rule

        rule = self.contract(width, layout, purpose)
        return derived_rule(self, width, layout, purpose) if rule is None else rule

    def apply_dense(self, stream: Any, scope: "Scope") -> Any:
        from .dense import apply_layer

        return apply_layer(self, stream, scope)

    def cost(self, width: int | float, layout: Layout) -> Cost:
        # "out" is not drawn: its columns enter through their covariance alone
        columns = sum(matrix.columns for name, matrix in self.matrices(width, layout).items() if name != "out")
        return Cost(matrices=4.0, units=columns, usual_units=columns, held=3.0 * layout.size * columns)


_FEW_LAYOUTS = (1, 2, 3, 4, 6, 8, 12, 16)  # numbers of tokens at which the names of the matrices are requested
_ROUND_WIDTH = 3 * 5 * 2**12  # a width at which most ratios give whole numbers of columns


# Methods about the exact law of the class that defines them, which a subclass with another law must not inherit.
_WITH_CONTRACT = (
    "contract",
    "limit_gram",
    "limit_variance",
    "score_scale",
    "degrees_of_freedom",
    "zero_tokens",
    "is_deterministic",
    "cost",
    "lower",
)


def _drop_inherited_law(cls: type[Layer]) -> None:
    """Remove the inherited contracted rule, and the methods that belong to it, from a class that changes the layer.

    The class then uses the derived rule. Otherwise it would silently have the law of its parent.
    """
    definer = next(kind for kind in cls.__mro__ if "contract" in vars(kind))
    if definer in (Layer, cls):
        return
    between = cls.__mro__[: cls.__mro__.index(definer)]
    if any(vars(kind).get("keeps_contracted", False) for kind in between):
        return
    if not any(_changes_layer(kind, definer) for kind in between):
        return
    for name in _WITH_CONTRACT:
        if next(kind for kind in cls.__mro__ if name in vars(kind)) not in between:
            setattr(cls, name, vars(next(kind for kind in Layer.__mro__ if name in vars(kind)))[name])


def _changes_layer(cls: type, definer: type) -> bool:
    """Whether a class brings more than fields, dunder names, checks, and methods that are abstract in the definer."""
    abstract = getattr(definer, "__abstractmethods__", frozenset())
    fields = vars(cls).get("__annotations__", {})
    fields_of_definer = {name for kind in definer.__mro__ for name in vars(kind).get("__annotations__", {})}
    shadowed = {name for name in fields if hasattr(definer, name) and name not in fields_of_definer}
    return bool(shadowed) or any(
        name not in fields and name not in abstract and not name.startswith(("__", "_abc", "check"))
        for name in vars(cls)
    )


class RowMap(Node):
    """A map without weights that scales each token along its own direction, such as a norm.

    A subclass defines `rows`, which serves every reading because it must not depend on the orthonormal frame in which
    it receives the coordinates. If `needs_mean` is true, the first axis of the frame is the all-ones vector, so the
    first coordinate of a token is its coordinate mean.

    Example:
        >>> import numpy as np, limitlaw as ll
        >>> class Halved(ll.networks.RowMap):
        ...     def rows(self, rows):
        ...         return rows / 2
        >>> net = ll.Network(ll.GramInputs(np.eye(2)), Halved())
        >>> print(net.sample(1, width=8, observe="gram")[0])
        [[0.25 0.  ]
         [0.   0.25]]
    """

    @property
    def centres(self) -> bool:
        """Whether the coordinate mean of every token is zero after the map."""
        return False

    @abc.abstractmethod
    def rows(self, rows: Float[Array, "s r *draws"]) -> Float[Array, "s r *draws"]:
        """The tokens after the map.

        Args:
            rows: `X / sqrt(n)` in an orthonormal frame, `(tokens, r, *draws)`. The squares of a row sum to `|x|^2 / n`,
                and `r` is the number of axes, not the width.

        Returns:
            The new tokens in the same frame, `(tokens, r, *draws)`.
        """

    def on_tokens(self, x: Float[Array, "s n"]) -> Float[Array, "s n"]:
        """The tokens after the map, for tokens with all their coordinates.

        Args:
            x: The tokens, `(tokens, width)`.

        Returns:
            The new tokens, `(tokens, width)`.
        """
        root_n = np.sqrt(x.shape[1])
        if not self.needs_mean:
            return self.rows(x / root_n) * root_n
        # Coordinates in a frame that starts with the all-ones vector, so the mean comes first.
        mean = x.mean(axis=1, keepdims=True)
        rows = self.rows(jnp.concatenate([mean, (x - mean) / root_n], axis=1))
        return rows[:, :1] + rows[:, 1:] * root_n

    def is_deterministic(self, width: int | float) -> bool:
        del width
        return True

    def limit_gram(self, gram: np.ndarray, layout: Layout) -> np.ndarray | None:
        del layout
        values, vectors = np.linalg.eigh(gram)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        if self.needs_mean:  # the all-ones axis comes first, and these tokens have mean 0
            root = np.concatenate([np.zeros_like(root[:, :1]), root], axis=1)
        with jax.enable_x64(True):
            rows = np.asarray(self.rows(jnp.asarray(root)), np.float64)
        return rows @ rows.T

    def zero_tokens(self, zero: np.ndarray, active: np.ndarray, layout: Layout) -> np.ndarray:
        del active, layout
        return zero

    def cost(self, width: int | float, layout: Layout) -> Cost:
        del width, layout
        return Cost(matrices=4.0)

    def bind(self, width: int | float, layout: Layout, purpose: Purpose) -> "Rule":
        from ._rules import bound_rows

        del width, layout, purpose
        return bound_rows(self)

    def apply_dense(self, stream: Any, scope: "Scope") -> Any:
        from .dense import apply_rows

        return apply_rows(self, stream, scope)


class Combinator(Node):
    """A node that consists of other nodes, its `layers`, and applies them in the same way in every reading.

    A subclass has a field `layers` and defines `apply`.

    Example:
        >>> import numpy as np, limitlaw as ll
        >>> from limitlaw.networks import Combinator, Node
        >>> class Twice(Combinator):
        ...     layers: tuple[Node, ...]
        ...     def apply(self, parts, stream, scope):
        ...         for i in (0, 1):
        ...             stream = parts[0].apply(stream.settle(scope), scope.repetition(i).part(0))
        ...         return stream
        >>> ll.Network(ll.GramInputs(np.eye(2)), Twice((ll.MLP(),))).sample(3, width=8).shape
        (3,)
    """

    layers: eqx.AbstractVar[tuple[Node, ...]]

    @property
    def parts(self) -> tuple[Node, ...]:
        return self.layers

    @property
    def keeps_stream(self) -> bool:
        return all(part.keeps_stream for part in self.parts)

    @abc.abstractmethod
    def apply(self, parts: "tuple[Rule, ...]", stream: "State", scope: "Scope") -> "State":
        """Apply the node, in whichever reading `parts` and `stream` belong to.

        Args:
            parts: A rule for each of `layers`, with a method `apply(stream, scope)`.
            stream: The stream before the node. Its methods are those of `State`.
            scope: The place of the node. Give part `i` the scope `scope.part(i)`, in repetition `r` the scope
                `scope.repetition(r).part(i)`. The key of further random numbers is `scope.named("a name")`.

        Returns:
            The stream after the node. It may be left unsettled if a fresh matrix comes last.
        """

    def bind(self, width: int | float, layout: Layout, purpose: Purpose) -> "Rule":
        from ._rules import BoundCombinator

        return BoundCombinator.of(self, width, layout, purpose)

    def apply_dense(self, stream: Any, scope: "Scope") -> Any:
        from .dense import DenseRule

        return self.apply(tuple(DenseRule(part) for part in self.parts), stream, scope)

    def zero_tokens(self, zero: np.ndarray, active: np.ndarray, layout: Layout) -> np.ndarray:
        return zero_after(self.parts, zero, active, layout)


def unrolled(layers: tuple[Node, ...]) -> tuple[Node, ...]:
    """Nodes with the same effect as layers one after the other, without combinators that only arrange them."""
    return tuple(node for layer in layers for node in layer.unrolled)


def zero_after(layers: tuple[Node, ...], zero: np.ndarray, active: np.ndarray, layout: Layout) -> np.ndarray:
    """The tokens that are zero in every draw after layers that act on the active tokens.

    Args:
        layers: The layers, in order.
        zero: The tokens that are zero in every draw before them, boolean, `(tokens,)`.
        active: The tokens that the layers act on, boolean, `(tokens,)`.
        layout: The lengths of the sequences.

    Returns:
        Boolean, `(tokens,)`.

    Raises:
        ArgumentError: If a layer cannot act on a zero token.
    """
    for layer in layers:
        zero = np.where(active, layer.zero_tokens(zero, active, layout), zero)
    return zero


class InputLayer(Described):
    """The inputs of a network: a law of the token matrix `X` (tokens x width) for each width.

    A subclass defines `size`, `limit_gram` and `tokens_at`, from which the dense and the Gram reading follow. It may
    override `check_width` to refuse widths at which the law does not exist, and `bind` for a Gram reading that does not
    draw every coordinate.

    Example:
        >>> import jax, jax.numpy as jnp, numpy as np, limitlaw as ll
        >>> from limitlaw.networks import InputLayer
        >>> class Signs(InputLayer):
        ...     size = 2
        ...     def limit_gram(self):
        ...         return np.eye(2)
        ...     def tokens_at(self, width, context):
        ...         return jax.random.rademacher(context.key("signs"), (2, width), jnp.float32)
        >>> net = ll.Network(Signs(), ll.Attention())
        >>> net.sample(4, width=8).shape
        (4,)
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        register(cls)

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """The number of tokens."""

    @property
    def layout(self) -> Layout:
        """The lengths of the sequences that the tokens form, by default one sequence."""
        return Layout((self.size,))

    @property
    def needs_mean(self) -> bool:
        """Whether the inputs themselves need the coordinate mean of a token to be tracked."""
        return False

    @abc.abstractmethod
    def limit_gram(self) -> np.ndarray:
        """The limit of `X X^T / n` at infinite width, float64, `(tokens, tokens)`."""

    def limit_mean(self) -> np.ndarray:
        """The limit of the coordinate mean `X 1 / n` of each token, `(tokens,)`, by default 0."""
        return np.zeros(self.size)

    @abc.abstractmethod
    def tokens_at(self, width: int, context: Context) -> Float[Array, "s n"]:
        """One draw of the token matrix at a finite width.

        Args:
            width: The width.
            context: The layout, and the keys of random numbers.

        Returns:
            The tokens, float32, `(tokens, width)`.
        """

    def check_width(self, width: int | float, *, mean: bool = False) -> None:
        """Refuse a width at which the tokens do not exist.

        Args:
            width: The width, a positive integer or `inf`.
            mean: Whether a layer reads the coordinate mean of a token.

        Raises:
            ArgumentError: If the tokens do not exist at this width.
        """

    def zero_tokens(self, centred: bool = False) -> np.ndarray:
        """The tokens that are zero in every draw.

        Args:
            centred: Whether the coordinate mean of a token is subtracted first.

        Returns:
            Boolean, `(tokens,)`.
        """
        del centred
        return np.diagonal(self.limit_gram()) <= 0

    def cost(self, width: int | float) -> Cost:
        """The cost of one draw, by default that of drawing every coordinate.

        Args:
            width: The width.

        Returns:
            The cost.
        """
        units = 0.0 if isinf(width) else float(width)
        return Cost(matrices=1.0, units=units, usual_units=units, held=self.size * units)

    def lower(self, program: "Program") -> list["Vector"]:
        """Append the inputs to a netsor program, for `reading='lazy'`.

        Args:
            program: The program, to which lines are appended.

        Returns:
            One vector for each token.

        Raises:
            ArgumentError: If the inputs cannot be written as a netsor program.
        """
        del program
        raise ArgumentError(
            "reading",
            f"{type(self).__name__} has no netsor program, so reading='lazy' and net.program() are not available. "
            f"Use Inputs or GaussianInputs, or reading='gram' or 'dense'.",
        )

    def bind(self, width: int | float, purpose: Purpose) -> Any:
        """The inputs in the Gram reading, at one width.

        Args:
            width: The width, an integer or `inf`.
            purpose: The observables and derivatives that are needed.

        Returns:
            A pytree whose leaves are its numbers. Its method `start(width, context, draws, tracks_mean)`, where `width`
            is traced, returns the first stream of a batch of `draws`: `Tokens`, or `Fresh` for Gaussian tokens.
        """
        from ._rules import drawn_inputs

        del purpose
        return drawn_inputs(self, width)


@runtime_checkable
class NetworkParts(Protocol):
    """The parts of a network that the readings use."""

    @property
    def inputs(self) -> InputLayer:
        """The inputs."""
        ...

    @property
    def layers(self) -> tuple[Node, ...]:
        """The layers, in order."""
        ...

    @property
    def layout(self) -> Layout:
        """The lengths of the sequences."""
        ...

    @property
    def tokens(self) -> int:
        """The number of tokens."""
        ...


def checked_layers(owner: str, layers: tuple[Any, ...], least: int = 1) -> tuple[Node, ...]:
    """The layers of a combinator, checked.

    Args:
        owner: The name of the combinator, for errors.
        layers: Its layers.
        least: The smallest number of layers.

    Returns:
        The layers.

    Raises:
        ArgumentError: If one of them is not a layer or must end a network, or if there are too few.
    """
    for layer in layers:
        if not isinstance(layer, Node):
            raise _checks.ArgumentTypeError(
                "layers",
                f"{owner}(..., {layer!r}) must be made of layers, such as Attention(heads=2) or LayerNorm().",
            )
        if layer.ends_network:
            raise ArgumentError(
                "layers", f"{owner}(..., {layer!r}): a read-out ends a network. Put it last in Network(...)."
            )
    if len(layers) < least:
        raise ArgumentError("layers", f"{owner}() needs at least one layer, such as Attention(heads=2).")
    return tuple(layers)


def call_repr(name: str, *parts: Any, **named: Any) -> str:
    """The text of the call that creates a combinator."""
    return f"{name}({', '.join([*map(repr, parts), *(f'{key}={value!r}' for key, value in named.items())])})"
