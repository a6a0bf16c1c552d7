"""The Gram reading: exact at every width, infinity included, without a single weight matrix.

Given the tokens `X`, the columns of `X W` are i.i.d. `N(0, sigma^2 K)` with `K = X X^T / n`. So a layer depends on its
input only through `K` (a LayerNorm also through the coordinate mean), and Gaussian vectors that matter only through
inner products can be replaced by the rows of a Bartlett factor. Widths, head dimensions and stds are traced scalars, so
one compilation serves all widths, infinity included.

Nodes are applied one after the other on the host, and each kind of step is a separate compiled program. So neither a
new arrangement of known layers nor another depth needs a compilation.
"""

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from .._checks import ArgumentError, is_traced
from ..numerics import random
from ..numerics.linalg import multiply, psd_root
from ._layer import Context, InputLayer, Layout, NetworkParts, Node, Purpose
from ._rules import LeafRule, as_numbers
from .state import (
    LARGEST_VARIANCE,
    SMALLEST_VARIANCE,
    Frame,
    NamedKey,
    Recorder,
    Rule,
    Scope,
    Stream,
    Tokens,
    in_turn,
    is_sound,
)


@functools.partial(jax.jit, static_argnums=4)
def started(rule: Any, width: Array, key: NamedKey, network_key: PRNGKeyArray, frame: Frame) -> Stream:
    """The first stream of a batch of draws."""
    return rule.start(width, Context(key(), network_key, frame.layout), frame.draws, frame.tracks_mean)


@dataclass(frozen=True)
class BoundNetwork:
    """A network in the Gram reading at one width: the rules of its inputs and layers."""

    inputs: Any
    rules: tuple[Rule, ...]
    width: Array
    layout: Layout
    tracks_mean: bool
    marks: tuple[bool, ...]  # the layers whose end is a boundary

    @classmethod
    def of(cls, net: NetworkParts, layers: tuple[Node, ...], width: Any, purpose: Purpose) -> "BoundNetwork":
        """The inputs of a network, and some or all of its layers, at one width."""
        return cls(
            net.inputs.bind(width, purpose),
            tuple(layer.bind(width, net.layout, purpose) for layer in layers),
            as_numbers(width),
            net.layout,
            tracks_mean(net.inputs, layers),
            end_marks(layers),
        )

    def frame(self, draws: int) -> Frame:
        """The settings that the stages of a batch share."""
        return Frame(draws, self.layout, self.tracks_mean)

    def start(self, scope: Scope) -> Stream:
        """The first stream."""
        keys = scope.named("inputs"), scope.network_key
        return started(self.inputs, self.width, *keys, scope.frame)

    def before_last(self, scope: Scope) -> Stream:
        """The stream before the last layer."""
        return self._through(len(self.rules) - 1, scope)

    def run(self, scope: Scope) -> Stream:
        """The last stream."""
        return self._through(len(self.rules), scope)

    def _through(self, count: int, scope: Scope) -> Stream:
        # A single layer takes the inputs in their own form, which may be cheaper (a single draw, or isotropic tokens).
        stream = self.start(scope)
        alone = len(self.rules) == 1 and isinstance(self.rules[0], LeafRule)
        if isinstance(stream, Tokens) and not alone:
            stream = stream.carried(scope)  # all inputs get one shape, so later layers are compiled once
        recorder = scope.recorder
        if recorder is not None:
            recorder.start = stream
        if recorder is not None and (recorder.wants_streams or not alone):
            stream = recorder.mark(stream, scope, blocks=0)  # a single layer is checked at its end only
        return in_turn(self.rules[:count], stream, scope, settle_last=False, marks=self.marks[:count])


def tracks_mean(inputs: InputLayer, layers: tuple[Node, ...]) -> bool:
    """Whether the inputs or a layer need the coordinate mean of a token."""
    return inputs.needs_mean or any(layer.needs_mean for layer in layers)


def has_blocks(layers: tuple[Node, ...]) -> bool:
    """Whether there are `Block` nodes, whose ends are then the only boundaries."""
    return any(node.is_block for layer in layers for node, _ in layer.walk())


def end_marks(layers: tuple[Node, ...]) -> tuple[bool, ...]:
    """For each layer of a network, whether its end is a boundary. Other layers mark their own boundaries, if any."""
    by_block = has_blocks(layers)
    return tuple(not by_block and layer.boundaries is None for layer in layers)


def boundaries(layers: tuple[Node, ...]) -> int:
    """The number of blocks in a trajectory through layers."""
    if has_blocks(layers):
        return sum(count for layer in layers for node, count in layer.walk() if node.is_block)
    return sum(1 if layer.boundaries is None else layer.boundaries for layer in layers)


