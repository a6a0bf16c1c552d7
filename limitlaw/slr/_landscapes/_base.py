"""The contract of a risk: its value and its gradient as functions of the overlaps."""

import abc

import numpy as np


class Landscape(abc.ABC):
    """A risk as a function of the overlaps `mu, nu, eta, zeta, rho`, the last axis of every array."""

    @abc.abstractmethod
    def risk(self, overlaps: np.ndarray) -> np.ndarray:
        """Excess risk at overlaps `(count, 5)`."""

    @abc.abstractmethod
    def risk_and_gradient(self, overlaps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The risk, `(count,)`, and its derivatives in the five overlaps, `(count, 5)`."""
