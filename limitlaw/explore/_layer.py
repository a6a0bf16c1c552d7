"""The view of one attention layer: its law at a width, in the limit of infinite width, and with infinitely many heads."""

import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from math import inf, isinf
from typing import Any

import numpy as np
from scipy.interpolate import PchipInterpolator

from .._checks import ArgumentError, matrix_of_text
from ..distances import Convergence, ResolutionWarning, compare, convergence, kl
from ..laws import Gaussian, Law, ScaleMixture
from ..networks import Attention, GaussianInputs, GramInputs, Inputs, Network
from ..networks.cost import seconds_of_a_draw
from ._panels import Panel, curve, figure, sentences, tables
from ._python import call, program, written
from ._state import State, control

_MOST_TOKENS = 8
_MOST_DRAWS, _LEAST_DRAWS = 2**15, 2**10
_SECONDS = 0.5  # of drawing behind a law
_STUDY_WIDTHS = (16, 32, 64, 128, 256, 512, 1024)
_STUDY_DRAWS = 2**14
_ENOUGH_TO_FIT = 4
_REACH = 6.0  # standard deviations that a density is shown for
_POINTS = 301
_EDGE = 1e-3  # probability left out at both ends of the law of the variance
_KNOTS = {"draws": 60, "quadrature": 16}  # of the curve through that law, which hides the steps of both
_MOST_NODES = 5000  # of a quadrature
_FAR = 4  # standard deviations: an output beyond them is called extreme
_GIVEN = ("gaussian", "fixed")
_PARABOLA = "On the logarithmic axis a Gaussian is a parabola, and curves that flatten above it have heavier tails."


