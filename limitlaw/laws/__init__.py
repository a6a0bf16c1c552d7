from ._atoms import Atoms as Atoms
from ._base import ProbabilityLaw as ProbabilityLaw
from ._empirical import Empirical as Empirical
from ._gaussian import Gaussian as Gaussian
from ._gaussian_mixture import GaussianMixture as GaussianMixture
from ._joint import JointLaw as JointLaw
from ._law import Law as Law
from ._pushforward import JointPushforward as JointPushforward, Pushforward as Pushforward
from ._scale_mixture import ScaleMixture as ScaleMixture
from ._scipy_law import as_law as as_law
