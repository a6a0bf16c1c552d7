"""Checks for your own layers, which must have the same law in every reading."""

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from . import _checks
from ._checks import ArgumentError, ArgumentTypeError
from .networks import GaussianInputs, Layer, Network, Node, Repeat, Residual, as_plain, from_plain
from .networks.derived import draw_derived

FALSE_ALARM = 1e-6  # probability that a correct layer fails, over all comparisons of one call

_CORRELATION = 0.5  # correlation of neighbouring tokens, far from 0 and 1 so that every entry of a Gram matrix matters
_REPEATED = 4  # a difference counts only if it recurs with new seeds and this many times the draws
_ROUNDING = 1e-4  # relative error of an entry of a Gram matrix in single precision, after a root and its square
_BEND = 4.0  # bound of entries by tanh, in units of their mean size, so that rare large ones do not dominate

_SEEDS_OF_ONE = 100  # distance between the seeds of two comparisons, each of which uses fewer

Sampler = Callable[[int, int], np.ndarray]


def check_layer(layer: Node, *, tokens: int = 3, width: int = 16, draws: int = 20_000, seed: int = 0) -> None:
    """Check that the readings of a layer agree, and that it can be stored.

    Four things are checked:

    - The layer is restored equal by pickle and, unless it holds a function, from plain data (TOML, studies).
    - The Gram and the dense reading have the same law, for the layer alone and for two repetitions of it, in a residual
      branch if possible.
    - The contracted rule, if there is one, has the same law as the rule derived from `matrices` and `inner`.
    - The same holds for each name in `observables`.

    Laws are compared by the means and variances of all entries, after a smooth bound at four times the mean size. With
    the default number of draws, a wrong factor of 1.04 in a variance is detected in most layers. A difference counts
    only if it recurs with new seeds and four times the draws. A correct layer fails with a probability below 1e-6.

    Args:
        layer: The layer, row map or combinator.
        tokens: The number of tokens it acts on.
        width: The width of the stream.
        draws: The number of draws of each reading.
        seed: An integer.

    Raises:
        AssertionError: If two readings differ. It names the readings, the observable, the entry and both values.
        ArgumentError: If the layer refuses the width or the layout, or a reading refuses the layer.

    Example:
        >>> import limitlaw as ll
        >>> ll.testing.check_layer(ll.MLP("tanh", ratio=2), draws=2000)
    """
    if not isinstance(layer, Node):
        raise ArgumentTypeError("layer", f"layer={layer!r} is not a layer. Give a layer, such as MLP('relu').")
    tokens = int(_checks.positive_integer("tokens", tokens))
    width = int(_checks.positive_integer("width", width))
    draws = int(_checks.positive_integer("draws", draws))
    seed = _checks.seed(seed)
    _check_copies(layer, Network(_inputs(tokens), layer))
    comparisons = list(_comparisons(layer, tokens, width))
    for number, comparison in enumerate(comparisons):
        comparison.check(draws, seed + _SEEDS_OF_ONE * number, FALSE_ALARM / len(comparisons))


def __dir__() -> list[str]:
    return ["check_layer"]


def _inputs(tokens: int) -> GaussianInputs:
    """Random tokens correlated like a stationary sequence."""
    place = np.arange(tokens)
    return GaussianInputs(_CORRELATION ** np.abs(place[:, None] - place))


def _check_copies(layer: Node, net: Network) -> None:
    """Raise unless copies of the layer are equal to it."""
    try:
        copy = pickle.loads(pickle.dumps(layer))
    except (pickle.PicklingError, AttributeError) as error:
        raise AssertionError(
            f"{layer!r} cannot be pickled: {error}. Define its class at the top of a module."
        ) from error
    if copy != layer:
        raise AssertionError(f"{layer!r} comes back from pickle as {copy!r}.")
    if hash(copy) != hash(layer):
        raise AssertionError(f"{layer!r} and its equal copy from pickle have different hashes.")
    try:
        plain = as_plain(net)
    except ArgumentError:  # it holds a function, which plain data cannot
        return
    again = from_plain(plain)
    if again != net:
        raise AssertionError(f"{layer!r} comes back from plain data as {again.layers[0]!r}.")


