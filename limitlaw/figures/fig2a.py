"""Figure 2a: a score under the two scalings."""

from ._scores import ScoreFigure

FIGURE = ScoreFigure(
    name="fig2a",
    title="Figure 2a: a score under 1/√n and 1/n, n = 256",
    claim="Under the usual 1/√n scaling scores stay random and become Gaussian; under 1/n they vanish and attention becomes uniform.",
    width=256,
)
