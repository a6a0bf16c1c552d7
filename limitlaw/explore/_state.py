"""What a view shows, as values that a URL can hold: read, checked and written field by field."""

import dataclasses
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

from .._checks import ArgumentError, known_keys

_LONGEST_TEXT = 2000


class FieldError(ValueError):
    """A value that cannot be used, and the field where it was given ("" if no single one is to blame).

    Example:
        >>> from limitlaw.explore import FieldError
        >>> error = FieldError("width", "width=0 must be a positive integer or inf.")
        >>> error.field, str(error)
        ('width', 'width=0 must be a positive integer or inf.')
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True)
class Control:
    """How a field is shown and read: a choice, a whole number (`inf` and some words may be allowed), a number, or text.

    Example:
        >>> from limitlaw.explore import Control
        >>> width = Control("width", "count", low=1, high=1e6, infinite=True)
        >>> width.read("width", "64"), width.read("width", "inf")
        (64, inf)
        >>> width.read("width", "many")
        Traceback (most recent call last):
        limitlaw.explore._state.FieldError: width='many' must be a whole number from 1 to 1000000 or inf.
    """

    label: str
    kind: str
    hint: str = ""
    choices: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 1.0
    infinite: bool = False
    logarithmic: bool = False
    stops: tuple[int, ...] = ()  # of the slider, if not evenly spaced
    group: str = ""
    only: tuple[str, tuple[str, ...]] | None = None  # shown where another field has one of these values
    parts: tuple[str, ...] = ()  # that change with it; all of them if none is named

    def read(self, name: str, text: str) -> Any:
        """The value that a text means."""
        text = text.strip()
        if self.kind == "text":
            if len(text) > _LONGEST_TEXT:
                raise FieldError(name, f"{name} has {len(text)} characters. Write at most {_LONGEST_TEXT}.")
            return text
        if text in self.choices or (self.infinite and text == "inf"):
            return math.inf if text == "inf" else text
        value = _number(text)
        fits = self.low <= value <= self.high and (self.kind == "number" or value.is_integer())
        if self.kind == "choice" or not fits:
            raise FieldError(name, f"{name}={text[:60]!r} must be {self._allowed()}.")
        return int(value) if self.kind == "count" else value

    def write(self, value: Any) -> str:
        """The text that means a value."""
        return repr(value) if isinstance(value, int | float) else str(value)

    def _allowed(self) -> str:
        between = f"from {_short(self.low)} to {_short(self.high)}"
        numbers = {"choice": [], "count": [f"a whole number {between}"], "number": [f"a number {between}"]}[self.kind]
        *most, last = [*numbers, *map(repr, self.choices), *["inf"] * self.infinite]
        return f"{', '.join(most)} or {last}" if most else last


def control(default: Any, label: str, kind: str, hint: str = "", **details: Any) -> Any:
    """A field of a state: its default value and its control."""
    return field(default=default, metadata={"control": Control(label, kind, hint, **details)})


@dataclass(frozen=True)
class State:
    """Values of all fields of a view.

    Example:
        >>> from limitlaw.explore import VIEWS
        >>> state = VIEWS["layer"].state.parse({"heads": "1", "width": "inf"})
        >>> state.heads, state.query()
        (1, {'width': 'inf'})
    """

    @classmethod
    def controls(cls) -> dict[str, Control]:
        """The control of each field."""
        return {each.name: each.metadata["control"] for each in dataclasses.fields(cls)}

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> Self:
        """From the parameters of a URL; what is not there has its default. Every field is checked, and all of them together."""
        controls = cls.controls()
        try:
            known_keys("this view", query, tuple(controls))
        except ValueError as error:
            raise FieldError("", str(error)) from None
        state = cls(**{name: controls[name].read(name, text) for name, text in query.items()})
        with blaming(state):
            state.check()
        return state

    def query(self) -> dict[str, str]:
        """As parameters of a URL: what differs from the defaults."""
        return {
            each.name: each.metadata["control"].write(getattr(self, each.name))
            for each in dataclasses.fields(self)
            if getattr(self, each.name) != each.default
        }

    def check(self) -> None:
        """Refuse values that do not go together."""

    def field_of(self, argument: str) -> str:
        """The field that an argument of the library comes from, "" if none does."""
        return argument if argument in self.controls() else ""


@contextmanager
def blaming(state: State) -> Iterator[None]:
    """Turn the library's refusals into errors of the field that the refused argument comes from.

    Example:
        >>> import limitlaw as ll
        >>> from limitlaw.explore import VIEWS
        >>> from limitlaw.explore._state import FieldError, blaming
        >>> try:
        ...     with blaming(VIEWS["layer"].state()):
        ...         ll.Attention(heads=0)
        ... except FieldError as error:
        ...     print(error.field)
        heads
    """
    try:
        yield
    except FieldError:
        raise
    except (ValueError, TypeError) as error:
        argument = error.argument if isinstance(error, ArgumentError) else ""
        raise FieldError(state.field_of(argument), str(error)) from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _short(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else f"{value:g}"
