from ._program import (
    AssumptionError as AssumptionError,
)
from ._program import (
    Matrix as Matrix,
)
from ._program import (
    Program as Program,
)
from ._program import (
    Scalar as Scalar,
)
from ._program import (
    Value as Value,
)
from ._program import (
    Vector as Vector,
)
