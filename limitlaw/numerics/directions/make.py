"""Make joe_kuo.npz of the direction numbers that come with scipy: the polynomials and initial numbers of Joe and Kuo (2008), criterion D(6), for the first 1,024 dimensions.

python limitlaw/numerics/directions/make.py
"""

from pathlib import Path

import numpy as np
import scipy

DIMENSIONS, DEGREE = 1024, 13  # the highest degree among them


def make(path: Path) -> None:
    """Write the table to a file."""
    with np.load(Path(scipy.__file__).parent / "stats" / "_sobol_direction_numbers.npz") as table:
        polynomials, initial = (table[name][:DIMENSIONS].astype(np.uint16) for name in ("poly", "vinit"))
    np.savez_compressed(path, polynomials=polynomials, initial=initial[:, :DEGREE])


if __name__ == "__main__":
    make(Path(__file__).with_name("joe_kuo.npz"))
