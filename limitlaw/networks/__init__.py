"""Networks, their inputs and layers, and the contracts of layers. Other rooms import the rest from the modules."""

from ._layer import (
    Combinator as Combinator,
    Context as Context,
    Cost as Cost,
    InputLayer as InputLayer,
    Layer as Layer,
    Layout as Layout,
    Matrix as Matrix,
    Node as Node,
    Purpose as Purpose,
    RowMap as RowMap,
)
from ._network import Network as Network
from .dense import Realisation as Realisation
from .inputs import (
    Embedding as Embedding,
    GaussianInputs as GaussianInputs,
    GramInputs as GramInputs,
    Inputs as Inputs,
)
from .layers import (
    MLP as MLP,
    Attention as Attention,
    Block as Block,
    Dense as Dense,
    LayerNorm as LayerNorm,
    Linear as Linear,
    OnSequence as OnSequence,
    Readout as Readout,
    Repeat as Repeat,
    Residual as Residual,
    RMSNorm as RMSNorm,
)
from .plain import as_plain as as_plain, from_plain as from_plain
from .trajectory import Trajectory as Trajectory
