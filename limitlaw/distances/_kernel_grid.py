"""Distances between kernel estimates of densities."""

from collections.abc import Callable

import numpy as np

from ..laws import Law
from ..laws.quadrature import panels
from ..numerics import Estimate
from ._jackknife import jackknife_of_two


def on_kernel_grid(p: Law, q: Law, integrand: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> Estimate:
    """The integral of a function of the two densities, with kernel estimates in place of densities of samples."""
    x, weights = panels(p, q)
    one, two = ((law.pdf(x), law.leave_one_batch_out("pdf", x)) for law in (p, q))
    # The bias of a kernel estimate is not of order 1/N, so it cannot be removed by leaving out batches.
    return jackknife_of_two(lambda f, g: float(weights @ integrand(f, g)), one, two, corrected=False)
