"""Gauss-Legendre panels on which densities of laws are smooth.

Integrals over several laws (entropy, distances) use one rule for all of them. Its panels end at quantiles of each law,
from the far left to the far right tail.
"""

import itertools
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import log_ndtr

if TYPE_CHECKING:
    from ._law import Law

_NODES = 16  # nodes in a panel, which integrate a Gaussian over one standard deviation to rounding
# Panels end at the quantiles with these normal scores, on both sides of the median. The first five resolve a peak at
# the median, such as that of a density that is infinite there. In the body the steps of 0.35 are narrow enough for laws
# that are far from normal. The last score, 10.7, has the tail probability 1e-26, which is far below double precision.
_SCORES = np.concatenate(
    [2.5 * 10.0 ** np.array([-7, -5, -3, -2, -1]), 0.35 * np.arange(2, 10), np.geomspace(3.7, 10.66, 7)]
)
_GROWTH = 3.0  # largest ratio of neighbouring distances from the median: a density may change its scale in between
_REPEATED = 0.3  # share of the spacing of edges within which edges of two laws are merged
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
    """The increasing edges of these panels: quantiles of each law, with near repetitions merged."""
    # A close pair would give a panel that costs as much as any other and resolves nothing. Closeness is relative to the
    # spacing in the list of the law itself, which may be fine on purpose.
    lists = [law._panel_edges for law in laws]
    spacing = [np.minimum(np.diff(e, prepend=-np.inf), np.diff(e, append=np.inf)) for e in lists]
    edges, scale = np.concatenate(lists), np.concatenate(spacing)
    kept: list[int] = []
    for i in np.argsort(edges, kind="stable"):
        if not kept or edges[i] - edges[kept[-1]] > _REPEATED * min(scale[i], scale[kept[-1]]):
            kept.append(int(i))
    return np.append(edges[kept], edges.max())


def gauss_panels(edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of Gauss-Legendre panels between edges in any order. Edges equal up to rounding are merged."""
    edges = np.unique(edges)
    apart = np.diff(edges) > 1e-13 * np.maximum(np.abs(edges[1:]), np.abs(edges[:-1]))
    edges = edges[np.concatenate([[True], apart])]
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    half = np.diff(edges)[:, None] / 2
    return ((edges[:-1, None] + half) + half * nodes).ravel(), (half * weights).ravel()


def distances_from_median(law: "Law", median: float, *, right: bool) -> np.ndarray:
    """The increasing distances of panel edges from the median on one side."""
    quantiles = law._tail_quantiles(log_ndtr(-_SCORES), np.full(_SCORES.size, right), tolerance=_LOOSE)
    distances = np.sort(np.abs(quantiles[np.isfinite(quantiles)] - median))
    positive = distances[distances > 0]
    between = [
        np.geomspace(a, b, int(np.ceil(np.log(b / a) / np.log(_GROWTH))) + 1)
        for a, b in itertools.pairwise(positive)
        if b > a
    ]
    return np.unique(np.concatenate([positive, *between]))
