from ._layers import (
    Attention as Attention,
)
from ._layers import (
    GaussianInputs as GaussianInputs,
)
from ._layers import (
    GramInputs as GramInputs,
)
from ._layers import (
    InputLayer as InputLayer,
)
from ._layers import (
    Inputs as Inputs,
)
from ._layers import (
    Layer as Layer,
)
from ._network import Network as Network
from ._reading import Reading as Reading
