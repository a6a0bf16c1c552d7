"""What a study varies: a network or a regression problem as plain data, and what its axes may change in it."""

import copy
import dataclasses
import json
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf, isinf
from typing import Any, Protocol

from .. import _checks
from ..networks import InputLayer, Node, from_plain
from ..networks.cost import seconds_of_a_draw, working_memory
from ..networks.plain import parameters_of
from ..networks.registry import named
from ..networks.trajectory import blocks_of

Plain = dict[str, Any]

OVERLAPS = ("mu", "nu", "eta", "zeta", "rho")
TARGETS = ("limit", "fixed_head_dim", "infinite_head_dim", "infinite_heads")
"""Laws that a network is compared with, all at infinite width: its own; with heads of the dimension that they have at the finite width; with heads
as wide as the model; with infinitely many of those."""

_PROBLEM = ("dim", "tokens", "gamma", "beta", "noise", "link", "log_tokens", "signal")


@dataclass(frozen=True)
class Member:
    """One member of a family, as tasks take it: settings, what it costs to compute (seconds for a draw, bytes for a block of them), and the program that it compiles, roughly."""

    settings: Plain
    seconds: float = 0.0
    memory: int = 0
    blocks: int = 0
    tokens: int = 0
    program: str = ""


class Family(Protocol):
    """A network or a problem with names that can be varied."""

    def names(self) -> list[str]:
        """What an axis may be called."""
        ...

    def member(self, place: Mapping[str, Any]) -> Member:
        """With these values in their places; refused if they make no sense together."""
        ...


@dataclass(frozen=True)
class NetworkFamily:
    """Networks like `table`, which `from_plain` reads, at a width.

    An axis named like an argument sets it in every part that has it; `layers.1.heads` and `inputs.tokens` mean one part. `width` is that of the
    network, `depth` the count of its `Repeat`. The word "none" leaves an argument out.
    """

    table: Plain

    def names(self) -> list[str]:
        parts = dict(self._parts())
        for where, part in parts.items():
            named(str(part.get("kind")), InputLayer if where == "inputs" else Node, where)
        arguments = [name for part in parts.values() for name in _arguments_of(part)]
        exact = [f"{where}.{name}" for where, part in parts.items() for name in _arguments_of(part)]
        depth = ["depth"] if self._repeats() else []
        return list(
            dict.fromkeys(["width", "samples", *depth, *(name for name in arguments if name != "width"), *exact])
        )

    def member(self, place: Mapping[str, Any]) -> Member:
        settings = self._settings(place)
        table, width = settings["network"], settings["width"]
        network = from_plain(table)
        width = network.check_width(inf if width == "inf" else width)
        return Member(
            {"network": table, "width": "inf" if isinf(width) else width},
            seconds_of_a_draw(network, width),
            working_memory(network, width),
            blocks_of(network),
            network.tokens,
            program_of(table),
        )

    def similar(self, place: Mapping[str, Any], like: Member) -> Member:
        """The member at a place that differs from that of another one in positive decimal numbers alone.

        It is not checked: it costs as much as the other one and compiles the same program.
        """
        return dataclasses.replace(like, settings={**self._settings(place), "width": like.settings["width"]})

    def _settings(self, place: Mapping[str, Any]) -> Plain:
        """The table with these values in their places, and the width."""
        table = pickle.loads(self._pickled)  # several times as fast as a deep copy
        width = place.get("width", table.pop("width", "inf"))
        for name, value in place.items():
            for path, argument in self._find(name):
                part = table
                for step in path:
                    part = part[step]
                if argument == "count":
                    part[argument] = value
                    continue
                part.pop(argument, None)
                if value != "none":
                    part[argument] = value
        return {"network": table, "width": width}

    @cached_property
    def _pickled(self) -> bytes:
        return pickle.dumps(self.table)

    @cached_property
    def _where(self) -> dict[str, list[tuple[list[Any], str]]]:
        return {"width": [], "samples": []}

    def _find(self, name: str) -> list[tuple[list[Any], str]]:
        """The parts that an axis changes, each as the steps to it in the table, with the argument."""
        if name not in self._where:
            if name == "depth":
                found = [(where, "count") for where, part in self._parts() if part.get("kind") == "Repeat"]
            else:
                parts = [(where, name.removeprefix(f"{where}."), _arguments_of(part)) for where, part in self._parts()]
                found = [(where, argument) for where, argument, known in parts if argument in known]
            steps = [[int(step) if step.isdigit() else step for step in where.split(".")] for where, _ in found]
            self._where[name] = list(zip(steps, (argument for _, argument in found), strict=True))
        return self._where[name]

    def _repeats(self) -> list[Plain]:
        return [part for _, part in self._parts() if part.get("kind") == "Repeat"]

    def _parts(self) -> Iterator[tuple[str, Plain]]:
        """Every part with the path to it: inputs, layers.0, layers.0.layers.1, ..."""
        if isinstance(self.table.get("inputs"), dict):
            yield "inputs", self.table["inputs"]
        yield from _within("layers", self.table.get("layers"))


