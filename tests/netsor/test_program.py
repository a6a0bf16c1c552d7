import jax.numpy as jnp
import numpy as np
import pytest

from limitlaw import netsor


@pytest.fixture
def prog():
    return netsor.Program()


def test_a_program_prints_line_by_line(prog):
    a, b = prog.initials(["a", "b"], cov=[[1, 0.5], [0.5, 2]], mean=[0, 1])
    W = prog.matrix("W", var=2.0)
    x = prog.nonlin("relu", W @ a)
    prog.score(prog.matrix("Q", to="head") @ x, prog.matrix("K", to="head") @ b, scale="linear", name="s")
    assert (
        str(prog)
        == """\
matrices
     W : model -> model, N(0, 2/model)
     Q : model -> head, N(0, 1/model)
     K : model -> head, N(0, 1/model)
lines
  1  (a, b) ~ N([0, 1], [[1, 0.5], [0.5, 2]])
  2  g1 = W a
  3  x1 = relu(g1)
  4  g2 = Q x1
  5  g3 = K b
  6  s = g2 . g3 / head"""
    )


def test_a_score_of_one_matrix(prog):
    h = prog.initial("h")
    Q = prog.matrix("Q")
    with pytest.raises(
        netsor.AssumptionError, match=r"line 4, score: g1 and g2 are both outputs of Q.*two different matrices"
    ):
        prog.score(Q @ h, Q @ h)


def test_a_matrix_on_both_sides(prog):
    h = prog.initial("h")
    Q, K, M = prog.matrix("Q"), prog.matrix("K"), prog.matrix("M")
    prog.score(Q @ h, K @ h)
    with pytest.raises(
        netsor.AssumptionError, match=r"line 7, score: K is on the left.*right of the score in line 4.*Swap"
    ):
        prog.score(K @ h, M @ h)
    # a refused score leaves no trace: M is still free
    prog.score(M @ h, K @ h)


def test_a_score_of_something_else(prog):
    h = prog.initial("h")
    with pytest.raises(netsor.AssumptionError, match=r"h is not a MatMul output.*Use W @ h"):
        prog.score(h, prog.matrix("K") @ h)


def test_transposes(prog):
    with pytest.raises(netsor.AssumptionError, match=r"W.T is not part of Netsor.*another matrix"):
        _ = prog.matrix("W").T


def test_scores_of_scores_are_allowed_and_said_to_be_deep(prog):
    h = prog.initial("h")
    p = prog.score(prog.matrix("Q") @ h, prog.matrix("K") @ h)
    y = prog.nonlin(lambda h, p: p * h, h, scalars=[p])
    q = prog.score(prog.matrix("Q2") @ y, prog.matrix("K2") @ h)
    assert "[x1 depends on scores: outside Theorem 3.1, inside its deep extension]" in str(prog)
    with pytest.raises(
        netsor.AssumptionError, match=r"line 6, g3 = Q2 x1: x1 depends on scores.*Network.*deep attention"
    ):
        prog.limit(q)
    assert prog.sample(q, samples=3, dims={"model": 5}).shape == (3,)


