from ._pushforward import Pushforward as Pushforward
from ._scale_mixture import Gaussian as Gaussian, ScaleMixture as ScaleMixture
