"""The dataset of a study: its results with labels, in memory, as zarr and as CSV."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ._store import Store, replacing
from ._task import Result, code_version

if TYPE_CHECKING:
    import xarray as xr

    from ._study import Study

_LARGE = 2**16  # entries from which compression of random numbers costs time and gains nothing


def empty_dataset(study: Study) -> xr.Dataset:
    """The dataset of a study without results: NaN everywhere."""
    import xarray as xr

    sizes = {**study.sizes, **{str(dim): len(labels) for dim, labels in study.coordinates.values()}}
    variables = {
        name: (
            variable.dims,
            np.full([sizes[dim] for dim in variable.dims], variable.missing, variable.dtype),
            {"long_name": variable.label} if variable.label else {},
        )
        for name, variable in study.variables.items()
    }
    attributes = {"study": json.dumps(study.as_plain()), "code": code_version()}
    return xr.Dataset(variables, coords=study.coordinates, attrs=attributes)


def dataset_from(study: Study, results: Iterable[Result | None]) -> xr.Dataset:
    """The dataset of a study from its results.

    Args:
        study: The study.
        results: A result for each of `study.measurements`, in order; None for one that is missing.

    Returns:
        The dataset. NaN stands where a result is missing or shorter than its dimensions.

    Example:
        >>> from limitlaw.experiments import Study, dataset_from
        >>> study = Study({"dim": 20, "tokens": 5}, {"mu": [0.0, 0.5]}, ["risk"])
        >>> data = dataset_from(study, [measurement.task.run() for measurement in study.measurements])
        >>> data.risk.dims, bool(data.risk.isnull().any())
        (('mu',), False)
    """
    data = empty_dataset(study)
    for measurement, result in zip(study.measurements, results, strict=True):
        for name, values in (result or {}).items():
            if name in data.data_vars:
                place = (*measurement.index, *(slice(size) for size in np.shape(values)))
                data[name].values[place] = values
    return data


def dataset_of(study: Study, store: Store) -> xr.Dataset:
    """The dataset of a study from the results in a store.

    Args:
        study: The study.
        store: The store.

    Returns:
        The dataset, with NaN where the store has no result.

    Example:
        >>> import tempfile
        >>> from limitlaw.experiments import Store, Study, complete, dataset_of
        >>> study = Study({"dim": 20, "tokens": 5}, {"mu": [0.0, 0.5]}, ["risk"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = Store(folder + "/store")
        ...     done = list(complete([measurement.task for measurement in study.measurements], store))
        ...     print(dataset_of(study, store).risk.dims)
        ('mu',)
    """
    tasks = (measurement.task for measurement in study.measurements)
    return dataset_from(study, (store.load(task) if store.path(task.key).exists() else None for task in tasks))


def encoding_of(data: xr.Dataset) -> dict[Any, Any]:
    """How zarr keeps the variables: large arrays as they are."""
    large = [name for name, variable in data.data_vars.items() if variable.size > _LARGE and variable.dtype.kind == "f"]
    return {name: {"compressors": None} for name in large}


def write_csv(study: Study, data: xr.Dataset, path: Path) -> int:
    """Write one row for each number: its place, what it is, where it is measured, and its standard error.

    Returns:
        The number of rows.
    """
    rows = 0
    with replacing(path) as part, open(part, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*study.axes, *(["trial"] if study.has_trials else []), "measure", "at", "value", "stderr"])
        for name in study.shown:
            error = data.get(f"{name}_stderr")
            for index in np.ndindex(*data[name].shape):
                value = data[name].values[index]
                if value != value or value == "":
                    continue
                at = dict(zip(map(str, data[name].dims), index, strict=True))
                shared = [_label(data, axis, at) for axis in study.axes]
                shared += [_label(data, "trial", at)] if study.has_trials else []
                own = [dim for dim in at if dim not in (*study.dims, "trial")]
                where = " ".join(str(_label(data, dim, at)) for dim in own)
                stderr = "" if error is None else repr(float(error.values[index]))
                writer.writerow([*shared, name, where, repr(float(value)), stderr])
                rows += 1
    return rows


def _label(data: xr.Dataset, name: str, at: dict[str, int]) -> Any:
    """The label of a coordinate at a place, empty if it does not vary there."""
    (dim,) = data[name].dims
    return data[name].values[at[str(dim)]] if dim in at else ""
