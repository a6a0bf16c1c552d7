"""Token-wise normalisation."""

from typing import Any

from .. import _arguments
from ._described import Layer


class RMSNorm(Layer):
    """Every token to unit mean square: `x / sqrt(|x|^2 / n + eps)`, with gain 1, as at initialisation.

    !!! Example

        >>> import limitlaw as ll
        >>> ll.RMSNorm(eps=1e-6)
        RMSNorm(eps=1e-06)
    """

    eps: Any = 0.0

    def __init__(self, eps: float = 0.0):
        self.eps = _arguments.non_negative("eps", eps)

    def is_deterministic(self, width: int | float) -> bool:
        return True


class LayerNorm(Layer):
    """Every token to mean 0 and variance 1 over its coordinates: `(x - m) / sqrt(v + eps)`, with gain 1 and no bias, as at initialisation.

    The mean over coordinates is tracked, so that inputs with one (`GramInputs(K, mean=...)`, sinusoidal positions) are treated exactly.

    !!! Example

        >>> import numpy as np, limitlaw as ll
        >>> net = ll.Network(ll.GramInputs(np.eye(2), mean=[0.6, 0.0]), ll.LayerNorm(eps=0.0))
        >>> print(net.sample(1, width=8, observe="gram")[0].round(4))
        [[1. 0.]
         [0. 1.]]
    """

    eps: Any = 1e-5

    def __init__(self, eps: float = 1e-5):
        self.eps = _arguments.non_negative("eps", eps)

    @property
    def needs_mean(self) -> bool:
        return True

    def check_width(self, width: int | float) -> None:
        if width == 1:
            raise ValueError(
                f"width=1 with {self!r}: a token of one coordinate less its mean is 0; use a width of 2 or more, or RMSNorm."
            )

    def is_deterministic(self, width: int | float) -> bool:
        return True
