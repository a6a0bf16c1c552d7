"""BERT (Devlin et al. 2019), as transformers initialises it."""

from typing import Any

from ..networks import Embedding, LayerNorm, Network, Repeat, Residual
from ._family import Family, Settings, feed_forward, keys, self_attention, sequences


def _build(settings: Settings, tokens: Any) -> Network:
    """Blocks `norm(x + f(x))` on normalised embeddings; every token is of type 0."""
    width, hidden = settings.whole("hidden_size"), settings.whole("intermediate_size")
    heads = settings.heads("num_attention_heads", "hidden_size")
    std = settings.weight_std()
    norm = LayerNorm(settings.number("layer_norm_eps"))
    mask = "causal" if settings.flag("is_decoder") else None
    longest, vocabulary = settings.whole("max_position_embeddings"), settings.whole("vocab_size")
    ids = sequences(tokens, vocabulary, longest, "max_position_embeddings")
    return Network(
        Embedding(
            ids,
            std=std,
            positions="learned",
            position_std=std,
            types=[[0] * len(row) for row in ids],
            type_std=std,
            vocabulary=vocabulary,
            max_positions=longest,
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


BERT = Family(
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
    build=_build,
    fixed={"position_embedding_type": ("absolute", None)},
    irrelevant=keys("""
        attention_probs_dropout_prob directionality hidden_dropout_prob pooler_fc_size pooler_num_attention_heads
        pooler_num_fc_layers pooler_size_per_head pooler_type type_vocab_size
    """),
)
