"""The five overlaps of the learner's directions `u, v` with the true ones `u_*, v_*` and with each other."""

import numpy as np
from numpy.typing import ArrayLike

from .._checks import ArgumentError

NAMES = ("mu", "nu", "eta", "zeta", "rho")
_ROUNDING = 1e-9  # of sums of squares of overlaps: a descent of a million steps rounds no more


def as_overlaps(values: ArrayLike, dim: int) -> np.ndarray:
    """Overlaps `(..., 5)`, refused unless four unit vectors of `R^dim` can have them."""
    overlaps = np.asarray(values, np.float64)
    if overlaps.shape[-1:] != (5,):
        raise ArgumentError(
            "overlaps", f"overlaps have shape {overlaps.shape}. The last axis must hold mu, nu, eta, zeta, rho."
        )
    flat = overlaps.reshape(-1, 5)
    finite = np.isfinite(flat).all(axis=1)
    if not finite.all():
        raise ArgumentError("overlaps", f"overlaps {_described(flat[~finite][0])} must all be finite.")
    mu, nu, eta, zeta, rho = flat.T
    # squared lengths and inner product of the components of u and v orthogonal to u_* and v_*
    rest_u, rest_v, rest_uv = 1 - mu**2 - eta**2, 1 - zeta**2 - nu**2, rho - mu * zeta - eta * nu
    determinant = rest_u * rest_v - rest_uv**2
    impossible = (np.minimum(rest_u, rest_v) < -_ROUNDING) | (determinant < -_ROUNDING)
    if impossible.any():
        raise ArgumentError(
            "overlaps",
            f"overlaps {_described(flat[impossible][0])} are not those of any four unit vectors. Keep mu^2 + eta^2 and "
            f"nu^2 + zeta^2 up to 1, and rho within sqrt((1 - mu^2 - eta^2)(1 - nu^2 - zeta^2)) of mu zeta + eta nu.",
        )
    # in the plane u and v have no other component, in three dimensions their other components are parallel
    narrow = np.maximum(rest_u, rest_v) > _ROUNDING if dim == 2 else (determinant > _ROUNDING) & (dim == 3)
    if narrow.any():
        raise ArgumentError(
            "overlaps",
            f"overlaps {_described(flat[narrow][0])} need more than dim={dim} dimensions. Use dim=4 or more.",
        )
    return overlaps


def gram(overlaps: np.ndarray) -> np.ndarray:
    """The Gram matrix of `u, v, u_*, v_*`, `(..., 4, 4)`."""
    mu, nu, eta, zeta, rho = np.moveaxis(overlaps, -1, 0)
    one, zero = np.ones_like(mu), np.zeros_like(mu)
    rows = [[one, rho, mu, eta], [rho, one, zeta, nu], [mu, zeta, one, zero], [eta, nu, zero, one]]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


def from_gram(matrix: np.ndarray) -> np.ndarray:
    """The overlaps in a Gram matrix."""
    places = ((0, 2), (1, 3), (0, 3), (1, 2), (0, 1))
    return np.stack([matrix[..., i, j] for i, j in places], axis=-1)


def vectors(overlaps: np.ndarray, dim: int) -> np.ndarray:
    """Unit vectors `u, v` of `R^dim`, `(..., 2, dim)`, with these overlaps; `u_*` and `v_*` are the first two axes."""
    mu, nu, eta, zeta, rho = np.moveaxis(overlaps, -1, 0)
    out = np.zeros((*overlaps.shape[:-1], 2, dim))
    out[..., 0, 0], out[..., 0, 1], out[..., 1, 0], out[..., 1, 1] = mu, eta, zeta, nu
    rest_u, rest_v = np.maximum(1 - mu**2 - eta**2, 0.0), np.maximum(1 - zeta**2 - nu**2, 0.0)
    along = np.where(rest_u > 0, (rho - mu * zeta - eta * nu) / np.sqrt(np.where(rest_u > 0, rest_u, 1.0)), 0.0)
    if dim > 2:
        out[..., 0, 2], out[..., 1, 2] = np.sqrt(rest_u), along
    if dim > 3:
        out[..., 1, 3] = np.sqrt(np.maximum(rest_v - along**2, 0.0))
    return out / np.linalg.norm(out, axis=-1, keepdims=True)


def _described(point: np.ndarray) -> str:
    return ", ".join(f"{name} = {value:.6g}" for name, value in zip(NAMES, point, strict=True))