def program_of(network: Plain) -> str:
    """What a network compiles, roughly: networks of one program share most of it.

    Example:
        >>> import limitlaw as ll
        >>> from limitlaw.networks import as_plain
        >>> from limitlaw.experiments import program_of
        >>> few, many, more = (as_plain(ll.Network(ll.Inputs(tokens=s), ll.Attention(heads=h))) for s, h in ((4, 2), (4, 8), (5, 2)))
        >>> program_of(few) == program_of(many), program_of(few) == program_of(more)
        (True, False)
    """
    kinds = [part["kind"] for _, part in NetworkFamily(network)._parts()]
    return json.dumps([network["inputs"], kinds], sort_keys=True)


def to_target(measure: str, target: str) -> str:
    """The name of a distance to a target: "kl" to the limit, "kl_to_infinite_heads" to another.

    Example:
        >>> from limitlaw.experiments import to_target
        >>> to_target("kl", "limit"), to_target("kl", "infinite_heads")
        ('kl', 'kl_to_infinite_heads')
    """
    return measure if target == "limit" else f"{measure}_to_{target}"


def toward(target: str, network: Plain, width: int | str) -> Plain:
    """The network whose law at infinite width a network at a finite one is compared with.

    Example:
        >>> import limitlaw as ll
        >>> from limitlaw.networks import as_plain
        >>> from limitlaw.experiments import toward
        >>> net = as_plain(ll.Network(ll.Inputs(tokens=4), ll.Attention(heads=2, head_dim="split")))
        >>> toward("infinite_heads", net, 64)["layers"], toward("fixed_head_dim", net, 64)["layers"]
        ([{'kind': 'Attention', 'heads': 'inf'}], [{'kind': 'Attention', 'heads': 2, 'head_dim': 32}])
    """
    table = copy.deepcopy(network)
    if target != "limit":
        for _, part in NetworkFamily(table)._parts():
            if part.get("kind") == "Attention":
                _change_heads(target, part, width)
    return table


def _change_heads(target: str, part: Plain, width: int | str) -> None:
    head_dim = part.pop("head_dim", None)
    if target == "infinite_heads":
        part["heads"] = "inf"
    elif target == "fixed_head_dim" and head_dim is not None and head_dim != "split":
        part["head_dim"] = head_dim
    elif target == "fixed_head_dim" and width != "inf":
        part["head_dim"] = int(width) // (part.get("heads", 1) if head_dim == "split" else 1)


def _within(where: str, layers: Any) -> Iterator[tuple[str, Plain]]:
    for i, part in enumerate(layers if isinstance(layers, list) else []):
        if isinstance(part, dict):
            yield f"{where}.{i}", part
            yield from _within(f"{where}.{i}.layers", part.get("layers"))


def _arguments_of(part: Plain) -> list[str]:
    return [name for name in parameters_of(part.get("kind", "")) if name != "layers"]


@dataclass(frozen=True)
class ProblemFamily:
    """Problems of single-location regression like `table`, at overlaps."""

    table: Plain
    overlaps: Plain

    def names(self) -> list[str]:
        return [*_PROBLEM, *OVERLAPS, "samples"]

    def member(self, place: Mapping[str, Any]) -> Member:
        from ..slr import Problem

        problem, overlaps = dict(self.table), {"mu": 0.0, "nu": 0.0, **self.overlaps}
        for name, value in place.items():
            if name == "samples":
                continue
            (overlaps if name in OVERLAPS else problem)[name] = value
        values = {name: _checks.finite_number(name, overlaps.get(name, 0.0)) for name in OVERLAPS}
        Problem(**problem).overlaps(**values)
        return Member({"problem": problem, "overlaps": overlaps})
