from . import random as random
from ._activation import (
    Activation as Activation,
    activation as activation,
    check_coordinatewise as check_coordinatewise,
    clip as clip,
)
from ._bartlett import bartlett as bartlett, bartlett_normals as bartlett_normals
from ._batches import (
    DEFAULT_MEMORY as DEFAULT_MEMORY,
    Batch as Batch,
    available_cores as available_cores,
    draw_batches as draw_batches,
    largest_power_of_two as largest_power_of_two,
    seed_key as seed_key,
)
from ._chi import chi_square_mean as chi_square_mean
from ._compiled import keep_compiled as keep_compiled, release_compiled as release_compiled
from ._estimate import (
    Estimate as Estimate,
    jackknife as jackknife,
    leave_one_batch_out as leave_one_batch_out,
)
from ._integrate import (
    gaussian_axis as gaussian_axis,
    gaussian_expectation as gaussian_expectation,
    hermite_mean as hermite_mean,
    sobol_normals as sobol_normals,
    sobol_uniforms as sobol_uniforms,
)
from ._kernel_density import (
    kernel_density as kernel_density,
    kernel_density_on_grid as kernel_density_on_grid,
    kernel_sums as kernel_sums,
    scott_bandwidth as scott_bandwidth,
)
from ._root import (
    calls_lapack as calls_lapack,
    gram as gram,
    multiply as multiply,
    narrow_root as narrow_root,
    psd_root as psd_root,
    transpose as transpose,
)
