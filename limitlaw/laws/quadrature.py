"""Gauss-Legendre panels on which densities of laws are smooth.

Integrals over laws (entropy, distances) use one rule for all laws in them: panels end at quantiles of each law, from
its far left to its far right tail.
"""

import itertools
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import log_ndtr

if TYPE_CHECKING:
    from ._law import Law

_NODES = 16  # per panel: a Gaussian over a panel one standard deviation wide is integrated to rounding
# Panels end at the quantiles that have these normal scores, on both sides of the median. The first five resolve a peak
# at the median, as of a density that is infinite there. Where steps are 0.35, the body, panels are narrow enough for
# laws that are far from normal. The last, 10.7, has the tail probability 1e-26, beyond which nothing is left that a
# double would notice.
_SCORES = np.concatenate(
    [2.5 * 10.0 ** np.array([-7, -5, -3, -2, -1]), 0.35 * np.arange(2, 10), np.geomspace(3.7, 10.66, 7)]
)
_GROWTH = 3.0  # a density may have a new scale at three times the distance from the median, so panels end there as well
_REPEATED = 0.3  # of the spacing of its own list, within which an edge adds nothing to that of another law
_LOOSE = 1e-6  # tolerance of a quantile: panel edges need not be exact


def panels(*laws: "Law") -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of a Gauss rule that resolves every one of the laws between its quantiles 1e-26 and 1 - 1e-26.

    Args:
        *laws: One law or more.

    Returns:
        Nodes and weights, one-dimensional arrays of equal length.

    Example:
        >>> import numpy as np
        >>> from limitlaw.laws import Gaussian
        >>> from limitlaw.laws.quadrature import panels
        >>> law = Gaussian(variance=4.0)
        >>> x, weights = panels(law)
        >>> print(round(weights @ (law.pdf(x) * x**2), 12))
        4.0
    """
    return gauss_panels(panel_edges(*laws))


def panel_edges(*laws: "Law") -> np.ndarray:
    """The edges of these panels, increasing: quantiles of each law, without those that nearly repeat another."""
    lists = [law._panel_edges for law in laws]
    spacing = [np.minimum(np.diff(e, prepend=-np.inf), np.diff(e, append=np.inf)) for e in lists]
    edges, scale = np.concatenate(lists), np.concatenate(spacing)
    kept: list[int] = []
    for i in np.argsort(edges, kind="stable"):
        if not kept or edges[i] - edges[kept[-1]] > _REPEATED * min(scale[i], scale[kept[-1]]):
            kept.append(int(i))
    return np.append(edges[kept], edges.max())


def gauss_panels(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss-Legendre panels between edges in any order. Edges that nearly coincide are one."""
    edges = np.unique(edges)
    apart = np.diff(edges) > 1e-13 * np.maximum(np.abs(edges[1:]), np.abs(edges[:-1]))
    edges = edges[np.concatenate([[True], apart])]
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    half = np.diff(edges)[:, None] / 2
    return ((edges[:-1, None] + half) + half * nodes).ravel(), (half * weights).ravel()


def distances_from_median(law: "Law", median: float, *, right: bool) -> np.ndarray:
    """How far panel edges are from the median on one side, increasing."""
    quantiles = law._tail_quantiles(log_ndtr(-_SCORES), np.full(_SCORES.size, right), tolerance=_LOOSE)
    distances = np.sort(np.abs(quantiles[np.isfinite(quantiles)] - median))
    positive = distances[distances > 0]
    between = [
        np.geomspace(a, b, int(np.ceil(np.log(b / a) / np.log(_GROWTH))) + 1)
        for a, b in itertools.pairwise(positive)
        if b > a
    ]
    return np.unique(np.concatenate([positive, *between]))
