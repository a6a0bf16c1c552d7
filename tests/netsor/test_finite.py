"""lazy = dense, in law, over random programs."""

import subprocess
import sys

import hypothesis
import hypothesis.strategies as st
import jax.numpy as jnp
import numpy as np
import pytest
from same_law import assert_same_law

from limitlaw import netsor

DIMS = {"model": 4, "head": 2}


@st.composite
def programs(draw):
    """Random lines over two spaces: matrices reused on vectors that repeat, combine and depend on one another."""
    prog = netsor.Program()
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    factor = rng.standard_normal((2, draw(st.integers(1, 2))))
    model = list(prog.initials(["a", "b"], cov=factor @ factor.T, mean=rng.standard_normal(2)))
    inner = [prog.matrix("W", var=1.5), prog.matrix("M")]
    left, right = prog.matrix("Q", to="head"), prog.matrix("K", to="head", var=0.5)
    back = prog.matrix("O", source="head")
    scores = []
    for _ in range(draw(st.integers(3, 7))):
        kind = draw(st.sampled_from(["matmul", "matmul", "nonlin", "combine", "score", "through"]))
        x, y = draw(st.sampled_from(model)), draw(st.sampled_from(model))
        if kind == "matmul":
            model.append(draw(st.sampled_from(inner)) @ x)
        elif kind == "nonlin":
            model.append(prog.nonlin(draw(st.sampled_from(["tanh", "relu"])), x))
        elif kind == "combine":
            model.append(prog.nonlin(lambda u, v: u - 2.0 * v, x, y))
        elif kind == "through":
            model.append(back @ (left @ x))
        else:
            scores.append(prog.score(left @ x, right @ y))
            model.append(prog.nonlin(lambda u, p: jnp.tanh(p) * u, x, scalars=[scores[-1]]))
    return prog, model[-3:] + scores[-2:]


def check_lazy_is_dense(drawn):
    prog, targets = drawn

    def read(reading):
        def sample(samples, seed):
            coordinates = prog.sample(targets, samples=samples, dims=DIMS, reading=reading, seed=seed)
            products = coordinates[:, :3, None] * coordinates[:, None, :3]
            return np.column_stack([coordinates, products.reshape(samples, 9)])

        return sample

    assert_same_law(read("lazy"), read("dense"), samples=50_000)


test_lazy_is_dense = hypothesis.settings(max_examples=2)(hypothesis.given(programs())(check_lazy_is_dense))
test_lazy_is_dense_at_length = pytest.mark.full(
    hypothesis.settings(max_examples=15)(hypothesis.given(programs())(check_lazy_is_dense))
)


def test_a_matrix_is_the_same_matrix_when_it_is_met_again():
    """W x, W x and W (2 x): equal, equal, twice; and W^2 h keeps its covariance with W h. Exact, not in law."""
    with netsor.Program() as prog:
        h = prog.initial("h")
        W = prog.matrix("W")
        g, again, double = W @ h, W @ h, W @ prog.nonlin(lambda x: 2 * x, h)
    draws = prog.sample([g, again, double], samples=100, dims={"model": 6}, reading="lazy")
    assert np.allclose(draws[:, 0], draws[:, 1], atol=1e-5)
    assert np.allclose(2 * draws[:, 0], draws[:, 2], atol=1e-5)


def test_more_products_than_dimensions():
    """In three dimensions the fourth product is a function of three others."""

    def read(reading):
        prog = netsor.Program()
        W = prog.matrix("W")
        vectors = [prog.initial(f"h{i}") for i in range(5)]
        images = [W @ v for v in vectors]
        return lambda samples, seed: prog.sample(
            [*vectors, *images],
            samples=samples,
            dims={"model": 3},
            reading=reading,
            seed=seed,
            average=lambda *v: sum(v[5:]) ** 2 * v[0],
        ).reshape(-1, 1)

    assert_same_law(read("lazy"), read("dense"), samples=100_000)


@pytest.mark.full
def test_two_hundred_thousand_dimensions_within_a_gibibyte():
    program = (
        "import limitlaw as ll\n"
        "net = ll.Network(ll.Inputs(4, 'relu'), ll.Attention(heads=2, head_dim=64))\n"
        "y = net.sample(4, width=200_000, reading='lazy')\n"
        # not ru_maxrss, which a process inherits from the one that started it
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))\n"
    )
    kilobytes = int(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)
    assert kilobytes < 2**20
