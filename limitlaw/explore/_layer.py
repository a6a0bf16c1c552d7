"""The view of one attention layer: its law at a width, in the limit of infinite width, and with infinitely many heads."""

import functools
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf, isinf
from typing import Any

import numpy as np

from .._checks import matrix_of_text
from ..distances import Convergence, ResolutionWarning, compare, convergence, kl
from ..laws import Gaussian, Law, ScaleMixture
from ..networks import Attention, GaussianInputs, GramInputs, Inputs, Network, seconds_of_a_draw
from ._jobs import Report
from ._panels import Panel, curve, figure, table
from ._python import HEADER, call, written
from ._state import FieldError, State, control

_MOST_TOKENS = 8
_MOST_DRAWS, _LEAST_DRAWS = 2**15, 2**10
_SECONDS = 0.5  # of drawing behind a law
_STUDY_WIDTHS = (16, 32, 64, 128, 256, 512, 1024)
_STUDY_DRAWS = 2**14
_ENOUGH_TO_FIT = 4
_REACH = 6.0  # standard deviations that a density is shown for
_POINTS = 241
_EDGE = 1e-4  # probability left out at both ends of the mixing law
_GIVEN = ("gaussian", "fixed")


@dataclass(frozen=True)
class Layer(State):
    """One attention layer, and what is seen of it."""

    inputs: str = control(
        "paper", "Inputs", "choice", choices=("paper", *_GIVEN), group="Tokens",
        hint="φ(W h) as in the paper; Gaussian or fixed tokens with a Gram matrix.",
    )  # fmt: skip
    tokens: int = control(4, "Tokens", "count", low=1, high=_MOST_TOKENS, group="Tokens")
    activation: str = control(
        "identity", "Activation φ", "choice", group="Tokens", only=("inputs", ("paper",)),
        choices=("identity", "relu", "tanh", "erf", "gelu", "silu", "sigmoid", "clip(100)"),
    )  # fmt: skip
    rho: float = control(0.0, "Correlation ρ", "number", low=-1.0, high=1.0, group="Tokens", only=("inputs", _GIVEN))
    gram: str = control(
        "", "Own Gram", "text", group="Tokens", only=("inputs", _GIVEN),
        hint="Instead of tokens and correlation: 1 0.5; 0.5 1",
    )  # fmt: skip
    heads: int | float = control(1, "Heads", "count", low=1, high=1024, infinite=True, logarithmic=True, group="Layer")
    width: int | float = control(
        64, "Width n", "count", low=1, high=2**20, infinite=True, logarithmic=True, group="Layer"
    )
    head_dim: int | float | str = control(
        "width", "Head dimension", "count", low=1, high=2**20, infinite=True, choices=("width", "split"), group="Layer",
        hint="A number, inf, width (as wide as the model) or split (width / heads).",
    )  # fmt: skip
    scale: str = control(
        "sqrt",
        "Score scale",
        "choice",
        choices=("sqrt", "linear"),
        group="Layer",
        hint="Scores are divided by √d (sqrt) or d (linear).",
    )
    mask: str = control("none", "Mask", "choice", choices=("none", "causal", "own"), group="Layer")
    own_mask: str = control(
        "", "Own mask", "text", group="Layer", only=("mask", ("own",)),
        hint="For each query a row, with 1 for the keys that it sees and 0 for others: 1 0; 1 1. Empty: all are seen.",
    )  # fmt: skip
    query_std: float = control(1.0, "Query std", "number", low=0.0, high=10.0, group="Standard deviations")
    key_std: float = control(1.0, "Key std", "number", low=0.0, high=10.0, group="Standard deviations")
    value_std: float = control(1.0, "Value std", "number", low=0.0, high=10.0, group="Standard deviations")
    out_std: float = control(1.0, "Output std", "number", low=0.0, high=10.0, group="Standard deviations")
    token: int = control(0, "Token (query)", "count", low=0, high=_MOST_TOKENS - 1, group="Seen")
    key: int = control(0, "Key (of score)", "count", low=0, high=_MOST_TOKENS - 1, group="Seen", parts=("scores",))

    def check(self) -> None:
        net = self.network()
        net.check_width(self.width)
        for name, index in (("token", self.token), ("key", self.key)):
            if index >= net.tokens:
                raise FieldError(
                    name, f"{name}={index} is out of range: there are {net.tokens} tokens. Give 0 to {net.tokens - 1}."
                )
        self.draws(self.width)

    def field_of(self, argument: str) -> str:
        fields = {"K": "gram" if self.gram else "rho", "mask": "own_mask" if self.mask == "own" else "mask"}
        return super().field_of(fields.get(argument, argument))

    def network(self) -> Network:
        """The network that the fields describe."""
        return Network(self._inputs(), self.attention(self.heads))

    def attention(self, heads: int | float) -> Attention:
        """The layer with another number of heads; infinitely many cannot share the width, and need not."""
        as_wide = self.head_dim == "width" or (self.head_dim == "split" and isinf(heads))
        return Attention(
            heads, head_dim=None if as_wide else self.head_dim, scale=self.scale,
            mask=self._mask(), query_std=self.query_std, key_std=self.key_std,
            value_std=self.value_std, out_std=self.out_std,
        )  # fmt: skip

    def _mask(self) -> str | list[list[bool]] | None:
        if self.mask != "own" or not self.own_mask.strip():
            return None if self.mask in ("none", "own") else self.mask
        rows = self._square("own_mask", "1 0; 1 1")
        if any(entry not in (0, 1) for row in rows for entry in row):
            raise FieldError("own_mask", f"own_mask={self.own_mask[:60]!r} has an entry other than 0 and 1.")
        return [[bool(entry) for entry in row] for row in rows]

    def _inputs(self) -> Any:
        if self.inputs == "paper":
            return Inputs(self.tokens, self.activation)
        return {"gaussian": GaussianInputs, "fixed": GramInputs}[self.inputs](self._gram())

    def _gram(self) -> list[list[float]]:
        if not self.gram:
            rho, least = self.rho, -1 / max(self.tokens - 1, 1)
            if rho < least:
                raise FieldError(
                    "rho",
                    f"rho={rho:g} is not a correlation that {self.tokens} tokens can all have. Give at least {least:.4g}.",
                )
            return [[1.0 if i == j else rho for j in range(self.tokens)] for i in range(self.tokens)]
        return self._square("gram", "1 0.5; 0.5 1")

    def _square(self, name: str, example: str) -> list[list[float]]:
        """The matrix that the text of a field means."""
        text = getattr(self, name)
        remedy = f"Write rows of numbers with ; between them, such as {example}."
        try:
            rows = matrix_of_text(text)
        except ValueError:
            raise FieldError(name, f"{name}={text[:60]!r} has an entry that is not a number. {remedy}") from None
        if len({len(row) for row in rows} | {len(rows)}) > 1:
            raise FieldError(name, f"{name}={text[:60]!r} is not square. {remedy}")
        if len(rows) > _MOST_TOKENS:
            raise FieldError(name, f"{name} has {len(rows)} rows. Give at most {_MOST_TOKENS}.")
        return rows

    def draws(self, width: int | float, most: int = _MOST_DRAWS) -> int:
        """How many draws of the variance at a width an answer has time for."""
        affordable = int(_SECONDS / seconds_of_a_draw(self.network(), width))
        if affordable < _LEAST_DRAWS:
            raise FieldError(
                "width",
                f"width={width} with activation={self.activation}, heads={self.heads} takes too long here, since every unit "
                f"is drawn. Use a smaller width, or inf.",
            )
        return min(most, affordable)


