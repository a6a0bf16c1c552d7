from ._family import program_of as program_of, to_target as to_target, toward as toward
from ._measure import named as named
from ._study import Study as Study, read as read
from ._sweep import Sweep as Sweep