@pytest.mark.parametrize(
    "act, match",
    [
        (lambda p, o: p.matrix("W") @ o, r"line 2, W @ z: z belongs to another program"),
        (lambda p, o: p.nonlin("relu", o), r"z belongs to another program"),
        (lambda p, o: p.sample(o, samples=1, dims={"model": 3}), r"target: z belongs to another program"),
        (lambda p, o: p.nonlin("relu"), r"at least one vector"),
        (lambda p, o: p.nonlin("swish", p.initial("a")), r"activation='swish'"),
        (lambda p, o: p.nonlin(lambda a, b: jnp.stack([a, b]), p.initial("a"), p.initial("b")), r"one real number"),
        (lambda p, o: p.nonlin(lambda a: a, p.initial("a"), p.initial("b")), r"fails on 2 numbers"),
        (lambda p, o: p.nonlin(3, p.initial("a"), p.initial("b")), r"must be callable"),
        (lambda p, o: p.nonlin(lambda a, b: a, p.initial("a"), p.initial("b", space="head")), r"spaces model, head"),
        (
            lambda p, o: p.nonlin(lambda a, b: a, p.initial("a"), scalars=[p.initial("b")]),
            r"b is a Vector, but must be a Scalar",
        ),
        (
            lambda p, o: p.matrix("W", source="head") @ p.initial("a"),
            r"W takes vectors of 'head', but a lives in 'model'",
        ),
        (lambda p, o: p.matrix("h"), r"name='h' is already used in this program"),
        (lambda p, o: p.matrix(""), r"non-empty"),
        (lambda p, o: p.matrix("W", var=-1), r"var=-1"),
        (lambda p, o: p.initial("a", var=-1), r"var=-1 must be a finite number"),
        (lambda p, o: p.initials(["a"], cov=np.eye(2)), r"does not match cov.*Give shapes \(1, 1\) and \(1,\)"),
        (lambda p, o: p.initials(["a", "b"], cov=np.eye(2), mean=[1.0]), r"Give shapes \(2, 2\) and \(2,\)"),
        (
            lambda p, o: p.score(
                p.matrix("Q", to="head") @ p.lines[0].outputs[0], p.matrix("K") @ p.lines[0].outputs[0]
            ),
            r"'head' and g2 in 'model'",
        ),
        (lambda p, o: p.sample([], samples=1, dims={"model": 3}), r"target=\[\]"),
        (lambda p, o: p.sample(p.lines[0].outputs[0], samples=0, dims={"model": 3}), r"samples=0"),
        (lambda p, o: p.sample(p.lines[0].outputs[0], samples=1, dims={}), r"gives no dimension for model"),
        (
            lambda p, o: p.sample(p.lines[0].outputs[0], samples=1, dims={"model": 3, "head": 2}),
            r"unknown space 'head'",
        ),
        (
            lambda p, o: p.sample(p.lines[0].outputs[0], samples=1, dims={"model": np.inf}),
            r"dims\['model'\]=inf.*limit\(\)",
        ),
        (lambda p, o: p.sample(p.lines[0].outputs[0], samples=1, dims={"model": 2.5}), r"dims\['model'\]=2.5"),
        (
            lambda p, o: p.sample(p.lines[0].outputs[0], samples=1, dims={"model": 3}, reading="gram"),
            r"reading='gram'.*'lazy', 'dense'",
        ),
        (lambda p, o: p.sample(p.lines[0].outputs[0], samples=1, dims={"model": 3}, seed=0.5), r"seed=0.5"),
        (lambda p, o: p.average(lambda: 1.0), r"target=\[\]"),
        (lambda p, o: p.average(p.lines[0].outputs[0]), r"target=\[\]|psi=h"),
        (
            lambda p, o: p.average(lambda a, b: a * b, p.initial("a"), p.initial("b", space="head")),
            r"average: vectors of the spaces model, head",
        ),
        (
            lambda p, o: p.sample(p.initial("a"), samples=1, dims={"model": 3}, average=lambda a, b: a),
            r"average: .*fails on 1 number ",
        ),
        (lambda p, o: p.sample(p.initial("a"), samples=1, dims={"model": 3}, average="mean"), r"psi='mean' must be"),
        (lambda p, o: p.nonlin(lambda a, p: a, p.initial("a"), scalars=3), r"scalars=3 must be a list"),
        (lambda p, o: p.sample(p.initial("a"), samples=1, dims=4), r"dims=4 must map"),
        (lambda p, o: p.sample(p.initial("a"), samples=1, dims={"model": 3}, max_memory="1GB"), r"max_memory='1GB'"),
        (lambda p, o: p.sample(p.matrix("W"), samples=1, dims={"model": 3}), r"target=W must be a vector or a score"),
        (lambda p, o: p.limit(3), r"target=3"),
        (lambda p, o: p.average(lambda a: jnp.stack([a, a]), p.initial("a")), r"average: .*one real number"),
        (lambda p, o: p.initials(3, cov=np.eye(3)), r"names=3"),
        (lambda p, o: p.initials(["a", "a"], cov=np.eye(2)), r"names=.*different names"),
        (lambda p, o: p.initial("a", var="x"), r"var='x'"),
    ],
)
def test_refusals(prog, act, match):
    prog.initial("h")
    other = netsor.Program().initial("z")
    with pytest.raises((TypeError, ValueError), match=match):
        act(prog, other)


def test_a_closed_program_stays_as_it_is():
    with netsor.Program() as prog:
        h = prog.initial("h")
        W = prog.matrix("W")
    with pytest.raises(ValueError, match="closed"):
        W @ h


def test_a_refused_line_leaves_no_trace(prog):
    h = prog.initial("h")
    with pytest.raises(ValueError, match="var=-1"):
        prog.matrix("M", to="haed", var=-1)
    with pytest.raises(ValueError, match="already"):
        prog.initials(["b", "h"], cov=np.eye(2))
    with pytest.raises(ValueError, match="one real number"):
        prog.nonlin(lambda a, b: a > b, h, h, name="x")
    assert prog.spaces == ["model"]
    assert len(prog.lines) == 1
    prog.matrix("M")
    prog.initial("b")
    prog.nonlin("relu", h, name="x")
