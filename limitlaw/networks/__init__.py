from ._dense import Activity as Activity, dense as dense
from ._gram import Fresh as Fresh, Tokens as Tokens, gram as gram
from ._layers import (
    Attention as Attention,
    GaussianInputs as GaussianInputs,
    GramInputs as GramInputs,
    InputLayer as InputLayer,
    Inputs as Inputs,
    Layer as Layer,
)
from ._lowering import lowering as lowering
from ._network import Network as Network
from ._plain import as_plain as as_plain, from_plain as from_plain, unknown_key as unknown_key
from ._reading import Reading as Reading
