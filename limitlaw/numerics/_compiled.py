"""Programs that are compiled once."""

from contextlib import suppress
from pathlib import Path

import jax


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
