"""Scrambled Sobol points, those of `scipy.stats.qmc.Sobol` bit for bit: to import scipy.stats takes a second and 50 MB."""

import functools
from pathlib import Path

import numpy as np
import scipy.special

_BITS = 30
_TABULATED = 1024  # dimensions


def sobol_normals(dimension: int, points: int, seed: int | np.random.Generator) -> np.ndarray:
    """Scrambled Sobol points carried to standard normals: shape `(dimension, points)`, float64.

    !!! Example

        >>> from limitlaw.numerics import sobol_normals
        >>> print(abs((sobol_normals(3, 4096, seed=0) ** 2).mean(axis=1) - 1).max() < 5e-3)
        True
    """
    return scipy.special.ndtri(sobol_uniforms(dimension, points, seed))


def sobol_uniforms(dimension: int, points: int, seed: int | np.random.Generator) -> np.ndarray:
    """Scrambled Sobol points in the open unit cube: shape `(dimension, points)`, float64.

    With the direction numbers of Joe and Kuo (2008), a random linear scramble of the digits and a random shift of them (Matousek 1998), in the order of
    Gray's code.

    !!! Example

        >>> from limitlaw.numerics import sobol_uniforms
        >>> sobol_uniforms(3, 4096, seed=0).mean().round(4)
        np.float64(0.5)
    """
    rng = np.random.default_rng(seed)
    lattice = _scrambled(dimension, points, rng) if dimension <= _TABULATED else _by_scipy(dimension, points, rng)
    return lattice + 2.0**-32  # a point may be exactly 0; a quarter of a lattice cell keeps it inside


def _scrambled(dimension: int, points: int, rng: np.random.Generator) -> np.ndarray:
    (rng,) = rng.spawn(1)  # as scipy does
    shift = rng.integers(2, size=(dimension, _BITS), dtype=np.uint32) @ (1 << np.arange(_BITS, dtype=np.uint32))
    scramble = np.tril(rng.integers(2, size=(dimension, _BITS, _BITS), dtype=np.uint32), -1) + np.eye(_BITS)
    place = np.arange(_BITS - 1, -1, -1, dtype=np.uint32)  # of a digit, the first of them the highest
    digits = (_directions(dimension)[:, None] >> place[:, None]) & 1
    mixed = (scramble @ digits).astype(np.uint32) & 1
    directions = np.bitwise_or.reduce(mixed << place[:, None], axis=1)
    found = np.empty((dimension, points), np.uint32)
    found[:, 0] = shift
    done = 1
    for bit in range(_BITS):  # Gray's code: what there is, backwards, with one more bit
        more = min(done, points - done)
        found[:, done : done + more] = found[:, done - more : done][:, ::-1] ^ directions[:, bit : bit + 1]
        done += more
    return found / 2.0**_BITS


@functools.lru_cache(maxsize=8)
def _directions(dimension: int) -> np.ndarray:
    """The numbers whose sums, digit by digit, are the points: `(dimension, bits)`, by the recurrence of Bratley and Fox (1988)."""
    with np.load(Path(__file__).parent / "directions" / "joe_kuo.npz") as table:
        polynomials, initial = (table[name][:dimension].tolist() for name in ("polynomials", "initial"))
    rows = [[1] * _BITS]
    for polynomial, first in zip(polynomials[1:], initial[1:], strict=True):
        degree = polynomial.bit_length() - 1
        row = first[:degree]
        for j in range(degree, _BITS):
            value = row[j - degree]
            for k in range(1, degree + 1):
                if polynomial >> (degree - k) & 1:
                    value ^= row[j - k] << k
            row.append(value)
        rows.append(row[:_BITS])
    return np.array(rows, np.uint32) << np.arange(_BITS - 1, -1, -1, dtype=np.uint32)


def _by_scipy(dimension: int, points: int, rng: np.random.Generator) -> np.ndarray:
    from scipy.stats import qmc

    return qmc.Sobol(dimension, scramble=True, rng=rng).random(points).T
