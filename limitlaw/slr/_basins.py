"""Basins: the starts from which descent learns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from .._checks import finite_array
from .._format import Column, Table
from ._arguments import positive
from ._descent import descent
from ._tabular import Tabular

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr
    from matplotlib.axes import Axes

    from ._problem import Problem

_POINTS = 19  # along an axis unless given


@dataclass(frozen=True, repr=False)
class BasinMap(Tabular):
    """The starts `(mu, nu)`, with `eta = zeta = rho = 0`, from which descent learns, and when.

    Attributes:
        mu: `u . u_*` of the starts.
        nu: `v . v_*` of the starts.
        learned_at: The step at which the risk is first below `level`, NaN if it never is, of shape (nu, mu).
        final_risk: The risk at the last step, of shape (nu, mu).
        level: The risk below which a start has learned.
        steps: The number of steps.
        method: "exact" or "mean-field".

    Example:
        >>> from limitlaw import slr
        >>> basins = slr.basins(slr.Problem(dim=100, tokens=20), [-0.5, 0.5], [0.5], steps=500)
        >>> basins.learned_fraction, (basins.final_risk < basins.level).tolist()
        (0.5, [[False, True]])
    """

    mu: np.ndarray
    nu: np.ndarray
    learned_at: np.ndarray
    final_risk: np.ndarray
    level: float
    steps: int
    method: str

    @property
    def learned_fraction(self) -> float:
        """The fraction of the starts that learn."""
        return float(np.isfinite(self.learned_at).mean())

    def table(self) -> Table:
        """How many starts learn, when, and the final risks of those and of the others."""
        learn = np.isfinite(self.learned_at)
        title = (
            f"{learn.size} starts, μ₀ from {self.mu.min():.4g} to {self.mu.max():.4g}, "
            f"ν₀ from {self.nu.min():.4g} to {self.nu.max():.4g}: {learn.sum()} ({self.learned_fraction:.1%}) "
            f"have a risk below {self.level:g} within {self.steps} steps, {self.method}"
        )
        spreads = {
            "step at which they learn": self.learned_at[learn],
            "their final risk": self.final_risk[learn],
            "final risk of the others": self.final_risk[~learn],
        }
        rows = [(name, *np.quantile(x, [0.0, 0.5, 1.0])) for name, x in spreads.items() if x.size]
        header = (Column(name, digits=4, one_quantity=False) for name in ("lowest", "median", "highest"))
        return Table(("", *header), rows, title=title)

    def to_xarray(self) -> xr.Dataset:
        """`learned_at` and `final_risk` with named axes."""
        import xarray as xr

        return xr.Dataset(
            {name: (("nu", "mu"), getattr(self, name)) for name in ("learned_at", "final_risk")},
            coords={"mu": self.mu, "nu": self.nu},
            attrs={"level": self.level, "steps": self.steps, "method": self.method},
        )

    def to_pandas(self) -> pd.DataFrame:
        """A row for each start."""
        return self.to_xarray().to_dataframe().reset_index()

    def plot(self, ax: Axes | None = None, *, colorbar: bool = True, **style: object) -> Axes:
        """Plot the step at which each start learns; starts that never learn are hatched.

        Args:
            ax: The matplotlib axes, by default the current ones.
            colorbar: Whether to add a colour bar.
            **style: Passed to `Axes.pcolormesh`.

        Returns:
            The axes.
        """
        import matplotlib.pyplot as plt

        axes = plt.gca() if ax is None else ax
        axes.patch.set(facecolor="white", edgecolor="#999999", hatch="////")  # no colour of the map
        look: dict = {"cmap": "cividis_r", "shading": "nearest", "vmin": 0, "vmax": self.steps, **style}
        mesh = axes.pcolormesh(self.mu, self.nu, self.learned_at, **look)
        axes.set_xlabel("start μ₀")
        axes.set_ylabel("start ν₀")
        if colorbar:
            axes.figure.colorbar(mesh, ax=axes, label=f"step at which the risk is below {self.level:g}")
        return axes


def basins(
    problem: Problem,
    mu: ArrayLike | None = None,
    nu: ArrayLike | None = None,
    *,
    steps: int = 2000,
    step_size: float = 0.01,
    level: float = 0.01,
    method: str = "exact",
    alpha: float | None = None,
    every: int = 20,
    progress: bool = True,
) -> BasinMap:
    """Find the starts `(mu, nu)`, with `eta = zeta = rho = 0`, from which descent reaches a risk below `level`.

    The paper claims that no special start is needed. The exact dynamics stall where the signal's score is lost among
    the others, since gradients are exponentially small there.

    Args:
        problem: The problem.
        mu: Values of `u . u_*`, by default 19 from -0.9 to 0.9.
        nu: Values of `v . v_*`, likewise.
        steps: As for `descent`.
        step_size: As for `descent`.
        level: The risk below which a start has learned.
        method: "exact" or "mean-field".
        alpha: Replaces `log L / d` in the mean field.
        every: The number of steps between two comparisons of the risk with `level`.
        progress: Whether to show a progress bar, on a terminal or in a notebook, after two seconds.

    Returns:
        The map, which prints as a table and plots.

    Raises:
        ArgumentError: If an argument is out of its range, or the records do not fit into 2 GiB.

    Example:
        >>> from limitlaw import slr
        >>> slr.basins(slr.Problem(dim=100, tokens=20), [-0.5, 0.5], [0.5], steps=500).learned_at
        array([[ nan, 220.]])
    """
    default = np.linspace(-0.9, 0.9, _POINTS)
    mu, nu = (default if values is None else finite_array(name, values, 1) for name, values in (("mu", mu), ("nu", nu)))
    level = positive("level", level)
    grid = np.stack(np.broadcast_arrays(mu[None, :], nu[:, None], 0.0, 0.0, 0.0), axis=-1).reshape(-1, 5)
    run = descent(problem, steps, step_size, grid, method=method, alpha=alpha, every=every, progress=progress)
    below = run.risk < level
    learned = np.where(below.any(axis=1), run.at[np.argmax(below, axis=1)], np.nan)
    shape = nu.size, mu.size
    return BasinMap(mu, nu, learned.reshape(shape), run.risk[:, -1].reshape(shape), level, int(run.at[-1]), run.method)
