"""A fresh matrix on every token."""

from typing import Any

import equinox as eqx
import numpy as np

from ... import _checks
from .._layer import Cost, Layer, Layout, Matrix, Purpose


class Linear(Layer):
    """`X W + b`, weights `N(0, std^2 / n)`, bias `N(0, bias_std^2)`: a square matrix on every token.

    Args:
        std: The standard deviation of a weight times `sqrt(n)`.
        bias_std: The standard deviation of an entry of the bias.

    Example:
        >>> import numpy as np, limitlaw as ll
        >>> net = ll.Network(ll.GramInputs(np.eye(2)), ll.Linear(std=0.5))
        >>> print(f"{net.law(width=16).variance():.4f}")
        0.2500
    """

    std: float = eqx.field(default=1.0, converter=lambda std: _checks.standard_deviation("std", std))
    bias_std: float = eqx.field(default=0.0, converter=lambda std: _checks.standard_deviation("bias_std", std))

    def matrices(self, width: int | float, layout: Layout) -> dict[str, Matrix]:
        del layout
        return {"out": Matrix(width, self.std, self.bias_std)}

    def contract(self, width: int | float, layout: Layout, purpose: Purpose) -> Any:
        from .._rules import LinearRule, as_numbers

        return LinearRule(as_numbers(self.matrices(width, layout)["out"]))

    def limit_gram(self, gram: np.ndarray, layout: Layout) -> np.ndarray | None:
        del layout
        return float(self.std) ** 2 * gram + float(self.bias_std) ** 2

    def is_deterministic(self, width: int | float) -> bool:
        del width
        return True

    def zero_tokens(self, zero: np.ndarray, active: np.ndarray, layout: Layout) -> np.ndarray:
        del active, layout
        return zero & _checks.is_zero(self.bias_std) | _checks.is_zero(self.std) & _checks.is_zero(self.bias_std)

    def cost(self, width: int | float, layout: Layout) -> Cost:
        del width, layout
        return Cost(matrices=1.0)
