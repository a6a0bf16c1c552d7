"""Heads of a fixed dimension in a network of infinite width, against infinite heads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..experiments import Task
from ..numerics import Estimate
from . import _depth as deep
from ._figure import Figure, Load, Table
from ._settings import Settings
from ._style import COLOURS, LIMIT, MARKERS, powers_of_ten, style, two_panels

if TYPE_CHECKING:
    import xarray as xr

_HEAD_DIMS = (2, 4, 16, 64, 256, None)  # None is infinite
_LAYERS = 4
_SETTINGS = {"correlated": (2.0, deep.CORRELATION), "orthogonal": (1.0, 0.0)}
_LABELS = {"correlated": "one layer, K = 0.3^|i−j|, β = 2", "orthogonal": "one layer, K = I, β = 1"}


@dataclass(frozen=True, kw_only=True)
class HeadsFigure(Figure):
    """Variance and kurtosis of the last token against the head dimension: of one layer exactly, of a stack of four from draws."""

    paper: str = "deep"

    def _layers(self) -> list[list[Task]]:
        return [[deep.layer(*given, dim) for dim in _HEAD_DIMS] for given in _SETTINGS.values()]

    def _stacks(self, settings: Settings) -> list[Task]:
        beta, correlation = _SETTINGS["correlated"]
        return [deep.stack(settings, "attention", beta, correlation=correlation, head_dim=dim) for dim in _HEAD_DIMS]

    def tasks(self, settings: Settings) -> list[Task]:
        return [*self._stacks(settings), *(task for row in self._layers() for task in row)]

    def dataset(self, settings: Settings, load: Load) -> xr.Dataset:
        import xarray as xr

        stacks = [load(task) for task in self._stacks(settings)]
        layers = [[load(task) for task in row] for row in self._layers()]
        samples = self._stacks(settings)[0].settings["samples"]
        return xr.Dataset(
            {
                f"layer_{name}": (("tokens", "head_dim", "statistic"), np.array([[at[name] for at in row] for row in layers]))
                for name in ("variance", "kurtosis")
            }
            | {
                f"stack_{name}": (("head_dim", "layers", "statistic"), np.array([at[name][1 : _LAYERS + 1] for at in stacks]))
                for name in ("variance", "kurtosis")
            },
            coords={
                "tokens": list(_SETTINGS),
                "head_dim": [float(dim or np.inf) for dim in _HEAD_DIMS],
                "layers": np.arange(1, _LAYERS + 1),
                "statistic": ["value", "stderr"],
            },
            attrs={"samples": samples, "heads": deep.HEADS},
        )  # fmt: skip

    def draw(self, data: xr.Dataset) -> Any:
        dims = data["head_dim"].values[:-1]
        fine = np.geomspace(dims[0], dims[-1], 100)
        with style():
            figure, left, right = two_panels(2.8)
            figure.subplots_adjust(top=0.8)
            for axes, name in ((left, "variance"), (right, "kurtosis")):
                for i, tokens in enumerate(_SETTINGS):
                    exact = data[f"layer_{name}"].sel(tokens=tokens, statistic="value")
                    axes.plot(
                        fine, _between(exact, fine), color=COLOURS[i], linewidth=1, label=f"{_LABELS[tokens]}, exact"
                    )
                    axes.axhline(float(exact[-1]), color=COLOURS[i], linestyle="--", linewidth=0.8)
                for i, layers in ((0, 1), (2, _LAYERS)):
                    value, error = data[f"stack_{name}"].sel(layers=layers).values.T
                    label = (
                        f"{'one layer' if layers == 1 else f'{layers} layers'}, K = 0.3^|i−j|, β = 2, drawn (± 2 s.e.)"
                    )
                    look = {"color": COLOURS[i], "markersize": 3, "elinewidth": 0.8, "capsize": 1.5}
                    axes.errorbar(dims, value[:-1], 2 * error[:-1], fmt=MARKERS[i], label=label, **look)
                    if layers > 1:
                        axes.axhline(value[-1], color=COLOURS[i], linestyle="--", linewidth=0.8)
                axes.set_xscale("log", base=2)
                axes.set_xticks(dims, [f"{dim:.0f}" for dim in dims])
                axes.set_xlabel("head dimension d")
            right.plot(
                fine, _equal_tokens(data, fine), color=COLOURS[2], linewidth=0.8, label=f"{_LAYERS} layers, predicted"
            )
            right.set_yscale("log")
            right.yaxis.set_major_formatter(powers_of_ten)
            left.set_ylabel("variance of a read-out")
            right.set_ylabel("excess kurtosis of a read-out")
            left.set_ylim(0.33, 0.68)
            right.plot([], [], "--", color=LIMIT, linewidth=0.8, label="d = ∞")
            for axes in (left, right):
                axes.minorticks_off()
            figure.legend(*right.get_legend_handles_labels(), loc="upper center", ncols=3, columnspacing=1.2)
        return figure

    def table(self, data: xr.Dataset) -> Table:
        rows = []
        for i, dim in enumerate(data["head_dim"].values):
            at = data.isel(head_dim=i)
            exact = [
                _exactly(*at[f"layer_{name}"].sel(tokens=tokens).values)
                for tokens in _SETTINGS
                for name in ("variance", "kurtosis")
            ]
            drawn = [
                str(Estimate(*at[f"stack_{name}"].sel(layers=layers).values))
                for layers in (1, _LAYERS)
                for name in ("variance", "kurtosis")
            ]
            rows.append(("∞" if np.isinf(dim) else f"{dim:.0f}", *exact, *drawn, f"{_equal_tokens(data, dim):.4g}"))
        labels = [_LABELS[tokens] for tokens in _SETTINGS] + ["one layer, drawn", f"{_LAYERS} layers, drawn"]
        header = [f"{name}, {label}" for label in labels for name in ("variance", "kurtosis")]
        return Table(("d", *header, f"kurtosis, {_LAYERS} layers, predicted"), tuple(rows))

    def finding(self, data: xr.Dataset) -> str:
        variance, kurtosis = (
            data[f"layer_{name}"].sel(tokens="correlated", statistic="value") for name in ("variance", "kurtosis")
        )
        orthogonal = data["layer_variance"].sel(tokens="orthogonal", statistic="value")
        stack = data["stack_kurtosis"].sel(layers=_LAYERS)
        drawn = data["stack_kurtosis"].sel(layers=1).values.T
        worst = float(np.max(np.abs(drawn[0] - kurtosis.values) / drawn[1]))
        small, usual = 4, 64
        gap = np.abs(stack.values[:-1, 0] - _equal_tokens(data, data["head_dim"].values[:-1])) / stack.values[:-1, 1]
        return (
            f"The limit of the theorem lets heads grow with the width. Heads of a fixed dimension d are different: their scores have a random temperature χ²(d)/d and their values a Wishart matrix, so that a single layer has excess "
            f"kurtosis (3/H)[(1 + 2/d)(1 + cv²) − 1], cv² the relative variance of πᵀKπ. At d = {small} it is {float(kurtosis.sel(head_dim=small)):.3f}, at the usual d = {usual} still {float(kurtosis.sel(head_dim=usual)):.4f}, "
            f"against {float(kurtosis[-1]):.4f} at d = ∞; draws agree with it to {worst:.1f} standard errors at worst. The variance is lower by {_lower(variance, small)} at d = {small} and {_lower(variance, usual)} at d = {usual} "
            f"(orthogonal tokens, β = 1: {float(orthogonal.sel(head_dim=small)):.5f} and {float(orthogonal.sel(head_dim=usual)):.5f}, against {float(orthogonal[-1]):.5f}). In a stack the Wishart matrices multiply: after {_LAYERS} "
            f"layers the kurtosis is {float(stack.sel(head_dim=small)[0]):.2f} at d = {small} and {float(stack.sel(head_dim=usual)[0]):.3f} at d = {usual}, against {float(stack[-1, 0]):.4f} at d = ∞; "
            f"(1 + 2/(H d))^{_LAYERS}, which supposes equal tokens, is right to {gap.max():.1f} standard errors at worst."
        )

    def setup(self, data: xr.Dataset) -> str:
        return (
            f"Infinite width, {deep.TOKENS} tokens, H = {deep.HEADS} heads, last token, no skips, no norms. One layer: scores integrated by quadrature, or Sobol points (errors below 10⁻⁴), and lines drawn through the values as polynomials in 1/d. Stacks: {data.attrs['samples']:,} networks "
            f"for each head dimension."
        )


def _between(exact: xr.DataArray, dims: np.ndarray) -> np.ndarray:
    """Between head dimensions: what is exact is smooth in 1/d, and a polynomial through its values is right to 0.03%."""
    from scipy.interpolate import BarycentricInterpolator  # slow to import

    return BarycentricInterpolator(1 / exact["head_dim"].values, exact.values)(1 / dims)


def _equal_tokens(data: xr.Dataset, dims: Any) -> Any:
    """The kurtosis of the stack, if each layer multiplied the variance of equal tokens by an average of `H d` squared normals."""
    limit = float(data["stack_kurtosis"].sel(layers=_LAYERS, statistic="value")[-1])
    return 3 * ((1 + 2 / (data.attrs["heads"] * dims)) ** _LAYERS * (1 + limit / 3) - 1)


def _exactly(value: float, stderr: float) -> str:
    return str(Estimate(value, stderr)) if stderr else f"{value:.6f}"


def _lower(variance: xr.DataArray, dim: int) -> str:
    return f"{100 * (1 - float(variance.sel(head_dim=dim) / variance[-1])):.2g}%"


FIGURE = HeadsFigure(
    name="deep_heads",
    title="Depth: heads of a fixed dimension",
    claim="Low-rank heads are compared with the limit in which the head dimension grows too (figure 3 of the attention paper).",
)
