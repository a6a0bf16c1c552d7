from ._cost import (
    batch_size as batch_size,
    cost_of as cost_of,
    seconds_of_a_draw as seconds_of_a_draw,
    working_memory as working_memory,
)
from ._dense import Activity as Activity, Realisation as Realisation
from ._derived import draw_derived as draw_derived
from ._described import Traced as Traced
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
from ._plain import as_plain as as_plain, from_plain as from_plain, parameters_of as parameters_of
from ._registry import OwnKind as OwnKind, own_kinds as own_kinds, registered as registered
from ._state import Fresh as Fresh, Tokens as Tokens
from ._trajectory import Trajectory as Trajectory, blocks_of as blocks_of, excess_kurtosis as excess_kurtosis
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