@dataclass(frozen=True)
class _Laws:
    """The laws that are compared; None where one would repeat another."""

    finite: Law | None
    limit: Law
    infinite_heads: Law | None
    gaussian: Law

    @property
    def first(self) -> Law:
        """The law in question."""
        return self.limit if self.finite is None else self.finite

    @property
    def drawn(self) -> dict[str, Law]:
        """Each by its role."""
        laws = {"finite": self.finite, "limit": self.limit, "heads": self.infinite_heads, "gaussian": self.gaussian}
        return {role: law for role, law in laws.items() if law is not None}


_NAMES = {"limit": "limit", "heads": "infinite heads", "gaussian": "Gaussian, same variance"}


@functools.lru_cache(1)
def _laws(state: Layer) -> _Laws:
    limits = _limits_of(state)
    if isinf(state.width):
        return limits
    finite = state.network().law(width=state.width, progress=False, **_options(state))
    return replace(limits, finite=finite, gaussian=Gaussian(variance=finite.variance()))


def _limits_of(state: Layer) -> _Laws:
    """Another width has the same ones."""
    return _limits(replace(state, width=inf, key=0), state.draws(state.width))


@functools.lru_cache(2)
def _limits(state: Layer, samples: int) -> _Laws:
    """Without the finite width: nothing is drawn, and nothing compiled."""
    net = state.network()
    options: dict[str, Any] = {"token": state.token, "samples": samples, "progress": False}
    limit = net.law(width=inf, **options)
    heads = None if isinf(state.heads) else Network(net.inputs, state.attention(inf)).law(**options)
    return _Laws(None, limit, heads, Gaussian(variance=limit.variance()))


