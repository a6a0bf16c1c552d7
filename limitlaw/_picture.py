"""Figures of matplotlib that a notebook shows: import this where something is drawn, since matplotlib is slow to import."""

import io

from matplotlib import figure


class Figure(figure.Figure):
    """Kept apart from pyplot, so that nothing holds on to it, yet a picture in a notebook before pyplot has drawn there."""

    def _repr_png_(self) -> bytes:
        png = io.BytesIO()
        self.savefig(png, format="png")
        return png.getvalue()
