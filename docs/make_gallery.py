"""The gallery from a finished run: `limitlaw reproduce --out out`, then `python docs/make_gallery.py out`."""

import sys
from pathlib import Path

import xarray as xr
from PIL import Image

from limitlaw.figures import FIGURES, GROUPS

_HERE = Path(__file__).parent
_COLOURS = 128  # of a picture: a third of the bytes, and it looks the same

_OPENING = """# Figure gallery

Each picture is made by the command below it, which also leaves its data (zarr, CSV), a PDF, and a page `report.html` in the folder `out`, with settings, tables and versions. *Claim* is what is said in the paper (or, for depth, in the literature); below it is what the report finds. All of them: `limitlaw reproduce`; {doc}`howto/reproduce` has the options.
"""
_CHAPTERS = {
    "attention": """## The attention paper

Sakai, Karakida and Imaizumi, *Infinite-Width Limit of a Single Attention Layer: Analysis via Tensor Programs*, NeurIPS 2025. On the left the figure as published, at the paper's own counts; on the right what its estimator cannot see. `limitlaw reproduce attention` makes them all.
""",
    "slr": """## Single-location regression

Dohmatob, *Understanding Softmax Attention Layers: Exact Mean-Field Analysis on a Toy Problem*, NeurIPS 2025. `limitlaw reproduce slr` makes them all.
""",
    "deep": """## Depth

Beyond both papers. `limitlaw reproduce deep` makes them all.
""",
}


def entry(name: str, out: Path) -> str:
    """One figure: the picture, the command, what is claimed and what is found."""
    figure = FIGURES[name]
    words = figure.words(xr.open_zarr(out / "data" / f"{name}.zarr").load())
    return f"""### {figure.title}

![{figure.title}](figures/{name}.png)

`limitlaw reproduce {name}`. *Claim:* {figure.claim}

{words.verdict} {words.finding}
"""


def main(out: Path) -> None:
    parts = [_OPENING]
    for group, names in GROUPS.items():
        parts.append(_CHAPTERS[group])
        for name in names:
            Image.open(out / f"{name}.png").convert("RGB").quantize(_COLOURS).save(
                _HERE / "figures" / f"{name}.png", optimize=True
            )
            parts.append(entry(name, out))
    (_HERE / "gallery.md").write_text("\n".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
