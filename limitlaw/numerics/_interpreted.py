"""A jax program run by NumPy, operation by operation: for a few draws that are wanted before a compiler would be done.

The program is traced as `jax.jit` would trace it, so it has the same random numbers and the same result, up to rounding. Operations that are not in the tables
below, and long loops, are left to jax, which compiles each by itself.
"""

import functools
from collections.abc import Callable, Iterable
from math import prod
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal
from scipy import special

_MANY_STEPS, _MANY_NUMBERS = 16, 2**19  # of a loop that is worth compiling: steps, or numbers that it makes
_KEY = np.dtype([("first", np.uint32), ("second", np.uint32)])  # a key is one number, as it is for jax
_USUAL = [np.dtype(name) for name in ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")]  # fmt: skip

Values = list[Any]
Operation = Callable[..., Any]


def interpreted(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function of the same arrays, run by NumPy in place of a compiled program; traced once for every kind of arrays.

    It takes arrays by position, returns NumPy arrays (and keys of jax), and cannot be transformed further by jax.

    !!! Example

        >>> import jax, jax.numpy as jnp
        >>> from limitlaw.numerics import interpreted
        >>> interpreted(lambda x: jnp.cumsum(jnp.exp(x)))(jnp.zeros(3)).tolist()
        [1.0, 2.0, 3.0]
    """
    programs: dict[Any, tuple[_Program, list[Any], Any]] = {}

    @functools.wraps(function)
    def run(*arguments: Any) -> Any:
        leaves, structure = jax.tree.flatten(arguments)
        given = [jax.typeof(leaf) for leaf in leaves]
        kind = structure, jnp.result_type(float), *given
        if kind not in programs:
            traced, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
            types = [variable.aval for variable in traced.jaxpr.outvars]
            programs[kind] = _Program(traced.jaxpr, traced.consts, {}), types, jax.tree.structure(shape)
        program, types, result = programs[kind]
        with np.errstate(all="ignore"):  # as jax does
            values = program(*map(_as_numpy, leaves, given))
        # arrays of their own: they might be views of arguments, constants or one another
        made = (_as_jax(x, type_) if _is_key(type_) else np.array(x) for x, type_ in zip(values, types, strict=True))
        return jax.tree.unflatten(result, made)

    return run


class _Step(NamedTuple):
    """An operation, and the numbers of the values that it takes, that it makes, and that nobody needs after it."""

    operation: Operation
    taken: list[int]
    made: list[int]
    several: bool
    last: list[int]


class _Program:
    """The operations of a traced program, in turn."""

    def __init__(self, jaxpr: Any, constants: Iterable[Any], known: dict[int, "_Program"]) -> None:
        self._places: dict[Any, int] = {}
        self._values: Values = []
        self._inputs = [self._place(variable) for variable in jaxpr.invars]
        for variable, value in zip(jaxpr.constvars, constants, strict=True):
            self._values[self._place(variable)] = _as_numpy(value, variable.aval)
        needed = _needed(jaxpr)
        taken = [[self._place(variable) for variable in equation.invars] for equation in needed]
        made = [[self._place(variable) for variable in equation.outvars] for equation in needed]
        self._outputs = [self._place(variable) for variable in jaxpr.outvars]
        last = {place: i for i, both in enumerate(zip(taken, made, strict=True)) for places in both for place in places}
        ends: list[list[int]] = [[] for _ in needed]
        for place, i in last.items():
            if place not in self._outputs:
                ends[i].append(place)
        self._steps = [
            _Step(_operation(equation, known), taken[i], made[i], equation.primitive.multiple_results, ends[i])
            for i, equation in enumerate(needed)
        ]

    def _place(self, variable: Any) -> int:
        if isinstance(variable, Literal):
            of_type: Any = variable.aval
            self._values.append(np.asarray(variable.val, of_type.dtype)[()])
            return len(self._values) - 1
        if variable not in self._places:
            self._places[variable] = len(self._values)
            self._values.append(None)
        return self._places[variable]

    def __call__(self, *arguments: Any) -> Values:
        values = self._values.copy()
        for place, argument in zip(self._inputs, arguments, strict=True):
            values[place] = argument
        for operation, taken, made, several, last in self._steps:
            result = operation(*[values[place] for place in taken])
            if several:
                for place, value in zip(made, result, strict=True):
                    values[place] = value
            else:
                values[made[0]] = result
            for place in last:
                values[place] = None
        return [values[place] for place in self._outputs]


def _needed(jaxpr: Any) -> list[Any]:
    """The equations on which the results depend, and those that do something else, such as print."""
    wanted, needed = set(_variables(jaxpr.outvars)), []
    for equation in reversed(jaxpr.eqns):
        if equation.effects or not wanted.isdisjoint(equation.outvars):
            wanted.update(_variables(equation.invars))
            needed.append(equation)
    return needed[::-1]


def _variables(all_: Iterable[Any]) -> list[Any]:
    return [one for one in all_ if not isinstance(one, Literal)]


def _inner(closed: Any, known: dict[int, _Program]) -> _Program:
    """The program of a traced function; one that is called again and again is prepared once."""
    if id(closed) not in known:
        known[id(closed)] = _Program(closed.jaxpr, closed.consts, known)
    return known[id(closed)]


def _operation(equation: Any, known: dict[int, _Program]) -> Operation:
    """What an equation does to the values it takes."""
    name, types = equation.primitive.name, [variable.aval for variable in equation.invars]
    if name in _CALLS:
        return _inner(equation.params[_CALLS[name]], known)
    if name in _CONTROL:
        return _CONTROL[name](equation, known)
    made = [variable.aval for variable in equation.outvars]
    numbers = all(type_.dtype in _USUAL for type_ in (*types, *made))
    if name in _PLAIN and numbers:
        return _PLAIN[name]
    if name in _SHAPED and (numbers or _is_key(made[0])):
        return _SHAPED[name](equation.params, types, made[0]) or _left_to_jax(equation)
    return _OF_KEYS.get(name) or _left_to_jax(equation)


def _left_to_jax(equation: Any) -> Operation:
    types, made = ([variable.aval for variable in variables] for variables in (equation.invars, equation.outvars))

    def run(*values: Any) -> Any:
        given = [_as_jax(value, type_) for value, type_ in zip(values, types, strict=True)]
        result = equation.primitive.bind(*given, **equation.params)
        if not equation.primitive.multiple_results:
            return _as_numpy(result, made[0])
        return list(map(_as_numpy, result, made))

    return run


def _is_key(type_: Any) -> bool:
    if not jnp.issubdtype(type_.dtype, jax.dtypes.prng_key):
        return False
    if "fry" not in str(type_.dtype):
        raise TypeError(
            f"a key of type {type_.dtype}: only threefry's can be interpreted; use jax.random.key(seed, impl='threefry2x32')."
        )
    return True


def _as_numpy(value: Any, type_: Any) -> Any:
    if _is_key(type_):
        return _wrapped(np.asarray(jax.random.key_data(value)))
    return np.asarray(value, type_.dtype)


def _as_jax(value: Any, type_: Any) -> Any:
    if _is_key(type_):
        return jax.random.wrap_key_data(_unwrapped(value), dtype=type_.dtype)
    return jax.device_put(np.asarray(value, type_.dtype))


def _wrapped(words: Any) -> Any:
    return np.array(words, order="C").view(_KEY)[..., 0]


def _unwrapped(keys: Any) -> Any:
    return np.array(keys, order="C").reshape(-1).view(np.uint32).reshape(*np.shape(keys), 2)


def _choice(equation: Any, known: dict[int, _Program]) -> Operation:
    branches = [_inner(branch, known) for branch in equation.params["branches"]]
    return lambda index, *values: branches[min(max(int(index), 0), len(branches) - 1)](*values)


def _steps_in_turn(equation: Any, known: dict[int, _Program]) -> Operation:
    given = equation.params
    length, constants, carried = given["length"], given["num_consts"], given["num_carry"]
    made = [variable.aval for variable in equation.outvars[carried:]]
    if length > _MANY_STEPS or sum(prod(type_.shape) for type_ in made) > _MANY_NUMBERS:
        return _left_to_jax(equation)
    body = _inner(given["jaxpr"], known)
    order = range(length)[::-1] if given["reverse"] else range(length)

    def run(*values: Any) -> Values:
        fixed, carry, rows = values[:constants], values[constants : constants + carried], values[constants + carried :]
        stacks = [np.empty(type_.shape, _KEY if _is_key(type_) else type_.dtype) for type_ in made]
        for i in order:
            after = body(*fixed, *carry, *(row[i] for row in rows))
            carry = after[:carried]
            for stack, one in zip(stacks, after[carried:], strict=True):
                stack[i] = one
        return [*carry, *stacks]

    return run


def _steps_while(equation: Any, known: dict[int, _Program]) -> Operation:
    """How many steps a loop takes is not known before: it is compiled, if it takes any."""
    of_condition, of_body = equation.params["cond_nconsts"], equation.params["body_nconsts"]
    wanted, loop = _inner(equation.params["cond_jaxpr"], known), _left_to_jax(equation)

    def run(*values: Any) -> Values:
        start = values[of_condition + of_body :]
        return loop(*values) if np.any(wanted(*values[:of_condition], *start)[0]) else list(start)

    return run


def _broadcast(given: Any, types: Any, made: Any) -> Operation:
    own = [1] * len(made.shape)
    for axis, size in zip(given["broadcast_dimensions"], types[0].shape, strict=True):
        own[axis] = size
    if tuple(own) == made.shape:
        return lambda x: np.reshape(x, own)
    return lambda x: np.broadcast_to(np.reshape(x, own), made.shape)


def _sliced(given: Any, types: Any, made: Any) -> Operation:
    strides = given["strides"] or [1] * len(made.shape)
    part = tuple(map(slice, given["start_indices"], given["limit_indices"], strides))
    return lambda x: x[part]


def _sliced_from(given: Any, types: Any, made: Any) -> Operation:
    sizes, most = given["slice_sizes"], [n - k for n, k in zip(types[0].shape, given["slice_sizes"], strict=True)]

    def run(x: Any, *starts: Any) -> Any:
        at = [min(max(int(start), 0), last) for start, last in zip(starts, most, strict=True)]
        return x[tuple(slice(i, i + size) for i, size in zip(at, sizes, strict=True))]

    return run


def _picked(given: Any, types: Any, made: Any) -> Operation | None:
    """Indexing along one axis by an array of numbers; other ways to gather are rare."""
    (table, index), numbers = types, given["dimension_numbers"]
    if len(numbers.start_index_map) != 1 or numbers.start_index_map != numbers.collapsed_slice_dims:
        return None
    (axis,), places = numbers.start_index_map, len(index.shape) - 1
    others = [*range(axis), *range(axis + places, len(made.shape))]
    whole = (*table.shape[:axis], 1, *table.shape[axis + 1 :])
    in_bounds = given["mode"] == jax.lax.GatherScatterMode.PROMISE_IN_BOUNDS
    if not (in_bounds and list(numbers.offset_dims) == others and tuple(given["slice_sizes"]) == whole):
        return None
    return lambda x, index: np.take(x, index[..., 0], axis=axis)


def _reduced(by: Any) -> Callable[..., Operation | None]:
    def operation(given: Any, types: Any, made: Any) -> Operation | None:
        axes = tuple(given["axes"])
        return (lambda x: by.reduce(x, axis=axes, dtype=made.dtype)) if prod(types[0].shape) else None

    return operation


def _summed(given: Any, types: Any, made: Any) -> Operation:
    """In double precision: NumPy adds rows one after the other."""
    axes, within = tuple(given["axes"]), np.float64 if made.dtype.kind == "f" else made.dtype
    return lambda x: np.add.reduce(x, axis=axes, dtype=within).astype(made.dtype, copy=False)


def _converted(given: Any, types: Any, made: Any) -> Operation | None:
    """To the nearest number that there is, where a fraction becomes a whole number."""
    if types[0].dtype.kind != "f" or made.dtype.kind not in "iu":
        return lambda x: np.asarray(x).astype(made.dtype, copy=False)
    if made.dtype.itemsize > 4:  # its ends are no numbers of double precision
        return None
    ends = np.iinfo(made.dtype)
    return lambda x: np.nan_to_num(np.clip(np.asarray(x, np.float64), ends.min, ends.max)).astype(made.dtype)


def _contracted(given: Any, types: Any, made: Any) -> Operation:
    (left, right), (left_each, right_each) = given["dimension_numbers"]
    a, b = range(len(types[0].shape)), [*range(100, 100 + len(types[1].shape))]
    for i, j in [*zip(left, right, strict=True), *zip(left_each, right_each, strict=True)]:
        b[j] = i
    kept = (
        [i for i in a if i not in (*left, *left_each)],
        [k for j, k in enumerate(b) if j not in (*right, *right_each)],
    )
    names = {axis: number for number, axis in enumerate(dict.fromkeys([*a, *b]))}
    one, other, result = ([names[axis] for axis in axes] for axes in (a, b, [*left_each, *kept[0], *kept[1]]))
    return lambda x, y: np.einsum(x, one, y, other, result, dtype=made.dtype, optimize=True)


def _counted(given: Any, types: Any, made: Any) -> Operation:
    along = [-1 if axis == given["dimension"] else 1 for axis in range(len(made.shape))]
    numbers = np.broadcast_to(np.arange(made.shape[given["dimension"]], dtype=made.dtype).reshape(along), made.shape)
    return lambda: numbers


def _selected(which: Any, *cases: Any) -> Any:
    return np.where(which, cases[1], cases[0]) if len(cases) == 2 else np.choose(which, cases)


def _same(x: Any) -> Any:
    return x


_PLAIN: dict[str, Operation] = {
    "abs": np.abs, "acos": np.arccos, "add": np.add, "and": np.bitwise_and, "asin": np.arcsin, "atan2": np.arctan2, "ceil": np.ceil,
    "copy": _same, "cos": np.cos, "eq": np.equal, "erf": special.erf, "erf_inv": special.erfinv, "erfc": special.erfc,
    "exp": np.exp, "expm1": np.expm1, "floor": np.floor, "ge": np.greater_equal, "gt": np.greater, "is_finite": np.isfinite, "le": np.less_equal, "log": np.log,
    "log1p": np.log1p, "logistic": special.expit, "lt": np.less, "max": np.maximum, "min": np.minimum, "mul": np.multiply, "ne": np.not_equal, "neg": np.negative,
    "not": np.invert, "or": np.bitwise_or, "rsqrt": lambda x: 1 / np.sqrt(x), "select_n": _selected, "sin": np.sin, "sqrt": np.sqrt,
    "stop_gradient": _same, "sub": np.subtract, "tanh": np.tanh, "xor": np.bitwise_xor,
}  # fmt: skip
_SHAPED: dict[str, Callable[..., Operation | None]] = {
    "bitcast_convert_type": lambda given, types, made: (
        (lambda x: np.asarray(x).view(made.dtype)) if made.shape == types[0].shape else None
    ),
    "broadcast_in_dim": _broadcast,
    "concatenate": lambda given, types, made: lambda *parts: np.concatenate(parts, axis=given["dimension"]),
    "convert_element_type": _converted,
    "div": lambda given, types, made: np.divide if made.dtype.kind == "f" else None,  # whole numbers lose fractions
    "dot_general": _contracted,
    "dynamic_slice": _sliced_from,
    "gather": _picked,
    "integer_pow": lambda given, types, made: (
        (lambda x: np.power(x, made.dtype.type(given["y"]))) if made.dtype.kind == "f" else None
    ),
    "iota": _counted,
    "pow": lambda given, types, made: np.power if types[0].dtype == types[1].dtype and made.dtype.kind == "f" else None,
    "reduce_and": _reduced(np.bitwise_and),
    "reduce_max": _reduced(np.maximum),
    "reduce_min": _reduced(np.minimum),
    "reduce_or": _reduced(np.bitwise_or),
    "reduce_sum": _summed,
    "reshape": lambda given, types, made: (
        (lambda x: np.reshape(x, made.shape)) if given["dimensions"] is None else None
    ),
    "rev": lambda given, types, made: lambda x: np.flip(x, given["dimensions"]),
    "shift_left": lambda given, types, made: np.left_shift if made.dtype.kind == "u" else None,
    "shift_right_logical": lambda given, types, made: np.right_shift if made.dtype.kind == "u" else None,
    "slice": _sliced,
    "split": lambda given, types, made: lambda x: np.split(x, np.cumsum(given["sizes"])[:-1], axis=given["axis"]),
    "squeeze": lambda given, types, made: lambda x: np.reshape(x, made.shape),
    "stack": lambda given, types, made: lambda *parts: np.stack(parts, axis=given["axis"]),
    "transpose": lambda given, types, made: lambda x: np.transpose(x, given["permutation"]),
}
_OF_KEYS: dict[str, Operation] = {
    "copy": _same,
    "random_unwrap": _unwrapped,
    "random_wrap": _wrapped,
    "select_n": _selected,
}
_CONTROL: dict[str, Callable[[Any, dict[int, _Program]], Operation]] = {
    "cond": _choice,
    "scan": _steps_in_turn,
    "while": _steps_while,
}
_CALLS = {"custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr", "jit": "jaxpr"}
