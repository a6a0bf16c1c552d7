"""A model to inspect, with the tokens that it reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..networks import Network
from ..networks.cost import seconds_of_a_draw
from ..numerics.batches import largest_power_of_two
from ._config import family_of, from_config, read_config
from .families import PRESETS

_FEWEST_DRAWS = 64  # with fewer, standard errors are themselves uncertain by more than 10 %
_MOST_DRAWS = 4096  # more would not change the three digits that people read


@dataclass(frozen=True)
class Subject:
    """A model to inspect.

    Args:
        title: The name of the model, for people.
        config: Its configuration.
        tokens: Its tokens or its image, as `from_config` takes them.
        tokens_in_words: A description of the tokens, for people.

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
            seed: The seed of a random image.

        Returns:
            The subject.

        Raises:
            ArgumentError: If there is no such model, or it cannot read these tokens.
        """
        config = read_config(model)
        family = family_of(config)
        example = family.tokens.example(family.settings(config), tokens, seed)
        title = PRESETS[model].title if model in PRESETS else f"{model} ({family.model_type})"
        return cls(title, {**config, **example.config}, example.tokens, example.description)

    def network(self, *, width: int | None = None, depth: int | None = None) -> Network:
        """The network of the model.

        Args:
            width: Replaces the width of the configuration.
            depth: Replaces the number of blocks.

        Returns:
            The network.
        """
        return from_config(self.config, self.tokens, width=width, depth=depth)


def affordable_draws(net: Network, width: int | float, seconds: float = 1.0) -> int:
    """The number of draws that one core makes in a given time, compilation aside.

    Args:
        net: The network.
        width: The width at which it is drawn.
        seconds: The time.

    Returns:
        A power of two from 64 to 4096, since equal counts share compiled programs.

    Example:
        >>> import limitlaw as ll
        >>> from limitlaw.models import affordable_draws
        >>> net = ll.from_config("gpt2", tokens=8)
        >>> affordable_draws(net, net.width)
        512
    """
    draws = largest_power_of_two(seconds / seconds_of_a_draw(net, width))
    return min(max(draws, _FEWEST_DRAWS), _MOST_DRAWS)
