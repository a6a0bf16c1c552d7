"""A model that is inspected, with the tokens that it reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..networks import Network, seconds_of_a_draw
from ..numerics import largest_power_of_two
from ._config import family_of, from_config, read_config
from .families import PRESETS

_FEWEST_DRAWS, _MOST_DRAWS = 64, 4096  # fewer give no error bars worth reading; more are not seen in three digits


@dataclass(frozen=True)
class Subject:
    """A model to inspect.

    Args:
        title: The name of the model, for people.
        config: Its configuration.
        tokens: What it reads, as `from_config` takes it.
        tokens_in_words: The tokens, for people.

    Example:
        >>> from limitlaw.models import Subject
        >>> subject = Subject.of("gpt2", 4)
        >>> subject.title, subject.tokens
        ('GPT-2 small', [1, 2, 1, 4])
        >>> subject.network(width=96, depth=2).width
        96
    """

    title: str
    config: Mapping[str, Any]
    tokens: Any
    tokens_in_words: str

    @classmethod
    def of(cls, model: str, tokens: int | Sequence[int], seed: int = 0) -> "Subject":
        """A model by its name or its file.

        Args:
            model: The name of a known model, or the path of a `config.json` or of its folder.
            tokens: The number of tokens (of patches, for an image), or their ids.
            seed: Of a random image.

        Returns:
            The subject, its tokens chosen.

        Raises:
            ArgumentError: If there is no such model, or it cannot read these tokens.
        """
        config = read_config(model)
        family = family_of(config)
        example = family.tokens.example(family.settings(config), tokens, seed)
        title = PRESETS[model].title if model in PRESETS else f"{model} ({family.model_type})"
        return cls(title, {**config, **example.config}, example.tokens, example.description)

    def network(self, *, width: int | None = None, depth: int | None = None) -> Network:
        """The network of the model, with another width or depth if given."""
        return from_config(self.config, self.tokens, width=width, depth=depth)


def affordable_draws(net: Network, width: int | float, seconds: float) -> int:
    """The number of draws that one core makes in about `seconds`, compilation aside.

    Args:
        net: The network.
        width: The width at which it is drawn.
        seconds: The time.

    Returns:
        A power of two from 64 to 4096: equal counts share compiled programs.

    Example:
        >>> import limitlaw as ll
        >>> from limitlaw.models import affordable_draws
        >>> net = ll.from_config("gpt2", tokens=8)
        >>> affordable_draws(net, net.width, 1.0)
        512
    """
    draws = largest_power_of_two(seconds / seconds_of_a_draw(net, width))
    return min(max(draws, _FEWEST_DRAWS), _MOST_DRAWS)
