"""Of all tests, and of the examples in docstrings and pages."""

import os
import shutil
import signal
import sys
import tempfile
from importlib.util import find_spec

_compiled = os.path.join(tempfile.gettempdir(), f"limitlaw-tests-{os.getpid()}")
for _name, _value in {
    # Two test processes share the machine: keep each to its own share of it.
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    # What one of them compiles serves the other, and the commands that tests start.
    "JAX_COMPILATION_CACHE_DIR": _compiled,
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}.items():
    os.environ.setdefault(_name, _value)

import hypothesis  # noqa: E402
import jax  # noqa: E402
import pytest  # noqa: E402

from limitlaw.numerics.compiled import release_compiled  # noqa: E402

jax.config.update("jax_numpy_dtype_promotion", "strict")

# Statistical property tests must not search for small p-values: the same examples on every run.
hypothesis.settings.register_profile("limitlaw", derandomize=True, deadline=None, print_blob=False)
hypothesis.settings.load_profile("limitlaw")


# Started in the background, a shell's commands ignore interrupts, and so would what tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def few_compiled_programs():
    """A long suite compiles more than a process can hold."""
    release_compiled()


@pytest.fixture(autouse=True)
def no_pictures_of_others():
    """What draws on the current axes must not find those of another test."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def pytest_collection_modifyitems(items):
    """Two examples build models of transformers, where that is installed."""
    for item in items:
        if item.name.endswith(("models._genuine.genuine", "models._genuine.require_genuine")) and not (
            find_spec("torch") and find_spec("transformers")
        ):
            item.add_marker(pytest.mark.skip("needs torch and transformers"))


def pytest_unconfigure():
    """Test processes share the folder of the one that started them, which removes it."""
    shutil.rmtree(_compiled, ignore_errors=True)
