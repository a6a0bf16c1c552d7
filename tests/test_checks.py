"""Checks that several rooms share."""

import pytest

import limitlaw as ll
from limitlaw._checks import ArgumentError, ArgumentTypeError, fitting_tokens, missing_package


@pytest.mark.parametrize(
    ("matrix", "sentence"),
    [
        ([[1, 0], [0]], "K=[[1, 0], [0]] has rows of different lengths. Give every row the same length."),
        ([[1, 0], 0], "K=[[1, 0], 0] has rows of different lengths. Give every row the same length."),
        (None, "K=None must be an array of real numbers with 2 axes."),
        ("x", "K='x' must be an array of real numbers."),
        ([1.0], "K has shape (1,). It must have 2 axes."),
    ],
)
def test_arrays_that_are_none(matrix, sentence):
    with pytest.raises(ArgumentError) as refused:
        ll.GramInputs(matrix)
    assert str(refused.value) == sentence
    assert refused.value.argument == "K"
    assert isinstance(refused.value, ArgumentTypeError) == (matrix in (None, "x"))


def test_tokens_that_do_not_fit_are_refused():
    assert fitting_tokens("tokens", 1024, 1024, 2**30) == 1024
    with pytest.raises(ArgumentError, match=r"tokens=1025 needs 1 GiB .* Use at most 1,024 tokens\.") as refused:
        fitting_tokens("tokens", 1025, 1024, 2**30)
    assert refused.value.argument == "tokens"


def test_a_remedy_works_from_a_checkout():
    assert (
        missing_package("dask", "cluster")
        == "dask is not installed. Run pip install '.[cluster]' in a checkout of limitlaw."
    )
