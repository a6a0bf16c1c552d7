"""Statistical assertions with a stated false-alarm budget.

Each assertion fails falsely with probability below `FALSE_ALARM` (Bonferroni over what it looks at); the suite makes fewer
than 500 of them, so with fresh seeds it would fail about once in two thousand runs. Seeds are fixed.
"""

from collections.abc import Callable

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
import scipy.stats

FALSE_ALARM = 1e-6
_SORTED = 100_000


def some_at_length(cases, quick):
    """Test parameters of which only `quick` run in `make test`; the others take `make test-full`."""
    return [pytest.param(case, marks=[] if case in quick else [pytest.mark.full], id=str(case)) for case in cases]


def examples(*strategies: st.SearchStrategy, quick: int, full: int, long: int):
    """A property test on as many random examples as each level has: `make test`, `make test-full`, `make test-long`.

    The levels try different examples.
    """
    counts = [
        pytest.param(quick, id="quick"),
        pytest.param(full, id="full", marks=[pytest.mark.full, pytest.mark.timeout(3600)]),
        pytest.param(long, id="long", marks=[pytest.mark.long, pytest.mark.timeout(0)]),
    ]

    def decorate(check: Callable[..., None]):
        @pytest.mark.parametrize("count", counts)
        def test(count: int) -> None:
            settings = hypothesis.settings(max_examples=count)
            hypothesis.seed(count)(settings(hypothesis.given(*strategies)(check)))()

        test.__doc__ = check.__doc__
        return test

    return decorate


def assert_same_law(
    first: Callable[[int, int], np.ndarray], second: Callable[[int, int], np.ndarray], *, samples: int, seed: int = 1
) -> None:
    """Two samplers `(samples, seed) -> (samples, ...)` have the same law: each entry, and products of pairs of entries.

    A failure counts only if it repeats with a fresh seed and ten times the samples: property tests try many examples.
    """
    if not smallest_p(first(samples, seed), second(samples, seed + 1)) > FALSE_ALARM:
        p = smallest_p(first(10 * samples, seed + 2), second(10 * samples, seed + 3))
        assert p > FALSE_ALARM, f"laws differ: p = {p:.1e} after Bonferroni"


def smallest_p(a: np.ndarray, b: np.ndarray) -> float:
    """The smallest p-value over entries and tests, after Bonferroni."""
    a, b = (np.asarray(each, np.float64).reshape(len(each), -1) for each in (a, b))
    assert a.shape[1] == b.shape[1]
    # One scale for both: scales of their own would move what gathers at a point apart by their sampling errors.
    scale = np.abs(np.concatenate([a, b])).mean(axis=0) + 1e-30
    a, b = _columns(a, scale), _columns(b, scale)
    rng = np.random.default_rng(0)
    p_values = []
    for x, y in zip(a.T, b.T, strict=True):
        # Two readings of a constant differ by rounding; a jitter far below any real difference makes them comparable.
        blur = 1e-3 * np.sqrt(np.mean(x**2) + np.mean(y**2)) + 1e-30
        x, y = x + blur * rng.standard_normal(x.size), y + blur * rng.standard_normal(y.size)
        # The shape, by KS on as many as are worth sorting.
        p_values.append(scipy.stats.ks_2samp(x[:_SORTED], y[:_SORTED], method="asymp").pvalue)
        # The mean of what is bounded, and the typical size, on all: more powerful than KS against a wrong factor, and robust against heavy tails.
        p_values.append(scipy.stats.ttest_ind(np.log(np.abs(x)), np.log(np.abs(y)), equal_var=False).pvalue)
        scale = np.abs(x).mean() + 1e-30
        p_values.append(scipy.stats.ttest_ind(np.tanh(x / scale), np.tanh(y / scale), equal_var=False).pvalue)
    return min(p_values) * len(p_values)


def _columns(entries: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Entries, and products of pairs of them (all pairs of few, neighbours and a fixed choice of many): dependence counts."""
    assert np.isfinite(entries).all()
    size = entries.shape[1]
    pairs = [(i, j) for i in range(size) for j in range(i)]
    if len(pairs) > 12:
        pairs = [pairs[k] for k in np.random.default_rng(size).choice(len(pairs), 12, replace=False)]
    # Bounded first, so that a product tells of signs and sizes without being ruled by a tail.
    bounded = np.tanh(entries / scale)
    return np.column_stack([entries, *[bounded[:, i] * bounded[:, j] for i, j in pairs]])


def assert_mean(values: np.ndarray, truth: float, *, catches: float = 1.02) -> None:
    """The mean of i.i.d. values is `truth`; there are enough of them to catch a wrong factor `catches` by the same test."""
    threshold = scipy.stats.norm.isf(FALSE_ALARM / 2)
    values = np.asarray(values, np.float64)
    stderr = values.std(ddof=1) / np.sqrt(values.size)
    assert abs(values.mean() - truth) < threshold * stderr, f"{values.mean()} ± {stderr} against {truth}"
    assert (catches - 1) * abs(truth) > 2 * threshold * stderr, "too few samples to mean anything"


def assert_estimate(estimate: float, truth: float, *, truth_stderr: float = 0.0, catches: float = 1.02) -> None:
    """An `Estimate` agrees with `truth`, and is sharp enough to tell it from `catches * truth`."""
    threshold = scipy.stats.norm.isf(FALSE_ALARM / 2)
    stderr = np.hypot(estimate.stderr, truth_stderr)  # type: ignore[attr-defined]
    assert abs(float(estimate) - truth) <= threshold * stderr, f"{estimate!r} against {truth} ± {truth_stderr}"
    assert (catches - 1) * abs(truth) > 2 * threshold * stderr, "too few samples to mean anything"


def p_of_uniform(values: np.ndarray) -> float:
    """KS p-value of `values` against the uniform law."""
    return float(scipy.stats.kstest(values, "uniform").pvalue)
