"""Compiled programs, which are cached on disk and removed from memory before there are too many."""

from contextlib import suppress
from itertools import count
from pathlib import Path

import jax

_LOOK_EVERY = 32  # calls between counts of the memory maps of the process, as a count takes milliseconds

_calls = count()


def keep_compiled(folder: str | Path) -> None:
    """Keep compiled programs in a folder, for this process and later ones, unless the user has chosen another folder.

    Without it every process compiles again, which takes some seconds for every kind of network. Nothing happens if the
    folder cannot be created.

    Args:
        folder: The folder, which is created if necessary.

    Example:
        >>> import tempfile, jax
        >>> from limitlaw.numerics.compiled import keep_compiled
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
    """Clear JAX's caches once the process holds half of `vm.max_map_count` memory maps (checked at every 32nd call).

    At that limit, 65,530 by default, jaxlib ends the process with a segmentation fault, and a compiled CPU program
    holds maps as long as it is cached. Measured with jax 0.10.2, a program of one sine has three maps, and the six to
    eight programs that sample a network of an attention layer and a perceptron have 500 to 900. So a hundred kinds of
    networks reach the limit. `jax.clear_caches` releases all maps. Programs are compiled again, or read from disk, when
    they are needed.

    Returns:
        Whether the caches were cleared.

    Example:
        >>> from limitlaw.numerics.compiled import release_compiled
        >>> release_compiled()
        False
    """
    if next(_calls) % _LOOK_EVERY:
        return False
    try:
        allowed = int(Path("/proc/sys/vm/max_map_count").read_text())
        held = Path("/proc/self/maps").read_bytes().count(b"\n")
    except OSError:  # not Linux, or not readable
        return False
    if held > allowed // 2:
        jax.clear_caches()
        return True
    return False
