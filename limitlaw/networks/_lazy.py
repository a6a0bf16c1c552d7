"""The lazy reading: the network as a netsor program, whose matrices are revealed only where they are used."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from .._checks import ArgumentError
from ..netsor import Program, Scalar, Vector, sampler as program_sampler
from ..numerics.batches import Batch
from ._layer import NetworkParts


@dataclass(frozen=True)
class LoweredNetwork:
    """A network as a netsor program, with the vectors and scores that can be observed.

    Attributes:
        program: The program.
        tokens: The vectors of the last stream.
        outputs: Vectors whose coordinate 0 is the output: the tokens, or a read-out if there are no layers.
        scores: The scores of the last attention layer, `scores[head][query][key]`.
        head_dims: The dimension of each space of heads as a function of the width, by the name of the space.
    """

    program: Program
    tokens: list[Vector]
    outputs: list[Vector]
    scores: list[list[list[Scalar]]]
    head_dims: Mapping[str, Any] = field(default_factory=dict)


@functools.lru_cache(maxsize=64)  # equal networks share one program and its compiled code
def lower(net: NetworkParts) -> LoweredNetwork:
    """The netsor program of a network."""
    with Program() as program:
        tokens: list[Vector] = net.inputs.lower(program)
        scores: list[list[list[Scalar]]] = []
        head_dims: dict[str, Any] = {}
        for number, layer in enumerate(net.layers, 1):
            lowered = layer.lower(program, tokens, number, len(net.layers), net.layout)
            tokens, scores = lowered.tokens, lowered.scores or scores
            head_dims |= lowered.head_dims or {}
        outputs = tokens
        if not net.layers:
            read_out = program.matrix("R")
            outputs = [read_out @ x for x in tokens]
    return LoweredNetwork(program, tokens, outputs, scores, head_dims)


def products(*tokens: Any) -> Any:
    """The products of a coordinate of every two tokens, whose average over coordinates is the Gram matrix."""
    x = jnp.stack(tokens)
    return x[:, None] * x[None]


def batch_of(net: NetworkParts, width: int, observe: str, rows: tuple[int, ...] | None) -> Batch:
    """The function that makes a batch of draws of an observable from the netsor program of a network."""
    lowered = lower(net)
    dims = {"model": width} | {space: dim(width) for space, dim in lowered.head_dims.items()}
    picked = range(net.tokens) if rows is None else rows
    if observe not in ("output", "gram", "scores"):
        raise ArgumentError(
            "observe",
            f"observe={observe!r} is not available with reading='lazy': a program's lines do not hold it. "
            "Use reading='gram' or 'dense'.",
        )
    if observe == "gram":
        return program_sampler(tuple(lowered.tokens), dims, "lazy", products)
    if observe == "output":
        return program_sampler(tuple(lowered.outputs[i] for i in picked), dims, "lazy", None)
    wanted = tuple(p for head in lowered.scores for i in picked for p in head[i])
    flat = program_sampler(wanted, dims, "lazy", None)
    shape = (flat.size, len(lowered.scores), len(picked), net.tokens)
    return Batch(functools.partial(_reshaped, flat.draw, shape), flat.size, flat.memory)


def _reshaped(draw: Any, shape: tuple[int, ...], key: jax.Array) -> Any:
    return draw(key).reshape(shape)
