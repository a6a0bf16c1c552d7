"""Programs in the language of the paper: vectors, matrices, Nonlins and scores, checked line by line."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from .. import _checks
from ..numerics import Activation, activation as as_activation
from ..numerics.activations import check_coordinatewise
from ..numerics.batches import DEFAULT_MEMORY, draw_batches


class AssumptionError(ValueError):
    """A line violates an assumption of Theorem 3.1. The message names the line and the remedy."""


@dataclass(frozen=True, eq=False, repr=False)
class Value:
    """The result of a line of a program.

    Example:
        >>> from limitlaw import netsor
        >>> prog = netsor.Program()
        >>> h = prog.initial("h")
        >>> p = prog.score(prog.matrix("Q") @ h, prog.matrix("K") @ h, name="p")
        >>> y = prog.nonlin(lambda h, p: p * h, h, scalars=[p], name="y")
        >>> h.scored, y.scored, y.roots
        (False, True, (h, p))
    """

    program: "Program"
    name: str
    line: int
    scored: bool
    """Whether the value depends on a score that stays random in the limit."""
    roots: tuple["Value", ...] = ()
    """For a Nonlin output, the Gaussian vectors and scores on which it depends coordinatewise; otherwise empty."""

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False, repr=False)
class Vector(Value):
    """A vector of a named space, whose coordinates are exchangeable.

    Example:
        >>> from limitlaw import netsor
        >>> prog = netsor.Program()
        >>> g = prog.matrix("Q", to="head", var=2.0) @ prog.initial("h")
        >>> g.space, prog.limit(g)
        ('head', Gaussian(mean=0.0, variance=2.0))
    """

    space: str = "model"


@dataclass(frozen=True, eq=False, repr=False)
class Scalar(Value):
    """A score, a number that stays random in the limit.

    Example:
        >>> from limitlaw import netsor
        >>> prog = netsor.Program()
        >>> h = prog.initial("h")
        >>> p = prog.score(prog.matrix("Q", var=2.0) @ h, prog.matrix("K", var=3.0) @ h)
        >>> prog.limit(p)  # the product of the variances
        Gaussian(mean=0.0, variance=6.0)
    """


@dataclass(frozen=True, eq=False, repr=False)
class Matrix:
    """A random matrix from `source` to `to` with i.i.d. entries `N(0, var / dim(source))`. Apply it with `@`.

    Example:
        >>> from limitlaw import netsor
        >>> prog = netsor.Program()
        >>> a, b = prog.initials(["a", "b"], cov=[[1.0, 0.5], [0.5, 1.0]])
        >>> W = prog.matrix("W", var=2.0)
        >>> prog.limit([W @ a, W @ b]).cov()  # the products with one matrix stay correlated
        array([[2., 1.],
               [1., 2.]])
    """

    program: "Program"
    name: str
    source: str
    to: str
    var: float

    def __matmul__(self, vector: Vector) -> Vector:
        return self.program._matmul(self, vector)

    @property
    def T(self) -> "Matrix":
        """Raise an error, because transposes are not part of Netsor."""
        raise AssumptionError(
            f"{self.name}.T is not part of Netsor, because W and W^T on dependent vectors break the Gaussian limit. "
            f"Declare another matrix with prog.matrix(...)."
        )

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, eq=False)
class Initials:
    """Initial vectors, jointly Gaussian in every coordinate and i.i.d. across coordinates."""

    outputs: tuple[Vector, ...]
    mean: np.ndarray
    cov: np.ndarray

    def __str__(self) -> str:
        names = ", ".join(map(repr, self.outputs))
        if len(self.outputs) == 1:
            return f"{names} ~ N({self.mean[0]:g}, {self.cov[0, 0]:g})"
        mean = "0" if not self.mean.any() else _compact(self.mean)
        return f"({names}) ~ N({mean}, {_compact(self.cov)})"

    @property
    def arguments(self) -> tuple[Value, ...]:
        return ()


@dataclass(frozen=True, eq=False)
class MatMul:
    """`g = W x`."""

    output: Vector
    matrix: Matrix
    vector: Vector

    def __str__(self) -> str:
        deep = "    [x depends on scores: outside Theorem 3.1, inside its deep extension]" if self.vector.scored else ""
        return f"{self.output} = {self.matrix} {self.vector}" + deep.replace("[x", f"[{self.vector}")

    @property
    def outputs(self) -> tuple[Value, ...]:
        return (self.output,)

    @property
    def arguments(self) -> tuple[Value, ...]:
        return (self.vector,)


@dataclass(frozen=True, eq=False)
class Nonlin:
    """`x_i = phi(g^1_i, ..., g^k_i; p_1, ..., p_r)`, coordinatewise."""

    output: Vector
    function: Callable[..., Any]
    vectors: tuple[Vector, ...]
    scalars: tuple[Scalar, ...]

    def __str__(self) -> str:
        scalars = f"; {', '.join(map(repr, self.scalars))}" if self.scalars else ""
        return f"{self.output} = {_name_of(self.function)}({', '.join(map(repr, self.vectors))}{scalars})"

    @property
    def outputs(self) -> tuple[Value, ...]:
        return (self.output,)

    @property
    def arguments(self) -> tuple[Value, ...]:
        return (*self.vectors, *self.scalars)

    def apply(self, vectors: Sequence[Any], scalars: Sequence[Any]) -> Any:
        """The function, coordinate by coordinate."""
        return coordinatewise(self.function, [*vectors, *scalars], [True] * len(vectors) + [False] * len(scalars))


@dataclass(frozen=True, eq=False)
class Score:
    """`p = (g^1 . g^2) / sqrt(dim)`, or divided by `dim` on the linear scale."""

    output: Scalar
    left: Vector
    right: Vector
    scale: str

    def __str__(self) -> str:
        divisor = f"sqrt({self.left.space})" if self.scale == "sqrt" else self.left.space
        return f"{self.output} = {self.left} . {self.right} / {divisor}"

    @property
    def outputs(self) -> tuple[Value, ...]:
        return (self.output,)

    @property
    def arguments(self) -> tuple[Value, ...]:
        return (self.left, self.right)


Line = Initials | MatMul | Nonlin | Score


def coordinatewise(function: Callable[..., Any], arguments: Sequence[Any], vector: Sequence[bool]) -> Any:
    """`function` mapped over the coordinates of the arguments that are vectors, with the others held fixed."""
    return jax.vmap(function, in_axes=[0 if v else None for v in vector])(*arguments)


class Program:
    """A Netsor program with scores (Sakai, Karakida, Imaizumi 2025, section 3; after Yang 2019).

    Its methods add lines, and each line is checked as it is added. The end of a `with` block closes the program.
    Vectors live in named spaces ("model" by default). Their dimensions are chosen when the program is sampled, and go
    to infinity together in `limit`.

    Example:
        >>> import jax.numpy as jnp
        >>> from limitlaw import netsor
        >>> with netsor.Program() as prog:
        ...     h = prog.initial("h")
        ...     W, Q, K = prog.matrix("W"), prog.matrix("Q", to="head"), prog.matrix("K", to="head")
        ...     x = prog.nonlin(jnp.tanh, W @ h, name="x")
        ...     p = prog.score(Q @ x, K @ x, name="p")
        ...     y = prog.nonlin(lambda g, p: g / (1 + jnp.exp(-p)), W @ x, scalars=[p], name="y")
        >>> print(prog)
        matrices
             W : model -> model, N(0, 1/model)
             Q : model -> head, N(0, 1/model)
             K : model -> head, N(0, 1/model)
        lines
          1  h ~ N(0, 1)
          2  g1 = W h
          3  x = tanh(g1)
          4  g2 = Q x
          5  g3 = K x
          6  p = g2 . g3 / sqrt(head)
          7  g4 = W x
          8  y = <lambda>(g4; p)
        >>> prog.sample(y, samples=3, dims={"model": 64, "head": 8}, reading="lazy").shape
        (3,)
    """

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.matrices: list[Matrix] = []
        self.spaces: list[str] = []
        self._names: set[str] = set()
        self._sides: dict[str, tuple[str, int]] = {}
        self._counts = {"g": 0, "x": 0, "p": 0}
        self._closed = False

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *exception: object) -> None:
        self._closed = True

    def __str__(self) -> str:
        matrices = [f"     {m.name} : {m.source} -> {m.to}, N(0, {m.var:g}/{m.source})" for m in self.matrices]
        lines = [f"{i:3}  {line}" for i, line in enumerate(self.lines, 1)]
        return "\n".join((["matrices", *matrices] if matrices else []) + ["lines", *lines])

    def __repr__(self) -> str:
        return f"<Program: {len(self.lines)} lines, {len(self.matrices)} matrices, spaces {', '.join(self.spaces)}>"

    # Building

    def initial(self, name: str, *, var: float = 1.0, mean: float = 0.0, space: str = "model") -> Vector:
        """A vector with i.i.d. `N(mean, var)` coordinates."""
        var = _checks.non_negative("var", var)
        return self.initials([name], cov=[[var]], mean=[mean], space=space)[0]

    def initials(self, names: Sequence[str], *, cov: Any, mean: Any = None, space: str = "model") -> tuple[Vector, ...]:
        """Vectors whose coordinates are jointly `N(mean, cov)`, i.i.d. across coordinates.

        Example:
            >>> from limitlaw import netsor
            >>> prog = netsor.Program()
            >>> a, b = prog.initials(["a", "b"], cov=[[1.0, 0.5], [0.5, 2.0]], mean=[0.0, 1.0])
            >>> print(prog)
            lines
              1  (a, b) ~ N([0, 1], [[1, 0.5], [0.5, 2]])
        """
        self._check_open()
        if isinstance(names, str) or not isinstance(names, Sequence) or len(set(names)) < len(names):
            raise ValueError(f"names={names!r} must be a list of different names.")
        cov = _checks.psd_matrix("cov", cov)
        mean = np.zeros(len(cov)) if mean is None else _checks.finite_array("mean", mean, 1)
        if not len(names) == len(cov) == len(mean):
            raise ValueError(
                f"names={list(names)!r} does not match cov, whose shape is {cov.shape}, and mean, whose shape is "
                f"{mean.shape}. Give shapes ({len(names)}, {len(names)}) and ({len(names)},)."
            )
        for name in names:
            self._check_name(name)
        self._space(space)
        vectors = tuple(Vector(self, self._name(name), len(self.lines), False, space=space) for name in names)
        self.lines.append(Initials(vectors, mean, cov))
        return vectors

    def matrix(self, name: str, *, to: str = "model", source: str = "model", var: float = 1.0) -> Matrix:
        """A matrix from the space `source` to the space `to` with i.i.d. entries `N(0, var / dim(source))`."""
        self._check_open()
        self._check_name(name)
        var = _checks.non_negative("var", var)
        self._space(source)
        self._space(to)
        matrix = Matrix(self, self._name(name), source, to, var)
        self.matrices.append(matrix)
        return matrix

    def nonlin(
        self,
        function: str | Activation | Callable[..., Any],
        *vectors: Vector,
        scalars: Sequence[Scalar] = (),
        name: str | None = None,
    ) -> Vector:
        """`x_i = function(g^1_i, ..., g^k_i, p_1, ..., p_r)`, with vectors of one space and scores `p`."""
        self._check_open()
        where = self._next_line("nonlin")
        if not vectors:
            raise ValueError(
                f"{where}: a Nonlin needs at least one vector, which determines its space. Pass an initial vector."
            )
        if not isinstance(scalars, Sequence):
            raise TypeError(f"{where}: scalars={scalars!r} must be a list of scores.")
        for vector in vectors:
            self._own(vector, Vector, where)
        for scalar in scalars:
            self._own(scalar, Scalar, where)
        self._check_name(name)
        self._check_one_space(vectors, where)
        if len(vectors) == 1 and not scalars:
            function = as_activation(function)
        elif not callable(function):
            raise TypeError(f"{where}: function={function!r} must be callable.")
        else:
            check_coordinatewise(function, len(vectors) + len(scalars), f"{where}: {_name_of(function)}")
        # The limit of a composition depends on the program only through the Gaussian vectors and scores behind it.
        arguments = (*vectors, *scalars)
        roots = tuple(dict.fromkeys(root for a in arguments for root in (a.roots or (a,))))
        scored = any(a.scored for a in arguments)
        output = Vector(self, self._name(name, "x"), len(self.lines), scored, roots, vectors[0].space)
        self.lines.append(Nonlin(output, function, tuple(vectors), tuple(scalars)))
        return output

    def score(self, left: Vector, right: Vector, *, scale: str = "sqrt", name: str | None = None) -> Scalar:
        """`p = (left . right) / sqrt(dim)` of two MatMul outputs with different matrices.

        With `scale="linear"` the product is divided by `dim` instead, and tends to 0.
        """
        self._check_open()
        where = self._next_line("score")
        self._check_name(name)
        _checks.one_of("scale", scale, ["sqrt", "linear"])
        products = []
        for vector in (left, right):
            self._own(vector, Vector, where)
            line = self.lines[vector.line]
            if not isinstance(line, MatMul):
                raise AssumptionError(
                    f"{where}: {vector} is not a MatMul output, as Theorem 3.1 requires for scores. "
                    f"Use W @ {vector} with a new matrix W."
                )
            products.append(line)
        if left.space != right.space:
            raise ValueError(
                f"{where}: {left} lives in {left.space!r} and {right} in {right.space!r}. Give their matrices the same "
                f"`to`."
            )
        first, second = (line.matrix for line in products)
        if first is second:
            raise AssumptionError(
                f"{where}: {left} and {right} are both outputs of {first}, so the score grows like sqrt(dim) and has "
                f"no limit. Use two different matrices."
            )
        # Both sides are checked before either is recorded, so that a refused line leaves no trace in the program.
        for matrix, side in ((first, "left"), (second, "right")):
            taken, line_number = self._sides.get(matrix.name, (side, 0))
            if taken != side:
                raise AssumptionError(
                    f"{where}: {matrix} is on the {side} of this score but on the {taken} of the score in line "
                    f"{line_number}, which Theorem 3.1 does not allow. Swap the arguments, or use another matrix."
                )
        for matrix, side in ((first, "left"), (second, "right")):
            self._sides.setdefault(matrix.name, (side, len(self.lines) + 1))
        scalar = Scalar(self, self._name(name, "p"), len(self.lines), scale == "sqrt")
        self.lines.append(Score(scalar, left, right, scale))
        return scalar

    def _matmul(self, matrix: Matrix, vector: Vector) -> Vector:
        self._check_open()
        where = self._next_line(f"{matrix} @ {vector}")
        self._own(vector, Vector, where)
        if vector.space != matrix.source:
            raise ValueError(
                f"{where}: {matrix} takes vectors of {matrix.source!r}, but {vector} lives in {vector.space!r}. Use a "
                f"matrix with source={vector.space!r}."
            )
        output = Vector(self, self._name(None, "g"), len(self.lines), vector.scored, space=matrix.to)
        self.lines.append(MatMul(output, matrix, vector))
        return output

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError(
                "The program is closed, because its `with` block has ended. Add lines inside the block, or build a new "
                "program."
            )

    def _next_line(self, what: str) -> str:
        return f"line {len(self.lines) + 1}, {what}"

    def _own(self, value: Any, kind: type[Value], where: str) -> None:
        if not isinstance(value, kind):
            raise TypeError(f"{where}: {value!r} is a {type(value).__name__}, but must be a {kind.__name__}.")
        if value.program is not self:
            raise ValueError(f"{where}: {value} belongs to another program. Create it in this program as well.")

    def _space(self, space: str) -> None:
        if not isinstance(space, str) or not space:
            raise TypeError(f"space={space!r} must be a non-empty string, such as 'model'.")
        if space not in self.spaces:
            self.spaces.append(space)

    def _check_name(self, name: str | None) -> None:
        if name is not None and (not isinstance(name, str) or not name):
            raise TypeError(f"name={name!r} must be a non-empty string.")
        if name in self._names:
            raise ValueError(f"name={name!r} is already used in this program. Choose another name.")

    def _name(self, name: str | None, kind: str = "") -> str:
        """Register a checked name, or generate a new one."""
        while name is None or name in self._names:
            self._counts[kind] += 1
            name = f"{kind}{self._counts[kind]}"
        self._names.add(name)
        return name

    def _check_one_space(self, values: Sequence[Value], where: str) -> None:
        spaces = dict.fromkeys(v.space for v in values if isinstance(v, Vector))
        if not spaces:
            raise ValueError(f"{where}: there is no vector, so there are no coordinates. Give at least one vector.")
        if len(spaces) > 1:
            raise ValueError(
                f"{where}: vectors of the spaces {', '.join(spaces)} have no common coordinates. Map them to one space "
                f"with a matrix."
            )

    # Reading

    def sample(
        self,
        target: Value | Sequence[Value],
        *,
        samples: int,
        dims: Mapping[str, int],
        reading: str = "lazy",
        seed: int = 0,
        average: Callable[..., Any] | None = None,
        max_memory: int = DEFAULT_MEMORY,
    ) -> np.ndarray:
        """Independent runs of the program at finite dimensions.

        The result holds coordinate 0 of each vector and the value of each score. Its shape is `(samples,)` for one
        target and `(samples, k)` for a list of `k`. With `average=psi` it holds `(1/dim) sum_i psi(y^1_i, ..., y^k_i)`
        over the targets `y^1, ..., y^k` instead. `reading="dense"` draws every matrix. "lazy" draws only the images of
        the vectors that a matrix multiplies, which is exact and costs `O(dim k)` for the k-th product.

        Example:
            >>> from limitlaw import netsor
            >>> with netsor.Program() as prog:
            ...     h = prog.initial("h")
            ...     g = prog.matrix("W") @ h
            >>> second = prog.sample([h, g], samples=2, dims={"model": 10_000}, average=lambda h, g: g * g)
            >>> bool(abs(second - 1).max() < 0.1)
            True
        """
        from ._finite import sampler

        targets, single = self._targets(target)
        samples = int(_checks.positive_integer("samples", samples))
        seed = _checks.seed(seed)
        max_memory = int(_checks.positive_integer("max_memory", max_memory))
        _checks.one_of("reading", reading, ["lazy", "dense"])
        if average is not None:
            self._check_average(average, targets, scalar=False)
        batch = sampler(targets, self._checked_dims(dims), reading, average)
        draws = draw_batches(batch, samples=samples, seed=seed, max_memory=max_memory)
        return draws[:, 0] if single and average is None else draws

    def limit(self, target: Value | Sequence[Value]) -> Any:
        """The law of the targets as every dimension goes to infinity (Definition 3.1, Corollary 3.2).

        MatMul outputs become jointly Gaussian, scores become Gaussians that are independent of them, and a Nonlin of
        both has a mixture as its law. The result is a law of one variable for one target, and a joint law for a list.
        Covariances are computed in closed form where one exists, otherwise by quadrature or quasi-Monte Carlo;
        `law.quadrature_error` is the largest error among them.

        Example:
            >>> from limitlaw import netsor
            >>> with netsor.Program() as prog:
            ...     x = prog.nonlin("relu", prog.matrix("W") @ prog.initial("h"))
            ...     g = prog.matrix("V") @ x
            >>> prog.limit(g)
            Gaussian(mean=0.0, variance=0.5)
        """
        from ._limit import limit_law

        targets, single = self._targets(target)
        return limit_law(targets, single)

    def average(self, psi: Callable[..., Any], *targets: Value) -> Any:
        """The law of the limit of `(1/n) sum_i psi(y^1_i, ..., y^k_i)`, which is `E[psi(...) | scores]` (Theorem 3.1).

        Example:
            >>> import jax.numpy as jnp
            >>> from limitlaw import netsor
            >>> with netsor.Program() as prog:
            ...     h = prog.initial("h")
            ...     p = prog.score(prog.matrix("Q") @ h, prog.matrix("K") @ h)
            ...     y = prog.nonlin(lambda g, p: p * g, h, scalars=[p])
            >>> law = prog.average(lambda y: y**2, y)  # tends to p^2, p a standard normal
            >>> print(f"{law.mean():.9f} {law.variance():.9f}")
            1.000000000 2.000000000
        """
        from ._limit import average_law

        checked, _ = self._targets(targets)
        self._check_average(psi, checked, scalar=True)
        return average_law(psi, checked)

    def _check_average(self, psi: Callable[..., Any], targets: tuple[Value, ...], *, scalar: bool) -> None:
        if not callable(psi):
            raise TypeError(f"psi={psi!r} must be a function of the coordinates of the targets.")
        self._check_one_space(targets, "average")
        check_coordinatewise(psi, len(targets), f"average: {_name_of(psi)}", scalar=scalar)

    def _targets(self, target: Value | Sequence[Value]) -> tuple[tuple[Value, ...], bool]:
        single = isinstance(target, Value)
        if not single and not isinstance(target, list | tuple):
            raise TypeError(f"target={target!r} must be a vector or a score of this program, or a list of them.")
        targets = (target,) if isinstance(target, Value) else tuple(target)
        if not targets:
            raise ValueError("target=[] is empty. Give at least one vector or score.")
        for value in targets:
            self._own(value, Value, "target")
        return targets, single

    def _checked_dims(self, dims: Mapping[str, int]) -> dict[str, int]:
        if not isinstance(dims, Mapping):
            raise TypeError(f"dims={dims!r} must map each space to its dimension, such as {{'model': 64}}.")
        missing = [s for s in self.spaces if s not in dims]
        unknown = [s for s in dims if s not in self.spaces]
        if missing or unknown:
            what = (
                f"gives no dimension for {', '.join(missing)}" if missing else f"names the unknown space {unknown[0]!r}"
            )
            raise ValueError(f"dims={dict(dims)!r} {what}. The spaces of this program are {', '.join(self.spaces)}.")
        for space, dim in dims.items():
            if dim == np.inf:
                raise ValueError(
                    f"dims[{space!r}]=inf must be finite, because sampled vectors have finite length. Use limit() for "
                    f"infinite dimensions."
                )
        return {space: int(_checks.positive_integer(f"dims[{space!r}]", dims[space])) for space in self.spaces}


def needed_lines(targets: Iterable[Value]) -> list[int]:
    """The numbers of the lines on which the targets depend, in order."""
    targets = list(targets)
    lines = targets[0].program.lines
    seen: set[int] = set()
    stack = [t.line for t in targets]
    while stack:
        line = stack.pop()
        if line not in seen:
            seen.add(line)
            stack += [a.line for a in lines[line].arguments]
    return sorted(seen)


def _name_of(function: Callable[..., Any]) -> str:
    return (
        repr(function) if isinstance(function, Activation) else getattr(function, "__name__", type(function).__name__)
    )


def _compact(array: np.ndarray) -> str:
    if array.ndim == 1:
        return f"[{', '.join(f'{x:g}' for x in array)}]"
    if len(array) > 4:
        return f"Sigma ({len(array)} x {len(array)})"
    return f"[{', '.join(_compact(row) for row in array)}]"