def _options(state: Layer) -> dict[str, Any]:
    return {"token": state.token, "samples": state.draws(state.width)}


def _named(role: str, law: Law) -> str:
    return _NAMES.get(role, law.name)


def density(state: Layer, report: Report) -> Panel:
    """Densities of the output at the width, in the limits, and of a Gaussian of the same variance."""
    return _densities(_laws(state))


def sketch(state: Layer, report: Report) -> Panel:
    """The densities of the limits, which come at once."""
    return _densities(_limits_of(state))


def _densities(laws: _Laws) -> Panel:
    x = _around(laws.first)
    return figure(
        "output y", "density", (curve(_named(role, law), x, law.pdf(x), role=role) for role, law in laws.drawn.items())
    )


def _around(law: Law) -> np.ndarray:
    return _REACH * float(law.standard_deviation()) * np.linspace(-1, 1, _POINTS)


def comparison(state: Layer, report: Report) -> Panel:
    """The law beside its limit (the limit beside a Gaussian): moments, quantiles, tails, distances."""
    laws = _laws(state)
    other = laws.gaussian if laws.finite is None else laws.limit
    found = compare(laws.first, other, names=(laws.first.name, "Gaussian" if laws.finite is None else "limit"))
    distances = [(name, value, remark, "") for name, value, remark in found.distance_table().cells()]
    return table(
        ("", *found.names, "ratio"),
        [*found.table().cells(), ("distance", "", "", ""), *distances],
        ["Value ± standard error; without one it is exact. sd is that of the second law."],
    )


def mixing(state: Layer, report: Report) -> Panel:
    """The law of the variance that the output has given the scores: y = √v z."""
    drawn = {role: law for role, law in _laws(state).drawn.items() if role != "gaussian"}
    return figure(
        "conditional variance v",
        "P(variance ≤ v)",
        (curve(_named(role, law), *_distribution(law), role=role) for role, law in drawn.items()),
        notes=["A step is a variance that does not vary: a Gaussian law."],
    )


def _distribution(law: Law) -> tuple[np.ndarray, np.ndarray]:
    """The distribution function of the variance; a step where it is fixed."""
    if not isinstance(law, ScaleMixture):
        at = float(law.variance())
        return np.array([at, at]), np.array([0.0, 1.0])
    values, steps = law.mixture.values, np.cumsum(law.mixture.weights)
    low, high = values[np.searchsorted(np.maximum.accumulate(steps), [_EDGE, 1 - _EDGE]).clip(max=values.size - 1)]
    x = np.linspace(low, high, _POINTS)
    return x, steps[np.searchsorted(values, x, side="right") - 1]


def scores(state: Layer, report: Report) -> Panel:
    """The law of one head's score of a query and a key."""
    laws = _score_laws(state)
    x = _around(next(iter(laws.values())))
    return figure(
        f"score of query {state.token} and key {state.key}",
        "density",
        (curve(_named(role, law), x, law.pdf(x), role=role) for role, law in laws.items()),
        notes=list(_about_scores(state, laws)),
    )


def _about_scores(state: Layer, laws: Mapping[str, Law]) -> Iterator[str]:
    if "limit" not in laws and not isinf(state.width):
        yield "Divided by d, scores tend to a constant: the limit has no density."
    allowed = state.attention(state.heads).allowed(state.network().layout)
    if allowed is not None and not allowed[state.token, state.key]:
        yield f"The mask hides key {state.key} from query {state.token}: this score is not used."


@functools.lru_cache(1)
def _score_laws(state: Layer) -> dict[str, Law]:
    """By role, the law in question first."""
    net, options = _scored(state), _score_options(state)
    laws = {} if isinf(state.width) else {"finite": net.score_law(width=state.width, progress=False, **options)}
    if isinf(state.width) or not _score_is_fixed(state):
        laws["limit"] = net.score_law(width=inf, progress=False, **options)
    return {**laws, "gaussian": Gaussian(variance=next(iter(laws.values())).variance())}


