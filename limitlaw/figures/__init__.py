"""The figures of both papers and of what lies beyond: a file each, found by listing this folder."""

from .._format import Column as Column, Table as Table
from ._figure import Figure as Figure, Words as Words
from ._listing import FIGURES as FIGURES, GROUPS as GROUPS, load_figure as load_figure
from ._pictures import KINDS as KINDS, pictures as pictures
from ._reproduction import Reproduction as Reproduction
from ._settings import Settings as Settings
from ._style import save as save
