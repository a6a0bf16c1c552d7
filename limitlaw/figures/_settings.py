"""How much of everything: the paper's own counts, or fewer."""

import hashlib
from dataclasses import dataclass, replace

from .. import _checks
from .._checks import ArgumentError

_MOST_SAMPLES, _MOST_TOKENS = 10**7, 128


@dataclass(frozen=True)
class Settings:
    """What a run may choose; the defaults are the paper's.

    `samples` is the number of networks in a trial (None: 50,000, and 100,000 for ReLU), `draws` the most conditional variances
    behind an exact finite-width law, `tokens` the length of the sequences of figure 4, which the paper's code does not tell. `steps` of descent and
    `points` along an axis of a map are those of the figures of single-location regression, `depth` is the number of blocks of the deep networks.

    Example:
        >>> from limitlaw.figures import Settings
        >>> Settings().trials, Settings.quick().trials
        (10, 3)
    """

    seed: int = 0
    trials: int = 10
    samples: int | None = None
    draws: int = 2**19
    tokens: int = 16
    steps: int = 600
    points: int = 15
    depth: int = 16

    def __post_init__(self) -> None:
        _checks.seed(self.seed)
        for name, value, least in (
            ("trials", self.trials, 2),
            ("samples", self.samples, 100),
            ("draws", self.draws, 256),
            ("steps", self.steps, 50),
            ("points", self.points, 4),
            ("depth", self.depth, 8),
        ):
            if value is not None and _checks.positive_integer(name, value) < least:
                raise ArgumentError(name, f"{name}={value} must be at least {least}.")
        if _checks.positive_integer("tokens", self.tokens) < 2:
            raise ArgumentError(
                "tokens", f"tokens={self.tokens} must be at least 2: a single token attends to itself only."
            )
        for name, value, most in (("samples", self.samples, _MOST_SAMPLES), ("tokens", self.tokens, _MOST_TOKENS)):
            if value is not None and value > most:
                raise ArgumentError(
                    name, f"{name}={value} makes a figure too slow, or too large for memory. Use at most {most:,}."
                )

    @classmethod
    def quick(cls) -> "Settings":
        """Enough to see every figure, in seconds; figure 4 with 5 tokens."""
        return cls(trials=3, samples=5_000, draws=2**13, tokens=5, steps=100, points=6, depth=8)

    @property
    def at_full_counts(self) -> bool:
        """Whether there are as many trials and samples as in the paper."""
        usual = Settings()
        return self.trials >= usual.trials and self.samples is None

    def seed_for(self, *what: object) -> int:
        """A seed for every experiment and purpose, made from that of the run."""
        text = f"{self.seed} {' '.join(map(str, what))}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")

    def override(self, **given: int | None) -> "Settings":
        """The same with what is given (not None) put in its place."""
        return replace(self, **{name: value for name, value in given.items() if value is not None})