def _score_is_fixed(state: Layer) -> bool:
    """Whether scores tend to a constant: divided by a dimension that grows, they do."""
    return state.scale == "linear" and isinf(state.attention(1).head_dim_at(inf))


def _scored(state: Layer) -> Network:
    """The network, with one of infinitely many heads: the scores of all have the same law."""
    return Network(state.network().inputs, state.attention(1)) if isinf(state.heads) else state.network()


def _score_options(state: Layer) -> dict[str, Any]:
    return {"query": state.token, "key": state.key, "samples": state.draws(state.width)}


def study(state: Layer, report: Report) -> Panel:
    """The divergence from the limit against the width."""
    widths = _study_widths(state)
    if not widths:
        return figure(
            "width n",
            "KL",
            notes=["No finite width can be compared: infinitely many heads, or a division of the width, forbid it."],
        )
    draws = _study_draws(state, widths)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResolutionWarning)  # error bars say it
        metric = _reporting(report, len(widths))
        found = convergence(state.network(), widths, metric, token=state.token, samples=draws)
    resolved = [(n, v) for n, v in zip(found.widths, found.values, strict=True) if v > 2 * v.stderr]
    n, values = [n for n, _ in resolved], [v for _, v in resolved]
    curves = [curve("KL to the limit", n, values, role="finite", mode="markers", error=[v.stderr for v in values])]
    notes = [f"Bars are two standard errors ({draws:,} draws); what draws do not tell from 0 is left out."]
    if len(resolved) >= _ENOUGH_TO_FIT:
        fit = Convergence(tuple(n), tuple(values), "kl").fit()
        line = np.geomspace(n[0], n[-1], 100)
        curves.append(curve("fit", line, fit(line), role="limit"))
        notes.insert(0, f"KL falls as n^-k with k = {fit.exponent}.")
    return figure("width n", "KL", curves, notes=notes, logarithmic="xy")


def _study_widths(state: Layer) -> list[int]:
    """Those widths that the network can have and that do not take long."""
    net, possible = state.network(), []
    for width in _STUDY_WIDTHS:
        with suppress(ValueError):
            net.check_width(width)
            state.draws(width)
            possible.append(width)
    return possible


def _study_draws(state: Layer, widths: list[int]) -> int:
    return state.draws(max(widths), _STUDY_DRAWS)


def _reporting(report: Report, total: int) -> Callable[[Any, Any], Any]:
    """The divergence, with a report of how many are done before each."""
    done = iter(range(total))

    def metric(p: Law, q: Law) -> Any:
        report(next(done) / total)
        return kl(p, q)

    return metric


def python(state: Layer) -> str:
    """The code that makes the same numbers, and the picture of the densities."""
    net, options = state.network(), _options(state)
    lines = [HEADER, f"net = {written(net)}", f"limit = {call('net.law', **options)}"]
    if finite := not isinf(state.width):
        lines.append(f"law = {call('net.law', width=state.width, **options)}")
    if not isinf(state.heads):
        many = written(Network(net.inputs, state.attention(inf)))
        lines.append(f"infinite_heads = {call(f'{many}.law', **options)}")
    first, second = ("law", "limit") if finite else ("limit", "gaussian")
    drawn = [*["law"] * finite, "limit", *["infinite_heads"] * (not isinf(state.heads)), "gaussian"]
    lines += [
        f"gaussian = ll.laws.Gaussian(variance={first}.variance())",
        f"x = {_REACH} * {first}.standard_deviation() * np.linspace(-1, 1, {_POINTS})",
        f"densities = {{{', '.join(f'{name!r}: {name}.pdf(x)' for name in drawn)}}}",
        "fig, ax = plt.subplots()",
        "for name, density in densities.items():",
        "    ax.plot(x, density, label=name)",
        "ax.legend()",
        'fig.savefig("layer.png")',
        f"print(ll.compare({first}, {second}))",
    ]
    if widths := _study_widths(state):
        study_options = call("", token=state.token, samples=_study_draws(state, widths)).strip("()")
        lines += [f"study = ll.convergence(net, {widths}, {study_options})", "print(study)"]
    with suppress(ValueError):  # a score that is always 0 has no density
        _score_laws(state)
        score = call(f"{written(_scored(state))}.score_law", width=state.width, **_score_options(state))
        lines.append(f"score = {score}")
    return "\n".join(lines) + "\n"
