"""Errors and biases of any function of sampled laws, from leaving out one batch at a time."""

import numpy as np

from ._estimate import Estimate


def left_out(batches: np.ndarray) -> np.ndarray:
    """For batches `(B, ...)`, the averages over all batches but one: `(B, ...)`.

    !!! Example

        >>> import numpy as np
        >>> from limitlaw.numerics import left_out
        >>> left_out(np.array([1.0, 2.0, 6.0])).tolist()
        [4.0, 3.5, 1.5]
    """
    count = len(batches)
    return (batches.sum(axis=0) - batches) / max(count - 1, 1)


def jackknife(value: float, *left_out_values: np.ndarray, corrected: bool = True) -> Estimate:
    """`value`, a function of averages over batches, with its `O(1/N)` bias removed (unless not `corrected`) and a standard error.

    Each of `left_out_values` belongs to one independent sample and holds the function with each batch of it left out
    in turn; an empty one means that there is no randomness in it. Degrees of freedom are combined as Welch's are.
    (Quenouille 1956, Tukey 1958.)

    !!! Example

        >>> import numpy as np
        >>> from limitlaw.numerics import jackknife, left_out
        >>> batches = np.random.default_rng(0).normal(3.0, 1.0, 50)
        >>> squared = jackknife(batches.mean() ** 2, left_out(batches) ** 2)
        >>> bool(np.isclose(squared, batches.mean() ** 2 - batches.var(ddof=1) / 50))  # the bias of a squared mean
        True
    """
    bias, variance, spread = 0.0, 0.0, 0.0
    for values in left_out_values:
        count = len(values)
        if count < 2:
            continue
        bias += (count - 1) * (float(np.mean(values)) - value)
        part = (count - 1) ** 2 / count * float(np.var(values, ddof=1))
        variance += part
        spread += part**2 / (count - 1)
    dof = variance**2 / spread if spread else np.inf
    return Estimate(value - bias if corrected else value, np.sqrt(variance), dof)
