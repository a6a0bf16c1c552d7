"""Programs that are compiled once, and dropped before there are too many."""

from contextlib import suppress
from itertools import count
from pathlib import Path

import jax

_LOOK_EVERY = 32  # counting a process' memory maps takes milliseconds
_CROWDED = 0.5  # of the maps the kernel allows

_calls = count()


def keep_compiled(folder: str | Path) -> None:
    """From now on keep every compiled program in a folder, for this process and others; nothing changes if the user has chosen one, or if it cannot be made.

    !!! Example

        >>> import tempfile, jax
        >>> from limitlaw.numerics import keep_compiled
        >>> before = jax.config.values["jax_compilation_cache_dir"]
        >>> keep_compiled(before or tempfile.gettempdir())
        >>> jax.config.values["jax_compilation_cache_dir"] == (before or tempfile.gettempdir())
        True
        >>> jax.config.update("jax_compilation_cache_dir", before)
    """
    if jax.config.values["jax_compilation_cache_dir"] is None:
        with suppress(OSError):
            Path(folder).mkdir(parents=True, exist_ok=True)
            jax.config.update("jax_compilation_cache_dir", str(folder))
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
            jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def release_compiled() -> bool:
    """Drop all compiled programs if this process has come half-way to the kernel's limit of memory maps, and tell; looks every 32nd time it is called.

    A compiled program holds about ten maps for as long as it is remembered; at `vm.max_map_count`, 65,530 by default, jaxlib ends the
    process with a segmentation fault. What is dropped is compiled again when it is needed.

    !!! Example

        >>> from limitlaw.numerics import release_compiled
        >>> release_compiled()
        False
    """
    if next(_calls) % _LOOK_EVERY:
        return False
    try:
        allowed = int(Path("/proc/sys/vm/max_map_count").read_text())
        held = Path("/proc/self/maps").read_bytes().count(b"\n")
    except OSError:  # not Linux, or not told
        return False
    if held > _CROWDED * allowed:
        jax.clear_caches()
        return True
    return False
