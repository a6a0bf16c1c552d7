"""One compilation for each kind of network, counted by jax's own monitoring."""

from math import inf

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll

AR = 0.3 ** np.abs(np.subtract.outer(np.arange(3), np.arange(3)))
COMPILED = "/jax/core/compile/backend_compile_duration"


@pytest.fixture
def compiled():
    """A function that returns how many programs were compiled since it was last called."""
    events = []

    def listen(event, duration, **_):
        if event == COMPILED:
            events.append(duration)

    jax.monitoring.register_event_duration_secs_listener(listen)

    def count():
        found = len(events)
        events.clear()
        return found

    yield count
    jax.monitoring.unregister_event_duration_listener(listen)


class Capped(ll.Attention):
    """Scores between plus and minus `cap`."""

    cap: float = 1.0

    def scores(self, queries, keys, layout):
        return self.cap * jnp.tanh(super().scores(queries, keys, layout) / self.cap)


def test_the_count_counts(compiled):
    jax.jit(lambda x: jnp.sin(x) + 1.2345)(jnp.float32(1.0)).block_until_ready()
    assert compiled() > 0
    assert compiled() == 0


@pytest.mark.parametrize(
    "inputs", [ll.Inputs(4, ll.clip(100.0)), ll.Inputs(4, "relu"), ll.GramInputs(np.eye(4))], ids=repr
)
def test_one_compilation_serves_every_width_std_head_dim_and_number_of_heads(inputs, compiled):
    def draw(width, **options):
        ll.Network(inputs, ll.Attention(**options)).sample(10, width=width, seed=3)

    draw(16, heads=2)
    assert compiled() > 0
    for width in (8, 64, 1024, inf):
        for options in ({"heads": 3, "query_std": 2.5}, {"heads": 5, "head_dim": 7}, {"head_dim": inf, "out_std": 0.1}):
            draw(width, **options)
    assert compiled() == 0


def transformer(depth=3, std=1.0, eps=1e-5, skip=1.0):
    return ll.Network(
        ll.GramInputs(AR),
        ll.Repeat(
            depth,
            ll.Residual(ll.LayerNorm(eps), ll.Attention(heads=2, head_dim="split", query_std=std), skip=skip),
            ll.Residual(ll.LayerNorm(eps), ll.MLP("relu", out_std=std)),
        ),
        ll.Readout(ll.LayerNorm(eps), std=std),
    )


def test_one_compilation_serves_every_width_and_number_and_depth_costs_none(compiled):
    transformer().sample(10, width=16)
    assert compiled() > 0
    for width, std, eps, skip in ((64, 2.0, 1e-3, 0.5), (1024, 0.5, 0.0, -1.0), (inf, 1.5, 1e-6, 2.0)):
        transformer(3, std, eps, skip).sample(10, width=width)
    assert compiled() == 0
    transformer(depth=20).sample(10, width=16)
    assert compiled() <= 1  # whether each block was sound is stacked, which has the shape of the depth


def test_a_trajectory_is_compiled_once(compiled):
    transformer().trajectory(10, width=16)
    assert compiled() > 0
    transformer(depth=5, std=2.0).trajectory(10, width=64)
    assert compiled() <= 1  # stacking what was seen has the shape of the depth


def test_one_compilation_serves_all_numbers_of_an_own_layer(compiled):
    def draw(**options):
        net = ll.Network(ll.GramInputs(AR), ll.Residual(Capped(heads=2, head_dim=4, **options)))
        net.sample(10, width=16)

    draw(cap=1.0, query_std=1.0)
    assert compiled() > 0
    for cap, std in ((0.5, 1.0), (2.0, 3.0), (7.0, 0.0)):
        draw(cap=cap, query_std=std)
    assert compiled() == 0
