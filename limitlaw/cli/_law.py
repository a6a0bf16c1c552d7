"""`limitlaw law`: the law of a token's output beside its limit."""

from collections.abc import Mapping
from math import inf, isinf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._checks import ArgumentError, known_keys, matrix_of_text, read_toml
from .._load import load_modules
from ._options import AsJson, LoadedFiles, PictureFile, check_picture, number, print_json, save_picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..distances import Comparison

# The keys of a file that describe no network. A flag of the same name replaces one of them.
_OPTIONS = ("width", "token", "samples", "seed")


def law(
    file: Annotated[
        Path | None,
        typer.Argument(help=r"A network as TOML: \[inputs], \[\[layers]], and width, token, ...", show_default=False),
    ] = None,
    tokens: Annotated[
        int | None, typer.Option(help="Number of tokens, φ(W_i h) each (default: 4).", show_default=False)
    ] = None,
    activation: Annotated[
        str | None,
        typer.Option(
            help="Activation φ: identity, relu, gelu, tanh, 'clip(100)', ... (default: identity).", show_default=False
        ),
    ] = None,
    gram: Annotated[
        str | None,
        typer.Option(
            help="Gram matrix of fixed tokens, such as '1 0.5; 0.5 1', in place of --tokens.", show_default=False
        ),
    ] = None,
    heads: Annotated[
        str | None, typer.Option(metavar="N|inf", help="Number of heads (default: 1).", show_default=False)
    ] = None,
    head_dim: Annotated[
        str | None,
        typer.Option(
            metavar="N|inf|split",
            help="Dimension d of each head; split is width / heads (default: the width).",
            show_default=False,
        ),
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(metavar="sqrt|linear", help="Divide scores by √d or by d (default: sqrt).", show_default=False),
    ] = None,
    mask: Annotated[
        str | None,
        typer.Option(
            metavar="causal|none",
            help="Keys that a query sees: causal hides later ones (default: none).",
            show_default=False,
        ),
    ] = None,
    tie_qk: Annotated[bool, typer.Option("--tie-qk", help="Use one matrix for queries and keys.")] = False,
    query_std: Annotated[
        float | None,
        typer.Option(help="Standard deviation of the query weights, times √fan-in (default: 1).", show_default=False),
    ] = None,
    key_std: Annotated[
        float | None, typer.Option(help="The same for the key weights (default: 1).", show_default=False)
    ] = None,
    value_std: Annotated[
        float | None, typer.Option(help="The same for the value weights (default: 1).", show_default=False)
    ] = None,
    out_std: Annotated[
        float | None, typer.Option(help="The same for the output weights (default: 1).", show_default=False)
    ] = None,
    width: Annotated[
        str | None,
        typer.Option(
            metavar="N|inf",
            help="Width n (default: inf, where the limit is compared with a Gaussian).",
            show_default=False,
        ),
    ] = None,
    token: Annotated[
        int | None, typer.Option(help="Index of the token, from 0 (default: 0).", show_default=False)
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option(help="Number of draws (default: enough for a relative error of 1e-4).", show_default=False),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the draws (default: 0).", show_default=False)] = None,
    plot: PictureFile = None,
    as_json: AsJson = False,
    load: LoadedFiles = None,
) -> None:
    """Compare the law of a token's output at a finite width with its limit."""
    from rich.console import Console

    from ..distances import compare_with_limit
    from ..networks import as_plain, from_plain

    load_modules(load)
    check_picture(plot)
    flags = {
        "tokens": tokens, "activation": activation, "gram": gram, "heads": heads, "head_dim": head_dim, "scale": scale,
        "mask": mask, "tie_qk": tie_qk or None, "query_std": query_std, "key_std": key_std, "value_std": value_std,
        "out_std": out_std,
    }  # fmt: skip
    flags = {name: value for name, value in flags.items() if value is not None}
    options = {"width": inf, "token": 0, "samples": None, "seed": 0}
    if file is None:
        table = _table(flags)
    else:
        table, in_file = _read(file, flags)
        options |= in_file
    given = {
        "width": None if width is None else number("width", width),
        "token": token,
        "samples": samples,
        "seed": seed,
    }
    options |= {name: value for name, value in given.items() if value is not None}
    network = from_plain(table)
    comparison = compare_with_limit(network, **options)
    if as_json:
        print_json({"network": as_plain(network), **_plain(comparison, options)})
    else:
        console = Console()
        console.print(f"{network}, token {options['token']} of the output", highlight=False)
        console.print(comparison)
    if plot is not None:
        save_picture(_figure(comparison), plot)


def _read(file: Path, flags: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The network of a file as plain data, and the options that the file sets."""
    if flags:
        name = next(iter(flags))
        raise ArgumentError(
            name,
            f"--{name.replace('_', '-')} cannot be combined with {file}: the file describes the network. Write it "
            f"there, or leave the file out.",
        )
    table = read_toml(file)
    known_keys(str(file), table, ("inputs", "layers", *_OPTIONS))
    options = {name: table.pop(name) for name in _OPTIONS if name in table}
    if options.get("width") == "inf":
        options["width"] = inf
    return table, options


def _table(flags: dict[str, Any]) -> dict[str, Any]:
    """A network of one attention layer as plain data."""
    layer = dict(flags)
    inputs = {name: layer.pop(name) for name in ("tokens", "activation", "gram") if name in layer}
    for name in ("heads", "head_dim"):  # numbers, or words
        if name in layer and (name, layer[name]) != ("head_dim", "split"):
            layer[name] = number(name.replace("_", "-"), layer[name])
    mask = layer.get("mask", "none")
    if mask not in ("causal", "none"):
        raise ArgumentError("mask", f"--mask={mask!r} must be causal or none. A TOML file can hold a matrix.")
    if mask == "none":
        layer.pop("mask", None)
    if "gram" not in inputs:
        return {"inputs": {"kind": "Inputs", "tokens": 4, **inputs}, "layers": [{"kind": "Attention", **layer}]}
    matrix = matrix_of_text(inputs.pop("gram"))
    for name in inputs:
        raise ArgumentError(
            name, f"--{name} cannot be combined with --gram, which describes the tokens. Leave one of them out."
        )
    return {"inputs": {"kind": "GramInputs", "K": matrix}, "layers": [{"kind": "Attention", **layer}]}


def _plain(comparison: "Comparison", options: Mapping[str, Any]) -> dict[str, Any]:
    """All numbers as plain data, each with its standard error."""
    return {
        "width": "inf" if isinf(options["width"]) else options["width"],
        "token": options["token"],
        "seed": options["seed"],
        "laws": list(comparison.names),
        "values": {name: [_with_stderr(value) for value in pair] for name, pair in comparison.rows.items()},
        "distances": {name: _with_stderr(value) for name, value in comparison.distances.items()},
        "unresolved": sorted(comparison.unresolved),
    }


def _with_stderr(value: Any) -> dict[str, float]:
    return {"value": float(value), "stderr": float(value.stderr)}


def _figure(comparison: "Comparison") -> "Figure":
    """Densities on the left and tails on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.2), layout="constrained")
    body, tails = figure.subplots(1, 2)
    comparison.plot(body, kind="pdf")
    comparison.plot(tails, kind="ccdf")
    tails.set_xlim(left=0)
    tails.set_ylim(1e-8, 1)  # the least probability to which tails are plotted
    return figure