@dataclass(frozen=True)
class Layer(State):
    """One attention layer, and the token whose output is seen."""

    heads: int | float = control(
        1, "Heads H", "count", low=1, high=1024, infinite=True, logarithmic=True, group="Layer"
    )
    width: int | float = control(
        16, "Width n", "count", low=1, high=2**20, infinite=True, logarithmic=True, group="Layer",
        parts=("remarks", "density", "mixing", "scores", "comparison"),
    )  # fmt: skip
    mask: str = control(
        "none", "Mask", "choice", choices=("none", "causal", "own"), group="Layer",
        words={"own": "my own"},
    )  # fmt: skip
    own_mask: str = control(
        "", "My mask", "text", group="Layer", only=("mask", ("own",)),
        hint="A row for each query: 1 for keys that it sees, 0 for others, such as 1 0; 1 1. Empty: no mask.",
    )  # fmt: skip
    head_dim: int | float | str = control(
        "width", "Head dimension d", "count", low=1, high=2**20, infinite=True, choices=("width", "split"), group="Layer",
        hint="A number, inf, width (d = n) or split (d = n / H).",
    )  # fmt: skip
    scale: str = control(
        "sqrt", "Scores are divided by", "choice", choices=("sqrt", "linear"), group="Layer",
        words={"sqrt": "√d", "linear": "d"},
    )  # fmt: skip
    inputs: str = control(
        "paper", "Kind", "choice", choices=("paper", *_GIVEN), group="Tokens",
        words={"paper": "features φ(W h)", "gaussian": "Gaussian", "fixed": "fixed"},
    )  # fmt: skip
    tokens: int = control(4, "Tokens", "count", low=1, high=_MOST_TOKENS, group="Tokens")
    activation: str = control(
        "identity", "Activation φ", "choice", group="Tokens", only=("inputs", ("paper",)),
        choices=("identity", "relu", "tanh", "erf", "gelu", "silu", "sigmoid", "clip(100)"),
    )  # fmt: skip
    rho: float = control(0.0, "Correlation ρ", "number", low=-1.0, high=1.0, group="Tokens", only=("inputs", _GIVEN))
    gram: str = control(
        "", "My Gram matrix", "text", group="Tokens", only=("inputs", _GIVEN),
        hint="In place of tokens and correlation, such as 1 0.5; 0.5 1",
    )  # fmt: skip
    token: int = control(0, "Token (query)", "count", low=0, high=_MOST_TOKENS - 1, group="Shown")
    key: int = control(0, "Key of the score", "count", low=0, high=_MOST_TOKENS - 1, group="Shown", parts=("scores",))
    query_std: float = control(1.0, "Query", "number", low=0.0, high=10.0, group="Standard deviations")
    key_std: float = control(1.0, "Key", "number", low=0.0, high=10.0, group="Standard deviations")
    value_std: float = control(1.0, "Value", "number", low=0.0, high=10.0, group="Standard deviations")
    out_std: float = control(1.0, "Output", "number", low=0.0, high=10.0, group="Standard deviations")

    def check(self) -> None:
        self.network.check_width(self.width)
        for name, index in (("token", self.token), ("key", self.key)):
            if index >= self.network.tokens:
                last = self.network.tokens - 1
                raise ArgumentError(name, f"{name}={index} does not exist. Give a token from 0 to {last}.")
        self.draws(self.width)

    def names_of_fields(self) -> dict[str, str]:
        return {"K": "gram" if self.gram else "rho", **({"mask": "own_mask"} if self.mask == "own" else {})}

    @cached_property
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
            raise ArgumentError("own_mask", f"own_mask={self.own_mask[:60]!r} has an entry other than 0 and 1.")
        return [[bool(entry) for entry in row] for row in rows]

    def _inputs(self) -> Any:
        if self.inputs == "paper":
            return Inputs(self.tokens, self.activation)
        return {"gaussian": GaussianInputs, "fixed": GramInputs}[self.inputs](self._gram())

    def _gram(self) -> Any:
        if self.gram:
            return self._square("gram", "1 0.5; 0.5 1")
        rho, least = self.rho, -1 / max(self.tokens - 1, 1)
        if rho < least:
            raise ArgumentError(
                "rho", f"rho={rho:g} cannot be the correlation of {self.tokens} tokens. Give at least {least:.4g}."
            )
        return rho + (1 - rho) * np.eye(self.tokens)

    def _square(self, name: str, example: str) -> list[list[float]]:
        """The matrix that the text of a field means."""
        text = getattr(self, name)
        remedy = f"Write rows of numbers with ; between them, such as {example}."
        try:
            rows = matrix_of_text(text)
        except ValueError:
            raise ArgumentError(name, f"{name}={text[:60]!r} has an entry that is not a number. {remedy}") from None
        if len({len(row) for row in rows} | {len(rows)}) > 1:
            raise ArgumentError(name, f"{name}={text[:60]!r} is not square. {remedy}")
        if len(rows) > _MOST_TOKENS:
            raise ArgumentError(name, f"{name} has {len(rows)} rows. Give at most {_MOST_TOKENS}.")
        return rows

    def draws(self, width: int | float, most: int = _MOST_DRAWS) -> int:
        """The draws of the variance at a width that an answer has time for."""
        affordable = int(_SECONDS / seconds_of_a_draw(self.network, width))
        if affordable < _LEAST_DRAWS:
            raise ArgumentError(
                "width",
                f"width={width} with activation={self.activation} and heads={self.heads} takes too long here, because "
                f"every unit is drawn. Use a smaller width, or inf.",
            )
        return min(most, affordable)

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of a law."""
        return {"token": self.token, "samples": self.draws(self.width)}

    @cached_property
    def limit(self) -> Law:
        """The law at infinite width."""
        return self.network.law(width=inf, progress=False, **self.options)

    @cached_property
    def infinite_heads(self) -> Law | None:
        """The law at infinite width with infinitely many heads; None if the layer has them."""
        if isinf(self.heads):
            return None
        return Network(self.network.inputs, self.attention(inf)).law(progress=False, **self.options)

    @cached_property
    def law(self) -> Law:
        """The law of the layer."""
        return self.limit if isinf(self.width) else self.network.law(width=self.width, progress=False, **self.options)

    @property
    def laws(self) -> dict[str, Law]:
        """The laws to compare, each by its role."""
        finite = {} if isinf(self.width) else {"finite": self.law}
        return {**finite, **self.limits, "gaussian": Gaussian(variance=self.law.variance())}

    @property
    def limits(self) -> dict[str, Law]:
        """Those that need no draws."""
        return {"limit": self.limit, **({} if self.infinite_heads is None else {"heads": self.infinite_heads})}

    def named(self, role: str) -> str:
        """A role in words."""
        return {
            "finite": f"this layer (n = {self.width})",
            "limit": "this layer (infinite width)" if isinf(self.width) else "infinite width",
            "heads": "infinite width, ∞ heads",
            "gaussian": "Gaussian, same variance",
        }[role]


def density(state: Layer) -> Panel:
    """Densities of the output at the width, in the limits, and of a Gaussian of the same variance."""
    return _densities(state, state.laws, state.law, f"output y of token {state.token}", [_PARABOLA])


def limits(state: Layer) -> Panel | None:
    """The densities of the limits, which come at once."""
    if isinf(state.width):
        return None
    laws = {**state.limits, "gaussian": Gaussian(variance=state.limit.variance())}
    return _densities(state, laws, state.limit, f"output y of token {state.token}", [_PARABOLA])


def _densities(state: Layer, laws: dict[str, Law], first: Law, x_label: str, notes: list[str] | None = None) -> Panel:
    x = _REACH * float(first.standard_deviation()) * np.linspace(-1, 1, _POINTS)
    drawn = [curve(state.named(role), x, law.pdf(x), role=role) for role, law in laws.items()]
    return figure(x_label, "density", drawn, notes=notes or [])


def remarks(state: Layer) -> Panel:
    """What stands out, in words."""
    return sentences(list(_remarks(state)))


def _remarks(state: Layer) -> Iterator[str]:
    law, limit, here = state.law, state.limit, "At infinite width" if isinf(state.width) else f"At n = {state.width}"
    excess = _excess(law)
    if excess > 1.2:
        yield (
            f"{here} this is not a Gaussian: an output beyond {_FAR} standard deviations is {_times(excess)} as likely as "
            f"for a Gaussian of the same variance (excess kurtosis {_kurtosis(law)})."
        )
    else:
        yield f"{here} the output is close to a Gaussian (excess kurtosis {_kurtosis(law)})."
    if not isinf(state.width):
        beyond = _excess(limit)
        if beyond < 1.01:
            yield "In the limit of infinite width it is a Gaussian" + (
                ": this token sees itself alone, so its attention weight is 1 whatever the weights are."
                if _sees_itself_alone(state)
                else "."
            )
        elif beyond < 1.2:
            yield f"In the limit of infinite width it is nearly a Gaussian (excess kurtosis {float(limit.kurtosis()):.2g})."
        else:
            yield (
                f"Infinite width does not make it Gaussian: in the limit such an output is still {_times(beyond)} as likely "
                f"(excess kurtosis {float(limit.kurtosis()):.3g})."
            )
        ratio = float(law.variance()) / float(limit.variance())
        if abs(ratio - 1) > 0.05:
            yield f"The variance is {ratio:.2f} times that of the limit."
    if not isinf(state.heads) and _excess(limit) >= 1.01:
        yield ("Only infinitely many heads make the limit Gaussian: its excess kurtosis is proportional to 1/H.")


def _kurtosis(law: Law) -> str:
    """The excess kurtosis with its error, or three digits of an exact one."""
    value = law.kurtosis()
    return str(value) if value.stderr else f"{float(value):.3g}"


def _excess(law: Law) -> float:
    """How many times as likely extreme values are as for a Gaussian of the same variance."""
    gaussian = Gaussian(variance=law.variance())
    at = _FAR * float(law.standard_deviation())
    return float(law.ccdf(at)) / float(gaussian.ccdf(at))


def _times(factor: float) -> str:
    return f"{factor:.2g} times" if factor < 10 else f"{factor:.0f} times"


def _allowed(state: Layer) -> np.ndarray | None:
    return state.attention(state.heads).allowed(state.network.layout)


def _sees_itself_alone(state: Layer) -> bool:
    allowed = _allowed(state)
    keys = np.ones(state.network.tokens, bool) if allowed is None else np.asarray(allowed)[state.token]
    return int(keys.sum()) == 1


def comparison(state: Layer) -> Panel:
    """The law beside its limit (the limit beside a Gaussian): moments, quantiles, tails, distances."""
    role = "gaussian" if isinf(state.width) else "limit"
    first = "infinite width" if isinf(state.width) else f"n = {state.width}"
    found = compare(state.law, state.laws[role], names=(first, {"gaussian": "Gaussian"}.get(role, "infinite width")))
    notes = ["Value ± standard error; without one it is exact. sd is the standard deviation of the second law."]
    return tables(found.table(), found.distance_table(), notes=notes)


def mixing(state: Layer) -> Panel:
    """The law of the variance that the output has given the scores: y = √v z."""
    drawn = [
        curve(state.named(role), *_distribution(law), role=role)
        for role, law in state.laws.items()
        if role != "gaussian"
    ]
    notes = [
        "Given the attention scores the output is Gaussian with variance v. If v varies, the output has heavier tails than "
        "a Gaussian; a vertical line is a v that does not vary."
    ]
    return figure("conditional variance v", "P(variance ≤ v)", drawn, notes=notes)


def _distribution(law: Law) -> tuple[np.ndarray, np.ndarray]:
    """The distribution function of the variance as a smooth curve; a step where the variance is fixed."""
    if not isinstance(law, ScaleMixture):
        at = float(law.variance())
        return np.array([at, at]), np.array([0.0, 1.0])
    values, weights = law.mixture.values, law.mixture.weights
    # Nodes of a quadrature come in pairs of equal values, up to rounding.
    _, first, of = np.unique(np.round(values / values.max(), 12), return_index=True, return_inverse=True)
    values, weights = values[first], np.bincount(of, weights)
    knots = _KNOTS["draws" if values.size > _MOST_NODES else "quadrature"]
    middle = np.cumsum(weights) - weights / 2  # the curve passes through the middle of each step
    level = (1 - np.cos(np.pi * np.linspace(0, 1, knots))) / 2  # more knots at both ends
    at = np.interp(_EDGE + (1 - 2 * _EDGE) * level, middle, values)
    at, kept = np.unique(at, return_index=True)
    if at.size < 2:
        return np.array([at[0], at[0]]), np.array([0.0, 1.0])
    smooth = PchipInterpolator(at, (_EDGE + (1 - 2 * _EDGE) * level)[kept])
    x = np.linspace(at[0], at[-1], _POINTS)
    return x, smooth(x)


def scores(state: Layer) -> Panel:
    """The law of one head's score of a query and a key."""
    laws = _score_laws(state)
    x_label = f"score of query {state.token} and key {state.key}"
    return _densities(state, laws, next(iter(laws.values())), x_label, list(_about_scores(state, laws)))


