"""Loading of users' Python files, before a network or a study that names their layers is read."""

import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from ._checks import ArgumentError


def load_module(path: str | Path) -> ModuleType:
    """Run a Python file once, as the module that has its stem as its name.

    Args:
        path: The file. Modules that it imports are not searched for in its folder.

    Returns:
        The module, which is in `sys.modules` from then on. A second call with the same file returns the same module.

    Raises:
        ArgumentError: If the file does not exist, its stem is no Python name or that of another module, or its code
            fails.

    Example:
        >>> import pathlib, tempfile
        >>> from limitlaw._load import load_module
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = pathlib.Path(folder, "bottleneck_of_docs.py")
        ...     _ = file.write_text("ratio = 0.25")
        ...     load_module(file).ratio
        0.25
    """
    file = Path(path).resolve()
    name = file.stem
    if not file.is_file():
        raise ArgumentError("load", f"load={str(path)!r} is not a file. Give a Python file.")
    if file.suffix != ".py" or not name.isidentifier():
        raise ArgumentError(
            "load",
            f"load={str(path)!r} cannot be imported. Rename it to a Python name that ends in .py, such as own.py.",
        )
    if name in sys.modules and _is_at(getattr(sys.modules[name], "__file__", None), file):
        return sys.modules[name]
    # Python may find this very file by its name, if it was started in the folder of the file.
    found = None if name in sys.modules else importlib.util.find_spec(name)
    if name in sys.modules or (found is not None and not _is_at(found.origin, file)):
        raise ArgumentError("load", f"load={str(path)!r} has the name of another module, {name!r}. Rename the file.")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None, "a file that ends in .py has a loader"
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Registered before it runs, as import does: dataclasses and pickle look classes up by the name of their module.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise ArgumentError(
            "load", f"load={str(path)!r} failed with {type(error).__name__}: {_one_line(error)}. Correct the file."
        ) from error
    return module


def load_modules(paths: Iterable[Path] | None) -> None:
    """Load the files of the option `--load` in order."""
    for path in paths or ():
        load_module(path)


def _is_at(origin: str | None, file: Path) -> bool:
    """Whether the origin of a module is this file."""
    return origin is not None and Path(origin).resolve() == file


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".") or "no message"
