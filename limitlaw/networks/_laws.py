"""Laws of a network's observables: exact where the Gram matrix that the last layer sees is fixed, from draws elsewhere."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isinf
from typing import Any

import numpy as np

from .. import laws
from ..numerics import jackknife
from ._attention import Attention
from ._gram import numbers_of_a_draw
from ._quadrature import ScoreRow, attended_variance, exact_attended_variance

Draw = Callable[..., np.ndarray]

_FIRST_DRAWS, _MOST_DRAWS = 2**20, 2**22
_MOST_NUMBERS = 2**31  # random numbers behind the draws of a law: tens of seconds on two cores
_FIRST_INTEGRALS, _MOST_INTEGRALS = 32, 2**14  # independent integrals behind the variance of a Gaussian limit
_JOINT_DRAWS = 2**16
_WORTH_CONTROLLING = 0.3  # of the variance is left, at twice the cost


def fixed_gram(net: Any, layers: tuple[Any, ...]) -> np.ndarray | None:
    """The Gram matrix after `layers` at infinite width, float64, if it is not random and needs no integral."""
    gram = net.inputs.limit_gram()
    for layer in layers:
        if not isinstance(layer, Attention) or not layer.is_plain or not layer.is_deterministic(inf):
            return None
        rows = [ScoreRow(layer, gram, token, layer.head_dim_at(inf), net.layout) for token in range(len(gram))]
        if any(row.dimension for row in rows):
            return None
        weights = np.stack([row.weights_at_rest(len(gram)) for row in rows])
        gram = gain_of(layer) * weights @ gram @ weights.T
    return gram


def gain_of(layer: Attention) -> float:
    """The variance that values and output matrix give to one unit of attended variance."""
    return float(layer.value_std * layer.out_std) ** 2


def exact_output(net: Any, token: int, seed: int, samples: int | None, method: str) -> laws.Law | None:
    """The law of a token's output at infinite width, if the last layer is the first that is random."""
    gram = fixed_gram(net, net.layers[:-1])
    if gram is None:
        return None
    if not net.layers:
        return laws.Gaussian(var=_positive_variance(gram[token, token]), name="limit")
    layer = net.layers[-1]
    if not isinstance(layer, Attention) or not layer.is_plain:
        return None
    head_dim = layer.head_dim_at(inf)
    atoms = attended_variance(ScoreRow(layer, gram, token, head_dim, net.layout), seed, samples).scaled(gain_of(layer))
    return _mixture(atoms.times_chi_square_mean(head_dim), layer.heads, method, "limit")


def exact_score(net: Any, layers: tuple[Any, ...], token: int, key: int) -> laws.Law | None:
    """The law of a score at infinite width, `N(0, K_ii K_jj T)`, `T = chi2(d) / d`, if the tokens it compares are fixed."""
    *before, layer = layers
    gram = fixed_gram(net, tuple(before))
    if gram is None or layer.tie_qk or not layer.is_plain:
        return None
    atoms = laws.Atoms.exactly(np.array([gram[token, token] * gram[key, key]]), np.ones(1))
    return _score_law(layer, atoms, layer.head_dim_at(inf), "limit")


