import os

# Two test processes share the machine: keep each to its own share of it.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import hypothesis
import jax

jax.config.update("jax_numpy_dtype_promotion", "strict")

# Statistical property tests must not search for small p-values: the same examples on every run.
hypothesis.settings.register_profile("limitlaw", derandomize=True, deadline=None, print_blob=False)
hypothesis.settings.load_profile("limitlaw")
