"""Risks as functions of the overlaps: exact ones, and those of the mean field."""

from ._base import Landscape as Landscape
from ._choice import (
    exact_risk as exact_risk,
    landscape as landscape,
    limiting_noise as limiting_noise,
    mean_field_risk as mean_field_risk,
    setting_of as setting_of,
)
from ._mean_field import (
    MeanFieldRisk as MeanFieldRisk,
    Noise as Noise,
    free_energy as free_energy,
    phase_of as phase_of,
    refined_risk as refined_risk,
)