def drawn_score(
    net: Any, layers: tuple[Any, ...], token: int, key: int, width: int | float, draw: Draw, samples: int | None
) -> laws.Law:
    """The law of a score from draws of the tokens it compares (Rao-Blackwell); where it is not Gaussian given them, from draws of itself."""
    *before, layer = layers
    count = samples or int(min(2**20, max(2**26 // net.tokens**2, 2**12)))
    if layer.tie_qk or not layer.is_plain:
        scores = draw(net, count, observe="scores", token=token)[:, 0, key]
        if scores.std() <= 1e-6 * abs(scores.mean()):
            raise ValueError(
                f"observe='scores': the score tends to the constant {scores[0]:.6g}, so it has no density; "
                f"use a finite width or head_dim."
            )
        return laws.Empirical(scores, name=name_of(width))
    K = draw(type(net)(net.inputs, *before), count, observe="gram")
    atoms = laws.Atoms.from_draws(K[:, token, token].astype(np.float64) * K[:, key, key])
    return _score_law(layer, atoms, layer.head_dim_at(width), name_of(width))


def _score_law(layer: Attention, atoms: laws.Atoms, head_dim: int | float, name: str) -> laws.Law:
    scale = float(layer.query_std * layer.key_std) ** 2 / (head_dim if layer.scale == "linear" else 1.0)
    if not scale:
        raise ValueError(
            "observe='scores': the score is 0 with certainty (scale='linear' at infinite head dimension, or a query_std or key_std "
            "of 0), so it has no density; use scale='sqrt', a finite head_dim, or positive stds."
        )
    return _mixture(atoms.scaled(scale).times_chi_square_mean(head_dim), 1, "auto", name)


def drawn_output(
    net: Any,
    token: int,
    width: int | float,
    draw: Draw,
    samples: int | None,
    accuracy: float,
    method: str,
    gaussian: bool,
) -> laws.Law:
    """The mixture over draws of the conditional variance, as many as `accuracy` takes."""
    first, most = (_FIRST_INTEGRALS, _MOST_INTEGRALS) if gaussian else (_FIRST_DRAWS, _most_draws(net, width))
    count = samples or min(first, most)
    limit = None if gaussian or isinf(width) else _known_limit(net, token)
    known = None
    while True:
        draws = draw(net, count, observe="covariance", token=token)
        control = None
        # no coupling leaves less than the difference of the two spreads
        spread = np.std(draws)
        if limit is not None and spread > 0 and (1 - limit.spread / spread) ** 2 < _WORTH_CONTROLLING:
            control = draw(net, count, observe="covariance", token=token, width=inf)
            known = limit.law if known is None else known
        if known is None or control is None or not np.var(draws - control) < _WORTH_CONTROLLING * np.var(draws):
            limit, atoms = None, laws.Atoms.from_draws(draws)
        else:
            atoms = laws.Atoms.from_coupled_draws(draws, control, known)
        law = _mixture(atoms, inf if gaussian else 1, method, name_of(width))
        var, kurtosis = law.var(), law.kurtosis()
        shortfall = max(var.stderr / (accuracy * var), kurtosis.stderr / (10 * accuracy * (1 + kurtosis)))
        if samples or shortfall <= 1 or count >= most:
            return law
        count = min(int(1.1 * count * shortfall**2) + 1, most)


@dataclass(frozen=True)
class _KnownLimit:
    """The exact law of one head's variance at infinite width, and the number of heads."""

    head: laws.Atoms
    heads: int

    @property
    def spread(self) -> float:
        """The standard deviation of the average over heads."""
        first, second = (float(self.head.moments(order)[0]) for order in (1, 2))
        return float(np.sqrt(max(second - first**2, 0.0) / self.heads))

    @property
    def law(self) -> laws.Atoms:
        """The law of that average."""
        return self.head.mean_of_copies(self.heads)


def _known_limit(net: Any, token: int) -> _KnownLimit | None:
    """The limit to which draws at a finite width are coupled by their seed, if it is known exactly."""
    gram = fixed_gram(net, net.layers[:-1])
    layer = net.layers[-1] if net.layers else None
    if gram is None or not isinstance(layer, Attention) or not layer.is_plain or isinf(layer.heads):
        return None
    head_dim = layer.head_dim_at(inf)
    atoms = exact_attended_variance(ScoreRow(layer, gram, token, head_dim, net.layout))
    if atoms is None or (atoms.values.size == 1 and isinf(head_dim)):
        return None
    return _KnownLimit(atoms.scaled(gain_of(layer)).times_chi_square_mean(head_dim), int(layer.heads))


def drawn_joint(
    net: Any, tokens: list[int], width: int | float, draw: Draw, samples: int | None, gaussian: bool
) -> laws.GaussianMixture:
    """The mixture over draws of the conditional covariance of several tokens."""
    count = samples or (_FIRST_INTEGRALS if gaussian else _JOINT_DRAWS)
    return laws.GaussianMixture(draw(net, count, observe="covariance", token=tokens), name=name_of(width))


def _most_draws(net: Any, width: int | float) -> int:
    """As many as take some tens of seconds: fewer where a draw is expensive."""
    return int(np.clip(_MOST_NUMBERS / numbers_of_a_draw(net, width), 2**12, _MOST_DRAWS))


def seed_of(seed: int, width: int | float) -> int:
    """A seed for the draws behind a law, so that laws of different widths (and samples) can be compared as independent."""
    words = np.random.SeedSequence([seed, 0 if isinf(width) else int(width), 0x1A3]).generate_state(1, np.uint64)
    return int(words[0])


def name_of(width: int | float) -> str:
    return "limit" if isinf(width) else f"width {width}"


def _mixture(atoms: laws.Atoms, copies: int | float, method: str, name: str) -> laws.Law:
    first = atoms.moments(1)
    _positive_variance(first[0])
    if isinf(copies) or atoms.values.size == 1:
        return laws.Gaussian(var=jackknife(float(first[0]), first[1:]), name=name)
    return laws.ScaleMixture.of_atoms(atoms, int(copies), method, name)


def _positive_variance(variance: float) -> float:
    if not variance > 0:
        raise ValueError(
            "the variance is 0, so what is observed is 0 with certainty and has no density; "
            "give the tokens a positive Gram entry and the layer positive stds."
        )
    return float(variance)
