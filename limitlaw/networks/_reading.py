"""A reading is a table: one rule per kind of layer, dispatched on its type."""

from collections.abc import Callable
from typing import Any, TypeVar

Rule = TypeVar("Rule", bound=Callable[..., Any])


class Reading:
    """A named table of rules. A new layer adds one rule to each reading; a new reading is one new table.

    !!! Example

        >>> from limitlaw.networks import Reading
        >>> shout = Reading("shout")
        >>> @shout.rule(str)
        ... def _(text):
        ...     return text.upper() + "!"
        >>> shout("hello")
        'HELLO!'
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.rules: dict[type, Callable[..., Any]] = {}

    def rule(self, kind: type) -> Callable[[Rule], Rule]:
        """Enter a rule for a kind of layer."""

        def enter(rule: Rule) -> Rule:
            self.rules[kind] = rule
            return rule

        return enter

    def __call__(self, layer: Any, *args: Any, **kwargs: Any) -> Any:
        for kind in type(layer).__mro__:
            if kind in self.rules:
                return self.rules[kind](layer, *args, **kwargs)
        known = ", ".join(k.__name__ for k in self.rules)
        raise TypeError(
            f"{type(layer).__name__}: the {self.name} reading has no rule for it; it knows {known}. "
            f"Add one with @{self.name}.rule({type(layer).__name__})."
        )
