"""Attention as lines of a netsor program."""

from dataclasses import dataclass
from math import isinf
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from ...._checks import ArgumentError
from ....netsor import Program, Scalar, Vector
from ..._layer import Layout, Lowered

if TYPE_CHECKING:
    from ._attention import Attention


def lower(
    layer: "Attention", program: Program, tokens: list[Vector], number: int, layers: int, layout: Layout
) -> Lowered:
    """Append attention to a netsor program: values through the output matrix, mixed by the softmax of the scores."""
    _check(layer)
    mark, space = (f"{number}.", f"head{number}") if layers > 1 else ("", "head")
    size, heads, scale = len(tokens), int(layer.heads), str(layer.scale)
    # W_O is applied to the values before they are mixed. The order does not matter, as mixing is linear in the values,
    # and Theorem 3.1 allows scores in the last Nonlin only.
    values: list[list[Vector]] = []
    scores: list[list[list[Scalar]]] = []
    for a in range(1, heads + 1):
        query = program.matrix(f"Q{mark}{a}", to=space, var=layer.query_std**2)
        key = program.matrix(f"K{mark}{a}", to=space, var=layer.key_std**2)
        value = program.matrix(f"V{mark}{a}", to=space, var=layer.value_std**2)
        out = program.matrix(f"O{mark}{a}", source=space, var=layer.out_std**2 / heads)
        queries, keys = [query @ x for x in tokens], [key @ x for x in tokens]
        values.append([out @ (value @ x) for x in tokens])
        scores.append(
            [
                [
                    program.score(q, k, scale=scale, name=f"p{mark}{a}_{i}{j}" if size < 10 else f"p{mark}{a}_{i}_{j}")
                    for j, k in enumerate(keys, 1)
                ]
                for i, q in enumerate(queries, 1)
            ]
        )
    allowed = layer.allowed(layout)
    outputs = []
    for i in range(size):
        visible = range(size) if allowed is None else np.flatnonzero(allowed[i])
        outputs.append(
            program.nonlin(
                Mix(heads, len(visible)),
                *[values[a][j] for a in range(heads) for j in visible],
                scalars=[scores[a][i][j] for a in range(heads) for j in visible],
                name=f"y{mark}{i + 1}",
            )
        )
    return Lowered(outputs, scores, {space: layer.head_dim_at})


def _check(layer: "Attention") -> None:
    from ._attention import is_plain

    if isinf(layer.heads):
        raise ArgumentError(
            "heads",
            "Attention(heads=inf) has no netsor program, because a program has finitely many lines. Use finite heads, "
            "or reading='gram'.",
        )
    if not is_plain(layer) or not isinstance(layer.scale, str):
        raise ArgumentError(
            "reading",
            f"{layer!r} has no netsor program, which cannot express biases, shared or rotated keys, score biases, "
            f"numbers as scale and contexts. Use plain attention, or reading='gram' or 'dense'.",
        )
    if layer.tie_qk:
        raise ArgumentError(
            "tie_qk",
            "Attention(tie_qk=True) has no netsor program, because a program has no scores between two outputs of one "
            "matrix. Use tie_qk=False, or reading='gram' or 'dense'.",
        )


@dataclass(frozen=True)
class Mix:
    """The function `sum_a softmax(p^a) . z^a` of `z^1, ..., z^H, p^1, ..., p^H`, each a list over the visible keys."""

    heads: int
    keys: int
    __name__ = "sum_a softmax(p^a) . z^a "

    def __call__(self, *arguments: Any) -> Any:
        values, scores = jnp.stack(arguments).reshape(2, self.heads, self.keys)
        return jnp.sum(jax.nn.softmax(scores, axis=1) * values)
