"""Reproducibility cards: what an index of reproducibility asks of a paper, answered."""

from dataclasses import dataclass
from html import escape

from ..figures import Settings, _depth as deep
from ..networks import Attention, Inputs, Network
from ..numerics import clip
from ._provenance import Provenance


@dataclass(frozen=True)
class Card:
    """Questions and answers (HTML) for one paper, or for what lies beyond them."""

    key: str  # of the figures that it belongs to
    paper: str
    answers: tuple[tuple[str, str], ...]


def cards(settings: Settings, made: Provenance) -> list[Card]:
    """One for each paper, and one for the deep networks."""
    versions = ", ".join(f"{name} {version}" for name, version in made.versions.items())
    here = (
        ("Hardware specification", f"{escape(made.hardware)}; {escape(made.system)}."),
        ("Software dependencies", f"{escape(versions)}. Lower bounds are in pyproject.toml."),
    )
    program = Network(Inputs(2, clip(100.0)), Attention(heads=1)).program()
    samples = f"{settings.samples:,}" if settings.samples else "50,000, or 100,000 with ReLU"
    stacks = "\n".join(
        f"{title}: {deep.network(kind, settings.depth, beta=1.0, correlation=deep.CORRELATION).layers[0]}"
        for kind, title in deep.TITLES.items()
    )
    attention = (
        *here,
        (
            "Experiment setup",
            f"Under each figure above, in full. Common to all: tokens x_i = φ(W_i h), h ~ N(0, I_n), a fresh W_i for each token; all weights N(0, 1/fan-in); "
            f"softmax attention with scores divided by √d, heads summed with 1/√H; first token, first coordinate. {settings.trials} trials of {samples} networks; "
            f"seed {settings.seed}, from which every experiment, width and trial derives its own.",
        ),
        (
            "Data and splits",
            "There is no data set and no split: a sample is a network at initialisation. The numbers behind the figures are in data/*.zarr, the draws behind those in store/; both are made again, bit for bit, "
            "by the same command on the same platform.",
        ),
        (
            "Statistics",
            "Kernel estimates: mean and standard deviation over trials, as in the paper. True divergences: jackknife over 256 batches of conditional variances, bias removed; "
            "errors are standard errors, intervals 95%.",
        ),
        (
            "Open code",
            f"limitlaw {escape(made.versions['limitlaw'])}, MIT licence, commit {escape(made.commit)}; <code>limitlaw reproduce</code>.",
        ),
        (
            "Pseudocode",
            f"The network with two tokens and one head as a tensor program with scores:<pre>{escape(str(program))}</pre>",
        ),
    )
    regression = (
        *here,
        (
            "Experiment setup",
            "Figure 2 of the paper: dimension d = 100, L = 20 tokens, normalised inverse temperature β = 1 (score scale 10), γ = 1/√2, label noise 0.1, Riemannian gradient "
            "descent with step 0.01 on the mean squared error of 1,000 samples, tested on 10,000. The paper does not state the starting point or the number of steps; here they are under each figure.",
        ),
        (
            "Data and splits",
            "Synthetic: unit vectors u ⊥ v; one token, at a uniformly random place, is N(√((1 − γ²) d) u, γ² I), the others are N(0, I); the label is σ(x·v) of that token plus noise. "
            "Training and test sets are independent draws; there is no fixed data set.",
        ),
        (
            "Statistics",
            "Exact and mean-field values are quadratures, right to all digits shown. Simulations are single runs on the training sets named under each figure; shares of uniform starts are counts.",
        ),
        (
            "Open code",
            f"None was published with the paper. Here: limitlaw {escape(made.versions['limitlaw'])}, MIT licence, commit {escape(made.commit)}; <code>limitlaw reproduce slr</code>.",
        ),
        (
            "Pseudocode",
            "f(X) = Σ_l softmax(β √d X u)_l σ(x_l · v); minimise the mean of (f(X) − y)² over unit vectors u and v.",
        ),
    )
    depth = (
        *here,
        (
            "Experiment setup",
            f"Under each figure above. Common to all: {deep.TOKENS} fixed tokens with the Gram matrix {deep.CORRELATION}^|i−j| (or orthogonal ones), {deep.HEADS} heads, {settings.depth} blocks with fresh Gaussian weights; attention gain and perceptron "
            f"gain 1; LayerNorm with ε = 10⁻⁵; ReLU perceptrons with infinitely wide hidden layers. Seed {settings.seed}, from which every network, score scale and width derives its own.",
        ),
        (
            "Data and splits",
            "There is no data set and no split: a sample is a network at initialisation, seen through the Gram matrices of its tokens after every block.",
        ),
        (
            "Statistics",
            "Averages over independent networks with standard errors; kurtoses are 3 Var v / (E v)² of the conditional variance v, bias and standard error by the jackknife over 50 batches. Predictions have no free parameter; lines that show a rate alone pass through the last point.",
        ),
        (
            "Open code",
            f"limitlaw {escape(made.versions['limitlaw'])}, MIT licence, commit {escape(made.commit)}; <code>limitlaw reproduce deep</code>.",
        ),
        ("Pseudocode", f"The stacks, as the library writes them:<pre>{escape(stacks)}</pre>"),
    )
    return [
        Card(
            "attention", "Infinite-Width Limit of a Single Attention Layer (Sakai, Karakida, Imaizumi 2025)", attention
        ),
        Card(
            "slr",
            "Understanding Softmax Attention Layers: Exact Mean-Field Analysis on a Toy Problem (Dohmatob 2025)",
            regression,
        ),
        Card("deep", "Beyond the papers: depth", depth),
    ]
