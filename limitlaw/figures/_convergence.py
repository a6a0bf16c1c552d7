"""The paper's layer at growing width against its limit: variance and excess kurtosis of the output."""

from dataclasses import dataclass
from math import inf
from pathlib import Path

import numpy as np

from ..networks import Attention, Inputs, Network
from ..numerics import Estimate, clip


@dataclass(frozen=True)
class Settings:
    """Section 5 of the paper: four tokens `clip(W_i h)`, two heads, all stds 1; token 1 of the output."""

    tokens: int = 4
    heads: int = 2
    widths: tuple[int, ...] = (16, 64, 256, 1024)
    draws: int = 2**22
    seed: int = 0

    @property
    def network(self) -> Network:
        return Network(Inputs(self.tokens, clip(100.0)), Attention(heads=self.heads))


@dataclass(frozen=True)
class Row:
    """One width."""

    width: int | float
    var: Estimate
    kurtosis: Estimate


def compute(settings: Settings) -> list[Row]:
    """The moments at every width and, last, in the limit; independent draws for each."""
    rows = []
    for i, width in enumerate((*settings.widths, inf)):
        law = settings.network.law(width=width, samples=settings.draws, seed=settings.seed + i)
        rows.append(Row(width, law.var(), law.kurtosis()))
    return rows


def table(rows: list[Row]) -> str:
    """The moments, and how far they are from the limit."""
    limit = rows[-1]
    lines = [
        f"{'width':>6}  {'variance':>20}  {'excess kurtosis':>20}  {'n x variance gap':>20}  {'n x kurtosis gap':>20}"
    ]
    for row in rows:
        gaps = (
            []
            if row is limit
            else [_scaled_gap(row.width, row.var, limit.var), _scaled_gap(row.width, row.kurtosis, limit.kurtosis)]
        )
        cells = [str(row.var), str(row.kurtosis), *map(str, gaps)]
        lines.append(f"{row.width:>6}  " + "  ".join(f"{cell:>20}" for cell in cells))
    return "\n".join(lines)


def _scaled_gap(width: int | float, value: Estimate, limit: Estimate) -> Estimate:
    return Estimate(width * (value - limit), width * float(np.hypot(value.stderr, limit.stderr)))


def draw(rows: list[Row], out: Path) -> list[Path]:
    """Two panels, each moment against the width with the limit as a line; as PDF and PNG."""
    import matplotlib.pyplot as plt

    from ._style import COLOURS, COLUMN, LIMIT, style

    *finite, limit = rows
    widths = [row.width for row in finite]
    with style():
        figure, axes = plt.subplots(1, 2, figsize=(2 * COLUMN, 2.3), layout="constrained")
        for axis, name, label in zip(
            axes, ("var", "kurtosis"), ("variance of the output", "excess kurtosis of the output"), strict=True
        ):
            values = [getattr(row, name) for row in finite]
            axis.axhline(getattr(limit, name), color=LIMIT, linestyle="--", label="limit, n = ∞")
            axis.errorbar(
                widths,
                values,
                [2 * v.stderr for v in values],
                fmt="o",
                markersize=4,
                capsize=2,
                color=COLOURS[0],
                label="width n (± 2 s.e.)",
            )
            axis.set_xscale("log", base=4)
            axis.set_xticks(widths, [str(n) for n in widths])
            axis.minorticks_off()
            axis.set_xlabel("width n")
            axis.set_ylabel(label)
        axes[1].set_yscale("log")
        axes[1].set_yticks([0.1, 0.2, 0.5, 1, 2], ["0.1", "0.2", "0.5", "1", "2"])
        axes[1].minorticks_off()
        axes[0].legend()
        paths = [out / f"convergence.{kind}" for kind in ("pdf", "png")]
        for path in paths:
            figure.savefig(path)
        plt.close(figure)
    return paths
