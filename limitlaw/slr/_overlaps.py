"""The five overlaps of the learner's directions `u, v` with the true ones `u_*, v_*` and with each other."""

from typing import Any

import numpy as np

from .. import _arguments

NAMES = ("mu", "nu", "eta", "zeta", "rho")
_ROUNDING = 1e-9


def as_overlaps(values: Any, dim: int) -> np.ndarray:
    """Overlaps `(..., 5)`, refused unless four unit vectors of `R^dim` can have them."""
    overlaps = np.asarray(values, np.float64)
    if overlaps.shape[-1:] != (5,):
        raise ValueError(f"overlaps have shape {overlaps.shape}: the last axis must hold mu, nu, eta, zeta, rho.")
    flat = overlaps.reshape(-1, 5)
    if not np.isfinite(flat).all():
        raise ValueError(f"overlaps: {_shown(flat[~np.isfinite(flat).all(axis=1)][0])} are not all finite numbers.")
    mu, nu, eta, zeta, rho = flat.T
    # what of u and v lies outside of the plane of u_* and v_*
    left_u, left_v, left_uv = 1 - mu**2 - eta**2, 1 - zeta**2 - nu**2, rho - mu * zeta - eta * nu
    spread = left_u * left_v - left_uv**2
    impossible = (np.minimum(left_u, left_v) < -_ROUNDING) | (spread < -_ROUNDING)
    if impossible.any():
        raise ValueError(
            f"overlaps: no four unit vectors have {_shown(flat[impossible][0])}; keep mu^2 + eta^2 and nu^2 + zeta^2 up to 1, and rho within "
            f"sqrt((1 - mu^2 - eta^2)(1 - nu^2 - zeta^2)) of mu zeta + eta nu."
        )
    narrow = (np.maximum(left_u, left_v) > _ROUNDING) if dim == 2 else (spread > _ROUNDING) & (dim == 3)
    if narrow.any():
        raise ValueError(f"overlaps: {_shown(flat[narrow][0])} need more than dim={dim} dimensions; use dim=4 or more.")
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
    """Unit vectors `u, v` of `R^dim`, `(..., 2, dim)`, with these overlaps, `u_*` and `v_*` being the first two axes."""
    mu, nu, eta, zeta, rho = np.moveaxis(overlaps, -1, 0)
    out = np.zeros((*overlaps.shape[:-1], 2, dim))
    out[..., 0, 0], out[..., 0, 1], out[..., 1, 0], out[..., 1, 1] = mu, eta, zeta, nu
    left_u, left_v = np.maximum(1 - mu**2 - eta**2, 0.0), np.maximum(1 - zeta**2 - nu**2, 0.0)
    along = np.where(left_u > 0, (rho - mu * zeta - eta * nu) / np.sqrt(np.where(left_u > 0, left_u, 1.0)), 0.0)
    if dim > 2:
        out[..., 0, 2], out[..., 1, 2] = np.sqrt(left_u), along
    if dim > 3:
        out[..., 1, 3] = np.sqrt(np.maximum(left_v - along**2, 0.0))
    return out / np.linalg.norm(out, axis=-1, keepdims=True)


def random_start(dim: int, count: int, seed: int, mu: float | None, nu: float | None) -> np.ndarray:
    """Overlaps of `u` and `v` uniform on the sphere, or on the part of it with the given `mu`, and the given `nu`."""
    rng = np.random.default_rng(_arguments.seed(seed))
    u, v = np.moveaxis(rng.standard_normal((count, 2, dim)), 1, 0)
    for vector, axis, overlap in ((u, 0, mu), (v, 1, nu)):
        if overlap is not None:
            vector[:, axis] = 0.0
            vector *= (np.sqrt(1 - overlap**2) / np.linalg.norm(vector, axis=1))[:, None]
            vector[:, axis] = overlap
        vector /= np.linalg.norm(vector, axis=1)[:, None]
    return np.stack([u[:, 0], v[:, 1], u[:, 1], v[:, 0], np.sum(u * v, axis=1)], axis=1)


def _shown(point: np.ndarray) -> str:
    return ", ".join(f"{name} = {value:.6g}" for name, value in zip(NAMES, point, strict=True))
