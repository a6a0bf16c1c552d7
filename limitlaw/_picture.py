"""The figures of this package. Import this where something is drawn: matplotlib takes long to import."""

import io

from matplotlib import figure


class Figure(figure.Figure):
    """A figure that pyplot does not know, so that its memory is freed, and that a notebook shows all the same.

    IPython shows plain figures only after pyplot has been imported there.
    """

    def _repr_png_(self) -> bytes:
        png = io.BytesIO()
        self.savefig(png, format="png")
        return png.getvalue()
