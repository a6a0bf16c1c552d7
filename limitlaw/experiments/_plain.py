"""A study as plain data, as JSON and TOML hold it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import _checks
from .._checks import ArgumentError, ArgumentTypeError
from ._family import OVERLAPS, NetworkFamily, ProblemFamily
from ._study import Study

_SHARED = ("name", "measure", "axes", "zipped", "seed", "trials", "samples")
_OF_NETWORKS = ("network", "token", "levels", "density")
_OF_PROBLEMS = ("problem", "overlaps")


def plain_study(study: Study) -> dict[str, Any]:
    """A study as plain data."""
    shared = {"name": study.name, "seed": study.seed, "measure": [measure.as_plain() for measure in study.measures]}
    if study.has_trials:
        shared |= {"trials": study.trials, "samples": study.samples}
    axes: dict[str, Any] = {"axes": {name: list(values) for name, values in study.axes.items()}}
    if study.zipped:
        axes["zipped"] = [list(group) for group in study.zipped]
    family = study.family
    if isinstance(family, ProblemFamily):
        return {**shared, "problem": family.table, "overlaps": family.overlaps, **axes}
    assert isinstance(family, NetworkFamily)
    return {
        **shared,
        "token": study.token,
        "levels": list(study.levels),
        "density": {"reach": study.reach, "points": study.points_of_density},
        "network": family.table,
        **axes,
    }


def study_of(table: Mapping[str, Any]) -> Study:
    """The study that a table describes."""
    both = [name for name in ("network", "problem") if name in table]
    if len(both) != 1:
        found = "both [network] and [problem]" if both else "neither [network] nor [problem]"
        raise ArgumentError("network", f"A study has {found}. Describe one of the two.")
    _checks.known_keys("a study", table, (*_SHARED, *(_OF_PROBLEMS if both == ["problem"] else _OF_NETWORKS)))
    given = dict(table)
    of = given.pop(both[0])
    if not isinstance(of, Mapping):
        raise ArgumentTypeError(both[0], f"{both[0]}={of!r} must be a table.")
    if both == ["problem"]:
        _checks.known_keys("problem", of, [name for name in ProblemFamily({}, {}).names() if name not in OVERLAPS])
        if "dim" not in of and "dim" not in given.get("axes", {}):
            raise ArgumentError("problem", "problem has no 'dim'. Give it a value, or an axis.")
    elif not isinstance(of.get("layers", []), list):
        raise ArgumentError(
            "layers", f"network.layers={of['layers']!r} must be a list of tables, [[network.layers]] in TOML."
        )
    overlaps = given.get("overlaps", {})
    if not isinstance(overlaps, Mapping):
        raise ArgumentTypeError("overlaps", f"overlaps={overlaps!r} must be a table, such as mu = 0.5.")
    _checks.known_keys("overlaps", overlaps, OVERLAPS)
    density = given.pop("density", {})
    if not isinstance(density, Mapping):
        raise ArgumentTypeError("density", f"density={density!r} must be a table with reach and points.")
    _checks.known_keys("density", density, ("reach", "points"))
    if "points" in density:
        given["points_of_density"] = density["points"]
    if "reach" in density:
        given["reach"] = density["reach"]
    given.setdefault("axes", {})
    if "measure" not in given:
        raise ArgumentError("measure", "'measure' is missing from the study. Give it, such as ['moments'].")
    if both == ["problem"] and "dim" not in of:
        of = {"dim": given["axes"]["dim"][0], **of}
    return Study(of, **given)


def read(file: str | Path) -> Study:
    """The study in a TOML file; refused, in one sentence, if it is not one.

    Example:
        >>> import tempfile, pathlib
        >>> from limitlaw import experiments
        >>> text = '''
        ... measure = ["moments"]
        ... [network]
        ... inputs = {kind = "Inputs", tokens = 4}
        ... layers = [{kind = "Attention", heads = 2}]
        ... [axes]
        ... width = [16, 64]
        ... '''
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder, "study.toml")
        ...     _ = path.write_text(text)
        ...     print(len(experiments.read(path).points))
        2
    """
    table = _checks.read_toml(file)
    try:
        return study_of(table)
    except RecursionError:
        raise ArgumentError("path", f"{file} nests its layers too deeply to be read.") from None
    except (ValueError, TypeError) as error:
        argument = error.argument if isinstance(error, ArgumentError) else "path"
        raise ArgumentError(argument, f"{file}: {error}") from None
