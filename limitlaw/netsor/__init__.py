from ._finite import sampler as sampler
from ._program import (
    AssumptionError as AssumptionError,
    Matrix as Matrix,
    Program as Program,
    Scalar as Scalar,
    Value as Value,
    Vector as Vector,
)
