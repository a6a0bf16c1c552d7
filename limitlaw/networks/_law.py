"""Laws of a network's observables: exact if the last layer reads a fixed Gram matrix, otherwise from draws."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, isinf
from typing import Any

import numpy as np

from .. import laws
from .._checks import ArgumentError
from ..numerics import Estimate, jackknife
from ._gram import needed_layers
from ._layer import NetworkParts, Node, unrolled
from .cost import cost_of

Draw = Callable[..., np.ndarray]

_FIRST_DRAWS = 2**20  # a relative error of about 1e-3 of a variance: enough to estimate how many more draws are needed
_MOST_DRAWS = 2**22  # about half a minute for a small network on two cores
_MOST_NUMBERS = 2**31  # random numbers for the draws of a law: tens of seconds on two cores
_FIRST_INTEGRALS, _MOST_INTEGRALS = 32, 2**14  # independent integrals for the variance of a Gaussian limit
_JOINT_DRAWS = 2**16  # draws of a covariance for a joint law, whose density sums over all of them
_FLOAT32 = float(np.finfo(np.float32).eps)  # the relative precision of draws
_WORTH_CONTROLLING = 0.3  # a control variate doubles the draws, so it must leave clearly less than half the variance


def fixed_gram(net: NetworkParts, nodes: tuple[Node, ...]) -> np.ndarray | None:
    """The Gram matrix after `nodes` at infinite width, float64; None if it is random or needs an integral."""
    gram: np.ndarray | None = net.inputs.limit_gram()
    centred = not np.any(net.inputs.limit_mean())
    for node in nodes:
        if gram is None or (node.needs_mean and not centred):
            return None
        gram = node.limit_gram(gram, net.layout)
        # The coordinates that a fresh matrix writes have mean 0; a norm keeps a mean, or takes it away.
        centred = centred or node.ends_fresh
    return gram


def exact_output(net: NetworkParts, token: int, seed: int, samples: int | None, method: str) -> laws.Law | None:
    """The law of a token's output at infinite width; None unless the last node is the only random one."""
    *before, last = unrolled(net.layers) or (None,)
    gram = fixed_gram(net, tuple(before))
    if gram is None:
        return None
    if last is None:
        return laws.Gaussian(variance=_positive_variance(gram[token, token]), name="limit")
    # Without a law of the last layer its Gram matrix may still be fixed, and then the output is Gaussian.
    known = last.limit_variance(gram, token, net.layout, seed, samples, exact=False)
    if known is None:
        after = fixed_gram(net, (*before, last))
        return None if after is None else laws.Gaussian(variance=_positive_variance(after[token, token]), name="limit")
    atoms, copies = known
    return _mixture(atoms, copies, method, "limit")


def exact_score(net: NetworkParts, query: int, key: int) -> laws.Law | None:
    """The law of a score at infinite width, `N(0, c K_ii K_jj chi2(d) / d)`; None if the Gram matrix `K` is random."""
    *before, last = unrolled(needed_layers(net.layers, "scores"))
    gram = fixed_gram(net, tuple(before))
    scale = last.score_scale(inf)
    if gram is None or scale is None:
        return None
    atoms = laws.Atoms.exactly(np.array([gram[query, query] * gram[key, key]]), np.ones(1))
    return _score_law(*scale, atoms, "limit")


