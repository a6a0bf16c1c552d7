from ._embedding import Embedding as Embedding
from ._given import GaussianInputs as GaussianInputs, GramInputs as GramInputs
from ._paper import Inputs as Inputs
