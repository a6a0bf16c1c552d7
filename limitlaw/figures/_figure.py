"""What a figure is: the contents of one file, read from its module."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .._format import Table
from ..experiments import Store, Study, Task, dataset_of
from ..networks.registry import OwnKind
from ._settings import Settings
from ._style import WIDTH, style
from ._templates import text_of, texts_of

if TYPE_CHECKING:
    import xarray as xr

_HEIGHT = 2.7  # inches
_PARTS = ("verdict", "finding", "setup")


@dataclass(frozen=True)
class Words:
    """What is said about a figure, in Markdown.

    Attributes:
        verdict: A sentence on its claim.
        finding: What is found.
        setup: All settings of the experiment.
        table: The numbers.

    Example:
        >>> from limitlaw._format import Table
        >>> from limitlaw.figures import Words
        >>> Words("**Holds.**", "It falls.", "Linear link.", Table(("n",), [(64,)])).verdict
        '**Holds.**'
    """

    verdict: str
    finding: str
    setup: str
    table: Table


@dataclass(frozen=True)
class Figure:
    """A figure, as its module describes it.

    The module has

    - `TITLE`, `CLAIM` (what the paper says) and `GROUP` ("attention", "slr" or "deep", or another);
    - `STUDY`: a `Study`, a dictionary of named studies, or a function of `Settings` that returns one of them;
    - perhaps `gather(data, settings)`, which makes one dataset of those of the studies: `data` is the dataset of the
      study, or a dictionary of datasets. Without it `plot` and `numbers` get `data` as it is;
    - `plot(data, axes)`, which draws on matplotlib axes; with a `LAYOUT`, a mosaic of names, `axes` is a dictionary of
      them. `HEIGHT` is that of the figure in inches;
    - `numbers(data)`, a dictionary for the template of the figure; `numbers(data)["table"]` is its table;
    - a template, which sets the texts `verdict`, `finding` and `setup` in Markdown from those numbers: the file
      `templates/NAME.md.j2` of the package, or `TEMPLATE` in a file of one's own.

    Example:
        >>> from limitlaw.figures import FIGURES, Settings
        >>> figure, settings = FIGURES["slr_landscape"], Settings(points=4)
        >>> data = figure.gather({name: study.dataset() for name, study in figure.studies(settings).items()}, settings)
        >>> [row[:3] for row in figure.numbers(data)["table"].rows]
        [(-1.0, -1.0, 'saddle'), (1.0, -1.0, 'source'), (-1.0, 1.0, 'saddle'), (1.0, 1.0, 'sink')]
    """

    module: ModuleType

    @property
    def name(self) -> str:
        """The name on the command line."""
        return self.module.__name__.rpartition(".")[2]

    @property
    def title(self) -> str:
        """The title."""
        return self.module.TITLE

    @property
    def claim(self) -> str:
        """What the paper says."""
        return self.module.CLAIM

    @property
    def group(self) -> str:
        """The group of figures that it belongs to."""
        return getattr(self.module, "GROUP", "further figures")

    @property
    def file(self) -> Path:
        """The file that describes it."""
        return Path(str(self.module.__file__))

    @property
    def own(self) -> OwnKind | None:
        """What another process needs to load it, if it is not a figure of the package."""
        if self.module.__name__.startswith(f"{__package__}."):
            return None
        digest = hashlib.sha256(self.file.read_bytes()).hexdigest()
        return OwnKind(f"figure {self.name}", self.module.__name__, str(self.file), digest)

    def studies(self, settings: Settings) -> dict[str, Study]:
        """What is computed for it, by the names in its `STUDY`; a single study has the name "".

        Args:
            settings: How much of everything.
        """
        given: Any = self.module.STUDY
        found: Any = given(settings) if callable(given) else given
        return {"": found} if isinstance(found, Study) else dict(found)

    def tasks(self, settings: Settings) -> list[Task]:
        """The tasks of its studies."""
        studies = self.studies(settings).values()
        return [measurement.task for study in studies for measurement in study.measurements]

    def gather(self, found: Mapping[str, xr.Dataset], settings: Settings) -> Any:
        """The data that it shows, from the datasets of its studies.

        Args:
            found: A dataset for each of `studies`.
            settings: Those of the studies.
        """
        data: Any = found.get("", found)
        gather = getattr(self.module, "gather", None)
        return data if gather is None else gather(data, settings)

    def dataset(self, settings: Settings, store: Store) -> Any:
        """The data that it shows, from results in a store."""
        found = {name: dataset_of(study, store) for name, study in self.studies(settings).items()}
        return self.gather(found, settings)

    def draw(self, data: xr.Dataset) -> Any:
        """The picture, a matplotlib figure whose panels have letters if there are several."""
        from matplotlib.figure import Figure as Canvas

        layout: Any = getattr(self.module, "LAYOUT", None)
        with style():
            canvas = Canvas(figsize=(WIDTH, getattr(self.module, "HEIGHT", _HEIGHT)), layout="constrained")
            axes: Any = canvas.subplots() if layout is None else canvas.subplot_mosaic([list(row) for row in layout])
            self.module.plot(data, axes)
            for letter, panel in zip("abcdefgh", () if layout is None else axes.values(), strict=False):
                panel.set_title(rf"$\mathbf{{({letter})}}$  {panel.get_title(loc='left')}", loc="left")
        return canvas

    def numbers(self, data: xr.Dataset) -> dict[str, Any]:
        """What the template says, with the table of the figure."""
        return self.module.numbers(data)

    def words(self, data: xr.Dataset) -> Words:
        """What is said about the data."""
        numbers = self.numbers(data)
        given = {**numbers, "data": getattr(data, "attrs", {}), "sizes": getattr(data, "sizes", {})}
        if self.own is None:
            said = texts_of(f"{self.name}.md.j2", given)
        else:
            said = text_of(getattr(self.module, "TEMPLATE", ""), given)
        return Words(**{part: " ".join(said.get(part, "").split()) for part in _PARTS}, table=numbers["table"])
