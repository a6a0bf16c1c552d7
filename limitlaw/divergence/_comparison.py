"""Two laws side by side."""

import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import _html
from ..laws import Empirical, Law
from ..numerics import Estimate, jackknife
from ._distances import energy, kl, ks, tv, wasserstein
from ._pair import ResolutionWarning, as_laws

_QUANTILES = (0.9, 0.99, 0.999)
_TAILS = (2, 3, 4)


@dataclass(frozen=True)
class Comparison:
    """Moments, quantiles, tails and distances of two laws or samples.

    `print` shows a table, a rich console a coloured one, a notebook one in HTML. `rows` maps what is compared to its two
    values; `distances` to `Estimate`s, `unresolved` to the names of those that the draws cannot tell from 0; `laws` are the two.
    """

    names: tuple[str, str]
    rows: dict[str, tuple[Estimate, Estimate]]
    distances: dict[str, Estimate]
    laws: tuple[Law, Law]
    unresolved: frozenset[str] = field(default_factory=frozenset)

    def table(self) -> list[tuple[str, str, str, str]]:
        """What is compared, the two values, and their ratio, as text."""
        lines = []
        for what, (first, second) in self.rows.items():
            ratio = f"{first / second:.4g}" if second and np.isfinite(first / second) and abs(second) > 1e-12 else ""
            lines.append((what, _show(first), _show(second), ratio))
        return lines

    def distance_lines(self) -> list[tuple[str, str, str]]:
        """Each distance, its value, and a remark."""
        return [
            (name, _show(value), "not resolved by these draws" if name in self.unresolved else "")
            for name, value in self.distances.items()
        ]

    def __rich__(self) -> Any:
        from rich import box
        from rich.console import Group
        from rich.table import Table

        moments = Table("", *self.names, "ratio", box=box.SIMPLE_HEAD, pad_edge=False)
        for column in moments.columns[1:]:
            column.justify = "right"
        for line in self.table():
            moments.add_row(*line)
        distances = Table("distance", "value", "", box=box.SIMPLE_HEAD, pad_edge=False)
        distances.columns[1].justify = "right"
        for line in self.distance_lines():
            distances.add_row(*line)
        return Group(moments, distances)

    def __str__(self) -> str:
        from rich.console import Console

        text = io.StringIO()
        Console(file=text, width=100, color_system=None, legacy_windows=False, force_jupyter=False).print(self)
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines()).strip("\n")

    __repr__ = __str__

    def plot(self, ax: Any = None, *, kind: str = "pdf") -> Any:
        """Draw both laws on matplotlib axes (the current ones unless given) and return them; `kind` as for `Law.plot`.

        !!! Example

            >>> import matplotlib
            >>> matplotlib.use("agg")
            >>> import limitlaw as ll
            >>> axes = ll.compare(ll.laws.Gaussian(var=1.1), ll.laws.Gaussian(var=1.0), names=("wide", "standard")).plot(kind="ccdf")
            >>> [line.get_label() for line in axes.lines]
            ['wide', 'standard']
        """
        for name, law in zip(self.names, self.laws, strict=True):
            ax = law.plot(ax, kind=kind, label=name)
        ax.legend()
        return ax

    def _repr_html_(self) -> str:
        moments = _html.table(("", *self.names, "ratio"), self.table())
        return moments + _html.table(("distance", "value", ""), self.distance_lines())


def compare(p: Any, q: Any, /, *, names: tuple[str, str] | None = None) -> Comparison:
    """Two laws or samples side by side: moments, quantiles, tail probabilities, and every distance that can be had, with errors.

    Tails are beyond 2, 3 and 4 standard deviations of the second law. Of raw samples, kl and tv are left out: they depend on how a
    density is estimated (see `kl`).

    !!! Example

        >>> import limitlaw as ll
        >>> c = ll.compare(ll.laws.Gaussian(var=1.1), ll.laws.Gaussian(var=1.0), names=("wide", "standard"))
        >>> print(f"{c.distances['KL']:.6f}")
        0.002345
        >>> print(str(c).splitlines()[3].strip())
        variance            1.1          1     1.1
    """
    compared = as_laws(p, q)
    laws = [given if isinstance(given, Law) else law for given, law in zip((p, q), compared, strict=True)]
    if names is None:
        names = laws[0].name, laws[1].name
        if names[0] == names[1]:
            names = f"{names[0]} (p)", f"{names[1]} (q)"
    if not isinstance(names, tuple | list) or len(names) != 2:
        raise ValueError(f"names={names!r}: give two names.")
    rows: dict[str, tuple[Estimate, Estimate]] = {}

    def add(what: str, value: Callable[[Law], Any]) -> None:
        first, second = (value(law) for law in laws)
        rows[what] = first, second

    add("mean", lambda law: law.mean())
    add("variance", lambda law: law.var())
    add("skewness", lambda law: law.skewness())
    add("excess kurtosis", lambda law: law.kurtosis())
    for level in _QUANTILES:
        add(f"quantile {level:g}", lambda law, level=level: _quantile(law, level))
    centre, scale = float(laws[1].mean()), float(laws[1].std())
    for reach in _TAILS:
        add(f"P(|y| > {reach} sd)", lambda law, reach=reach: _outside(law, centre, reach * scale))
    distances, unresolved = {}, set()
    raw = any(isinstance(law, Empirical) for law in compared)
    for name, metric in (
        ("KL", None if raw else kl),
        ("reverse KL", None if raw else lambda p, q: kl(q, p)),
        ("TV", None if raw else tv),
        ("KS", ks),
        ("W1", wasserstein),
        ("W2", lambda p, q: wasserstein(p, q, p=2)),
        ("energy", energy),
    ):
        if metric is None:
            continue
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ResolutionWarning)
            distances[name] = metric(*compared)
        if any(issubclass(warning.category, ResolutionWarning) for warning in caught):
            unresolved.add(name)
    return Comparison((str(names[0]), str(names[1])), rows, distances, (laws[0], laws[1]), frozenset(unresolved))


def _quantile(law: Law, level: float) -> Estimate:
    error = 0.0 if isinstance(law, Empirical) and not np.ptp(law.samples) else float(law.error("icdf", level))
    return Estimate(float(law.icdf(level)), error)


def _outside(law: Law, centre: float, reach: float) -> Estimate:
    """`P(|y - centre| > reach)`."""
    x = np.array([centre - reach, centre + reach])
    value = float(law.cdf(x[0]) + law.ccdf(x[1]))
    rows = law.left_out("cdf", x)
    return jackknife(value, rows[:, 0] + 1 - rows[:, 1], corrected=False)


def _show(value: float) -> str:
    return str(value) if getattr(value, "stderr", 0.0) else f"{float(value):.6g}"
