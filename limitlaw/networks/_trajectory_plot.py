"""Plots of a trajectory."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .trajectory import Trajectory

_LABELS = {
    "variance": "variance of a coordinate",
    "kurtosis": "excess kurtosis of a read-out",
    "cosine": "cosine between tokens",
    "effective_rank": "effective rank",
    "entropy": "attention entropy (nats)",
    "quantile_ratio": "0.999 quantile / Gaussian's",
}
_OF_TOKENS = ("variance", "kurtosis", "entropy", "quantile_ratio")  # a line for each token
_MOST_LINES = 6  # tokens in a panel: more colours are hard to distinguish


def plot(t: "Trajectory", names: tuple[str, ...]) -> Any:
    """A figure with a panel for each observable against the block, and one legend of tokens for all panels."""
    from .._picture import Figure

    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(3.2 * columns, 2.5 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for axis, name in zip(axes, names, strict=False):
        plot_one(axis, t, name)
        axis.xaxis.label.set_size(8)
        axis.yaxis.label.set_size(8)
        axis.tick_params(labelsize=7)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[len(names) :]:
        axis.set_visible(False)
    of_tokens = next((axis for axis, name in zip(axes, names, strict=False) if name in _OF_TOKENS), None)
    if of_tokens is not None:
        lines, labels = of_tokens.get_legend_handles_labels()
        figure.legend(lines, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=7)
    return figure


def plot_one(axis: Any, t: "Trajectory", name: str) -> None:
    """Plot one observable against the block on given axes."""
    from matplotlib.ticker import MaxNLocator

    _plot(axis, t, name)
    axis.set_xlabel("block")
    axis.set_ylabel(_LABELS[name])
    axis.xaxis.set_major_locator(MaxNLocator(integer=True))


def _plot(axis: Any, t: "Trajectory", name: str) -> None:
    depth = np.arange(t.blocks + 1)
    if name == "cosine":
        value, error = t.summary()["cosine"]
        axis.errorbar(depth, value, error, label="mean over pairs", color="#222222")
        spread = [t.cosine[:, i, j] for i in range(t.tokens) for j in range(i)]
        if spread:
            axis.fill_between(
                depth,
                np.min(spread, axis=0),
                np.max(spread, axis=0),
                color="#0072B2",
                alpha=0.2,
                lw=0,
                label="all pairs",
            )
        axis.legend(frameon=False, fontsize=7)
        return
    if name == "effective_rank":
        axis.errorbar(depth, t.effective_rank, t.error(name), color="#222222")
        axis.set_ylim(0.9, None)
        return
    if name == "entropy":
        counted = np.array(t.visible_keys) > 0  # layers have no entropy for tokens on which they do not act
        for token in _chosen(t.tokens):
            acts = counted[:, token]
            value = [np.nanmean(entropy) for entropy in t.entropy[acts][:, :, token]]
            blocks = np.array(t.attention_blocks)[acts]
            axis.plot(blocks, value, marker=".", color=_colour(token, t.tokens), label=f"token {token}")
        return
    value = t.quantile_ratio() if name == "quantile_ratio" else getattr(t, name)
    error = t.error(name)
    for token in _chosen(t.tokens):
        axis.errorbar(depth, value[:, token], error[:, token], color=_colour(token, t.tokens), label=f"token {token}")
    if name == "variance" and value.max() > 20 * max(value.min(), 1e-300):
        axis.set_yscale("log")


def _chosen(tokens: int) -> list[int]:
    """A few evenly spaced tokens, including the first and the last."""
    return sorted({int(t) for t in np.linspace(0, tokens - 1, min(tokens, _MOST_LINES)).round()})


def _colour(token: int, tokens: int) -> Any:
    import matplotlib

    return matplotlib.colormaps["viridis"](0.9 * token / max(tokens - 1, 1))
