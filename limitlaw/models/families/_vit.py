"""The vision transformer (Dosovitskiy et al. 2021), as transformers initialises it."""

from collections.abc import Sequence
from math import isqrt
from typing import Any

import numpy as np

from ... import _checks
from ..._checks import ArgumentError
from ...networks import GaussianInputs, LayerNorm, Network, Readout, Repeat, Residual
from .._family import Family, Ignored, Preset, Settings
from .._tokens import ExampleTokens, TokenReader, check_count, counted, floats
from .._weights import feed_forward, self_attention

# Positions and the class token are drawn from a normal that is truncated at this value, whatever its deviation.
_TRUNCATION = 2.0
_LARGEST_STD = _TRUNCATION / 5  # five deviations: the truncation changes the variance by 1e-5


class Images(TokenReader):
    """An image, or a batch of them, cut into patches."""

    expected = "an image (channels, height, width), a batch of them, or a number of patches, such as tokens=8"

    def counted(self, settings: Settings, count: int) -> ExampleTokens:
        """As many patches of a standard normal image."""
        return self.example(settings, count, 0)

    def example(self, settings: Settings, tokens: int | Sequence[int], seed: int) -> ExampleTokens:
        """A standard normal image of the shape nearest to a square that has this number of patches."""
        if isinstance(tokens, Sequence):
            raise ArgumentError(
                "tokens", f"tokens={list(tokens)} are ids, but a vit reads an image. Give the number of its patches."
            )
        count = int(_checks.positive_integer("tokens", tokens))
        check_count(count)
        high, wide = _sides(settings, "patch_size")
        rows = max(k for k in range(1, isqrt(count) + 1) if count % k == 0)
        sides = [rows * high, count // rows * wide]
        shape = settings.whole("num_channels"), *sides
        image = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
        patches = counted(count, "patch", "patches")
        words = f"class token + {patches} ({rows} x {count // rows}) of a standard normal image"
        own = _sides(settings, "image_size")
        if tuple(sides) != own:
            words += f" of {sides[0]} x {sides[1]} pixels instead of {own[0]} x {own[1]}"
        return ExampleTokens(image, words, {"image_size": sides})

    def model_arguments(self, tokens: Any) -> dict[str, Any]:
        return {"pixel_values": np.asarray(tokens, np.float32)}


def _build(settings: Settings, image: Any) -> Network:
    """Blocks `x + f(norm(x))` on a class token and linear images of the patches, which are Gaussian given the image."""
    width, hidden = settings.whole("hidden_size"), settings.whole("intermediate_size")
    heads = settings.heads("num_attention_heads", "hidden_size")
    std = settings.weight_std()
    if std > _LARGEST_STD:
        raise ArgumentError(
            "initializer_range",
            f"initializer_range={std:g} is not supported: transformers truncates the normal of a vit at "
            f"{_TRUNCATION:g}, so the weights are not Gaussian. Use at most {_LARGEST_STD:g}.",
        )
    norm = LayerNorm(settings.number("layer_norm_eps"))
    gram, length = _gram(_patches(settings, image))
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


def _patches(settings: Settings, image: Any) -> np.ndarray:
    """The patches of each image, `(images, patches, channels * height * width)`, row by row."""
    (high, wide), (tall, broad) = _sides(settings, "image_size"), _sides(settings, "patch_size")
    channels = settings.whole("num_channels")
    if high < tall or wide < broad:
        raise ArgumentError(
            "patch_size",
            f"patch_size={settings['patch_size']!r} does not fit into image_size={settings['image_size']!r}. Make it "
            f"smaller.",
        )
    images = floats("tokens", image, "an image, (channels, height, width), or a batch of them, for a vit")
    if images.ndim not in (3, 4) or images.shape[-3:] != (channels, high, wide) or not len(images):
        raise ArgumentError(
            "tokens",
            f"tokens has shape {images.shape}, but a vit reads an image, or a batch of them, of (channels, height, "
            f"width) = ({channels}, {high}, {wide}). Resize it, or change num_channels or image_size.",
        )
    images = images.reshape(-1, channels, high, wide)
    rows, columns = high // tall, wide // broad
    cut = images[:, :, : rows * tall, : columns * broad].reshape(-1, channels, rows, tall, columns, broad)
    return cut.transpose(0, 2, 4, 1, 3, 5).reshape(len(images), rows * columns, -1)


def _gram(patches: np.ndarray) -> tuple[np.ndarray, int]:
    """The covariance of a coordinate of the tokens, for weights of variance 1, and the number of tokens of an image.

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
        raise ArgumentError(key, f"{key}={value!r} must be a positive integer, or two of them, height and width.")
    high, wide = (int(_checks.positive_integer(key, side)) for side in sides)
    return high, wide


FAMILY = Family(
    model_type="vit",
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
    tokens=Images(),
    build=_build,
    transformers_class="ViTModel",
    transformers_options={"add_pooling_layer": False},
    presets={"vit": Preset("ViT base")},
    ignored=Ignored.of(
        flags="is_decoder qkv_bias",
        ids="pad_token_id",
        counts="encoder_stride pooler_output_size",
        rates="attention_probs_dropout_prob hidden_dropout_prob",
        others="pooler_act",
    ),
)
