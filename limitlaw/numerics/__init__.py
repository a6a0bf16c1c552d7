from ._activation import Activation as Activation
from ._activation import activation as activation
from ._activation import clip as clip
from ._bartlett import bartlett as bartlett
from ._bartlett import bartlett_normals as bartlett_normals
from ._blocks import (
    DEFAULT_MEMORY as DEFAULT_MEMORY,
)
from ._blocks import (
    Block as Block,
)
from ._blocks import (
    draw_blocks as draw_blocks,
)
from ._blocks import (
    largest_power_of_two as largest_power_of_two,
)
from ._blocks import (
    seed_key as seed_key,
)
from ._chi import chi_square_mean as chi_square_mean
from ._estimate import Estimate as Estimate
from ._expectation import gaussian_axis as gaussian_axis
from ._expectation import gaussian_expectation as gaussian_expectation
from ._expectation import sobol_normals as sobol_normals
from ._expectation import sobol_uniforms as sobol_uniforms
from ._root import gram as gram
from ._root import multiply as multiply
from ._root import psd_root as psd_root
from ._root import transpose as transpose
