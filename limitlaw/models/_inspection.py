"""A model at initialisation in numbers and sentences: what `limitlaw inspect` prints."""

import time
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from .. import _checks
from .._checks import ArgumentError
from ..networks import Trajectory
from ._genuine import Agreement, compare_trajectories, genuine, require_genuine
from ._observations import observations
from ._subject import Subject, affordable_draws


@dataclass(frozen=True)
class Check:
    """Genuine models beside the exact draws.

    Args:
        models: Their number.
        agreement: The comparison.
        seconds: How long the models took.

    Example:
        >>> import limitlaw as ll
        >>> from limitlaw.models import Check, compare_trajectories
        >>> t = ll.Network(ll.GaussianInputs([[1.0]]), ll.Attention()).trajectory(50, width=32)
        >>> check = Check(models=50, agreement=compare_trajectories(t, t), seconds=1.0)
        >>> print(str(check.agreement).split(" (")[0])
        The largest of 2 |z| is 0.0
    """

    models: int
    agreement: Agreement
    seconds: float

    def as_plain(self) -> dict[str, Any]:
        """All numbers, and the versions of the packages that made the models."""
        found = self.agreement
        quantity, block = found.largest
        rows: list[dict[str, Any]] = [{"block": b} for b in range(len(found.z[quantity]))]
        for name, z in found.z.items():
            for b, row in enumerate(rows):
                row[name] = {
                    "law": _pair(found.first[name], b),
                    "genuine": _pair(found.second[name], b),
                    "z": float(z[b]),
                }
        return {
            "models": self.models,
            "torch": version("torch"),
            "transformers": version("transformers"),
            "seconds": round(self.seconds, 3),
            "table": rows,
            "largest": {"quantity": quantity, "block": block, "z": float(found.z[quantity][block])},
            "count": found.count,
            "p": found.p,
        }


@dataclass(frozen=True)
class Inspection:
    """A model, its trajectory, and what stands out.

    Args:
        subject: The model and its tokens.
        trajectory: Draws of its network.
        observations: Sentences about them.
        seed: The seed of the draws.
        seconds: How long they took, compilation included.
        check: The comparison with genuine models, if one was made.

    Example:
        >>> from limitlaw.models import inspect
        >>> plain = inspect("gpt2", 4, width=96, depth=2, samples=200).as_plain()
        >>> plain["model"], plain["blocks"], plain["ids"], [row["block"] for row in plain["table"]]
        ('GPT-2 small', 2, [1, 2, 1, 4], [0, 1, 2])
    """

    subject: Subject
    trajectory: Trajectory
    observations: list[str]
    seed: int
    seconds: float
    check: Check | None = None

    def as_plain(self) -> dict[str, Any]:
        """All results with their inputs as dicts, lists, text and numbers; NaN where there is no value."""
        t, summary = self.trajectory, self.trajectory.summary()
        plain = {
            "model": self.subject.title,
            "config": {**self.subject.config},
            "width": t.width,
            "blocks": t.blocks,
            "tokens": t.tokens,
            **({"ids": self.subject.tokens} if isinstance(self.subject.tokens, list) else {}),
            "samples": t.samples,
            "seed": self.seed,
            "seconds": round(self.seconds, 3),
            "table": [
                {"block": block, **{name: _pair(columns, block) for name, columns in summary.items()}}
                for block in range(t.blocks + 1)
            ],
            "observations": self.observations,
        }
        return plain if self.check is None else {**plain, "check": self.check.as_plain()}


def inspect(
    model: str,
    tokens: int | Iterable[int],
    *,
    width: int | None = None,
    depth: int | None = None,
    samples: int | None = None,
    seed: int = 0,
    check: int | None = None,
) -> Inspection:
    """What a model does to its tokens at initialisation, block by block.

    Args:
        model: The name of a known model, or the path of a `config.json` or of its folder.
        tokens: The number of tokens (of patches, for an image), or their ids.
        width: Replaces the width of the model.
        depth: Replaces the number of blocks.
        samples: The number of draws; by default as many as take about a second.
        seed: The seed of the draws, of a random image and of genuine models.
        check: The number of genuine models to build with transformers and compare; by default none.

    Returns:
        The numbers, with sentences about them.

    Raises:
        ArgumentError: If there is no such model, an argument is out of range, or genuine models cannot be built.

    Example:
        >>> from limitlaw.models import inspect
        >>> found = inspect("gpt2", 4, width=96, depth=2, samples=200)
        >>> print(found.observations[0][:26], found.trajectory.blocks)
        Tokens become more similar 2
    """
    start = time.perf_counter()
    _checks.seed(seed)
    if check is not None and check < 2:
        raise ArgumentError("check", f"check={check} must be at least 2: a standard error needs two models.")
    subject = Subject.of(model, tokens if isinstance(tokens, int) else list(tokens), seed)
    net = subject.network(width=width, depth=depth)
    if check is not None:  # before the draws, which may take long
        require_genuine(subject.config, width, depth)
    t = net.trajectory(affordable_draws(net, net.width) if samples is None else samples, seed=seed)
    sentences, drawn = observations(t, net), time.perf_counter()
    compared = None
    if check is not None:
        models = genuine(subject.config, subject.tokens, check, width=width, depth=depth, seed=seed)
        compared = Check(check, compare_trajectories(t, models), time.perf_counter() - drawn)
    return Inspection(subject, t, sentences, seed, drawn - start, compared)


def _pair(columns: Any, block: int) -> dict[str, float] | None:
    """A value with its standard error; None where there is no value, as in a block without attention."""
    value, stderr = (float(column[block]) for column in columns)
    return None if value != value else {"value": value, "stderr": stderr}
