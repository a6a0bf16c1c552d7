"""The vision transformer (Dosovitskiy et al. 2021), as transformers initialises it."""

from typing import Any

import numpy as np

from .. import _arguments
from ..networks import GaussianInputs, LayerNorm, Network, Readout, Repeat, Residual
from ._family import Family, Settings, feed_forward, floats, keys, self_attention

_TRUNCATION = 2.0  # of the normal from which positions and the class token are drawn, whatever its deviation
_LARGEST_STD = _TRUNCATION / 5  # beyond which the truncation is felt


def _build(settings: Settings, image: Any) -> Network:
    """Blocks `x + f(norm(x))` on a class token and linear images of the patches, which are Gaussian given the image."""
    width, hidden = settings.whole("hidden_size"), settings.whole("intermediate_size")
    heads = settings.heads("num_attention_heads", "hidden_size")
    std = settings.weight_std()
    if std > _LARGEST_STD:
        raise ValueError(
            f"initializer_range={std:g}: transformers truncates the normal of a vit at {_TRUNCATION:g}, so it is not Gaussian; "
            f"use at most {_LARGEST_STD:g}."
        )
    norm = LayerNorm(settings.number("layer_norm_eps"))
    gram, length = _gram(patches(settings, image))
    return Network(
        GaussianInputs(std**2 * gram, sequences=[length] * (len(gram) // length)),
        Repeat(
            settings.whole("num_hidden_layers"),
            Residual(norm, self_attention(width, heads, std)),
            Residual(norm, feed_forward(settings.activation("hidden_act"), width, hidden, std)),
        ),
        Readout(norm),
        width=width,
    )


def patches(settings: Settings, image: Any) -> np.ndarray:
    """The patches of each image, `(images, patches, channels * height * width)`, row by row."""
    (high, wide), (tall, broad) = _sides(settings, "image_size"), _sides(settings, "patch_size")
    channels = settings.whole("num_channels")
    if high < tall or wide < broad:
        raise ValueError(
            f"patch_size={settings['patch_size']!r}: does not fit into image_size={settings['image_size']!r}; make it smaller."
        )
    images = floats("tokens", image, "an image, (channels, height, width), or a batch of them, for a vit")
    if images.ndim not in (3, 4) or images.shape[-3:] != (channels, high, wide) or not len(images):
        raise ValueError(
            f"tokens has shape {images.shape}: a vit reads an image, or a batch of them, of (channels, height, width) = "
            f"({channels}, {high}, {wide}); resize it, or change num_channels or image_size."
        )
    images = images.reshape(-1, channels, high, wide)
    rows, columns = high // tall, wide // broad
    cut = images[:, :, : rows * tall, : columns * broad].reshape(-1, channels, rows, tall, columns, broad)
    return cut.transpose(0, 2, 4, 1, 3, 5).reshape(len(images), rows * columns, -1)


def _gram(patches: np.ndarray) -> tuple[np.ndarray, int]:
    """The covariance of a coordinate of the tokens, for weights of variance 1, and how many tokens an image has.

    The projection gives `P P^T`, with a row of zeros for the class token. Images share that token and the positions.
    """
    rows = np.pad(patches, ((0, 0), (1, 0), (0, 0)))
    count, length = rows.shape[:2]
    shared = np.eye(length)
    shared[0, 0] += 1
    flat = rows.reshape(count * length, -1)
    return flat @ flat.T + np.tile(shared, (count, count)), length


def _sides(settings: Settings, key: str) -> tuple[int, int]:
    """Height and width, from one number or two."""
    value = settings[key]
    sides = list(value) if isinstance(value, list | tuple) else [value, value]
    if len(sides) != 2:
        raise ValueError(f"{key}={value!r}: must be a positive integer, or two of them, height and width.")
    high, wide = (int(_arguments.positive_integer(key, side)) for side in sides)
    return high, wide


VIT = Family(
    used={
        "hidden_act": "gelu",
        "hidden_size": 768,
        "image_size": 224,
        "initializer_range": 0.02,
        "intermediate_size": 3072,
        "layer_norm_eps": 1e-12,
        "num_attention_heads": 12,
        "num_channels": 3,
        "num_hidden_layers": 12,
        "patch_size": 16,
    },
    width="hidden_size",
    depth="num_hidden_layers",
    proportional=("intermediate_size",),
    build=_build,
    irrelevant=keys("""
        attention_probs_dropout_prob encoder_stride hidden_dropout_prob is_decoder pad_token_id pooler_act
        pooler_output_size qkv_bias
    """),
)
