from . import random as random
from ._activation import (
    Activation as Activation,
    activation as activation,
    check_coordinatewise as check_coordinatewise,
    clip as clip,
)
from ._bartlett import bartlett as bartlett, bartlett_normals as bartlett_normals
from ._blocks import (
    DEFAULT_MEMORY as DEFAULT_MEMORY,
    Block as Block,
    available_cores as available_cores,
    bytes_in_words as bytes_in_words,
    draw_blocks as draw_blocks,
    largest_power_of_two as largest_power_of_two,
    seed_key as seed_key,
)
from ._bracket import root_between as root_between
from ._chi import chi_square_mean as chi_square_mean
from ._compiled import keep_compiled as keep_compiled, release_compiled as release_compiled
from ._estimate import Estimate as Estimate
from ._expectation import (
    gaussian_axis as gaussian_axis,
    gaussian_expectation as gaussian_expectation,
)
from ._interpreted import interpreted as interpreted
from ._jackknife import jackknife as jackknife, left_out as left_out
from ._kernel_density import (
    kernel_density as kernel_density,
    kernel_density_on_grid as kernel_density_on_grid,
    kernel_table as kernel_table,
    scott_bandwidth as scott_bandwidth,
)
from ._mehler import mehler_kernel as mehler_kernel
from ._root import (
    calls_lapack as calls_lapack,
    gram as gram,
    multiply as multiply,
    narrow_root as narrow_root,
    psd_root as psd_root,
    transpose as transpose,
)
from ._sobol import sobol_normals as sobol_normals, sobol_uniforms as sobol_uniforms
from ._spline import CubicSpline as CubicSpline
from ._streams import Streams as Streams
