"""Rotary positions (Su et al. 2021) with the frequencies that a configuration asks for."""

from collections.abc import Callable, Mapping
from math import ceil, floor, log, pi
from typing import Any

import numpy as np

from ... import _checks
from ..._checks import ArgumentError, ArgumentTypeError
from .._family import Settings, did_you_mean

_BASE = 10_000.0
_Rotations = tuple[float | np.ndarray, float]


def rotations(settings: Settings, head_dim: int) -> _Rotations:
    """The rotations that a configuration describes.

    Args:
        settings: The configuration. `rope_parameters` is the key of transformers 5, `rope_scaling` with `rope_theta`
            beside it that of transformers 4.
        head_dim: The dimension of a head.

    Returns:
        The base or the frequencies of the rotations, and a factor of queries and keys.

    Raises:
        ArgumentError: If the kind of rotations is not supported, or a number of it is missing, unknown or out of range.
    """
    for name in ("rope_scaling", "rope_parameters"):
        if settings[name] is not None and not isinstance(settings[name], Mapping):
            raise ArgumentTypeError(name, f"{name}={settings[name]!r} must be a dict of numbers with a 'rope_type'.")
    key = "rope_scaling" if settings["rope_scaling"] else "rope_parameters"
    given = settings[key] or {}
    if any(isinstance(value, Mapping) for value in given.values()):
        raise ArgumentTypeError(
            key, f"{key}={given!r} must be a dict of numbers with a 'rope_type', one for all layers."
        )
    scaling = {name: value for name, value in given.items() if value is not None}
    kind = scaling.pop("rope_type", scaling.pop("type", "default"))
    scaling.pop("type", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ArgumentError(
            key, f"rope_type={kind!r} of {key} is not supported. Supported: {', '.join(map(repr, _KINDS))}."
        )
    needed, optional, rule = _KINDS[kind]
    given_base = settings["rope_theta"]
    base = scaling.pop("rope_theta", _BASE if given_base is None else given_base)
    if not _checks.non_negative("rope_theta", base) > 1:
        raise ArgumentError(
            "rope_theta",
            f"rope_theta={base!r} must be above 1, since it is the base of the frequencies (usually 10000).",
        )
    if scaling.pop("partial_rotary_factor", 1.0) != 1.0:
        raise ArgumentError(
            key, f"partial_rotary_factor={given['partial_rotary_factor']!r} of {key} is not supported. Leave it out."
        )
    if kind in ("llama3", "yarn"):
        scaling.setdefault("original_max_position_embeddings", settings.whole("max_position_embeddings"))
    for name in needed:
        if name not in scaling:
            raise ArgumentError(key, f"{key} has no {name!r}, which rope_type={kind!r} needs. Add it.")
    for name in scaling:
        if name not in needed + optional:
            near = did_you_mean(name, needed + optional)
            raise ArgumentError(
                key, f"{name}={scaling[name]!r} of {key} does not belong to rope_type={kind!r}.{near} Remove it."
            )
    numbers = {name: _positive(name, value) for name, value in scaling.items() if name != "truncate"}
    flags = {name: value for name, value in scaling.items() if name == "truncate"}
    for name, value in flags.items():
        _checks.boolean(name, value)
    return rule(float(base), head_dim, **numbers, **flags)


def _positive(name: str, value: Any) -> float:
    number = _checks.non_negative(name, value)
    if number == 0:
        raise ArgumentError(name, f"{name}={value!r} must be positive.")
    return number


def _frequencies(base: float, head_dim: int) -> np.ndarray:
    return base ** -(np.arange(0, head_dim, 2) / head_dim)


def _default(base: float, head_dim: int, factor: float = 1.0) -> _Rotations:
    """As they are. `dynamic` is the same up to `max_position_embeddings`, beyond which no sequence goes."""
    return base, 1.0


def _linear(base: float, head_dim: int, factor: float) -> _Rotations:
    """All slower by a factor."""
    return _frequencies(base, head_dim) / factor, 1.0


def _llama3(
    base: float,
    head_dim: int,
    factor: float,
    low_freq_factor: float,
    high_freq_factor: float,
    original_max_position_embeddings: float,
) -> _Rotations:
    """Slower if they turn less than `low_freq_factor` times in the trained length, a blend up to `high_freq_factor`."""
    if high_freq_factor <= low_freq_factor:
        raise ArgumentError(
            "high_freq_factor",
            f"high_freq_factor={high_freq_factor:g} must be above low_freq_factor={low_freq_factor:g}.",
        )
    frequencies = _frequencies(base, head_dim)
    turns = original_max_position_embeddings * frequencies / (2 * pi)
    kept = np.clip((turns - low_freq_factor) / (high_freq_factor - low_freq_factor), 0, 1)
    return frequencies * (kept + (1 - kept) / factor), 1.0


def _yarn(
    base: float,
    head_dim: int,
    factor: float,
    original_max_position_embeddings: float,
    attention_factor: float | None = None,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    mscale: float | None = None,
    mscale_all_dim: float | None = None,
    truncate: bool = True,
) -> _Rotations:
    """YaRN (Peng et al. 2023): slow the pairs that turn seldom, and sharpen the scores.

    Between pairs that turn `beta_fast` and `beta_slow` times in the trained length, the blend is linear in their index.
    """

    def pair(turns: float) -> float:
        return head_dim * log(original_max_position_embeddings / (turns * 2 * pi)) / (2 * log(base))

    def sharper(strength: float) -> float:
        return 0.1 * strength * log(factor) + 1.0 if factor > 1 else 1.0

    low, high = pair(beta_fast), pair(beta_slow)
    if truncate:
        low, high = floor(low), ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    slowed = np.clip((np.arange(head_dim // 2) - low) / (high - low or 0.001), 0, 1)
    frequencies = _frequencies(base, head_dim)
    if attention_factor is None:
        attention_factor = sharper(1.0)
        if mscale is not None and mscale_all_dim is not None:
            attention_factor = sharper(mscale) / sharper(mscale_all_dim)
    return frequencies * (1 - slowed + slowed / factor), attention_factor


_KINDS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...], Callable[..., _Rotations]]] = {
    "default": ((), (), _default),
    "linear": (("factor",), (), _linear),
    "dynamic": (("factor",), (), _default),
    "llama3": (
        ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
        (),
        _llama3,
    ),
    "yarn": (
        ("factor", "original_max_position_embeddings"),
        ("attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"),
        _yarn,
    ),
}
"""For each kind: the numbers that it needs, those that it can do without, and its rule."""
