"""The state of a view as values that an address can hold: read, checked and written field by field."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from .._checks import ArgumentError

_LONGEST_TEXT = 2000


@dataclass(frozen=True)
class Control:
    """How a field is shown and read.

    Args:
        label: What the page calls it.
        kind: "choice", "count" (a whole number), "number" or "text".
        hint: A sentence below the field.
        choices: The words that are allowed, for any kind but text.
        words: For each choice the words that the page shows, where they differ.
        low: The least number.
        high: The largest number.
        infinite: Whether `inf` is allowed.
        logarithmic: Whether the slider moves in factors.
        stops: The values of the slider, if they are neither evenly spaced nor in factors.
        group: The heading under which the field stands.
        only: Another field and its values for which this one has a meaning.
        parts: The parts that depend on it; None for all, and () for a field that only the page reads.

    Example:
        >>> from limitlaw.explore import Control
        >>> width = Control("width", "count", low=1, high=1e6, infinite=True)
        >>> width.read("width", "64"), width.read("width", "inf")
        (64, inf)
        >>> width.read("width", "many")
        Traceback (most recent call last):
        limitlaw._checks.ArgumentError: width='many' must be a whole number from 1 to 1000000 or inf.
    """

    label: str
    kind: str
    hint: str = ""
    choices: tuple[str, ...] = ()
    words: Mapping[str, str] = field(default_factory=dict)
    low: float = 0.0
    high: float = 1.0
    infinite: bool = False
    logarithmic: bool = False
    stops: tuple[int, ...] = ()
    group: str = ""
    only: tuple[str, tuple[str, ...]] | None = None
    parts: tuple[str, ...] | None = None

    def read(self, name: str, text: str) -> Any:
        """The value that a text means.

        Args:
            name: The name of the field.
            text: The text.

        Returns:
            A word, a number or the text.

        Raises:
            ArgumentError: If the text is not a value of this field.
        """
        text = text.strip()
        if self.kind == "text":
            if len(text) > _LONGEST_TEXT:
                raise ArgumentError(name, f"{name} has {len(text)} characters. Write at most {_LONGEST_TEXT}.")
            return text
        if text in self.choices or (self.infinite and text == "inf"):
            return math.inf if text == "inf" else text
        value = _number(text)
        fits = self.low <= value <= self.high and (self.kind == "number" or value.is_integer())
        if self.kind == "choice" or not fits:
            raise ArgumentError(name, f"{name}={text[:60]!r} must be {self._allowed()}.")
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
    """The values of all fields of a view. A subclass keeps what several parts need in cached properties.

    Example:
        >>> from limitlaw.explore import VIEWS
        >>> state = VIEWS["layer"].state.parse({"heads": "2", "width": "inf", "utm_source": "mail"})
        >>> state.heads, state.query()
        (2, {'heads': '2', 'width': 'inf'})
    """

    @classmethod
    def controls(cls) -> dict[str, Control]:
        """The control of each field."""
        return {each.name: each.metadata["control"] for each in dataclasses.fields(cls)}

    @classmethod
    def parse(cls, query: Mapping[str, str]) -> Self:
        """Read the parameters of an address.

        Args:
            query: The parameters. A field that is missing has its default, and unknown parameters are ignored.

        Returns:
            The state, checked.

        Raises:
            ArgumentError: If a value cannot be used. Its `argument` is the field, "" if no single one is wrong.
        """
        state = cls(**{name: each.read(name, query[name]) for name, each in cls.controls().items() if name in query})
        try:
            state.check()
        except ArgumentError as error:
            raise ArgumentError(state.field_of(error), str(error)) from None
        return state

    def query(self) -> dict[str, str]:
        """The parameters of the address: the values that differ from the defaults."""
        return {
            each.name: each.metadata["control"].write(getattr(self, each.name))
            for each in dataclasses.fields(self)
            if getattr(self, each.name) != each.default
        }

    def query_of(self, part: str) -> dict[str, str]:
        """The parameters that a part depends on: states that agree in them have the same answer."""
        controls = self.controls()
        depends = {name for name, each in controls.items() if each.parts is None or part in each.parts}
        return {name: text for name, text in self.query().items() if name in depends}

    def check(self) -> None:
        """Refuse values that do not go together."""

    def field_of(self, error: ArgumentError) -> str:
        """The field that a refused argument of the library comes from, "" if none does."""
        name = self.names_of_fields().get(error.argument, error.argument)
        return name if name in self.controls() else ""

    def names_of_fields(self) -> dict[str, str]:
        """The fields of those arguments of the library that have another name."""
        return {}


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _short(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else f"{value:g}"
