from ._attention import Attention as Attention
from ._dense import Activity as Activity, dense as dense
from ._described import InputLayer as InputLayer, Layer as Layer, Layout as Layout
from ._gram import (
    Fresh as Fresh,
    Tokens as Tokens,
    block_size as block_size,
    gram as gram,
    numbers_of_a_draw as numbers_of_a_draw,
    seconds_of_a_draw as seconds_of_a_draw,
    working_memory as working_memory,
)
from ._inputs import (
    Embedding as Embedding,
    GaussianInputs as GaussianInputs,
    GramInputs as GramInputs,
    Inputs as Inputs,
)
from ._layers import (
    MLP as MLP,
    Only as Only,
    Readout as Readout,
    Repeat as Repeat,
    Residual as Residual,
)
from ._lowering import lowering as lowering
from ._network import Network as Network
from ._norms import LayerNorm as LayerNorm, RMSNorm as RMSNorm
from ._plain import KINDS as KINDS, as_plain as as_plain, from_plain as from_plain, unknown_key as unknown_key
from ._reading import Reading as Reading
from ._trajectory import Trajectory as Trajectory, blocks_of as blocks_of, excess_kurtosis as excess_kurtosis
