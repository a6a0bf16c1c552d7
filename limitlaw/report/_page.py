"""The report: one page that needs nothing beside it."""

import base64
from dataclasses import dataclass
from html import escape
from typing import Any

from .. import _html
from ..figures import Figure, Settings, Table
from ._cards import cards
from ._provenance import Provenance

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { line-height: 1.2; } h2 { margin-top: 3rem; border-top: 1px solid #8886; padding-top: 1rem; }
img { width: 100%; height: auto; background: #fff; border-radius: 4px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.85rem; font-variant-numeric: tabular-nums; margin: 0.8rem 0; }
th, td { padding: 0.25rem 0.7rem; text-align: right; border-bottom: 1px solid #8884; }
th { vertical-align: bottom; } th:first-child, td:first-child { text-align: left; white-space: nowrap; }
.card td { text-align: left; vertical-align: top; } .card td:first-child { font-weight: 600; }
.small { font-size: 0.85rem; opacity: 0.8; } pre { overflow-x: auto; font-size: 0.8rem; }
"""

_TITLE = "Papers on softmax attention, reproduced"


@dataclass(frozen=True)
class _Paper:
    """What the page says around the figures of a paper, or of those beyond the papers."""

    key: str
    title: str
    summary: str
    departures_title: str
    departures: tuple[str, ...]
    claimant: str = "The paper"  # who says what a figure is about


_ATTENTION_DEPARTURES = (
    "The authors' scripts draw one sample of the limit and reuse it for every width and trial, so their points share its error. Here each width and trial has a fresh one.",
    "Their kernel estimate of the limit is fitted to a sample in which every value occurs twice, which makes the bandwidth too small. Here each value counts once.",
    "The pattern by which the figure of clipped tokens finds its files matches those of ReLU as well. Here data belong to the experiment that made them, by key.",
    "The axis of the figures of low-rank heads is labelled n; what varies there is the number of heads H, with n = 64 H. Here it says H.",
    "Histograms of several laws are drawn as bars side by side, which shifts each by a part of a bin. Here they are outlines on the same bins.",
    "The number of tokens of figure 4 is not in their code. Here it is 16 unless told otherwise (--tokens).",
)

_REGRESSION_DEPARTURES = (
    "A head that misses the signal follows few wrong tokens, whose values have a variance: in the frozen phase the exact risk is higher than the paper's by the participation ratio Y = 1 − β_c/β, which Proposition 1 leaves out.",
    "The transition is smeared over Δμ ~ γ/(c √d) by the fluctuation of the signal's own score, not over 1/(β c d); there the risk is a mixture of found and missed, not the quadratic p² − 2pν + 1.",
    "Proposition 10 lists (−1, 0) of the quadratic link as a saddle; it is a source whenever the interior stationary point exists, since stability alternates along the line ν = 0.",
    "The plane η = ζ = ρ = 0 is invariant for odd and even links, not for ReLU: there the two-dimensional flow is a restriction.",
    "The paper states neither the start nor the number of steps of its figure 2; no code was published. What is drawn here says which were used.",
)

_DEPTH_CAVEATS = (
    "The law is that of a fresh read-out w · x over networks. A coordinate of the stream itself also carries its share of the input along the skips; and the coordinates of one network, for one input, look Gaussian whatever the depth.",
    "The infinite-width law describes means at any width, but variances of the Gram matrix, and so the kurtosis, only where 12 L/n (without norms) is small beside it. The laws at finite width are exact and cost the same.",
    "Hidden layers of the perceptrons are infinitely wide here at every n. With m units each, a block of post-LN adds about 2/m to the 5/n of its law; under pre-LN what they add fades with depth.",
    "Rates and predictions are expansions around equal tokens, with gains of 1. Nothing is fitted, but lines that show a rate alone pass through the last point. The power laws of pre-LN are reached slowly: the slope of the kurtosis is −1.01 only between 256 and 512 blocks.",
    "Gram matrices are drawn in single precision, so 1 − cos is not followed below 10⁻⁶; a kurtosis of several units rests on rare networks, as its error says.",
)

_PAPERS = (
    _Paper(
        "attention",
        "Infinite-width limit of a single attention layer",
        "Sakai, Karakida and Imaizumi (NeurIPS 2025, arXiv 2506.00846) show that the output of an attention layer at the usual 1/√n scaling tends to a mixture of Gaussians over random scores. "
        "Below are their figures, each beside what its estimator cannot see: the exact laws, at every width.",
        "Where this departs from the published scripts",
        _ATTENTION_DEPARTURES,
    ),
    _Paper(
        "slr",
        "Softmax attention on single-location regression",
        "Dohmatob (NeurIPS 2025) analyses softmax attention that has to find the one token of L that carries the label, in a mean-field limit. Below is its figure 2, and what the exact risk at finite "
        "dimension and number of tokens says of its claims.",
        "Where the exact risk departs from the paper",
        _REGRESSION_DEPARTURES,
    ),
    _Paper(
        "deep",
        "Beyond the papers: depth",
        "The attention paper treats one layer, and expects that stacking drives the law ever further from Gaussianity, away from any Gaussian given a few random scalars. With Gaussian weights the Gram matrices of the layers are a Markov "
        "chain at every width, infinity included, and the read-out is Gaussian given the last of them; so the question has an answer for each architecture. Below are the kurtosis, the collapse of tokens, the entropy of attention and the effect of the head dimension.",
        "What to keep in mind",
        _DEPTH_CAVEATS,
        "Known or conjectured",
    ),
)


@dataclass(frozen=True)
class Words:
    """What is said about a figure, without the data behind it."""

    finding: str
    table: Table
    setup: str

    @classmethod
    def of(cls, figure: Figure, data: Any) -> "Words":
        return cls(figure.finding(data), figure.table(data), figure.setup(data))


@dataclass(frozen=True)
class Section:
    """A figure with what is said about it, its picture (PNG), and the seconds of work behind it."""

    figure: Figure
    words: Words
    picture: bytes
    seconds: float


@dataclass(frozen=True)
class Effort:
    """Wall time of a run, how many results its figures rest on, and how many of them were there before."""

    seconds: float
    results: int
    kept: int

    @property
    def share(self) -> str:
        """What was computed, in words."""
        if not self.kept:
            return f"all of its {self.results:,} results"
        if self.kept == self.results:
            return f"none of its {self.results:,} results, which were all there"
        return f"{self.results - self.kept:,} of its {self.results:,} results, the others were there"


def page(sections: list[Section], settings: Settings, made: Provenance, effort: Effort, costs: Table) -> str:
    """The report as HTML, pictures included.

    Example:
        >>> from limitlaw.figures import Settings, Table
        >>> from limitlaw.report import Provenance, page
        >>> from limitlaw.report._page import Effort
        >>> html = page([], Settings(seed=3), Provenance.here(), Effort(seconds=2.0, results=40, kept=40), Table(("what", "cost"), ()))
        >>> "10 trials of 50,000 (100,000 for ReLU) networks, seed 3" in html
        True
    """
    parts = [_head(sections, settings, made, effort, costs)]
    for paper in _PAPERS:
        shown = [section for section in sections if section.figure.paper == paper.key]
        if shown:
            parts.append(f"<h1>{escape(paper.title)}</h1>\n<p>{escape(paper.summary)}</p>")
            parts += [_section(section, paper, settings, made) for section in shown]
            parts.append(f"<h2>{escape(paper.departures_title)}</h2>\n<ul>")
            parts += [f"<li>{escape(text)}</li>" for text in paper.departures]
            parts.append("</ul>")
    papers = {section.figure.paper for section in sections}
    for card in cards(settings, made):
        if card.key not in papers:
            continue
        rows = "\n".join(f"<tr><td>{escape(question)}</td><td>{answer}</td></tr>" for question, answer in card.answers)
        parts.append(
            f'<h2>Reproducibility card: {escape(card.paper)}</h2>\n<div class="scroll"><table class="card">\n{rows}\n</table></div>'
        )
    return document(_TITLE, parts)


def document(title: str, parts: list[str]) -> str:
    """A page that needs nothing else."""
    body = "\n".join(parts)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def html_table(table: Table) -> str:
    """A table in HTML, scrolled sideways where the page is narrow."""
    return f'<div class="scroll">{_html.table(table.header, table.rows)}</div>'


def _head(sections: list[Section], settings: Settings, made: Provenance, effort: Effort, costs: Table) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in made.versions.items())
    samples = f"{settings.samples:,}" if settings.samples else "50,000 (100,000 for ReLU)"
    links = ", ".join(f'<a href="#{s.figure.name}">{escape(s.figure.name)}</a>' for s in sections)
    return f"""<h1>{_TITLE}</h1>
<p>This run took <strong>{effort.seconds:.0f} s</strong> of wall time and computed {effort.share}; {settings.trials} trials of {samples} networks, seed {settings.seed}.
Figures: {links}.</p>
<p class="small">{escape(made.date)}; {escape(made.hardware)}; {escape(made.system)}; {escape(versions)}; commit {escape(made.commit)}.</p>
<p>What it costs, beside the published scripts at the papers' counts (CPU time per sample, measured on one core, times the number of samples):</p>
{html_table(costs)}"""


def _section(section: Section, paper: _Paper, settings: Settings, made: Provenance) -> str:
    figure, words = section.figure, section.words
    picture = base64.b64encode(section.picture).decode()
    return f"""<h2 id="{figure.name}">{escape(figure.title)}</h2>
<img alt="{escape(figure.title)}" src="data:image/png;base64,{picture}">
<p><strong>{paper.claimant}:</strong> {escape(figure.claim)}</p>
<p><strong>We find:</strong> {escape(words.finding)}</p>
{html_table(words.table)}
<p class="small">{escape(words.setup)} Seed {settings.seed}; {section.seconds:.1f} s of work; limitlaw {escape(made.versions["limitlaw"])}, commit {escape(made.commit)}.
Data: data/{figure.name}.zarr, data/{figure.name}.csv.</p>"""
