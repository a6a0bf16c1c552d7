import subprocess
import sys
from math import inf

import jax
import numpy as np
import pytest

import limitlaw as ll

NET = ll.Network(ll.Inputs(4, ll.clip(100.0)), ll.Attention(heads=2))


SMALL = ll.Network(ll.GaussianInputs(np.eye(2)), ll.Attention())


@pytest.mark.parametrize(
    "reading, observe",
    [("gram", "output"), ("gram", "scores"), ("dense", "gram"), ("lazy", "output"), ("lazy", "gram")],
)
def test_a_draw_depends_on_seed_and_index_alone(reading, observe):
    few = SMALL.sample(20, width=8, seed=4, reading=reading, observe=observe)
    many = SMALL.sample(30_000, width=8, seed=4, reading=reading, observe=observe)
    assert np.array_equal(few, many[:20])
    assert not np.array_equal(few, SMALL.sample(20, width=8, seed=5, reading=reading, observe=observe))


def test_shapes_are_those_of_the_contract():
    assert SMALL.sample(5, width=8).shape == (5,)
    assert SMALL.sample(5, width=8, token=-1).shape == (5,)
    assert SMALL.sample(5, width=8, observe="gram").shape == (5, 2, 2)
    assert SMALL.sample(5, width=8, observe="scores").shape == (5, 1, 2, 2)
    assert SMALL.sample(5, width=8, observe="scores", token=1).shape == (5, 1, 2)
    assert SMALL.sample(5, width=8, observe="covariance").shape == (5, 2, 2)
    assert SMALL.sample(5, width=8, observe="covariance", token=1).shape == (5,)
    y = SMALL.sample(5, width=8, token=[1, 0, 1])
    assert y.shape == (5, 3)
    assert np.array_equal(y[:, 0], y[:, 2])
    assert y.dtype == np.float32


def test_width_is_infinite_unless_given():
    assert NET.width == inf
    assert np.array_equal(NET.sample(100), NET.sample(100, width=inf))


def test_networks_print_as_they_are_written():
    net = ll.Network(ll.Inputs(4, "relu"), ll.Attention(heads=2, mask="causal"), ll.Attention(heads=inf, head_dim=64))
    assert (
        repr(net)
        == "Network(Inputs(tokens=4, activation=relu), Attention(heads=2, mask='causal'), Attention(heads=inf, head_dim=64))"
    )


def test_law_meets_its_stated_accuracy():
    law = NET.law(width=64, accuracy=1e-3)
    assert law.variance().stderr < 1e-3 * law.variance()
    assert law.kurtosis().stderr < 1e-2 * (1 + law.kurtosis())
    few, many = (NET.law(width=64, samples=n, seed=1).variance().stderr for n in (2**14, 2**16))
    assert abs(few / many - 2) < 0.4


@pytest.mark.full
def test_memory_stays_bounded_whatever_the_samples():
    """Peak memory of ten million draws beyond that of ten: the result (40 MB) and the blocks in flight."""
    program = (
        "import resource, limitlaw as ll\n"
        "net = ll.Network(ll.Inputs(4, ll.clip(100.0)), ll.Attention(heads=2))\n"
        "net.sample(10, width=64)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "net.sample(10_000_000, width=64)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    kilobytes = int(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)
    assert kilobytes < 200_000


def test_the_core_imports_without_the_packages_of_the_command_line():
    program = (
        "import sys, limitlaw\n"
        "heavy = {'matplotlib', 'typer', 'rich', 'xarray', 'torch'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_callers_precision_changes_nothing():
    infinite = ll.Network(ll.GramInputs(np.eye(2)), ll.Attention(heads=inf))
    plain = SMALL.sample(10, width=8), infinite.sample(4)
    with jax.enable_x64(True):
        double = SMALL.sample(10, width=8), infinite.sample(4)
    for a, b in zip(plain, double, strict=True):
        assert b.dtype == np.float32
        assert np.array_equal(a, b)


@pytest.mark.full
def test_infinitely_many_heads_of_many_tokens():
    """Too many dimensions for Sobol points: identical tokens attend to their own average."""
    net = ll.Network(ll.GramInputs(np.eye(40)), ll.Attention(heads=inf, query_std=0.0))
    assert np.allclose(net.sample(2, observe="covariance"), 1 / 40, atol=1e-6)


def test_infinitely_many_heads_meet_the_accuracy_too():
    law = ll.Network(ll.GramInputs(np.eye(3)), ll.Attention(heads=inf)).law(accuracy=2e-5, method="draws")
    assert law.variance().stderr < 2e-5 * law.variance()
