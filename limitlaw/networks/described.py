"""Descriptions: frozen values that print as the call that creates them, and split into numbers and structure."""

import dataclasses
import difflib
import functools
import inspect
import types
import typing
from typing import Any

import equinox as eqx
import jax
import numpy as np

from .._checks import ArgumentTypeError, is_traced

_WIDTH = "the width of the network, Network(..., width=...)"

# Names of arguments in Hugging Face and PyTorch, and the corresponding names here.
_FAMILIAR = {
    "num_heads": "heads",
    "n_heads": "heads",
    "n_head": "heads",
    "num_attention_heads": "heads",
    "num_kv_heads": "kv_heads",
    "num_key_value_heads": "kv_heads",
    "d_head": "head_dim",
    "d_model": _WIDTH,
    "n_embd": _WIDTH,
    "hidden_size": _WIDTH,
    "causal": "mask='causal'",
    "is_causal": "mask='causal'",
    "act": "activation",
    "hidden_act": "activation",
    "phi": "activation",
    "epsilon": "eps",
    "n": _WIDTH,
}


class Described(eqx.Module):
    """A frozen description that compares and hashes by value, pickles, and prints as the call that creates it."""

    def __new__(cls, *args: Any, **kwargs: Any) -> "Described":
        unknown = [name for name in kwargs if name not in _parameters(cls)]
        if unknown:
            raise _unknown_argument(cls, unknown[0])
        return super().__new__(cls)

    def __check_init__(self) -> None:
        # A description is a value, and keys of caches are made of it: its arrays must not change.
        for f in dataclasses.fields(self):
            array = getattr(self, f.name)
            if isinstance(array, np.ndarray) and array.flags.writeable:
                array = array.copy()
                array.setflags(write=False)
                object.__setattr__(self, f.name, array)

    def __repr__(self) -> str:
        parts = [
            f"{f.name}={_show(getattr(self, f.name))}"
            for f in dataclasses.fields(self)
            if f.repr and not _is_default(getattr(self, f.name), f.default)
        ]
        return f"{type(self).__name__}({', '.join(parts)})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and frozen(self) == frozen(other)

    def __hash__(self) -> int:
        return hash(frozen(self))

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.startswith("_")]


def _parameters(cls: type) -> list[str]:
    return list(inspect.signature(cls.__init__).parameters)[1:]


def _unknown_argument(cls: type, name: str) -> ArgumentTypeError:
    known = _parameters(cls)
    ours = _FAMILIAR.get(name, "")
    if ours == _WIDTH or ours.split("=")[0] in known:
        hint = f"Did you mean {ours if ours == _WIDTH else repr(ours)}?"
    else:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"Did you mean {near[0]!r}?" if near else f"It has {', '.join(map(repr, known)) or 'none'}."
    return ArgumentTypeError(name, f"{name!r} is not an argument of {cls.__name__}. {hint}")


