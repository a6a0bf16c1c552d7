"""Bad input gets one sentence, before any work: the argument, the value, the remedy."""

from math import inf, nan

import jax.numpy as jnp
import numpy as np
import pytest

import limitlaw as ll

NET = ll.Network(ll.Inputs(4, "relu"), ll.Attention(heads=2))
EYE = np.eye(2)


@pytest.mark.parametrize(
    "make, match",
    [
        (lambda: ll.Inputs(0), r"tokens=0: must be a positive integer"),
        (lambda: ll.Inputs(2.5), r"tokens=2.5: must be a positive integer"),
        (lambda: ll.Inputs("four"), r"tokens='four': must be a positive integer"),
        (lambda: ll.Inputs(True), r"tokens=True"),
        (lambda: ll.Inputs(inf), r"tokens=inf: must be a positive integer"),
        (lambda: ll.Inputs(2, "swish"), r"activation='swish'.*'relu'"),
        (lambda: ll.Inputs(2, 3), r"activation=3"),
        (lambda: ll.Attention(heads=-1), r"heads=-1: must be a positive integer or inf"),
        (lambda: ll.Attention(heads=1.5), r"heads=1.5"),
        (lambda: ll.Attention(heads=nan), r"heads=nan"),
        (lambda: ll.Attention(head_dim=0), r"head_dim=0: must be a positive integer or inf"),
        (lambda: ll.Attention(head_dim="half"), r"head_dim='half'.*'split'"),
        (lambda: ll.Attention(heads=inf, head_dim="split"), r"head_dim='split'.*finite heads"),
        (lambda: ll.Attention(scale="log"), r"scale='log'.*'sqrt', 'linear'"),
        (
            lambda: ll.Attention(tie_qk=True),
            r"tie_qk=True with scale='sqrt'.*grow like sqrt\(head_dim\).*scale='linear'",
        ),
        (lambda: ll.Attention(tie_qk="yes"), r"tie_qk='yes'"),
        (lambda: ll.Attention(query_std=-1.0), r"query_std=-1.0: must be a finite number"),
        (lambda: ll.Attention(out_std=nan), r"out_std=nan"),
        (lambda: ll.Attention(mask="anti"), r"mask='anti'.*'causal'"),
        (lambda: ll.Attention(mask=np.ones((2, 2))), r"mask is float64.*boolean"),
        (lambda: ll.Attention(mask=np.ones((2, 3), bool)), r"mask.*\(2, 3\).*square"),
        (lambda: ll.Attention(mask=np.array([[True, True], [False, False]])), r"mask: row 1 is empty"),
        (lambda: ll.Network(ll.Inputs(3), ll.Attention(mask=EYE > 0)), r"mask has shape \(2, 2\).*3 tokens"),
        (lambda: ll.GramInputs([[1, 2], [3, 4]]), r"K is not symmetric: K\[0, 1\] = 2 but K\[1, 0\] = 3"),
        (lambda: ll.GramInputs([[1, 2], [2, 1]]), r"K is not positive semi-definite: its smallest eigenvalue is -1"),
        (lambda: ll.GramInputs([[1, nan], [nan, 1]]), r"K\[0, 1\] is nan"),
        (lambda: ll.GaussianInputs([[inf]]), r"K\[0, 0\] is inf"),
        (lambda: ll.GramInputs([1, 2]), r"K has shape \(2,\)"),
        (lambda: ll.GramInputs(np.ones((2, 3))), r"K has shape \(2, 3\).*square"),
        (lambda: ll.GramInputs("K"), r"K='K': must be an array"),
        (lambda: ll.GramInputs(EYE, mean=[1.0]), r"mean has shape \(1,\)"),
        (lambda: ll.GramInputs(EYE, mean=[1.0, 1.0]), r"mean=.*eigenvalue -1"),
        (lambda: ll.Network(ll.Attention(heads=2)), r"inputs=Attention\(heads=2\): a network starts with"),
        (lambda: ll.Network(ll.Inputs(2), "attention"), r"layer='attention'"),
        (lambda: NET.sample(0, width=8), r"samples=0: must be a positive integer"),
        (lambda: NET.sample(1.5, width=8), r"samples=1.5"),
        (lambda: NET.sample(5, width=0), r"width=0: must be a positive integer or inf"),
        (lambda: NET.sample(5, width=7.5), r"width=7.5"),
        (lambda: NET.sample(5, width=-inf), r"width=-inf"),
        (lambda: NET.sample(5, width=8, seed=1.5), r"seed=1.5: must be an integer"),
        (lambda: NET.sample(5, width=8, seed=-1), r"seed=-1"),
        (lambda: NET.sample(5, width=8, seed="0"), r"seed='0'"),
        (lambda: NET.sample(5, width=8, reading="exact"), r"reading='exact'.*'gram', 'lazy', 'dense'"),
        (lambda: NET.sample(5, width=8, observe="mean"), r"observe='mean'.*'output'"),
        (lambda: NET.sample(5, reading="dense"), r"reading='dense' at width=inf.*reading='gram'"),
        (lambda: NET.sample(5, reading="lazy"), r"reading='lazy' at width=inf"),
        (lambda: NET.sample(5, width=8, token=4), r"token=4: there are 4 tokens"),
        (lambda: NET.sample(5, width=8, token=[0, -5]), r"token=-5"),
        (lambda: NET.sample(5, width=8, token=[]), r"token=\[\]"),
        (lambda: NET.sample(5, width=8, token=0.5), r"token=0.5"),
        (lambda: NET.sample(5, width=8, token=0, observe="gram"), r"token=0 with observe='gram'"),
        (lambda: NET.sample(10**12, width=8), r"samples=1000000000000.*max_memory=1073741824 .*fewer"),
        (
            lambda: NET.sample(5, width=8, reading="lazy", observe="covariance"),
            r"observe='covariance' with reading='lazy'",
        ),
        (
            lambda: NET.sample(5, width=100_000, reading="dense"),
            r"max_memory=1073741824 .*a block of .*GiB, however few",
        ),
        (lambda: NET.law(width=8, token=[0, 0]), r"token=\[0, 0\]: a token is named twice"),
        (lambda: NET.law(width=8, token=[]), r"token=\[\]: name at least one token"),
        (lambda: NET.law(width=8, token=9), r"token=9: there are"),
        (lambda: NET.law(method="guess"), r"method='guess'"),
        (lambda: NET.law(token=None), r"token=None: a law is that of one token"),
        (lambda: NET.law(observe="gram"), r"observe='gram'"),
        (lambda: NET.law(observe="scores"), r"key=None with observe='scores'"),
        (lambda: NET.law(observe="scores", key=9), r"key=9: there are"),
        (lambda: NET.law(key=1), r"key=1 with observe='output'"),
        (lambda: NET.law(width=8, samples=0), r"samples=0"),
        (lambda: NET.law(width=8, samples=1), r"samples=1: a standard error takes at least two draws"),
        (lambda: NET.law(width=8, accuracy="a"), r"accuracy='a'"),
        (lambda: NET.law(width=8, token=True), r"token=True"),
        (lambda: NET.sample(5, width=10**400), r"width=1000.*inf is as good"),
        (lambda: NET.sample(5, width=8, max_memory="1GB"), r"max_memory='1GB'"),
        (lambda: NET.sample(5, width=8, observe=np.eye(2)), r"observe="),
        (lambda: NET.sample(5, width=8, token=np.array(0.5)), r"token="),
        (lambda: ll.Attention(query_std=1e20), r"query_std=1e\+20.*at most 1e\+09"),
        (lambda: ll.GramInputs([[1e39]]), r"K has an entry of size 1e\+39"),
        (lambda: ll.Attention(mask=[[True], [True, False]]), r"rows have different lengths"),
        (
            lambda: ll.Network(ll.GramInputs(np.eye(2)), ll.Attention()).sample(5, width=200_000, reading="dense"),
            r"max_memory=1073741824 .*a block of .*GiB, however few",
        ),
        (lambda: NET.law(width=8, accuracy=0), r"accuracy=0"),
        (
            lambda: ll.Network(ll.Inputs(2), ll.Attention(heads=3, head_dim="split")).sample(5, width=8),
            r"width=8 is not divisible by heads=3",
        ),
        (lambda: ll.Network(ll.Inputs(2), ll.Attention(heads=inf)).sample(5, width=8), r"heads=inf at width=8"),
        (
            lambda: ll.Network(ll.Inputs(2), ll.Attention(heads=inf)).sample(5, observe="scores"),
            r"observe='scores' with heads=inf",
        ),
        (lambda: ll.Network(ll.Inputs(2)).sample(5, width=8, observe="scores"), r"no attention layer"),
        (
            lambda: ll.Network(ll.Inputs(2), ll.Attention(head_dim=inf)).sample(5, width=8, reading="dense"),
            r"head_dim=inf",
        ),
        (lambda: ll.Network(ll.GramInputs(np.eye(3))).sample(5, width=2), r"width=2: GramInputs has tokens of rank 3"),
        (lambda: ll.Network(ll.GramInputs(EYE, mean=[0, 0])).sample(5, width=2), r"rank 3 \(the mean counts for one\)"),
        (lambda: ll.Network(ll.GramInputs(EYE), ll.Attention()).program(), r"GramInputs cannot be lowered"),
        (lambda: ll.Network(ll.Inputs(2), ll.Attention(heads=inf)).program(), r"heads=inf\) cannot be lowered"),
        (
            lambda: ll.Network(ll.Inputs(2), ll.Attention(tie_qk=True, scale="linear")).program(),
            r"tie_qk=True\) cannot be lowered",
        ),
    ],
)
def test_refusals(make, match):
    with pytest.raises((TypeError, ValueError), match=match):
        make()


def test_what_was_checked_stays_as_it_was():
    mask = np.ones((2, 2), bool)
    layer = ll.Attention(mask=mask)
    mask[1] = False
    assert layer.mask.all()


def test_what_is_not_a_number_is_shown():
    """An activation that leaves its domain gives nan in every reading, not something that looks like a number."""
    net = ll.Network(ll.Inputs(2, lambda x: jnp.sqrt(x)), ll.Attention())
    assert np.isnan(net.sample(20, width=5)).any()
    assert np.isnan(net.sample(20, width=5, reading="dense")).any()
