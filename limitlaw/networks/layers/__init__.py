from ._dense import Dense as Dense
from ._linear import Linear as Linear
from ._mlp import MLP as MLP
from ._norms import LayerNorm as LayerNorm, RMSNorm as RMSNorm
from ._readout import Readout as Readout
from ._repeat import Block as Block, Repeat as Repeat
from ._residual import Residual as Residual
from ._sequence import OnSequence as OnSequence
from .attention import Attention as Attention
