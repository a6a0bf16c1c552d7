"""The view of a deep network at initialisation: what happens to variance, tails, tokens and attention along its depth."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf, isinf

import numpy as np

from ..laws import Gaussian
from ..models import PRESETS, Subject, observations
from ..networks import (
    MLP,
    Attention,
    GaussianInputs,
    LayerNorm,
    Network,
    Node,
    Repeat,
    Residual,
    RMSNorm,
    Trajectory,
    batch_size,
    blocks_of,
    seconds_of_a_draw,
)
from ._jobs import Report
from ._panels import Panel, curve, figure
from ._python import HEADER, call, written
from ._state import FieldError, State, control

# Of drawing, by an estimate that the memory traffic of a deep network about doubles: an answer takes up to two seconds.
_SECONDS = 1.0
_LEAST_DRAWS = 256  # of fewer, standard errors themselves are uncertain
_MOST_DRAWS = 1024  # enough for error bars as wide as a line; a batch that is larger is drawn whole
_HEAD_STOPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
# most numbers of heads have their shares of them
_WIDTHS = (48, 96, 144, 192, 288, 384, 576, 768, 1152, 1536, 2304, 3072, 4080)
_POINTS, _REACH = 241, 6.0
_OWN = ("model", ("own",))


@dataclass(frozen=True)
class Depth(State):
    """A block, repeated; or a known model with other depth, width and tokens."""

    model: str = control("own", "Model", "choice", choices=("own", *PRESETS), group="Network")
    depth: int = control(6, "Depth", "count", low=1, high=48, group="Network")
    width: int | float = control(
        192, "Width n", "count", low=2, high=4096, infinite=True, stops=_WIDTHS, group="Network"
    )
    tokens: int = control(4, "Tokens", "count", low=2, high=8, group="Network")
    heads: int = control(4, "Heads", "count", low=1, high=64, stops=_HEAD_STOPS, group="Block", only=_OWN)
    norm: str = control("pre", "Norm", "choice", choices=("pre", "post", "none"), group="Block", only=_OWN)
    kind: str = control(
        "LayerNorm", "Kind of norm", "choice", choices=("LayerNorm", "RMSNorm"), group="Block", only=_OWN
    )
    skip: float = control(1.0, "Skip", "number", low=0.0, high=2.0, group="Block", only=_OWN)
    mlp: str = control(
        "gelu", "MLP", "choice", choices=("none", "relu", "gelu", "tanh", "erf", "silu"), group="Block", only=_OWN
    )
    mask: str = control("none", "Mask", "choice", choices=("none", "causal"), group="Block", only=_OWN)
    query_std: float = control(1.0, "Query std", "number", low=0.0, high=10.0, group="Block", only=_OWN)
    rho: float = control(0.0, "Correlation ρ", "number", low=0.0, high=1.0, group="Block", only=_OWN)
    block: int | str = control(
        "last",
        "Law after block",
        "count",
        low=0,
        high=48,
        choices=("last",),
        group="Seen",
        parts=("law",),
        hint="A number (0 is the input), or last. Or drag the line in a figure.",
    )

    def check(self) -> None:
        self.network().check_width(self.width)
        self.draws()

    def field_of(self, argument: str) -> str:
        of_width = ("hidden_size", "n_embd", "num_attention_heads", "n_head")
        return super().field_of({"K": "rho", **dict.fromkeys(of_width, "width")}.get(argument, argument))

    def network(self) -> Network:
        """The network that the fields describe."""
        if self.model != "own":
            return self.subject.network(width=None if isinf(self.width) else int(self.width), depth=self.depth)
        mask = None if self.mask == "none" else self.mask
        gram = np.full((self.tokens, self.tokens), self.rho) + (1 - self.rho) * np.eye(self.tokens)
        return Network(GaussianInputs(gram), Repeat(self.depth, *self._block(mask)))

    @property
    def widths(self) -> dict[str, int | float]:
        """The width in question, and the infinite one, by role."""
        return {"finite": self.width, **({} if isinf(self.width) else {"limit": inf})}

    @property
    def seen_block(self) -> int:
        """The block whose law is shown."""
        return self.depth if isinstance(self.block, str) else min(self.block, self.depth)

    @property
    def subject(self) -> Subject:
        """A known model, and its tokens."""
        return Subject.of(self.model, self.tokens)

    def _block(self, mask: str | None) -> list[Node]:
        norm = {"LayerNorm": LayerNorm, "RMSNorm": RMSNorm}[self.kind]
        attention = Attention(self.heads, head_dim="split", mask=mask, query_std=self.query_std)
        branches = [attention, *([] if self.mlp == "none" else [MLP(self.mlp)])]
        if self.norm == "pre":
            return [Residual(norm(), branch, skip=self.skip) for branch in branches]
        after = [norm()] if self.norm == "post" else []
        return [layer for branch in branches for layer in (Residual(branch, skip=self.skip), *after)]

    @functools.cached_property
    def batch(self) -> int:
        """The networks that are drawn at once. The first of several batches are a sketch."""
        return batch_size(self.network(), self.width)

    def draws(self) -> int:
        """The number of networks that an answer has time to draw, in whole batches."""
        affordable = _SECONDS / seconds_of_a_draw(self.network(), self.width)
        if affordable < max(self.batch, _LEAST_DRAWS):
            raise FieldError(
                "width", f"width={self.width} at depth={self.depth} takes too long here. Make one of them smaller."
            )
        return self.batch * int(min(affordable, max(_MOST_DRAWS, self.batch)) / self.batch)


@functools.lru_cache(2)  # a finite and the infinite width
def _trajectory(state: Depth, width: int | float, samples: int) -> Trajectory:
    """Draws of the network; it is compiled once, and for every other value of a number only drawn."""
    return state.network().trajectory(samples, width=width, progress=False)


def _drawn(state: Depth) -> Trajectory:
    """At the width in question; looking at another block draws nothing again."""
    return _trajectory(replace(state, block=0), state.width, state.draws())


@dataclass(frozen=True)
class Along:
    """An observable against depth, at the width in question and at infinite width."""

    observable: str
    label: str

    def __call__(self, state: Depth, report: Report) -> Panel:
        return self._shown(state, report, state.draws(), state.widths)

    def sketch(self, state: Depth, report: Report) -> Panel | None:
        """The first of the draws, where there will be more; otherwise the width in question by itself."""
        if state.draws() > state.batch:
            return self._shown(state, report, state.batch, state.widths)
        return None if isinf(state.width) else self._shown(state, report, state.batch, {"finite": state.width})

    def _shown(self, state: Depth, report: Report, samples: int, widths: Mapping[str, int | float]) -> Panel:
        curves = []
        for role, width in widths.items():
            report(len(curves) / len(widths))
            run = _trajectory(replace(state, block=0), width, samples)
            value, error = run.summary()[self.observable]
            name = _width_in_words(state, width)
            curves.append(curve(name, range(run.blocks + 1), value, role=role, error=error))
        notes = [f"Bands are two standard errors of {samples} networks."]
        return figure("block", self.label, curves, click=("block",), marker="block", notes=notes)


def _width_in_words(state: Depth, width: int | float) -> str:
    if not isinf(width):
        return f"width {width}"
    return "infinite width" if state.model == "own" else "infinite width, same scales"


variance = Along("variance", "variance of the last token")
kurtosis = Along("kurtosis", "excess kurtosis of the last token")
cosine = Along("cosine", "mean cosine between tokens")
entropy = Along("entropy", "entropy of attention, nats")


def law(state: Depth, report: Report) -> Panel:
    """The law of a fresh read-out of the last token after a block, at the width in question and at infinite width."""
    runs = {role: _trajectory(replace(state, block=0), width, state.draws()) for role, width in state.widths.items()}
    found = {role: run.law(state.seen_block, -1) for role, run in runs.items()}
    first = found["finite"]
    x = _REACH * float(first.standard_deviation()) * np.linspace(-1, 1, _POINTS)
    drawn = {_width_in_words(state, runs[role].width): (role, each) for role, each in found.items()}
    drawn["Gaussian, same variance"] = "gaussian", Gaussian(variance=first.variance())
    curves = [curve(name, x, each.pdf(x), role=role) for name, (role, each) in drawn.items()]
    where = f"after block {state.seen_block}" if state.seen_block else "at the input"
    return figure(f"read-out of the last token {where}", "density", curves)


def remarks(state: Depth, report: Report) -> Panel:
    """What stands out, in words."""
    net = state.network()
    sentences = observations(_drawn(state), net) or ["Nothing stands out."]
    if state.model != "own":
        sentences += _about_model(state, net)
    return figure("", "", notes=sentences)


def _about_model(state: Depth, net: Network) -> list[str]:
    """What the model is beside what it is called."""
    subject = state.subject
    whole = subject.network()
    heads = _drawn(state).entropies[0].shape[1]
    return [
        f"This is {subject.title} with {state.depth} blocks of width {net.width} and {heads} heads "
        f"(its own: {blocks_of(whole)} blocks of width {whole.width}), on {subject.tokens_in_words}.",
        f"Infinite width is taken with the scales that the weights have at width {net.width}: "
        f"at their fixed standard deviation there is no limit.",
    ]


def python(state: Depth) -> str:
    """The code that makes the same numbers, and a picture of them."""
    net = written(state.network()) if state.model == "own" else _preset(state)
    lines = [
        HEADER,
        f"net = {net}",
        f"t = {call('net.trajectory', samples=state.draws(), width=state.width)}",
        "print(t)",
        't.plot().savefig("depth.png")',
    ]
    if not isinf(state.width):
        lines.append(f"limit = {call('net.trajectory', samples=state.draws(), width=inf)}")
        lines.append(f"limit_law = limit.law({state.seen_block}, -1)")
    lines.append(f"law = t.law({state.seen_block}, -1)")
    return "\n".join(lines) + "\n"


def _preset(state: Depth) -> str:
    subject = state.subject
    tokens = (
        f"np.random.default_rng(0).standard_normal({subject.tokens.shape}).astype(np.float32)"
        if isinstance(subject.tokens, np.ndarray)
        else repr(subject.tokens)
    )
    width = "" if isinf(state.width) else f", width={state.width}"
    by_name = subject.config == PRESETS[state.model].config
    config = repr(state.model) if by_name else repr(dict(subject.config))
    return f"ll.from_config({config}, {tokens}{width}, depth={state.depth})"
