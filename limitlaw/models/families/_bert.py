"""BERT (Devlin et al. 2019), as transformers initialises it."""

from typing import Any

from ...networks import Embedding, LayerNorm, Network, Repeat, Residual
from .._family import Family, Ignored, Preset, Settings
from .._tokens import TokenIds
from .._weights import feed_forward, self_attention

_TOKENS = TokenIds(longest="max_position_embeddings")


def _build(settings: Settings, tokens: Any) -> Network:
    """Blocks `norm(x + f(x))` on normalised embeddings; every token is of type 0."""
    width, hidden = settings.whole("hidden_size"), settings.whole("intermediate_size")
    heads = settings.heads("num_attention_heads", "hidden_size")
    std = settings.weight_std()
    norm = LayerNorm(settings.number("layer_norm_eps"))
    mask = "causal" if settings.flag("is_decoder") else None
    vocabulary = settings.whole("vocab_size")
    ids = _TOKENS.read(settings, tokens)
    return Network(
        Embedding(
            ids,
            std=std,
            positions="learned",
            position_std=std,
            types=[[0] * len(row) for row in ids],
            type_std=std,
            vocabulary=vocabulary,
            max_positions=settings.whole("max_position_embeddings"),
            padding=settings.padding(vocabulary),
            norm=norm,
        ),
        Repeat(
            settings.whole("num_hidden_layers"),
            Residual(self_attention(width, heads, std, mask=mask)),
            norm,
            Residual(feed_forward(settings.activation("hidden_act"), width, hidden, std)),
            norm,
        ),
        width=width,
    )


FAMILY = Family(
    model_type="bert",
    used={
        "hidden_act": "gelu",
        "hidden_size": 768,
        "initializer_range": 0.02,
        "intermediate_size": 3072,
        "is_decoder": False,
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": 512,
        "num_attention_heads": 12,
        "num_hidden_layers": 12,
        "pad_token_id": 0,
        "vocab_size": 30522,
    },
    width="hidden_size",
    depth="num_hidden_layers",
    proportional=("intermediate_size",),
    tokens=_TOKENS,
    build=_build,
    transformers_class="BertModel",
    transformers_options={"add_pooling_layer": False},
    presets={"bert": Preset("BERT base")},
    fixed={"position_embedding_type": ("absolute", None)},
    ignored=Ignored.of(
        counts="pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head type_vocab_size",
        rates="attention_probs_dropout_prob hidden_dropout_prob",
        others="directionality pooler_type",
    ),
)
