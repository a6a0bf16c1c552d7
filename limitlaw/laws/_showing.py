"""Plots of laws of one variable, and their HTML in notebooks."""

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _checks
from .._format import Column, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ._law import Law

_LABELS = {"pdf": "density", "logpdf": "log density", "cdf": "P(Y ≤ y)", "ccdf": "P(Y > y)"}
_IN_NOTEBOOK = 0.999  # probability of the interval on which a notebook shows the density


def plot_law(law: "Law", ax: "Axes | None", kind: str, x: Any, style: dict[str, Any]) -> "Axes":
    """See `Law.plot`."""
    import matplotlib.pyplot as plt

    _checks.one_of("kind", kind, _LABELS)
    axes = plt.gca() if ax is None else ax
    if x is None:
        low, high = law.interval(1 - (1e-4 if kind in ("pdf", "cdf") else 1e-8))
        x = np.linspace(low, high, 401)
    x = _checks.finite_array("x", x, 1)
    values, error = getattr(law, kind)(x), 2 * np.asarray(law.error(kind, x))
    (line,) = axes.plot(x, values, **{"label": law.name, **style})
    if error.any():
        axes.fill_between(x, values - error, values + error, color=line.get_color(), alpha=0.25, linewidth=0)
    if kind == "ccdf":
        axes.set_yscale("log")
    axes.set_xlabel("output y")
    axes.set_ylabel(_LABELS[kind])
    return axes


def law_as_html(law: "Law") -> str:
    """A curve of the density over a table of moments and quantiles."""
    rows: list[tuple[str, float]] = [
        ("mean", law.mean()),
        ("variance", law.variance()),
        ("excess kurtosis", law.kurtosis()),
        *((f"quantile {level:g}", float(law.icdf(level))) for level in (0.9, 0.99, 0.999)),
    ]
    low, high = law.interval(_IN_NOTEBOOK)
    x = np.linspace(low, high, 120)  # an even number, so that 0, where a density may be infinite, is not among them
    curve = _curve(x, np.asarray(law.pdf(x)), f"density from {low:.3g} to {high:.3g}")
    return curve + Table((f"{type(law).__name__}: {law.name}", Column("", one_quantity=False)), rows).html()


def _curve(x: np.ndarray, y: np.ndarray, title: str) -> str:
    """A line without axes, in the colour of the text around it."""
    across, up = 240 * (x - x[0]) / (x[-1] - x[0]), 60 * (1 - y / y.max())
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(across, up, strict=True))
    return (
        f"<svg width='240' height='64' viewBox='0 -2 240 64' role='img' aria-label='{escape(title, quote=True)}'>"
        f"<polyline points='{points}' fill='none' stroke='currentColor' stroke-width='1.5'/></svg>"
    )
