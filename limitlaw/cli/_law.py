"""`limitlaw law`: the law of a token's output beside its limit."""

from pathlib import Path
from typing import Annotated

import typer

from .._load import LoadedFiles, load_modules


def law(
    file: Annotated[
        Path | None,
        typer.Argument(help=r"A network as TOML: \[inputs], \[\[layers]], and width, token, ...", show_default=False),
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(help="Number of tokens φ(W_i h) (default: 4).", show_default=False)
    ] = None,
    activation: Annotated[
        str | None,
        typer.Option(help="φ: identity, relu, gelu, tanh, 'clip(100)', ... (default: identity).", show_default=False),
    ] = None,
    gram: Annotated[
        str | None,
        typer.Option(help="Gram matrix of fixed tokens instead, such as '1 0.5; 0.5 1'.", show_default=False),
    ] = None,
    heads: Annotated[str | None, typer.Option(help="Number of heads, or inf (default: 1).", show_default=False)] = None,
    head_dim: Annotated[
        str | None,
        typer.Option(help="Dimension of each head: a number, inf, or split (default: the width).", show_default=False),
    ] = None,
    scale: Annotated[
        str | None, typer.Option(help="Divide scores by √d (sqrt) or d (linear).", show_default=False)
    ] = None,
    mask: Annotated[str | None, typer.Option(help="Mask: causal, or none (default: none).", show_default=False)] = None,
    tie_qk: Annotated[bool, typer.Option("--tie-qk", help="Use one matrix for queries and keys.")] = False,
    query_std: Annotated[
        float | None,
        typer.Option(
            help="√fan-in times the standard deviation of the query weights (default: 1).", show_default=False
        ),
    ] = None,
    key_std: Annotated[float | None, typer.Option(help="The same of the key weights.", show_default=False)] = None,
    value_std: Annotated[float | None, typer.Option(help="The same of the value weights.", show_default=False)] = None,
    out_std: Annotated[float | None, typer.Option(help="The same of the output weights.", show_default=False)] = None,
    width: Annotated[
        str | None, typer.Option(help="Width n (default: infinite, and compared with a Gaussian).", show_default=False)
    ] = None,
    token: Annotated[
        int | None, typer.Option(help="Index of the token, from 0 (default: 0).", show_default=False)
    ] = None,
    samples: Annotated[
        int | None, typer.Option(help="Number of draws of the conditional variance.", show_default=False)
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the draws.", show_default=False)] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Plot densities and tails to this file (PDF, PNG, SVG).", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    load: LoadedFiles = None,
) -> None:
    """Compare the law of a token's output at a finite width with its limit."""
    import json

    from rich.console import Console

    from . import _question

    load_modules(load)
    asked = {
        "tokens": tokens, "activation": activation, "gram": gram, "heads": heads, "head_dim": head_dim, "scale": scale,
        "mask": mask, "tie_qk": tie_qk or None, "query_std": query_std, "key_std": key_std, "value_std": value_std,
        "out_std": out_std,
    }  # fmt: skip
    question = _question.Question.of(
        file, {name: value for name, value in asked.items() if value is not None}, width, token, samples, seed
    )
    if plot is not None:
        _question.check_picture(plot)
    answer = question.answer()
    if as_json:
        typer.echo(json.dumps(answer.as_plain(), indent=1))
    else:
        console = Console()
        console.print(f"{question.network}, token {question.token} of the output", highlight=False)
        console.print(answer.comparison)
    if plot is not None:
        answer.plot(plot)
        typer.echo(f"wrote {plot}", err=as_json)  # what is printed stays JSON
