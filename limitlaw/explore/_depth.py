"""The view of a deep network at initialisation: variance, tails, tokens and attention along its depth."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf, isinf

import numpy as np

from .._checks import ArgumentError
from ..laws import Gaussian
from ..models import PRESETS, Subject, observations
from ..networks import MLP, Attention, GaussianInputs, LayerNorm, Network, Node, Repeat, Residual, RMSNorm, Trajectory
from ..networks.cost import batch_size, seconds_of_a_draw
from ..networks.trajectory import blocks_of
from ._panels import Panel, curve, figure, sentences
from ._python import call, program, written
from ._state import State, control

# Of drawing, by an estimate that the memory traffic of a deep network about doubles: an answer takes up to two seconds.
_SECONDS = 1.0
_LEAST_DRAWS = 256  # of fewer, standard errors themselves are uncertain
_MOST_DRAWS = 1024  # enough for error bars as wide as a line; a batch that is larger is drawn whole
_HEAD_STOPS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
# most numbers of heads have their shares of them
_WIDTHS = (48, 96, 144, 192, 288, 384, 576, 768, 1152, 1536, 2304, 3072, 4080)
_POINTS, _REACH = 181, 6.0
_OWN = ("model", ("own",))
_OBSERVED = ("variance", "kurtosis", "cosine", "entropy")


@dataclass(frozen=True)
class Depth(State):
    """A block, repeated; or a known model with another depth, width and number of tokens."""

    model: str = control(
        "own", "Model", "choice", choices=("own", *PRESETS), group="Network",
        words={"own": "my own block", **{name: preset.title for name, preset in PRESETS.items()}},
    )  # fmt: skip
    depth: int = control(6, "Blocks", "count", low=1, high=48, group="Network")
    width: int | float = control(
        48, "Width n", "count", low=2, high=4096, infinite=True, stops=_WIDTHS, group="Network"
    )
    tokens: int = control(4, "Tokens", "count", low=2, high=8, group="Network")
    heads: int = control(4, "Heads", "count", low=1, high=64, stops=_HEAD_STOPS, group="Block", only=_OWN)
    norm: str = control(
        "pre", "Norm", "choice", choices=("pre", "post", "none"), group="Block", only=_OWN,
        words={"pre": "before each branch", "post": "after each branch"},
    )  # fmt: skip
    kind: str = control(
        "LayerNorm", "Kind of norm", "choice", choices=("LayerNorm", "RMSNorm"), group="Block", only=_OWN
    )
    skip: float = control(
        1.0,
        "Skip",
        "number",
        low=0.0,
        high=2.0,
        group="Block",
        only=_OWN,
        hint="Factor of the residual stream; 0: none.",
    )
    mlp: str = control(
        "gelu", "MLP", "choice", choices=("none", "relu", "gelu", "tanh", "erf", "silu"), group="Block", only=_OWN
    )
    mask: str = control("none", "Mask", "choice", choices=("none", "causal"), group="Block", only=_OWN)
    query_std: float = control(1.0, "Query std", "number", low=0.0, high=10.0, group="Block", only=_OWN)
    rho: float = control(0.0, "Correlation ρ of tokens", "number", low=0.0, high=1.0, group="Block", only=_OWN)
    block: int | str = control(
        "last", "Density after block", "count", low=0, high=48, choices=("last",), group="Shown", parts=(),
        hint="A number (0 is the input), or last. Or drag the line in a figure.",
    )  # fmt: skip

    def check(self) -> None:
        self.network.check_width(self.width)
        self.draws()

    def names_of_fields(self) -> dict[str, str]:
        of_width = ("hidden_size", "n_embd", "num_attention_heads", "n_head")
        return {"K": "rho", **dict.fromkeys(of_width, "width")}

    @cached_property
    def network(self) -> Network:
        """The network that the fields describe."""
        if self.model != "own":
            return self.subject.network(width=None if isinf(self.width) else int(self.width), depth=self.depth)
        mask = None if self.mask == "none" else self.mask
        gram = self.rho + (1 - self.rho) * np.eye(self.tokens)
        return Network(GaussianInputs(gram), Repeat(self.depth, *self._block(mask)))

    @property
    def widths(self) -> dict[str, int | float]:
        """The width in question, and the infinite one, by role."""
        return {"finite": self.width, **({} if isinf(self.width) else {"limit": inf})}

    @property
    def seen_block(self) -> int:
        """The block whose law is shown."""
        return self.depth if isinstance(self.block, str) else min(self.block, self.depth)

    @cached_property
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

    @cached_property
    def batch(self) -> int:
        """The networks that are drawn at once, which are the first of several batches."""
        return batch_size(self.network, self.width)

    def draws(self) -> int:
        """The number of networks that an answer has time to draw, in whole batches."""
        affordable = _SECONDS / seconds_of_a_draw(self.network, self.width)
        if affordable < max(self.batch, _LEAST_DRAWS):
            raise ArgumentError(
                "width", f"width={self.width} with depth={self.depth} takes too long here. Make one of them smaller."
            )
        return self.batch * int(min(affordable, max(_MOST_DRAWS, self.batch)) / self.batch)

    @cached_property
    def _runs(self) -> dict[tuple[int | float, int], Trajectory]:
        return {}

    def run(self, width: int | float, samples: int) -> Trajectory:
        """Draws of the network."""
        if (width, samples) not in self._runs:
            self._runs[width, samples] = self.network.trajectory(samples, width=width, progress=False)
        return self._runs[width, samples]

    def named(self, width: int | float) -> str:
        """A width in words."""
        if not isinf(width):
            return f"width {width}"
        return "infinite width" if self.model == "own" else "infinite width, same scales"


@dataclass(frozen=True)
class Along:
    """An observable against depth, at the width in question and at infinite width."""

    observable: str
    label: str

    def __call__(self, state: Depth) -> Panel:
        return self._panel(state, state.draws(), state.widths)

    def first(self, state: Depth) -> Panel | None:
        """From the first batch, where there will be more; otherwise the width in question by itself."""
        if state.draws() > state.batch:
            return self._panel(state, state.batch, state.widths)
        return None if isinf(state.width) else self._panel(state, state.batch, {"finite": state.width})

    def _panel(self, state: Depth, samples: int, widths: Mapping[str, int | float]) -> Panel:
        curves = []
        for role, width in widths.items():
            run = state.run(width, samples)
            value, error = run.summary()[self.observable]
            blocks = range(run.blocks + 1)
            curves.append(curve(state.named(width), blocks, value, role=role, error=error, mode="lines+markers"))
        notes = [f"Bands are two standard errors of {samples} networks."]
        return figure("block", self.label, curves, marker="block", notes=notes)


variance = Along("variance", "variance of the last token")
kurtosis = Along("kurtosis", "excess kurtosis of the last token")
cosine = Along("cosine", "mean cosine between tokens")
entropy = Along("entropy", "entropy of attention, nats")


def law(state: Depth) -> Panel:
    """The law of a fresh read-out of the last token, after every block, at the width in question and at infinite width."""
    runs = {role: state.run(width, state.draws()) for role, width in state.widths.items()}
    frames = [_densities(state, runs, block) for block in range(state.depth + 1)]
    frames = [{"name": f"after block {i}" if i else "at the input", "curves": f} for i, f in enumerate(frames)]
    return figure("read-out of the last token", "density", frames[-1]["curves"], frames=frames, frame="block")


def _densities(state: Depth, runs: Mapping[str, Trajectory], block: int) -> list[Panel]:
    found = {role: run.law(block, -1) for role, run in runs.items()}
    first = found["finite"]
    x = _REACH * float(first.standard_deviation()) * np.linspace(-1, 1, _POINTS)
    curves = [curve(state.named(runs[role].width), x, each.pdf(x), role=role) for role, each in found.items()]
    gaussian = Gaussian(variance=first.variance())
    return [*curves, curve("Gaussian, same variance", x, gaussian.pdf(x), role="gaussian")]


def remarks(state: Depth) -> Panel:
    """What stands out, in words."""
    # The first batch says it well enough, so that the sentences come first.
    found = observations(state.run(state.width, state.draws()), state.network)
    about = [] if state.model == "own" else _about_model(state)
    return sentences([*about, *(found or ["Nothing stands out: no collapse, no growth, no heavy tails."])])


def _about_model(state: Depth) -> list[str]:
    """The model beside the original."""
    subject, net = state.subject, state.network
    whole = subject.network()
    heads = state.run(state.width, state.draws()).entropies[0].shape[1]
    return [
        f"This is {subject.title} made smaller: {state.depth} blocks of width {net.width} with {heads} heads, where the "
        f"original has {blocks_of(whole)} blocks of width {whole.width}. It reads {subject.tokens_in_words}. "
        f"Infinite width is taken with the scales that the weights have at width {net.width}, because their fixed standard "
        f"deviation has no limit."
    ]


def python(state: Depth) -> str:
    """The code that makes the same numbers, and a picture of them."""
    lines = []
    if state.model != "own":
        lines += _preset(state)
    else:
        lines.append(
            f"K = {state.rho!r} + {1 - state.rho!r} * np.eye({state.tokens})"
            if state.rho
            else f"K = np.eye({state.tokens})"
        )
        lines.append(written(state.network, {"K": "K"}))
    finite, block = not isinf(state.width), state.seen_block
    names = {"run": state.named(state.width), **({"limit": "infinite width"} if finite else {})}
    for name, width in zip(names, state.widths.values(), strict=True):
        lines.append(f"{name} = {call('net.trajectory', samples=state.draws(), width=width)}")
    lines += [
        "print(run)",
        "",
        'fig, axes = plt.subplots(2, 2, figsize=(8, 6), layout="constrained")',
        f"for ax, name in zip(axes.flat, {json.dumps(_OBSERVED)}):",
        *(_plotted(name, label, line) for (name, label), line in zip(names.items(), ("-", "--"), strict=False)),
        '    ax.set(xlabel="block", ylabel=name)',
        "axes[0, 0].legend()",
        'fig.savefig("depth.png")',
        "",
        'fig, ax = plt.subplots(layout="constrained")',
        *(
            f'{name}.law(block={block}, token=-1).plot(ax, label="{label}", linestyle="{line}")'
            for (name, label), line in zip(names.items(), ("-", "--"), strict=False)
        ),
        f'ax.set(xlabel="read-out of the last token after block {block}", ylabel="density")',
        "ax.legend()",
        'fig.savefig("law.png")',
    ]
    return program(*lines)


def _plotted(name: str, label: str, line: str) -> str:
    return f'    ax.plot({name}.summary()[name][0], "{line}", label="{label}")'


def _preset(state: Depth) -> list[str]:
    """The lines that make a known model."""
    subject, image = state.subject, isinstance(state.subject.tokens, np.ndarray)
    lines = []
    if image:
        lines += [
            "rng = np.random.default_rng(0)",
            f"image = rng.standard_normal({subject.tokens.shape}).astype(np.float32)",
        ]
    config, own = f'"{state.model}"', PRESETS[state.model].config
    if changed := {key: value for key, value in subject.config.items() if own.get(key) != value}:
        lines.append(f'config = {{**PRESETS["{state.model}"].config, **{changed}}}')
        config = "config"
    given = {} if isinf(state.width) else {"width": state.width}
    tokens = "image" if image else repr(subject.tokens)
    options = ", ".join(f"{name}={value}" for name, value in {**given, "depth": state.depth}.items())
    return [*lines, f"net = ll.from_config({config}, {tokens}, {options})"]
