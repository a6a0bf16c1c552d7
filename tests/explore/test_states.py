"""States are read from addresses, and refusals name the field."""

import re
from math import inf

import pytest
from hypothesis import given, settings, strategies as st

from limitlaw._checks import ArgumentError
from limitlaw.explore import VIEWS


def value_of(control):
    options = [st.sampled_from(control.choices)] if control.choices else []
    if control.kind == "count":
        options.append(st.integers(int(control.low), int(control.high)))
    if control.kind == "number":
        options.append(st.floats(control.low, control.high))
    if control.kind == "text":
        options.append(st.sampled_from(["", "1 0.5; 0.5 1", "2 0; 0 1e-3"]))
    if control.infinite:
        options.append(st.just(inf))
    return st.one_of(options)


def assert_sentence(error, kind):
    assert error.argument in {"", *kind.controls()}
    assert re.search(r"\w.*[.?]$", str(error), re.DOTALL), str(error)


@pytest.mark.parametrize("name", VIEWS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_state_survives_its_address(name, data):
    kind = VIEWS[name].state
    state = kind(**{field: data.draw(value_of(control)) for field, control in kind.controls().items()})
    for field, control in kind.controls().items():
        assert control.read(field, control.write(getattr(state, field))) == getattr(state, field)
    try:
        assert kind.parse(state.query()) == state
    except ArgumentError as error:  # values that do not go together
        assert_sentence(error, kind)


odd = st.one_of(
    st.sampled_from(
        ["", "inf", "-1", "0", "1e309", "nan", "٣", "1_0", "0x10", "'; drop", "\x00", "[]", "None", "2**9"]
    ),
    st.text(max_size=20),
    st.integers(-5, 70).map(str),
)


@pytest.mark.parametrize("name", VIEWS)
@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_no_address_is_too_odd(name, data):
    view = VIEWS[name]
    picked = data.draw(st.lists(st.sampled_from([*view.state.controls(), "unheard of"]), max_size=4, unique=True))
    try:
        state = view.state.parse({field: data.draw(odd) for field in picked})
        compile(view.python(state), "copied", "exec")
    except ArgumentError as error:
        if error.argument in ("", *view.state.controls()):
            assert_sentence(error, view.state)


@pytest.mark.parametrize("name", VIEWS)
def test_unknown_keys_of_a_link_are_ignored(name):
    kind = VIEWS[name].state
    assert kind.parse({"utm_source": "mail", "widht": "3", "fbclid": "x"}) == kind()


@pytest.mark.parametrize("name", VIEWS)
def test_examples_are_four_different_states(name):
    view = VIEWS[name]
    states = [view.state.parse(preset) for preset in view.presets.values()]
    assert len(states) == 4
    assert len(set(states)) == 4
    assert all(state.query() == dict(preset) for state, preset in zip(states, view.presets.values(), strict=True))


def test_the_first_state_shows_tails():
    state = VIEWS["layer"].state()
    assert state.width == 16
    parts = VIEWS["layer"].parts
    assert next(iter(parts)) == "remarks"
    assert parts["density"].logarithmic


BAD = [
    ("layer", {"width": "0"}, "width"),
    ("layer", {"width": "nan"}, "width"),
    ("layer", {"width": "1e400"}, "width"),
    ("layer", {"width": "-inf"}, "width"),
    ("layer", {"heads": "2.5"}, "heads"),
    ("layer", {"heads": "inf"}, "heads"),
    ("layer", {"tokens": "9"}, "tokens"),
    ("layer", {"token": "4"}, "token"),
    ("layer", {"inputs": "fixed", "rho": "-1"}, "rho"),
    ("layer", {"inputs": "fixed", "gram": "1 2; 2 1"}, "gram"),
    ("layer", {"inputs": "fixed", "gram": "1 2; 3"}, "gram"),
    ("layer", {"inputs": "fixed", "gram": "__import__('os')"}, "gram"),
    ("layer", {"inputs": "fixed", "gram": "nan"}, "gram"),
    ("layer", {"inputs": "fixed", "gram": "1 " * 3000}, "gram"),
    ("layer", {"inputs": "fixed", "gram": "1 0; 0 1", "width": "1"}, "width"),
    ("layer", {"mask": "own", "own_mask": "1 0; 1 1"}, "own_mask"),
    ("layer", {"mask": "own", "own_mask": "1 0; 1 2", "tokens": "2"}, "own_mask"),
    ("layer", {"mask": "own", "own_mask": "0 0; 1 1", "tokens": "2"}, "own_mask"),
    ("layer", {"mask": "own", "own_mask": "1 0; 1", "tokens": "2"}, "own_mask"),
    ("layer", {"mask": "own", "own_mask": "open('x')"}, "own_mask"),
    ("layer", {"head_dim": "split", "heads": "3"}, "width"),
    ("layer", {"activation": "relu", "width": "1000000"}, "width"),
    ("layer", {"activation": "exec"}, "activation"),
    ("depth", {"width": "4096", "depth": "48"}, "width"),
    ("depth", {"heads": "64", "width": "100"}, "width"),
    ("depth", {"model": "gpt2", "width": "100"}, "width"),
    ("depth", {"model": "llama", "width": "96"}, "width"),
    ("depth", {"block": "first"}, "block"),
    ("regression", {"gamma": "0"}, "gamma"),
    ("regression", {"link": "lambda x: x"}, "link"),
]


@pytest.mark.parametrize(("view", "query", "field"), BAD)
def test_a_bad_value_is_explained_beside_its_field(view, query, field):
    with pytest.raises(ArgumentError) as refused:
        VIEWS[view].state.parse(query)
    assert refused.value.argument == field, str(refused.value)
    assert_sentence(refused.value, VIEWS[view].state)
