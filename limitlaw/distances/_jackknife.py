"""Errors of functions of two laws, by leaving out one batch of either law at a time."""

from collections.abc import Callable, Iterable

import numpy as np

from ..laws import Empirical
from ..numerics import Estimate, jackknife


def jackknife_of_two(
    value: Callable[[np.ndarray, np.ndarray], float],
    p: tuple[np.ndarray, Iterable[np.ndarray]],
    q: tuple[np.ndarray, Iterable[np.ndarray]],
    *,
    corrected: bool = True,
) -> Estimate:
    """A function of two laws that are made from independent batches.

    Args:
        value: The function, of two arrays that describe the laws.
        p: The array of the first law, and the same array without each batch; none for a law that is known exactly.
        q: The same of the second law.
        corrected: Whether to remove the bias of order `1/N`.
    """
    (of_p, p_rows), (of_q, q_rows) = p, q
    return jackknife(
        value(of_p, of_q),
        np.array([value(row, of_q) for row in p_rows]),
        np.array([value(of_p, row) for row in q_rows]),
        corrected=corrected,
    )


def jackknife_of_samples(
    value: Callable[[np.ndarray, np.ndarray], float], p: Empirical, q: Empirical, *, corrected: bool = False
) -> Estimate:
    """A function of two sorted samples. The arguments are those of `jackknife_of_two`."""

    def parts(law: Empirical) -> tuple[np.ndarray, Iterable[np.ndarray]]:
        return law.ordered, (law.ordered[kept] for kept in law.batch_masks)

    return jackknife_of_two(value, parts(p), parts(q), corrected=corrected)


def without_each_batch(samples: Empirical, value: Callable[[np.ndarray], float]) -> np.ndarray:
    """`value` of a mask over the sorted samples, for the masks that leave out one batch."""
    return np.array([value(kept) for kept in samples.batch_masks])
