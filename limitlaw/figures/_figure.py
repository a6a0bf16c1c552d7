"""What a figure is: settings, what to compute, and how to draw and read it."""

from __future__ import annotations

import abc
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..experiments import Result, Task
from ..numerics import Estimate
from ._settings import Settings
from ._style import power_of_ten

if TYPE_CHECKING:
    import xarray as xr

Load = Callable[[Task], Result]


@dataclass(frozen=True)
class Table:
    """A small table: a header, and rows of text.

    Example:
        >>> from limitlaw.figures import Table
        >>> table = Table(("width", "KL"), (("64", "0.00073"), ("128", "0.00018")))
        >>> dict(zip(table.header, table.rows[1], strict=True))
        {'width': '128', 'KL': '0.00018'}
    """

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def as_data(self) -> list[list[str]]:
        """Header and rows as programs read them: numbers without ornament, and a column of its own for standard errors.

        Example:
            >>> from limitlaw.figures import Table
            >>> Table(("tokens", "KL"), (("1,267", "1.04e-5 ± 2e-7"), ("∞", "5.8 × 10⁻⁴"))).as_data()
            [['tokens', 'KL', 'KL, stderr'], ['1267', '1.04e-5', '2e-7'], ['inf', '5.8e-4', '']]
        """
        columns = []
        for name, *cells in zip(self.header, *self.rows, strict=True):
            parts = [[_as_number(part) for part in cell.split(" ± ")] for cell in cells]
            columns.append([name, *(value for value, *_ in parts)])
            if any(len(part) > 1 for part in parts):
                columns.append([f"{name}, stderr", *(part[1] if len(part) > 1 else "" for part in parts)])
        return [list(row) for row in zip(*columns, strict=True)]


_POWER = re.compile(r"(?:(.+) × )?10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)")
_RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def _as_number(text: str) -> str:
    """A number as programs write it; any other text as it is."""
    plain = text.replace("−", "-").replace("∞", "inf")
    if power := _POWER.fullmatch(plain):
        plain = f"{power[1] or 1}e{power[2].translate(_RAISED)}"
    share = plain.removesuffix("%")
    plain = plain.replace(",", "") if share == plain else f"{share}e-2"
    try:
        float(plain)
    except ValueError:
        return text
    return plain


@dataclass(frozen=True, kw_only=True)
class Figure(abc.ABC):
    """A figure of the paper, in four steps that follow one another and nothing else.

    `tasks(settings)` says what to compute, `dataset` collects the results as labelled arrays, and from those alone `draw` makes the
    picture, `table` the numbers and `finding` the sentence that a reader should take away. `claim` is what the paper says.

    Example:
        >>> from limitlaw.figures import FIGURES, Settings
        >>> figure, settings = FIGURES["slr_landscape"], Settings(points=4)
        >>> results = {task.key: task.run() for task in figure.tasks(settings)}
        >>> data = figure.dataset(settings, lambda task: results[task.key])
        >>> [row[:2] for row in figure.table(data).rows]
        [('(-1, -1)', 'saddle'), ('(1, -1)', 'source'), ('(-1, 1)', 'saddle'), ('(1, 1)', 'sink')]
    """

    name: str
    title: str
    claim: str
    paper: str = "attention"

    @abc.abstractmethod
    def tasks(self, settings: Settings) -> list[Task]:
        """What must be computed."""

    @abc.abstractmethod
    def dataset(self, settings: Settings, load: Load) -> xr.Dataset:
        """The results, labelled."""

    @abc.abstractmethod
    def draw(self, data: xr.Dataset) -> Any:
        """The picture, a matplotlib figure."""

    @abc.abstractmethod
    def table(self, data: xr.Dataset) -> Table:
        """The numbers."""

    @abc.abstractmethod
    def finding(self, data: xr.Dataset) -> str:
        """What we find, in words."""

    @abc.abstractmethod
    def setup(self, data: xr.Dataset) -> str:
        """The experiment in one sentence, with all its settings."""


def as_stored(result: Result, name: str) -> np.ndarray:
    """Value, standard error and degrees of freedom of what was measured under a name."""
    return np.array([result[name], result[f"{name}_stderr"], result[f"{name}_dof"]])


def estimate(values: Any) -> Estimate:
    """Value, standard error and degrees of freedom, as stored."""
    value, stderr, dof = (float(v) for v in np.asarray(values))
    return Estimate(value, stderr, dof)


def show(value: Estimate) -> str:
    """With its error, if it has one."""
    return str(value) if value.stderr else f"{float(value):.4g}"


def times(value: float) -> str:
    """A number for a sentence: 1.04 × 10⁻⁵."""
    if value == 0 or 1e-3 <= abs(value) < 1e4:
        return f"{value:.3g}"
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{mantissa} × {power_of_ten(int(exponent))}"