def _about_scores(state: Layer, laws: dict[str, Law]) -> Iterator[str]:
    yield "A score is the product of a query and a key, before the softmax."
    if "limit" not in laws and not isinf(state.width):
        yield "Divided by d, scores tend to a constant, so the limit has no density."
    allowed = _allowed(state)
    if allowed is not None and not allowed[state.token, state.key]:
        yield f"The mask hides key {state.key} from query {state.token}, so this score is not used."


def _score_laws(state: Layer) -> dict[str, Law]:
    """By role, the law in question first."""
    # All heads have one law, so one head stands for infinitely many.
    net = Network(state.network.inputs, state.attention(1)) if isinf(state.heads) else state.network
    options = _score_options(state)
    laws = {} if isinf(state.width) else {"finite": net.score_law(width=state.width, progress=False, **options)}
    fixed = state.scale == "linear" and isinf(state.attention(1).head_dim_at(inf))
    if isinf(state.width) or not fixed:
        laws["limit"] = net.score_law(width=inf, progress=False, **options)
    return {**laws, "gaussian": Gaussian(variance=next(iter(laws.values())).variance())}


def _score_options(state: Layer) -> dict[str, Any]:
    return {"query": state.token, "key": state.key, "samples": state.draws(state.width)}


def study(state: Layer) -> Panel:
    """The divergence from the limit against the width."""
    widths = _study_widths(state)
    if not widths:
        return figure("width n", "KL", notes=["No finite width is possible with these values."])
    draws = state.draws(max(widths), _STUDY_DRAWS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResolutionWarning)  # error bars say it
        found = convergence(state.network, widths, kl, token=state.token, samples=draws)
    resolved = [(n, v) for n, v in zip(found.widths, found.values, strict=True) if v > 2 * v.stderr]
    n, values = [n for n, _ in resolved], [v for _, v in resolved]
    curves = [
        curve(
            "KL divergence from the limit", n, values, role="finite", mode="markers", error=[v.stderr for v in values]
        )
    ]
    notes = [f"Bars are two standard errors ({draws:,} draws). Values that are not distinct from 0 are omitted."]
    if len(resolved) >= _ENOUGH_TO_FIT:
        fit = Convergence(tuple(n), tuple(values), "kl").fit()
        line = np.geomspace(n[0], n[-1], 100)
        curves.append(curve("fit, with corrections at small n", line, fit(line), role="limit"))
        notes.insert(0, f"The divergence falls like n⁻ᵏ with k = {fit.exponent}.")
    return figure("width n", "KL divergence", curves, notes=notes, logarithmic="xy")


