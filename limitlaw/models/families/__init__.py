"""The families of models whose configurations can be read, one a file.

A file of this folder that has a `FAMILY` is a family; there is no other list. To support one more, add its file.
"""

import pkgutil
from collections.abc import Mapping
from importlib import import_module

from .._family import Family, Preset

_modules = [import_module(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)]

FAMILIES: Mapping[str, Family] = {
    module.FAMILY.model_type: module.FAMILY for module in _modules if hasattr(module, "FAMILY")
}
"""Each family, by the `model_type` of its configurations."""

PRESETS: Mapping[str, Preset] = {
    name: Preset(preset.title, family.complete(preset.config))
    for family in FAMILIES.values()
    for name, preset in family.presets.items()
}
"""Models that can be named, each with its whole configuration."""
