"""Lowering a network to the paper's language; the lazy reading runs through it."""

import functools
from dataclasses import dataclass
from math import isinf
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..netsor import Program, Scalar, Vector, sampler as program_sampler
from ..numerics import Block
from ._attention import Attention
from ._described import Layout
from ._frozen import Frozen
from ._inputs import GaussianInputs, GramInputs, Inputs
from ._reading import Reading

lowering = Reading("lowering")


@dataclass(frozen=True)
class Lowered:
    """A program with what can be observed of it."""

    program: Program
    tokens: list[Vector]  # of the last stream
    outputs: list[Vector]  # whose coordinate 0 is the output: the tokens, or a read-out where they are inputs
    scores: list[list[list[Scalar]]]  # [head][query][key] of the last attention layer
    head_spaces: dict[str, Attention]


def lower(net: Any) -> Lowered:
    """The Netsor program of a network; equal networks share one, and so what is compiled for it."""
    known = Frozen(net)
    if known not in _LOWERED:
        while len(_LOWERED) >= _REMEMBERED:
            _LOWERED.pop(next(iter(_LOWERED)))
        _LOWERED[known] = _lower(net)
    return _LOWERED[known]


_LOWERED: dict[Frozen, Lowered] = {}
_REMEMBERED = 64


def _lower(net: Any) -> Lowered:
    with Program() as program:
        tokens: list[Vector] = lowering(net.inputs, program)
        scores: list[list[list[Scalar]]] = []
        attentions = [layer for layer in net.layers if isinstance(layer, Attention)]
        spaces: dict[str, Attention] = {}
        for number, layer in enumerate(net.layers, 1):
            mark = f"{number}." if len(net.layers) > 1 else ""
            if isinstance(layer, Attention):
                space = "head" if len(attentions) == 1 else f"head{number}"
                spaces[space] = layer
                tokens, scores = lowering(layer, program, tokens, space, mark, net.layout)
            else:
                tokens = lowering(layer, program, tokens, mark)
        outputs = tokens
        if not net.layers:
            read_out = program.matrix("R")
            outputs = [read_out @ x for x in tokens]
    return Lowered(program, tokens, outputs, scores, spaces)


@lowering.rule(Inputs)
def _(inputs: Inputs, program: Program) -> list[Vector]:
    h = program.initial("h")
    return [
        program.nonlin(inputs.activation, program.matrix(f"W{i}") @ h, name=f"x{i}")
        for i in range(1, inputs.tokens + 1)
    ]


@lowering.rule(GaussianInputs)
def _(inputs: GaussianInputs, program: Program) -> list[Vector]:
    return list(program.initials([f"x{i}" for i in range(1, inputs.size + 1)], cov=inputs.K))


@lowering.rule(GramInputs)
def _(inputs: GramInputs, program: Program) -> list[Vector]:
    raise ValueError(
        "GramInputs cannot be lowered: fixed tokens have no i.i.d. coordinates, which initial vectors of a Netsor program must "
        "have; use GaussianInputs(K), or reading='gram' or 'dense'."
    )


@lowering.rule(Attention)
def _(
    layer: Attention, program: Program, tokens: list[Vector], space: str, mark: str, layout: Layout
) -> tuple[list[Vector], list[list[list[Scalar]]]]:
    """The value and output matrices are applied to each token; the softmax weights mix their products (Example 3.1)."""
    if isinf(layer.heads):
        raise ValueError(
            "Attention(heads=inf) cannot be lowered: a program has finitely many lines; use finite heads, or reading='gram'."
        )
    if not layer.is_plain:
        raise ValueError(
            f"{layer!r} cannot be lowered: biases, shared or rotated keys, additions to scores and contexts are not; "
            f"use plain attention, or reading='gram' or 'dense'."
        )
    if layer.tie_qk:
        raise ValueError(
            "Attention(tie_qk=True) cannot be lowered: a score between two outputs of one matrix is outside Netsor; "
            "use tie_qk=False, or reading='gram' or 'dense'."
        )
    size, heads = len(tokens), int(layer.heads)
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
                    program.score(
                        q, k, scale=layer.scale, name=f"p{mark}{a}_{i}{j}" if size < 10 else f"p{mark}{a}_{i}_{j}"
                    )
                    for j, k in enumerate(keys, 1)
                ]
                for i, q in enumerate(queries, 1)
            ]
        )
    allowed = layer.allowed(layout)
    outputs = []
    for i in range(size):
        seen = range(size) if allowed is None else np.flatnonzero(allowed[i])
        outputs.append(
            program.nonlin(
                Mix(heads, len(seen)),
                *[values[a][j] for a in range(heads) for j in seen],
                scalars=[scores[a][i][j] for a in range(heads) for j in seen],
                name=f"y{mark}{i + 1}",
            )
        )
    return outputs, scores


@dataclass(frozen=True)
class Mix:
    """`sum_a softmax(p^a) . z^a`, the arguments `z^1, ..., z^H, p^1, ..., p^H` in order, each over the keys in sight."""

    heads: int
    keys: int
    __name__ = "sum_a softmax(p^a) . z^a "

    def __call__(self, *arguments: Any) -> Any:
        values, scores = jnp.stack(arguments).reshape(2, self.heads, self.keys)
        return jnp.sum(jax.nn.softmax(scores, axis=1) * values)


def outer(*tokens: Any) -> Any:
    """The products of one coordinate of every two tokens: their average is the Gram matrix."""
    x = jnp.stack(tokens)
    return x[:, None] * x[None]


def sampler(net: Any, width: int, observe: str, rows: tuple[int, ...] | None) -> Block:
    """Draws of a network's observable through the lazy reading of its program."""
    lowered = lower(net)
    dims = {"model": width} | {space: layer.head_dim_at(width) for space, layer in lowered.head_spaces.items()}
    picked = range(net.tokens) if rows is None else rows
    if observe == "covariance":
        raise ValueError(
            "observe='covariance' with reading='lazy': a program's lines do not hold it; use reading='gram' or 'dense'."
        )
    if observe == "gram":
        return program_sampler(tuple(lowered.tokens), dims, "lazy", outer)
    if observe == "output":
        return program_sampler(tuple(lowered.outputs[i] for i in picked), dims, "lazy", None)
    wanted = tuple(p for head in lowered.scores for i in picked for p in head[i])
    flat = program_sampler(wanted, dims, "lazy", None)
    shape = (flat.size, len(lowered.scores), len(picked), net.tokens)
    return Block(functools.partial(_reshaped, flat.draw, shape), flat.size, flat.memory)


def _reshaped(draw: Any, shape: tuple[int, ...], key: Any) -> Any:
    return draw(key).reshape(shape)
