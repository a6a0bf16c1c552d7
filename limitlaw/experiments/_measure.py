"""What a study measures: each function is a task of its own, settings and earlier results in, arrays out."""

import functools
from math import inf, isinf
from typing import Any

import numpy as np
from scipy.interpolate import CubicSpline

from ..distances import DISTANCES, kde_kl
from ..laws import Atoms, Gaussian, Law, ScaleMixture
from ..laws.normal_scores import quantiles_of_normal
from ..networks import from_plain
from ..numerics import Estimate
from ._task import Result

Plain = dict[str, Any]

_NORMAL = np.linspace(-9.0, 9.0, 512)


def width_of(width: int | str) -> int | float:
    """A width as JSON holds it."""
    return inf if width == "inf" else int(width)


def limit(*, network: Plain, samples: int, token: int = 0) -> Result:
    """The law of a token at infinite width: atoms of one head's variance, and the number of heads (0 for a Gaussian)."""
    law = from_plain(network).law(width=inf, token=token, samples=samples, progress=False)
    if isinstance(law, Gaussian):
        variance = law.variance()
        return {"variance": np.array([variance, variance.stderr, variance.dof]), "heads": np.array(0)}
    return {
        "values": law.atoms.values,
        "weights": law.atoms.weights,
        "leave_one_out": law.atoms.leave_one_out,
        "dof": np.array(law.atoms.dof),
        "heads": np.array(law.copies),
    }


def limit_law(result: Result) -> Law:
    """The law that `limit` found."""
    if not result["heads"]:
        return Gaussian(variance=Estimate(*result["variance"]), name="limit")
    values, weights, others = (np.array(result[name], np.float64) for name in ("values", "weights", "leave_one_out"))
    return _mixture(Atoms(values, weights, others, float(result["dof"])), int(result["heads"]))


@functools.lru_cache(maxsize=16)
def _mixture(atoms: Atoms, heads: int) -> ScaleMixture:
    """One object for one law: it remembers its quantiles and its Fourier transform, which every distance to it needs."""
    return ScaleMixture(atoms, copies=heads, name="limit")


def output(
    *limits: Result,
    network: Plain,
    width: int | str,
    token: int,
    samples: int,
    seed: int,
    measure: list[str],
    against: list[str],
    levels: list[float],
    reach: float,
    points: int,
) -> Result:
    """Observables of the law of a token's output at a width: a value, a standard error and its degrees of freedom each.

    `against` names the laws that `limits` are; the distance "kl" is to the "limit", "kl_to_x" to the one named x.
    """
    found = width_of(width)
    targets = dict(zip(against, map(limit_law, limits), strict=True))
    if isinf(found) and "limit" in targets:
        law = targets["limit"]
    else:
        law = from_plain(network).law(width=found, token=token, samples=samples, seed=seed, progress=False)
    out: Result = {}
    for name in measure:
        if name == "quantiles":
            out |= _with_error(law, name, "icdf", np.array(levels))
        elif name == "density":
            out |= _with_error(law, name, "pdf", np.linspace(-reach, reach, points))
        else:
            out |= named(name, _number(name, law, targets))
    return out


def _number(name: str, law: Law, targets: dict[str, Law]) -> Estimate:
    if name == "variance":
        return law.variance()
    if name == "kurtosis":
        return law.kurtosis()
    distance, _, target = name.partition("_to_")
    other = targets[target or "limit"]
    return Estimate(0.0, 0.0) if other is law else DISTANCES[distance].measure(law, other).estimate


def _with_error(law: Law, name: str, method: str, at: np.ndarray) -> Result:
    return {name: np.asarray(getattr(law, method)(at)), f"{name}_stderr": np.asarray(law.error(method, at))}


def named(name: str, value: Estimate) -> Result:
    """An estimate as arrays: its value, its standard error, and the degrees of freedom of that.

    Example:
        >>> import limitlaw as ll
        >>> from limitlaw.experiments import named
        >>> {name: float(value) for name, value in named("kl", ll.Estimate(0.5, 0.1, 9)).items()}
        {'kl': 0.5, 'kl_stderr': 0.1, 'kl_dof': 9.0}
    """
    return {name: np.array(float(value)), f"{name}_stderr": np.array(value.stderr), f"{name}_dof": np.array(value.dof)}


def outputs(*, network: Plain, width: int | str, token: int, samples: int, seed: int) -> Result:
    """Outputs of a token in `samples` networks: Gaussian given their variance, which the Gram reading draws."""
    net = from_plain(network)
    variance = net.sample(samples, width=width_of(width), token=token, observe="covariance", seed=seed, progress=False)
    normal = np.random.default_rng([seed, 1]).standard_normal(samples, np.float32)
    return {"outputs": np.sqrt(variance) * normal}


def quantiles(limit: Result) -> Result:
    """Quantiles of a limit law at the places of `_NORMAL`, through which normals become samples of it."""
    return {"quantiles": quantiles_of_normal(limit_law(limit), _NORMAL)}


def _samples(limit: Result, count: int, seed: int, index: int) -> np.ndarray:
    """The `index`-th independent sample of the law with these quantiles."""
    normals = np.random.default_rng([seed, index]).standard_normal(count)
    return CubicSpline(_NORMAL, limit["quantiles"])(normals)


def kernel_estimate(limit: Result, drawn: Result, *, name: str, seed: int) -> Result:
    """The attention paper's estimate of KL(network || limit) from a sample of each."""
    y = drawn["outputs"].astype(np.float64)
    return {name: np.array(float(kde_kl(y, _samples(limit, y.size, seed, 0))))}


def kernel_floor(limit: Result, *, name: str, samples: int, seed: int) -> Result:
    """That estimate between two samples of the limit itself: the truth is 0."""
    first, second = (_samples(limit, samples, seed, index) for index in (0, 1))
    return {name: np.array(float(kde_kl(first, second)))}


def along_depth(*, network: Plain, width: int | str, samples: int, seed: int, measure: list[str]) -> Result:
    """Observables after the input and after each block, averaged over tokens and heads where there are several."""
    t = from_plain(network).trajectory(samples, width=width_of(width), seed=seed, progress=False)
    found = t.summary()
    return {
        f"{name}{part}": values
        for name in measure
        for part, values in zip(("", "_stderr"), found[name.removeprefix("block_")], strict=True)
    }


def regression(*, problem: Plain, overlaps: dict[str, float], measure: list[str]) -> Result:
    """Excess risks of single-location regression at overlaps."""
    from ..slr import Problem

    p = Problem(**problem)
    methods = {"risk": "exact", "mean_field_risk": "mean-field", "refined_risk": "refined"}
    return {name: np.asarray(p.risk(**overlaps, method=methods[name])) for name in measure}
