"""Gaussian building blocks. People use these names; other rooms of the library import from the modules."""

from . import random as random
from .activations import Activation as Activation, activation as activation, clip as clip
from .estimate import Estimate as Estimate, jackknife as jackknife