def _study_widths(state: Layer) -> list[int]:
    """Those widths that the network can have and that do not take long."""
    possible = []
    for width in _STUDY_WIDTHS:
        with suppress(ValueError):
            state.network.check_width(width)
            state.draws(width)
            possible.append(width)
    return possible


def python(state: Layer) -> str:
    """The code that makes the same numbers, and a picture of them."""
    options = {name: value for name, value in state.options.items() if value or name != "token"}
    finite, drawn = not isinf(state.width), {}
    lines, names = list(_matrices(state)), {}
    if state.inputs != "paper":
        names["K"] = "K"
    if state.mask == "own" and state.own_mask.strip():
        names["mask"] = "mask"
    lines.append(written(state.network, names))
    if finite:
        lines.append(f"law = {call('net.law', width=state.width, **options)}")
        drawn["law"] = f"width {state.width}", ""
    lines.append(f"limit = {call('net.law', **options)}")
    drawn["limit"] = "infinite width", ', linestyle="--"'
    if not isinf(state.heads):
        many = written(Network(state.network.inputs, state.attention(inf)), names).replace("net =", "many_heads =", 1)
        lines += [many, f"gaussian_limit = {call('many_heads.law', **options)}"]
        drawn["gaussian_limit"] = "infinitely many heads", ', linestyle="-."'
    first = "law" if finite else "limit"
    lines.append(f"gaussian = ll.laws.Gaussian(variance={first}.variance())")
    drawn["gaussian"] = "Gaussian, same variance", ', linestyle=":"'
    with suppress(ArgumentError):  # a score that is always 0 has no density
        _score_laws(state)
        of = "ll.Network(net.inputs, " + call("ll.Attention", heads=1) + ")" if isinf(state.heads) else "net"
        if isinf(state.heads):
            one = written(Network(state.network.inputs, state.attention(1)), names).replace("net =", "one_head =", 1)
            lines.append(one)
            of = "one_head"
        arguments = {**_score_options(state), **({"width": state.width} if finite else {})}
        lines.append(f"score = {call(f'{of}.score_law', **arguments)}")
    scored = lines[-1].startswith("score =")
    lines += [
        "",
        f"x = {_REACH:g} * float({first}.standard_deviation()) * np.linspace(-1, 1, {_POINTS})",
        'fig, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")'
        if scored
        else 'fig, left = plt.subplots(layout="constrained")',
        *(f'{name}.plot(left, x=x, label="{label}"{line})' for name, (label, line) in drawn.items()),
        f'left.set(xlabel="output of token {state.token}", ylabel="density", yscale="log")',
        "left.legend()",
    ]
    if scored:
        lines += [
            "score.plot(right)",
            f'right.set(xlabel="score of query {state.token} and key {state.key}", ylabel="density")',
        ]
    lines += ['fig.savefig("layer.png")', "", f"print(ll.compare({first}, {'limit' if finite else 'gaussian'}))"]
    if widths := _study_widths(state):
        samples = state.draws(max(widths), _STUDY_DRAWS)
        given = call("", token=state.token or None, samples=samples).strip("()")
        lines += [f"study = ll.convergence(net, {widths}, {given})", "print(study)"]
    return program(*lines)


def _matrices(state: Layer) -> Iterator[str]:
    """The lines that define matrices."""
    if state.inputs != "paper":
        if state.gram:
            yield f"K = {state._gram()}"
        else:
            yield (
                f"K = {state.rho!r} + {1 - state.rho!r} * np.eye({state.tokens})"
                if state.rho
                else (f"K = np.eye({state.tokens})")
            )
    if state.mask == "own" and state.own_mask.strip():
        rows = [[int(entry) for entry in row] for row in state._mask() or []]
        yield f"mask = np.array({rows}, dtype=bool)"