def _show(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return np.array2string(value, separator=", ", threshold=36).replace("\n", "")
    return repr(value)


def _is_default(value: Any, default: Any) -> bool:
    return value is default or (not isinstance(value, np.ndarray) and not is_traced(value) and value == default)


@functools.cache
def annotations_of(cls: type) -> dict[str, Any]:
    """The annotations of a class by name, resolved where that is possible."""
    try:
        return typing.get_type_hints(cls)
    except NameError:  # an annotation that only type checkers can resolve
        return {f.name: f.type for f in dataclasses.fields(cls)}


@functools.cache
def float_fields(cls: type) -> frozenset[str]:
    """The fields whose annotation contains `float` and not `int`. Numbers in them are traced, not compiled in."""
    found = set()
    for name, hint in annotations_of(cls).items():
        is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
        kinds = set(typing.get_args(hint)) if is_union else {hint}
        if float in kinds and int not in kinds:
            found.add(name)
    return frozenset(found)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


@dataclasses.dataclass(frozen=True)
class _Slot:
    """The place of a traced number in a structure."""

    index: int


@dataclasses.dataclass(frozen=True)
class _Frozen:
    """A hashable substitute for a value: a container with its parts, or an array with its bytes."""

    kind: Any
    parts: tuple[Any, ...]


class Traced(eqx.Module):
    """A description as a pytree whose leaves are its numbers, so one compilation serves all their values.

    Numbers in fields whose annotation contains `float` and not `int` are leaves, and so are arrays of floats. `int`,
    `bool`, `str`, callables, `None` and arrays of integers or booleans are static.

    Attributes:
        numbers: The leaves.
        structure: The description with a slot in place of each leaf, hashable.

    Example:
        >>> import limitlaw as ll
        >>> from limitlaw.networks.described import Traced
        >>> traced = Traced.of(ll.MLP("relu", in_std=0.5))
        >>> [float(x) for x in traced.numbers][1], traced.value.activation
        (0.5, relu)
    """

    numbers: list[Any]
    structure: Any = eqx.field(static=True)

    @classmethod
    def of(cls, description: Any) -> "Traced":
        """Split a description into numbers and structure."""
        numbers: list[Any] = []
        structure = _take_apart(description, numbers, False)
        return cls(numbers, structure)

    @property
    def value(self) -> Any:
        """The description with the current numbers, which may be tracers."""
        return _put_together(self.structure, self.numbers)


def frozen(description: Any) -> Any:
    """A hashable substitute for a description, equal for equal descriptions."""
    return _take_apart(description, None, False)


def _take_apart(value: Any, numbers: list[Any] | None, is_float: bool) -> Any:
    """The structure of a value. Its numbers are appended to `numbers`, or stay in the structure if that is None."""
    if isinstance(value, jax.Array) and not is_traced(value):
        value = np.asarray(value)
    if is_traced(value):
        if numbers is None:
            return _Frozen("tracer", (id(value),))
        numbers.append(value)
        return _Slot(len(numbers) - 1)
    if isinstance(value, np.ndarray):
        if numbers is not None and np.issubdtype(value.dtype, np.floating):
            numbers.append(value.astype(np.float32))
            return _Slot(len(numbers) - 1)
        # Adding 0 turns -0.0 into 0.0, which is equal but has other bytes.
        data = (value + 0.0 if np.issubdtype(value.dtype, np.floating) else value).tobytes()
        return _Frozen("array", (value.shape, value.dtype.str, data))
    if is_float and _is_number(value):
        if numbers is None:  # 1 and 1.0 are the same number where a float belongs
            return _Frozen("value", (float, float(value)))
        numbers.append(np.float32(value))
        return _Slot(len(numbers) - 1)
    if isinstance(value, dict):
        items = tuple((key, _take_apart(item, numbers, is_float)) for key, item in value.items())
        return _Frozen(dict, items)
    if isinstance(value, tuple | list):
        return _Frozen(type(value), tuple(_take_apart(item, numbers, is_float) for item in value))
    if isinstance(value, eqx.Module):
        floats = float_fields(type(value))
        fields = dataclasses.fields(value)
        return _Frozen(
            type(value),
            tuple((f.name, _take_apart(getattr(value, f.name), numbers, f.name in floats)) for f in fields),
        )
    # 1 == 1.0 == True as keys of compiled programs, so the type is part of the structure.
    return _Frozen("value", (type(value), value))


def _put_together(structure: Any, numbers: list[Any]) -> Any:
    if isinstance(structure, _Slot):
        return numbers[structure.index]
    kind, parts = structure.kind, structure.parts
    if kind == "value":
        return parts[1]
    if kind == "array":
        shape, dtype, data = parts
        return np.frombuffer(data, dtype).reshape(shape)
    if kind is dict:
        return {key: _put_together(item, numbers) for key, item in parts}
    if kind in (tuple, list):
        return kind(_put_together(item, numbers) for item in parts)
    # Without calling the class, whose checks of numbers would fail on a tracer.
    module = object.__new__(kind)
    for name, item in parts:
        object.__setattr__(module, name, _put_together(item, numbers))
    return module
