"""Comparisons of two laws in tables."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, isinf
from typing import TYPE_CHECKING, Any

import numpy as np

from .._checks import ArgumentError, suggestion
from .._format import Column, Table, as_text
from ..laws import Empirical, Gaussian, Law
from ..numerics import Estimate, jackknife
from ._all import DISTANCES
from ._arguments import HasLaw, as_laws

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes
    from rich.console import ConsoleRenderable

_QUANTILES = (0.9, 0.99, 0.999)  # levels of the quantiles in the table
_TAILS = (2, 3, 4)  # starts of the tails in the table, in standard deviations of the second law
# A value below this is a rounding error of 0, so ratios to it are not shown.
_LEAST_DIVISOR = 1e-12


@dataclass(frozen=True, eq=False)
class Comparison:
    """Moments, quantiles, tails and distances of two laws or samples.

    It prints as tables, coloured in a rich console and as HTML in a notebook. `comparison["variance"]` is a pair of
    values, and `comparison["KL"]` is a distance. `to_pandas` and `to_xarray` return all numbers.

    Args:
        names: The names of the two laws.
        rows: The two values of each quantity, by its name.
        distances: The distances, by label.
        laws: The two laws.
        unresolved: The labels of distances that the draws do not distinguish from 0.
    """

    names: tuple[str, str]
    rows: Mapping[str, tuple[Estimate, Estimate]]
    distances: Mapping[str, Estimate]
    laws: tuple[Law, Law]
    unresolved: frozenset[str] = field(default_factory=frozenset)

    def __getitem__(self, name: str) -> tuple[Estimate, Estimate] | Estimate:
        """The two values of a quantity, or a distance.

        Raises:
            KeyError: If there is no quantity or distance of this name.
        """
        if name in self.rows:
            return self.rows[name]
        if name in self.distances:
            return self.distances[name]
        raise KeyError(f"{name!r} is not in this comparison. {suggestion(name, [*self.rows, *self.distances])}")

    def table(self) -> Table:
        """Each quantity, its two values, and their ratio."""
        values = (Column(name, one_quantity=False) for name in self.names)
        rows = [(name, first, second, _ratio(first, second)) for name, (first, second) in self.rows.items()]
        return Table(("", *values, Column("ratio", digits=4)), rows)

    def distance_table(self) -> Table:
        """Each distance, its value, and whether the draws resolve it."""
        remarks = ("not resolved by these draws" if name in self.unresolved else "" for name in self.distances)
        rows = [(*item, remark) for item, remark in zip(self.distances.items(), remarks, strict=True)]
        return Table(("distance", Column("value", one_quantity=False), ""), rows)

    def to_xarray(self) -> "xr.Dataset":
        """All numbers as an `xarray.Dataset`.

        Returns:
            `value`, `stderr` and `dof` over `quantity` and `law`, and `distance`, `distance_stderr`, `distance_dof` and
            `resolved` over `metric`.

        Example:
            >>> import limitlaw as ll
            >>> data = ll.compare(ll.laws.Gaussian(variance=1.1), ll.laws.Gaussian(variance=1.0)).to_xarray()
            >>> print(f"{float(data.distance.sel(metric='KL')):.6f}")
            0.002345
        """
        import xarray as xr

        pairs, distances = list(self.rows.values()), list(self.distances.values())
        data: dict[str, Any] = {}
        for name, of in (("value", float), ("stderr", _stderr), ("dof", _dof)):
            data[name] = ("quantity", "law"), np.array([[of(value) for value in pair] for pair in pairs])
            name = "distance" if name == "value" else f"distance_{name}"
            data[name] = "metric", np.array([of(value) for value in distances])
        data["resolved"] = "metric", [name not in self.unresolved for name in self.distances]
        coords = {"quantity": list(self.rows), "law": list(self.names), "metric": list(self.distances)}
        return xr.Dataset(data, coords)

    def to_pandas(self) -> "pd.DataFrame":
        """All numbers as a `pandas.DataFrame` with one number per row.

        Returns:
            Columns `value`, `stderr` and `dof`, indexed by `quantity` and by `of`, the name of a law or "distance".

        Example:
            >>> import limitlaw as ll
            >>> frame = ll.compare(
            ...     ll.laws.Gaussian(variance=1.1), ll.laws.Gaussian(variance=1.0), names=("wide", "standard")
            ... ).to_pandas()
            >>> frame.loc["variance", "value"].to_dict()
            {'wide': 1.1, 'standard': 1.0}
        """
        import pandas as pd

        numbers = {
            (quantity, name): value
            for quantity, pair in self.rows.items()
            for name, value in zip(self.names, pair, strict=True)
        }
        numbers |= {(label, "distance"): value for label, value in self.distances.items()}
        index = pd.MultiIndex.from_tuples(numbers, names=["quantity", "of"])
        columns = {"value": float, "stderr": _stderr, "dof": _dof}
        return pd.DataFrame({name: list(map(of, numbers.values())) for name, of in columns.items()}, index)

    def plot(self, ax: "Axes | None" = None, *, kind: str = "pdf") -> "Axes":
        """Plot both laws on matplotlib axes.

        Args:
            ax: The axes, by default the current ones.
            kind: As for `Law.plot`: "pdf", "logpdf", "cdf" or "ccdf".

        Returns:
            The axes.

        Example:
            >>> import matplotlib
            >>> matplotlib.use("agg")
            >>> import limitlaw as ll
            >>> wide, standard = ll.laws.Gaussian(variance=1.1), ll.laws.Gaussian(variance=1.0)
            >>> axes = ll.compare(wide, standard, names=("wide", "standard")).plot(kind="ccdf")
            >>> [line.get_label() for line in axes.lines]
            ['wide', 'standard']
        """
        first, second = self.laws
        axes = first.plot(ax, kind=kind, label=self.names[0])
        second.plot(axes, kind=kind, label=self.names[1])
        axes.legend()
        return axes

    def __rich__(self) -> "ConsoleRenderable":
        from rich.console import Group

        return Group(self.table(), "", self.distance_table())

    def __str__(self) -> str:
        return as_text(self.__rich__())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.table()._repr_html_() + self.distance_table()._repr_html_()


def compare(p: Any, q: Any, /, *, names: tuple[str, str] | None = None) -> Comparison:
    """Compare the moments, quantiles, tail probabilities and distances of two laws or samples, with errors.

    Tails begin at 2, 3 and 4 standard deviations of the second law. For samples, distances that need densities (`kl`
    and `tv`) are left out, because they depend on how the density is estimated.

    Args:
        p: A law, an array of samples, or a frozen distribution of `scipy.stats`.
        q: Another one.
        names: The names in tables and plots, by default those of the laws.

    Returns:
        The comparison, which prints as tables.

    Raises:
        ArgumentError: If an argument is not a law of one variable, or there are not two names.

    Example:
        >>> import limitlaw as ll
        >>> c = ll.compare(ll.laws.Gaussian(variance=1.1), ll.laws.Gaussian(variance=1.0), names=("wide", "standard"))
        >>> print(f"{c['KL']:.6f}")
        0.002345
        >>> print(str(c).splitlines()[3])
        variance           1.10000     1.00000 1.100
    """
    compared = as_laws(p, q)
    # A pushforward is compared by its draws, but its moments are exact.
    first, second = (given if isinstance(given, Law) else law for given, law in zip((p, q), compared, strict=True))
    if names is None:
        names = first.name, second.name
        if names[0] == names[1]:
            names = f"{names[0]} (p)", f"{names[1]} (q)"
    if not isinstance(names, tuple | list) or len(names) != 2:
        raise ArgumentError("names", f"names={names!r} must be two names, one for each law.")
    distances, unresolved = {}, set()
    sampled = any(isinstance(law, Empirical) for law in compared)
    for distance in DISTANCES.values():
        if sampled and distance.needs_densities:
            continue
        directions: dict[str, tuple[Law, Law]] = {distance.label: compared}
        if not distance.symmetric:
            directions[f"reverse {distance.label}"] = (compared[1], compared[0])
        for label, pair in directions.items():
            found = distance.measure(*pair)
            distances[label] = found.estimate
            if not found.resolved:
                unresolved.add(label)
    both = str(names[0]), str(names[1])
    return Comparison(both, _rows(first, second), distances, (first, second), frozenset(unresolved))


def compare_with_limit(
    network: HasLaw,
    *,
    width: int | float = inf,
    token: int = 0,
    seed: int = 0,
    samples: int | None = None,
    accuracy: float = 1e-4,
) -> Comparison:
    """The law of a token at a width beside its infinite-width limit.

    The limit itself is compared with the Gaussian of equal variance. So is a finite width of a network that has no
    limit, since a layer of it has no contracted rule.

    Args:
        network: The network.
        width: The width.
        token: The token.
        seed: The seed of the draws.
        samples: The number of draws; by default as many as `accuracy` needs.
        accuracy: As for `Network.law`.

    Returns:
        The comparison, the law at the width first.

    Raises:
        ArgumentError: If the network refuses an argument.

    Example:
        >>> import numpy as np, limitlaw as ll
        >>> from limitlaw.distances import compare_with_limit
        >>> net = ll.Network(ll.GramInputs(np.eye(2)), ll.Attention())
        >>> compare_with_limit(net, width=32, samples=1000).names, compare_with_limit(net).names
        (('width 32', 'limit'), ('limit', 'Gaussian'))
    """
    options: dict[str, Any] = {"token": token, "seed": seed, "samples": samples, "accuracy": accuracy}
    law = network.law(width=width, **options)
    other: Law = Gaussian(variance=law.variance(), name="Gaussian")
    if not isinf(width):
        try:
            other = network.law(width=inf, **options)
        except ArgumentError as error:
            if error.argument != "matrices":  # what a layer without a contracted rule refuses at infinite width
                raise
    return compare(law, other)


def _rows(first: Law, second: Law) -> dict[str, tuple[Estimate, Estimate]]:
    centre, scale = float(second.mean()), float(second.standard_deviation())
    quantities = {
        "mean": lambda law: law.mean(),
        "variance": lambda law: law.variance(),
        "skewness": lambda law: law.skewness(),
        "excess kurtosis": lambda law: law.kurtosis(),
    }
    for level in _QUANTILES:
        quantities[f"quantile {level:g}"] = lambda law, level=level: _quantile(law, level)
    for reach in _TAILS:
        quantities[f"P(|y| > {reach} sd)"] = lambda law, reach=reach: _outside(law, centre, reach * scale)
    return {name: (value(first), value(second)) for name, value in quantities.items()}


def _quantile(law: Law, level: float) -> Estimate:
    # The error of a quantile needs a density, which equal samples do not have. Their quantiles do not vary.
    error = 0.0 if isinstance(law, Empirical) and not np.ptp(law.samples) else float(law.error("icdf", level))
    return Estimate(float(law.icdf(level)), error)


def _outside(law: Law, centre: float, reach: float) -> Estimate:
    """`P(|y - centre| > reach)`."""
    x = np.array([centre - reach, centre + reach])
    value = float(law.cdf(x[0]) + law.ccdf(x[1]))
    rows = law.leave_one_batch_out("cdf", x)
    return jackknife(value, rows[:, 0] + 1 - rows[:, 1], corrected=False)


def _ratio(first: float, second: float) -> float | None:
    if abs(second) <= _LEAST_DIVISOR or not np.isfinite(float(first) / float(second)):
        return None
    return float(first) / float(second)


def _stderr(value: Estimate) -> float:
    return value.stderr


def _dof(value: Estimate) -> float:
    return value.dof