@dataclass(frozen=True)
class _Comparison:
    """Two samplers that must have the same law."""

    title: str
    first: Sampler
    second: Sampler

    def check(self, draws: int, seed: int, false_alarm: float) -> None:
        """Raise if the two laws differ twice, the second time with new seeds and more draws."""
        if self.difference(draws, seed, false_alarm) is None:
            return
        found = self.difference(_REPEATED * draws, seed + 2, false_alarm)
        if found is not None:
            raise AssertionError(f"{self.title} differ: {found}.")

    def difference(self, draws: int, seed: int, false_alarm: float) -> str | None:
        """A description of the entry whose mean or variance differs most; None if the laws agree."""
        a, b = (np.asarray(x, np.float64) for x in (self.first(draws, seed), self.second(draws, seed + 1)))
        if a.shape != b.shape:
            return f"the shapes of a draw are {a.shape[1:]} and {b.shape[1:]}"
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            return "some draws are not finite"
        # Bounded entries have all moments, so the z-scores below are nearly normal. The least scale avoids 0 / 0.
        scale = _BEND * np.abs(np.concatenate([a, b])).mean(axis=0) + np.finfo(np.float32).tiny
        a, b = scale * np.tanh(a / scale), scale * np.tanh(b / scale)
        squares = [(x - x.mean(axis=0)) ** 2 for x in (a, b)]
        largest, text = 0.0, None
        for moment, x, y, rounding in (("mean", a, b, scale), ("variance", *squares, scale**2)):
            noise = np.sqrt(x.var(axis=0) / len(x) + y.var(axis=0) / len(y) + (_ROUNDING * rounding) ** 2)
            z = np.abs(x.mean(axis=0) - y.mean(axis=0)) / noise
            if z.max() > largest:
                largest, where = float(z.max()), np.unravel_index(z.argmax(), z.shape)
                place = [int(i) for i in where]
                text = (
                    f"the {moment} of entry {place} is {x.mean(axis=0)[where]:.4g} in one and "
                    f"{y.mean(axis=0)[where]:.4g} in the other, {largest:.1f} standard errors apart"
                )
        # Two-sided tests for both moments of all entries, with the Bonferroni correction.
        return text if largest > norm.isf(false_alarm / (4 * a[0].size)) else None


def _comparisons(layer: Node, tokens: int, width: int) -> Iterator[_Comparison]:
    """All pairs of samplers that must have the same law."""
    inputs = _inputs(tokens)
    alone = Network(inputs, layer)
    networks = [alone]
    if not layer.ends_network:
        networks.append(Network(inputs, Repeat(2, Residual(layer) if layer.ends_fresh else layer)))
    observables = ("gram", *layer.observables)
    for net in networks:
        for observe in observables if net is alone else ("gram",):
            yield _Comparison(
                f"observe={observe!r} of {net.layers[0]!r} at width={width}: the Gram and the dense reading",
                _sampler(net, width, observe, "gram"),
                _sampler(net, width, observe, "dense"),
            )
    if not (isinstance(layer, Layer) and layer.has_contracted):
        return
    for observe in (*observables, *(("covariance",) if layer.ends_fresh else ())):
        yield _Comparison(
            f"observe={observe!r} of {layer!r} at width={width}: the contracted rule and the one that follows from "
            f"`matrices` and `inner`",
            _sampler(alone, width, observe, "gram"),
            _derived_sampler(alone, width, observe),
        )


def _sampler(net: Network, width: int, observe: str, reading: str) -> Sampler:
    def draw(draws: int, seed: int) -> np.ndarray:
        return net.sample(draws, width=width, observe=observe, seed=seed, reading=reading, progress=False)

    return draw


def _derived_sampler(net: Network, width: int, observe: str) -> Sampler:
    def draw(draws: int, seed: int) -> np.ndarray:
        return draw_derived(net, draws, width=width, observe=observe, seed=seed)

    return draw
