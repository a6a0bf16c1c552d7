"""What the figures measure: each function is a task of its own, settings and earlier results in, arrays out."""

import warnings
from math import inf
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline

from ..divergence import ResolutionWarning, kde_kl, kl
from ..laws import Atoms, Gaussian, Law, ScaleMixture
from ..networks import from_plain
from ..numerics import Estimate
from ..runs import Result

Plain = dict[str, Any]

_NORMAL = np.linspace(-9.0, 9.0, 512)


def outputs(*, network: Plain, width: int, samples: int, seed: int) -> Result:
    """Outputs of token 1 in `samples` networks: Gaussian given their variance, which the Gram reading draws."""
    variance = from_plain(network).sample(samples, width=width, token=0, observe="covariance", seed=seed)
    normal = np.random.default_rng([seed, 1]).standard_normal(samples, np.float32)
    return {"output": np.sqrt(variance) * normal}


def scores(*, network: Plain, width: int, samples: int, draws: int, seed: int) -> Result:
    """The score of token 1 with itself in one head, and its exact law on a grid."""
    net = from_plain(network)
    drawn = net.sample(samples, width=width, observe="scores", token=0, seed=seed)[:, 0, 0]
    law = net.law(width=width, observe="scores", token=0, key=0, seed=seed, samples=draws)
    grid = np.linspace(-5, 5, 401) * float(law.std())
    return {"score": drawn, "grid": grid, "density": law.pdf(grid), **_moments(law)}


def limit(*, network: Plain, samples: int) -> Result:
    """The exact law of token 1 at infinite width: atoms of one head's variance, and the number of heads (0 for a Gaussian)."""
    law = from_plain(network).law(width=inf, token=0, samples=samples)
    if isinstance(law, Gaussian):
        return {"variance": _as_array(law.var()), "heads": np.array(0)}
    return {
        "values": law.atoms.values,
        "weights": law.atoms.weights,
        "left_out": law.atoms.left_out,
        "heads": np.array(law.copies),
    }


def limit_law(result: Result) -> Law:
    """The law that `limit` found."""
    if not result["heads"]:
        return Gaussian(var=Estimate(*result["variance"]), name="limit")
    atoms = Atoms(result["values"], result["weights"], result["left_out"])
    return ScaleMixture.of_atoms(atoms, int(result["heads"]), name="limit")


def quantiles(limit: Result) -> Result:
    """Quantiles of a limit law at the places of `_NORMAL`, through which normals become samples of it."""
    return {"quantiles": limit_law(limit).quantiles_of_normal(_NORMAL)}


def _samples(limit: Result, count: int, seed: int, index: int) -> np.ndarray:
    """The `index`-th independent sample of the law with these quantiles."""
    normals = np.random.default_rng([seed, index]).standard_normal(count)
    return CubicSpline(_NORMAL, limit["quantiles"])(normals)


def shape(*limits: Result, reach: float, points: int) -> Result:
    """Moments and density of a limit law; and its divergence from a second one, if that is given."""
    law, *others = map(limit_law, limits)
    out = {"density": law.pdf(np.linspace(-reach, reach, points)), **_moments(law)}
    if others:
        out["kl"] = _as_array(_resolved_or_not(law, others[0]))
    return out


def kde(limit: Result, *trials: Result, seed: int) -> Result:
    """The paper's estimate of KL(network || limit), a fresh sample of the limit for every trial."""
    drawn = [trial["output"].astype(np.float64) for trial in trials]
    return {"kde_kl": np.array([float(kde_kl(y, _samples(limit, y.size, seed, i))) for i, y in enumerate(drawn)])}


def floor(limit: Result, *, samples: int, pairs: int, seed: int) -> Result:
    """The paper's estimate between two samples of the limit itself: the truth is 0."""
    drawn = (_samples(limit, samples, seed, i) for i in range(2 * pairs))
    return {"kde_kl": np.array([float(kde_kl(next(drawn), next(drawn))) for _ in range(pairs)])}


def exact(
    *limits: Result,
    network: Plain,
    width: int,
    samples: int,
    seed: int,
    against: list[str],
    reach: float,
    points: int,
) -> Result:
    """The exact law at a width, from draws of the conditional variance: its divergences from limits, moments, density."""
    law = from_plain(network).law(width=width, token=0, samples=samples, seed=seed)
    targets = zip(against, map(limit_law, limits), strict=True)
    out = {f"kl_{name}": _as_array(_resolved_or_not(law, target)) for name, target in targets}
    grid = np.linspace(-reach, reach, points)
    return out | _moments(law) | {"density": law.pdf(grid), "density_stderr": law.error("pdf", grid)}


def _resolved_or_not(first: Law, second: Law) -> Estimate:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResolutionWarning)  # the standard error is kept, and shown
        return kl(first, second)


def _as_array(value: Estimate) -> np.ndarray:
    return np.array([value, value.stderr, value.dof])


def _moments(law: Law) -> Result:
    return {"variance": _as_array(law.var()), "kurtosis": _as_array(law.kurtosis())}