def drawn_score(
    net: NetworkParts, query: int, key: int, width: int | float, draw: Draw, samples: int | None
) -> laws.Law:
    """The law of a score from draws.

    Given the tokens and a chi-square, a plain score is Gaussian, so it is a mixture over drawn Gram matrices. This has
    less variance than draws of the score (Rao-Blackwell), which are used where the score is not Gaussian.
    """
    *before, last = needed_layers(net.layers, "scores")
    scale = last.score_scale(width)
    count = samples or int(min(2**20, max(2**26 // net.tokens**2, 2**12)))
    if scale is None:
        scores = draw(count, observe="scores", token=query)[:, 0, key]
        if scores.std() <= 1e-6 * abs(scores.mean()):
            raise ArgumentError(
                "width",
                f"The score tends to the constant {scores[0]:.6g}, so it has no density. Use a finite width or "
                "head_dim.",
            )
        return laws.Empirical(scores, name=name_of(width))
    K = draw(count, observe="gram", layers=tuple(before))
    atoms = laws.Atoms.from_draws(K[:, query, query].astype(np.float64) * K[:, key, key])
    return _score_law(*scale, atoms, name_of(width))


def _score_law(scale: float, head_dim: int | float, atoms: laws.Atoms, name: str) -> laws.Law:
    if not scale:
        raise ArgumentError(
            "scale",
            "The score is identically 0 (scale='linear' at infinite head dimension, or a query_std or key_std of 0), "
            "so it has no density. Use scale='sqrt', a finite head_dim, or positive stds.",
        )
    return _mixture(atoms.scaled(scale).times_chi_square_mean(head_dim), 1, "auto", name)


def drawn_output(
    net: NetworkParts,
    token: int,
    width: int | float,
    draw: Draw,
    samples: int | None,
    accuracy: float,
    method: str,
    gaussian: bool,
) -> laws.Law:
    """The law of a token's output as a mixture over draws of its conditional variance.

    The number of draws grows until the variance and the kurtosis have the requested accuracy. At a finite width, draws
    of the limit with the same seed are a control variate: they are correlated with the draws, and their law is known.

    Args:
        net: The network.
        token: The token.
        width: The width.
        draw: Draws of an observable; by default at `width`.
        samples: The number of draws, or None to reach `accuracy`.
        accuracy: The relative standard error to reach.
        method: The method of `laws.ScaleMixture`.
        gaussian: Whether the conditional variance is not random. Draws are then unbiased integrals, which are averaged.

    Returns:
        The law.
    """
    first, most = (_FIRST_INTEGRALS, _MOST_INTEGRALS) if gaussian else (_FIRST_DRAWS, _most_draws(net, width))
    count = samples or min(first, most)
    limit = None if gaussian or isinf(width) else _known_limit(net, token)
    known = None
    while True:
        draws = draw(count, observe="covariance", token=token)
        if np.ptp(draws) <= 2 * _FLOAT32 * np.abs(draws).max():  # all draws are equal up to rounding
            value = _positive_variance(float(draws.mean(dtype=np.float64)))
            return laws.Gaussian(variance=Estimate(value, _FLOAT32 * value), name=name_of(width))
        control = None
        # The standard deviation of a difference is at least the difference of the two. If even that bound leaves too
        # much variance, the limit cannot help, and the draws of it are saved.
        spread = np.std(draws)
        if limit is not None and spread > 0 and (1 - limit.spread / spread) ** 2 < _WORTH_CONTROLLING:
            control = draw(count, observe="covariance", token=token, width=inf)
            known = limit.law if known is None else known
        # The correlation may be weak although the bound holds. Then the control is not used in later rounds either.
        if known is None or control is None or not np.var(draws - control) < _WORTH_CONTROLLING * np.var(draws):
            limit, atoms = None, laws.Atoms.from_draws(draws)
        else:
            atoms = laws.Atoms.from_coupled_draws(draws, control, known)
        for last in unrolled(net.layers)[-1:]:
            atoms = replace(atoms, dof=last.degrees_of_freedom(width))
        law = _mixture(atoms, inf if gaussian else 1, method, name_of(width))
        variance, kurtosis = law.variance(), law.kurtosis()
        # Both standard errors over their tolerances; at most 1 if both are met.
        shortfall = max(
            variance.stderr / variance / accuracy, kurtosis.stderr / (1 + float(kurtosis)) / (10 * accuracy)
        )
        if samples or shortfall <= 1 or count >= most:
            return law
        # Standard errors fall like the root of the number of draws; 1.1 allows for the noise in the estimate of them.
        count = int(min(1.1 * count * min(shortfall, 1e6) ** 2 + 1, most))


@dataclass(frozen=True)
class _KnownLimit:
    """The exact law of the variance of one head at infinite width, and the number of heads."""

    head: laws.Atoms
    heads: int

    @property
    def spread(self) -> float:
        """The standard deviation of the variance averaged over heads."""
        first, second = (float(self.head.moments(order)[0]) for order in (1, 2))
        return float(np.sqrt(max(second - first**2, 0.0) / self.heads))

    @property
    def law(self) -> laws.Atoms:
        """The law of the average over heads."""
        return self.head.mean_of_copies(self.heads)


def _known_limit(net: NetworkParts, token: int) -> _KnownLimit | None:
    """The limit with which draws at a finite width are coupled through their seed; None if it is not known exactly."""
    *before, last = unrolled(net.layers) or (None,)
    gram = fixed_gram(net, tuple(before))
    if gram is None or last is None:
        return None
    known = last.limit_variance(gram, token, net.layout, 0, None, exact=True)
    if known is None or isinf(known[1]):
        return None
    return _KnownLimit(known[0], int(known[1]))


def drawn_joint(
    net: NetworkParts, tokens: list[int], width: int | float, draw: Draw, samples: int | None, gaussian: bool
) -> laws.GaussianMixture:
    """The joint law of several tokens as a mixture over draws of their conditional covariance."""
    count = samples or (_FIRST_INTEGRALS if gaussian else _JOINT_DRAWS)
    return laws.GaussianMixture(draw(count, observe="covariance", token=tokens), name=name_of(width))


def _most_draws(net: NetworkParts, width: int | float) -> int:
    """The number of draws that take some tens of seconds."""
    s, cost = net.tokens, cost_of(net, width)
    numbers = s * (cost.matrices * max(s / 8, 1) + cost.units)
    return int(np.clip(_MOST_NUMBERS / numbers, 2**12, _MOST_DRAWS))


def seed_of(seed: int, width: int | float) -> int:
    """A seed for the draws of a law, so that laws at different widths, and samples, are independent of each other."""
    # 0x1A3 separates these seeds from those that `sample` takes from users.
    words = np.random.SeedSequence([seed, 0 if isinf(width) else int(width), 0x1A3]).generate_state(1, np.uint64)
    return int(words[0])


def name_of(width: int | float) -> str:
    """The name of a law at this width, for plots."""
    return "limit" if isinf(width) else f"width {width}"


def _mixture(atoms: laws.Atoms, copies: int | float, method: str, name: str) -> Any:
    first = atoms.moments(1)
    _positive_variance(first[0])
    if isinf(copies) or atoms.values.size == 1:
        return laws.Gaussian(variance=jackknife(float(first[0]), first[1:]), name=name)
    return laws.ScaleMixture(atoms, copies=int(copies), method=method, name=name)


def _positive_variance(variance: float) -> float:
    if not variance > 0:
        raise ArgumentError(
            "variance",
            "The variance is 0, so the output is identically 0 and has no density. "
            "Give the token a positive Gram entry and the layers positive stds.",
        )
    return float(variance)