def needed_layers(layers: tuple[Node, ...], observe: str) -> tuple[Node, ...]:
    """The layers on which an observable depends.

    Args:
        layers: The layers of the network.
        observe: The name of the observable.

    Returns:
        The layers up to the last that has the observable; for a Gram matrix, all but the matrix of a read-out.

    Raises:
        ArgumentError: If no layer has the observable.
    """
    if observe == "gram" and layers and layers[-1].ends_network:
        return (*layers[:-1], *layers[-1].parts[:-1])
    if observe in ("output", "covariance", "gram"):
        return layers
    # Observables are those of the last layer that has them, so layers after it are not computed at all.
    for i in reversed(range(len(layers))):
        last = layers[i].until_last(observe)
        if last is not None:
            return (*layers[:i], *last)
    raise ArgumentError(
        "observe",
        f"observe={observe!r} is not available: no layer of the network has it. Add an attention layer with finitely "
        f"many heads, or observe 'output' or 'gram'.",
    )


def draw_batch(
    bound: BoundNetwork,
    draws: int,
    key: PRNGKeyArray,
    *,
    observe: str,
    rows: tuple[int, ...] | None,
    recorder: Recorder | None,
) -> Array:
    """A batch of draws of an observable.

    Args:
        bound: The network at one width.
        draws: The number of draws.
        key: The key of the batch.
        observe: The name of the observable.
        rows: The tokens to return; None for all.
        recorder: The record to which the soundness of the last stream is added, or None.

    Returns:
        The draws, with the axis of draws first.

    Raises:
        ArgumentError: If the layer does not return the observable.
    """
    # The last layer may compute the requested tokens alone. Otherwise all are computed, and the rows picked at the end.
    scope = Scope(random.fold_in(key, 0), random.fold_in(key, 1), bound.frame(draws), recorder=recorder)
    last = bound.rules[-1] if bound.rules else None
    alone = rows is not None and isinstance(last, LeafRule) and last.answers_rows and not bound.tracks_mean
    picked = None if alone or rows is None else rows
    if observe not in ("output", "covariance", "gram"):
        assert isinstance(last, LeafRule)
        own = scope.part(len(bound.rules) - 1)
        seen = last.observe(bound.before_last(scope), own, rows if alone else None)
        if observe not in seen:
            raise ArgumentError(
                "observe",
                f"observe={observe!r} is not returned by the last layer that lists it in `observables`. Return it from "
                "`inner`.",
            )
        return _emitted_observable(seen[observe], picked)
    if last is not None and alone and isinstance(last, LeafRule) and observe != "gram":
        stream = last.apply(bound.before_last(scope), scope.part(len(bound.rules) - 1), rows)
    else:
        stream = bound.run(scope)
        if observe == "gram" or last is None:  # inputs alone are observed through a read-out
            stream = stream.settle(scope, keep_gram=True)
    picked = None if observe == "gram" else picked
    out, sound = _emitted(stream, scope.named("output"), scope.frame, picked, observe == "output")
    if recorder is not None:
        recorder.sound.append((1, 1, sound))
    return out


@functools.partial(jax.jit, static_argnums=1)
def _emitted_observable(by_head: Float[Array, "heads k *rest"], rows: tuple[int, ...] | None) -> Array:
    return jnp.moveaxis(by_head if rows is None else by_head[:, np.array(rows)], -1, 0)


@functools.partial(jax.jit, static_argnums=(2, 3, 4))
def _emitted(
    stream: Stream, key: NamedKey, frame: Frame, rows: tuple[int, ...] | None, output: bool
) -> tuple[Float[Array, "draws ..."], Bool[Array, ""]]:
    """The covariance or Gram matrix of a stream, or a normal draw with it, and whether the stream is sound."""
    matrix, sound = stream.covariance, is_sound(stream)
    matrix = matrix if rows is None else matrix[np.array(rows)][:, np.array(rows)]
    if output:
        normals = random.normal(key(), (matrix.shape[0], 1, frame.draws))
        return multiply(psd_root(matrix), normals)[:, 0].T, sound
    return jnp.moveaxis(jnp.broadcast_to(matrix, (*matrix.shape[:2], frame.draws)), -1, 0), sound


def check_sound(recorder: Recorder) -> None:
    """Refuse a batch in which a variance left the range of single precision.

    Args:
        recorder: The record of the batch. If its flags are traced by JAX, nothing is checked.

    Raises:
        ArgumentError: If a variance left the range. The error names the block and the remedy.
    """
    # Each record holds how many leading boundaries were sound, so the first unsound block is found by counting.
    block = 0
    for blocks, count, passed in recorder.sound:
        if is_traced(passed):
            return
        done = int(passed)
        block += blocks * min(done + 1, count)
        if done < count:
            break
    else:
        return
    if block == 1 and recorder.start is not None and not bool(is_sound(recorder.start)):
        block = 0  # the inputs of a single layer are checked only here
    raise beyond_single_precision("after the inputs" if block <= 0 else f"after block {block}")


def beyond_single_precision(where: str) -> ArgumentError:
    """The error that refuses a network whose variance leaves the range of single precision."""
    return ArgumentError(
        "layers",
        f"The variance of the stream {where} is beyond single precision: not a number, or outside of "
        f"[{SMALLEST_VARIANCE:g}, {LARGEST_VARIANCE:g}] in some draw. Add a norm, use fewer blocks, or change skip and "
        "the stds: lower them if the variance grows, raise them if it vanishes.",
    )
