"""Genuine models: built and initialised by transformers, observed, and compared with the law."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri, stdtr

from .. import _checks, _progress
from .._checks import ArgumentError
from .._format import format_bytes
from ..networks import Trajectory
from ._config import family_of
from ._numbers import ROUNDING

_MOST_BYTES = 2**32  # of the weights of one model: what fits a small machine beside everything else
_DIFFERS = 0.01  # the probability of a false alarm below which two trajectories are said to differ


def genuine(
    config: Mapping[str, Any],
    tokens: Any,
    models: int,
    *,
    width: int | None = None,
    depth: int | None = None,
    seed: int = 0,
) -> Trajectory:
    """The trajectory of models that transformers builds and initialises from a configuration, on the same tokens.

    Args:
        config: A configuration that `from_config` accepts, as a dict.
        tokens: One sequence of ids, or one image.
        models: The number of models.
        width: Replaces the width of the configuration.
        depth: Replaces the number of blocks.
        seed: The seed of the weights.

    Returns:
        What the models did on the tokens, block by block.

    Raises:
        ArgumentError: If torch or transformers is not installed.

    Example:
        >>> import numpy as np
        >>> from limitlaw.models import genuine
        >>> config = {"model_type": "gpt2", "n_embd": 64, "n_head": 2, "n_layer": 1, "vocab_size": 10}
        >>> t = genuine(config, [1, 2, 3], models=50)
        >>> t.blocks, bool(np.allclose(t.variance[0], 2 * 0.02**2, rtol=0.2))  # words and positions
        (1, True)
    """
    torch, make = _maker(config, width, depth)
    model = make().eval()
    blocks = _blocks_of(torch, model)
    streams: list[np.ndarray] = []

    def gram(x: Any) -> None:
        x = x[0].double()
        streams.append((x @ x.T / x.shape[1]).numpy())

    hooks = [blocks[0].register_forward_pre_hook(lambda module, args: gram(args[0]))]
    hooks += [
        block.register_forward_hook(
            lambda module, args, output: gram(output[0] if isinstance(output, tuple) else output)
        )
        for block in blocks
    ]
    arguments = family_of(config).tokens.model_arguments(tokens)
    inputs = {
        name: torch.tensor(value)[None] if isinstance(value, np.ndarray) else value for name, value in arguments.items()
    }
    grams, entropies, attended = [], [], []
    with (
        torch.no_grad(),
        torch.random.fork_rng(devices=[]),
        _progress.task("Initialising genuine models", total=models) as progress,
    ):
        torch.manual_seed(seed)
        for _ in range(models):
            _redraw(model)
            streams.clear()
            attentions = model(**inputs, output_attentions=True).attentions
            weights = np.stack([attention[0].double().numpy() for attention in attentions])
            grams.append(np.stack(streams))
            entropies.append(-(weights * np.log(weights, out=np.zeros_like(weights), where=weights > 0)).sum(axis=-1))
            attended.append(weights.any(axis=1))
            progress.advance()
    for hook in hooks:
        hook.remove()
    if models > 1 and np.array_equal(grams[0], grams[1]):
        raise RuntimeError("transformers did not draw new weights. Comparisons do not support this version of it.")
    keys = np.any(attended, axis=0).sum(axis=-1)
    return Trajectory(
        np.stack(grams),
        tuple(np.stack(entropies, axis=1)),
        tuple(range(1, len(blocks) + 1)),
        model.config.hidden_size,
        tuple(keys),
    )


def require_genuine(config: Mapping[str, Any], width: int | None = None, depth: int | None = None) -> None:
    """Refuse a comparison that cannot be made, before any work.

    Args:
        config: A configuration that `from_config` accepts, as a dict.
        width: Replaces the width of the configuration.
        depth: Replaces the number of blocks.

    Raises:
        ArgumentError: If torch or transformers is not installed, or a model is too large to build.

    Example:
        >>> from limitlaw.models import require_genuine
        >>> require_genuine({"model_type": "gpt2", "n_embd": 64, "n_head": 2, "n_layer": 1})
    """
    torch, make = _maker(config, width, depth)
    with torch.device("meta"):
        size = sum(weight.numel() * weight.element_size() for weight in make().parameters())
    if size > _MOST_BYTES:
        raise ArgumentError(
            "check",
            f"check needs genuine models, and the weights of one take {format_bytes(size)}, more than the "
            f"{format_bytes(_MOST_BYTES)} allowed. Compare a smaller model, with width and depth.",
        )


def _maker(config: Mapping[str, Any], width: int | None, depth: int | None) -> tuple[Any, Callable[[], Any]]:
    """torch, and a function that builds a model of transformers whose attention returns its weights."""
    try:
        torch, transformers = (importlib.import_module(name) for name in ("torch", "transformers"))
    except ImportError as error:
        raise ArgumentError(
            "check", f"check needs genuine models, but {_checks.missing_package(error.name or 'torch', 'torch')}"
        ) from None
    transformers.logging.set_verbosity_error()  # about tokens that a small vocabulary lacks
    family = family_of(config)
    own = {key: value for key, value in config.items() if key not in family.aliases}
    used = family.settings(config, width, depth).values
    known = {key: value for key, value in used.items() if value is not None or key in own}
    kind = getattr(transformers, family.transformers_class)
    full = kind.config_class.from_dict({**own, **known})
    full._attn_implementation = "eager"  # the others do not return attention weights
    return torch, lambda: kind(full, **family.transformers_options)


def _blocks_of(torch: Any, model: Any) -> Sequence[Any]:
    """The blocks of a model: its longest list of modules that is not within another."""
    depth = model.config.num_hidden_layers
    return next(part for part in model.modules() if isinstance(part, torch.nn.ModuleList) and len(part) == depth)


def _redraw(model: Any) -> None:
    """Draw all weights of a model again, by its own initialiser."""
    for module in model.modules():
        module._is_hf_initialized = False  # the initialiser skips modules with this mark
    model.init_weights()


@dataclass(frozen=True)
class Agreement:
    """Two trajectories side by side.

    A z-score has the p-value of Student's test with a pooled variance: if the laws are equal, so are their variances,
    and the test is exact for a few draws too.

    Args:
        first: For each quantity, its values and standard errors after each block.
        second: The same of the other trajectory.
        z: The z-scores; NaN where there is nothing to compare: a block without attention, or numbers that are equal in
            every draw.

    Example:
        >>> import limitlaw as ll
        >>> from limitlaw.models import compare_trajectories
        >>> net = ll.Network(ll.GaussianInputs([[1.0, 0.5], [0.5, 1.0]]), ll.Repeat(2, ll.Attention()))
        >>> agreement = compare_trajectories(net.trajectory(200, width=32), net.trajectory(50, width=32, seed=1))
        >>> agreement.count, agreement.p > 1e-3
        (8, True)
    """

    first: Mapping[str, tuple[np.ndarray, np.ndarray]]
    second: Mapping[str, tuple[np.ndarray, np.ndarray]]
    z: Mapping[str, np.ndarray]

    @property
    def count(self) -> int:
        """The number of z-scores."""
        return int(sum(np.sum(~np.isnan(z)) for z in self.z.values()))

    @property
    def largest(self) -> tuple[str, int]:
        """Quantity and block of the largest z-score."""
        size = {name: np.nan_to_num(np.abs(z), nan=-1.0) for name, z in self.z.items()}
        name = max(size, key=lambda name: size[name].max())
        return name, int(size[name].argmax())

    @property
    def p(self) -> float:
        """The chance of a z-score as large as the largest, at most: by Bonferroni."""
        name, block = self.largest
        return min(1.0, self.count * 2 * float(ndtr(-abs(self.z[name][block])))) if self.count else 1.0

    def __str__(self) -> str:
        """Whether the trajectories differ, in a sentence."""
        if not self.count:
            return "All values are equal, and none of them is random."
        name, block = self.largest
        where = "at the input" if block == 0 else f"after block {block}"
        found = (
            f"The largest of {self.count} |z| is {abs(self.z[name][block]):.1f} ({name} {where}). By chance alone one is "
            f"as large with probability {self.p:.2g} (Bonferroni)"
        )
        return f"{found}, so the trajectories differ." if self.p < _DIFFERS else f"{found}: no difference is found."


def compare_trajectories(first: Trajectory, second: Trajectory) -> Agreement:
    """Compare variance, cosine and entropy of two trajectories after each block.

    Args:
        first: A trajectory.
        second: Another one, with as many blocks and tokens.

    Returns:
        The values of both, and z-scores of their differences.

    Example:
        >>> import limitlaw as ll
        >>> from limitlaw.models import compare_trajectories
        >>> net = ll.Network(ll.GaussianInputs([[1.0]]), ll.Repeat(2, ll.Attention()))
        >>> t = net.trajectory(100, width=32)
        >>> compare_trajectories(t, t).p
        1.0
    """
    ours, theirs = (
        {name: found[name] for name in ("variance", "cosine", "entropy")}
        for found in (first.summary(), second.summary())
    )
    z = {name: _z_scores(*ours[name], *theirs[name], first.samples, second.samples) for name in ours}
    return Agreement(ours, theirs, z)


def _z_scores(
    a: np.ndarray, a_error: np.ndarray, b: np.ndarray, b_error: np.ndarray, a_size: int, b_size: int
) -> np.ndarray:
    """Student's t with a pooled variance, as the normal that has its p-value.

    NaN where both sides are equal up to rounding.
    """
    freedom = a_size + b_size - 2
    squares = (a_size - 1) * a_size * a_error**2 + (b_size - 1) * b_size * b_error**2
    error = np.sqrt(squares / freedom * (1 / a_size + 1 / b_size))
    fixed = error <= ROUNDING * np.abs(a)
    equal = fixed & (np.abs(a - b) <= 10 * ROUNDING * np.abs(a))
    t = (a - b) / np.where(fixed, 1.0, error)
    tail = stdtr(freedom, -np.abs(t))
    z = np.where(tail > 0, -ndtri(np.maximum(tail, 1e-300)), np.abs(t)) * np.sign(t)
    return np.where(equal, np.nan, np.where(fixed, np.inf, z))
