from ._pushforward import Pushforward as Pushforward
from ._scale_mixture import Gaussian as Gaussian
from ._scale_mixture import ScaleMixture as ScaleMixture
