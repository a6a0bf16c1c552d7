"""Make LimitlawSans.ttf of the DejaVu Sans that comes with matplotlib: the characters that figures use, with their kerning.

A PDF embeds the characters that it shows: to take them out of the whole of DejaVu Sans is a third of the work of drawing it.

    python limitlaw/figures/fonts/make.py
"""

from pathlib import Path
from typing import Any

import matplotlib
from fontTools import subset

CHARACTERS = [
    *range(0x20, 0x7F),  # ASCII
    *range(0xA0, 0x100),  # Latin-1: ², ±, ·, ×
    *range(0x391, 0x3D6),  # Greek
    *range(0x2070, 0x209D),  # superscripts and subscripts
    *map(ord, "–—‘’“”…′←→↔∂∇∈∏∑−∓√∝∞∥∫∼≈≠≤≥≪≫ᵀ"),
]
NAMES = {1: "Limitlaw Sans", 3: "Limitlaw Sans, from DejaVu Sans", 4: "Limitlaw Sans", 6: "LimitlawSans"}


def make(path: Path) -> None:
    """Write the font to a file; its licence asks for a name of its own."""
    options = subset.Options(
        glyph_names=False, notdef_outline=True, layout_features=["kern"], name_IDs=[0, 1, 2, 3, 4, 5, 6, 13, 14]
    )
    options.drop_tables += ["FFTM", "GDEF", "MATH"]
    font: Any = subset.load_font(f"{matplotlib.get_data_path()}/fonts/ttf/DejaVuSans.ttf", options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=CHARACTERS)
    subsetter.subset(font)
    for record in font["name"].names:
        record.string = NAMES.get(record.nameID, record.string)
    font.save(path)


if __name__ == "__main__":
    make(Path(__file__).with_name("LimitlawSans.ttf"))
