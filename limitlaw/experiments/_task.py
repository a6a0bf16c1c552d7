"""A task is a computation as data: a function by name, its settings, and the tasks whose results it needs."""

import functools
import hashlib
import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from ..networks.registry import OwnKind

Result = dict[str, np.ndarray]
"""What a task computes: named arrays."""

_PACKAGE = Path(__file__).parent.parent
NUMERICAL = ("_checks.py", "numerics", "laws", "netsor", "networks", "distances", "experiments/measures")
"""The files and packages that tasks depend on unless told otherwise."""
REGRESSION = ("_checks.py", "numerics", "slr", "experiments/measures")
"""The files and packages that tasks about single-location regression depend on."""

_LIBRARIES = ("jax", "jaxlib", "numpy", "scipy")


@dataclass(frozen=True)
class Task:
    """A call `compute(*results of needs, **settings)` that returns named arrays and depends on nothing else.

    Its `key` is a digest of the function's name, its code and that of the numerics, the settings, and the keys of what it
    needs. Equal keys mean equal results, so a result is computed once and kept under its key.

    Example:
        >>> import numpy as np
        >>> from limitlaw.experiments import Task
        >>> def squares(*, count):
        ...     return {"squares": np.arange(count) ** 2}
        >>> task = Task("squares", squares, {"count": 3})
        >>> task.run()["squares"].tolist(), task.key == Task("again", squares, {"count": 3}).key
        ([0, 1, 4], True)
    """

    name: str  # for people; not part of the key
    compute: Callable[..., Result]
    settings: Mapping[str, Any]
    needs: tuple["Task", ...] = ()
    packages: tuple[str, ...] = NUMERICAL  # of limitlaw, whose code the result depends on
    kinds: tuple[OwnKind, ...] = ()  # classes of the user's that the settings name
    cost: float = field(default=1.0, compare=False)  # seconds, roughly
    program: str = field(
        default="", compare=False
    )  # tasks of one program compile the same code: one of them goes first

    @functools.cached_property
    def key(self) -> str:
        """What the result is kept under: a digest of all that it depends on."""
        return _digest(json.dumps(self.record(), sort_keys=True).encode())

    def record(self) -> dict[str, Any]:
        """All that the result depends on, as JSON holds it."""
        own = {"kinds": [[kind.name, kind.digest] for kind in self.kinds]} if self.kinds else {}
        return own | {
            "compute": f"{self.compute.__module__}.{self.compute.__qualname__}",
            "code": code_version(_source_of(self.compute), packages=self.packages),
            "settings": dict(self.settings),
            "needs": [task.key for task in self.needs],
        }

    def run(self, *results: Result) -> Result:
        """Compute it, given the results of what it needs."""
        for kind in self.kinds:
            kind.load()
        return self.compute(*results, **self.settings)


def with_needs(tasks: Iterable[Task]) -> list[Task]:
    """The tasks and all they need, each once, needs first.

    Example:
        >>> from limitlaw.experiments import Task, with_needs
        >>> def power(*numbers, exponent):
        ...     return {"power": sum(given["power"] ** exponent for given in numbers)}
        >>> base = Task("base", power, {"exponent": 0})
        >>> square, cube = (Task(f"power {k}", power, {"exponent": k}, needs=(base,)) for k in (2, 3))
        >>> [task.name for task in with_needs([square, cube])]
        ['base', 'power 2', 'power 3']
    """
    ordered: dict[str, Task] = {}

    def visit(task: Task) -> None:
        if task.key not in ordered:
            for needed in task.needs:
                visit(needed)
            ordered[task.key] = task

    for task in tasks:
        visit(task)
    return list(ordered.values())


@functools.cache
def code_version(*extra: Path, packages: tuple[str, ...] = NUMERICAL) -> str:
    """A digest of the code that numbers depend on: the packages, `extra` files, and the libraries below them.

    Example:
        >>> from limitlaw.experiments import NUMERICAL, code_version
        >>> code_version() == code_version(packages=NUMERICAL), code_version() == code_version(packages=("slr",))
        (True, False)
    """
    files = [
        path
        for name in packages
        for path in sorted((_PACKAGE / name).rglob("*.py") if (_PACKAGE / name).is_dir() else [_PACKAGE / name])
    ]
    parts = [path.read_bytes() for path in (*files, *extra) if path.is_file()]
    libraries = [f"{name} {version(name)}".encode() for name in _LIBRARIES]
    return _digest(b"\0".join(parts + libraries))[:16]


@functools.cache
def _source_of(function: Callable[..., Any]) -> Path:
    return Path(inspect.getsourcefile(inspect.unwrap(function)) or "")


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
