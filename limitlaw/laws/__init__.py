from ._atoms import Atoms as Atoms
from ._empirical import Empirical as Empirical
from ._gaussian import Gaussian as Gaussian
from ._gaussian_mixture import GaussianMixture as GaussianMixture
from ._law import Law as Law
from ._pushforward import Pushforward as Pushforward
from ._scale_mixture import ScaleMixture as ScaleMixture
