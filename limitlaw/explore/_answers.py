"""The answers of a view to a state, part after part, as a worker computes them."""

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import _progress
from .._checks import ArgumentError
from .._load import load_modules
from ..numerics.compiled import keep_compiled
from ._state import State
from ._views import VIEWS, Part
from ._work import Emit

_TELL_EVERY = 0.2  # seconds between two reports of progress


def prepare_worker(load: Sequence[Path] = ()) -> None:
    """Make a worker ready: users' files loaded, compiled programs kept on disk."""
    import jax
    from threadpoolctl import threadpool_limits

    jax.config.update("jax_traceback_in_locations_limit", 0)  # every program would carry where it was written
    threadpool_limits(1)  # matrices are small here, and threads that wait for a core make them slow
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "limitlaw" / "compiled"
    keep_compiled(folder)
    load_modules(load)


def answer(emit: Emit, view: str, query: dict[str, str], parts: Sequence[str]) -> None:
    """Compute parts of a view, in the order of the view.

    Args:
        emit: Takes pairs of a part's name and a line of JSON. The name is "" if the line may not be remembered. A line
            holds `part` and `panel`, with `first` if another panel will follow; or `part`, `refused` and `field`; or
            `progress`, from 0 to 1, and the title of the part.
        view: The name of the view.
        query: The parameters of the state.
        parts: The names of the parts.

    Raises:
        ArgumentError: If the state cannot be used.
    """
    state = VIEWS[view].state.parse(query)
    wanted = {name: part for name, part in VIEWS[view].parts.items() if name in parts}
    steps = [(name, part, True) for name, part in wanted.items() if part.first]
    steps += [(name, part, False) for name, part in wanted.items()]
    for number, (name, part, first) in enumerate(steps):
        _emit_part(emit, state, name, part, first, number / len(steps), 1 / len(steps))


def _emit_part(emit: Emit, state: State, name: str, part: Part, first: bool, before: float, share: float) -> None:
    most, told = 0.0, time.monotonic()

    def listen(done: int, total: int | None) -> None:
        nonlocal most, told
        emit(None)
        most = max(most, done / total if total else 0.0)  # several computations in turn begin at 0 again
        if time.monotonic() > told + _TELL_EVERY:
            told = time.monotonic()
            emit(("", line(progress=before + share * most, part=part.title)))

    emit(("", line(progress=before, part=part.title)))
    make: Any = part.first if first else part.make
    try:
        with _progress.listening(listen):
            panel = make(state)
    except ArgumentError as error:
        emit(("" if first else name, line(part=name, refused=str(error), field=state.field_of(error))))
    except Exception as error:  # a sentence in the page, whatever numerics end in
        text = f"These values cannot be computed ({type(error).__name__}: {error}). Change one of them."
        emit(("" if first else name, line(part=name, refused=text, field="")))
    else:
        if panel is not None:
            emit(("" if first else name, line(part=name, panel=panel, first=first)))


def line(**event: Any) -> bytes:
    """An event as a line of JSON."""
    return json.dumps(event, allow_nan=False).encode() + b"\n"
