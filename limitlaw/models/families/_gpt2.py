"""GPT-2 (Radford et al. 2019), as transformers initialises it."""

from math import sqrt
from typing import Any

from ...networks import Embedding, LayerNorm, Network, Readout, Repeat, Residual
from .._family import Family, Ignored, Preset, Settings
from .._tokens import TokenIds
from .._weights import feed_forward, self_attention

_TOKENS = TokenIds(longest="n_positions")


def _build(settings: Settings, tokens: Any) -> Network:
    """Blocks `x + f(norm(x))`; the matrices that end the branches are scaled by `1 / sqrt(2 layers)`."""
    width, layers = settings.whole("n_embd"), settings.whole("n_layer")
    heads = settings.heads("n_head", "n_embd")
    hidden = 4 * width if settings["n_inner"] is None else settings.whole("n_inner")
    std = settings.weight_std()
    out_std = std / sqrt(2 * layers)
    norm = LayerNorm(settings.number("layer_norm_epsilon"))
    by_layer = settings.flag("scale_attn_by_inverse_layer_idx")
    unscaled = 1.0 if settings.flag("scale_attn_weights") else sqrt(width / heads)

    def block(layer: int) -> tuple[Residual, Residual]:
        sharpness = unscaled / (layer + 1 if by_layer else 1)
        attention = self_attention(width, heads, std, out_std, mask="causal", sharpness=sharpness)
        mlp = feed_forward(settings.activation("activation_function"), width, hidden, std, out_std)
        return Residual(norm, attention), Residual(norm, mlp)

    return Network(
        Embedding(
            _TOKENS.read(settings, tokens),
            std=std,
            positions="learned",
            position_std=std,
            vocabulary=settings.whole("vocab_size"),
            max_positions=settings.whole("n_positions"),
        ),
        *([Repeat(1, *block(layer)) for layer in range(layers)] if by_layer else [Repeat(layers, *block(0))]),
        Readout(norm),
        width=width,
    )


FAMILY = Family(
    model_type="gpt2",
    used={
        "activation_function": "gelu_new",
        "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-5,
        "n_embd": 768,
        "n_head": 12,
        "n_inner": None,
        "n_layer": 12,
        "n_positions": 1024,
        "scale_attn_by_inverse_layer_idx": False,
        "scale_attn_weights": True,
        "vocab_size": 50257,
    },
    width="n_embd",
    depth="n_layer",
    proportional=("n_inner",),
    tokens=_TOKENS,
    build=_build,
    transformers_class="GPT2Model",
    presets={"gpt2": Preset("GPT-2 small")},
    ignored=Ignored.of(
        flags="is_decoder predict_special_tokens reorder_and_upcast_attn summary_proj_to_labels summary_use_proj",
        ids="pad_token_id",
        counts="n_ctx",
        rates="attn_pdrop embd_pdrop resid_pdrop summary_first_dropout",
        others="summary_activation summary_type",
    ),
    aliases={
        "hidden_size": "n_embd",
        "max_position_embeddings": "n_positions",
        "num_attention_heads": "n_head",
        "num_hidden_layers": "n_layer",
    },
)
