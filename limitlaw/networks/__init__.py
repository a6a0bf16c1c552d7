from ._dense import Activity as Activity
from ._dense import dense as dense
from ._gram import Fresh as Fresh
from ._gram import Tokens as Tokens
from ._gram import gram as gram
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
from ._lowering import lowering as lowering
from ._network import Network as Network
from ._reading import Reading as Reading
