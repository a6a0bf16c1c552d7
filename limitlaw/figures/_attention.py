"""The experiments of the attention paper as studies.

Section 5 of Sakai, Karakida and Imaizumi (2025): tokens `phi(W_i h)`, all stds 1, the first coordinate of the first token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from ..experiments import Study, to_target
from ..networks import Attention, Inputs, Network
from ..numerics import Activation, Estimate, activation, clip
from ._settings import Settings

if TYPE_CHECKING:
    import xarray as xr

Axes = Mapping[str, Sequence[Any]]
_CLIP = clip(100.0)
_GRID = 401  # points of a density


@dataclass(frozen=True)
class Design:
    """Networks at finite widths, and the laws at infinite width that they are compared with.

    Args:
        name: What its seeds are made from.
        axes: The widths and numbers of heads of the points, taken together.
        axis: By what the points are laid out, "width" or "heads".
        tokens: The number of tokens.
        activation: That of the tokens.
        head_dim: The dimension of the heads; None is the width.
        samples: Networks in a trial, as in the paper.
        reach: Densities go from `-reach` to `reach`.
        fixed: Whether points are compared with the limit at their own head dimension too.
        gaussian: Whether they are compared with the Gaussian of infinitely many heads too.
    """

    name: str
    axes: Mapping[str, Sequence[int]]
    axis: str = "width"
    tokens: int = 4
    activation: Activation = field(default=_CLIP)
    head_dim: int | None = None
    samples: int = 50_000
    reach: float = 3.5
    fixed: bool = False
    gaussian: bool = False

    @property
    def targets(self) -> dict[str, str]:
        """What studies call the laws that points are compared with; the paper's limit has infinite head dimension."""
        limit, fixed = ("limit", "fixed_head_dim") if self.head_dim is None else ("infinite_head_dim", "limit")
        kept = {"fixed": fixed} if self.fixed else {}
        return {"limit": limit, **kept, **({"gaussian": "infinite_heads"} if self.gaussian else {})}

    def outputs(self, settings: Settings, *measures: str) -> Study:
        """The paper's side of every point: outputs in trials, or the kernel estimates made of them."""
        samples = settings.samples or self.samples
        return self._study(settings, "outputs", measures, self.axes, trials=settings.trials, samples=samples)

    def laws(self, settings: Settings) -> Study:
        """The exact law at every point, with its divergences."""
        distances = [to_target("kl", target) for target in self.targets.values()]
        # fewer draws where one is expensive
        draws = {"samples": [min(settings.draws, self._affordable(*place)) for place in self._places()]}
        return self._study(settings, "exact", [*_SHAPE, *distances], {**self.axes, **draws})

    def limits(self, settings: Settings) -> dict[str, Study]:
        """The laws at infinite width, by name."""
        to_gaussian = ["kl_to_infinite_heads"] if self.gaussian else []
        axes = {"heads": self.axes["heads"]} if self.axis == "heads" else {}
        head_dim = inf if self.head_dim is not None else None
        found = {"limit": self._study(settings, "limit", [*_SHAPE, *to_gaussian], axes, head_dim=head_dim)}
        if self.fixed:
            kept = axes if self.head_dim is not None else {"head_dim": self.axes["width"]}
            found["fixed"] = self._study(settings, "limit", _SHAPE, kept, head_dim=self.head_dim)
        return found

    def _study(
        self, settings: Settings, purpose: str, measure: Sequence[str], axes: Axes, *, head_dim: Any = 0, **counts: int
    ) -> Study:
        attention = Attention(heads=_CONSTANT_HEADS, head_dim=self.head_dim if head_dim == 0 else head_dim)
        counts.setdefault("samples", settings.draws)
        return Study(
            Network(Inputs(self.tokens, self.activation), attention),
            axes=dict(axes),
            measure=list(measure),
            name=f"{self.name}, {purpose}",
            seed=settings.seed_for(self.name, purpose),
            reach=self.reach,
            points_of_density=_GRID,
            zipped=[list(axes)] if len(axes) > 1 else [],
            **counts,  # type: ignore[reportArgumentType]
        )

    def _places(self) -> list[tuple[int, int]]:
        """Width and heads of the points."""
        widths = self.axes["width"]
        return list(zip(widths, self.axes.get("heads", [_CONSTANT_HEADS] * len(widths)), strict=True))

    def _affordable(self, width: int, heads: int) -> int:
        """Draws behind an exact law that take a second or so, from the random numbers behind one of them."""
        nonlinear = self.activation.identity_up_to < 36
        numbers = self.tokens * (heads + 2 + (width if nonlinear else 0))
        return 2 ** int(np.log2(max(2**24 // numbers, 2**16)))

    def dataset(self, points: xr.DataArray | None = None) -> xr.Dataset:
        """A dataset without variables, which labels the points."""
        import xarray as xr

        place = np.array(self._places())
        suffix = "" if self.head_dim is None else f", d = {self.head_dim}"
        return xr.Dataset(
            coords={
                "point": [f"n = {width}, H = {heads}{suffix}" for width, heads in place],
                "width": ("point", place[:, 0]),
                "heads": ("point", place[:, 1]),
                "tokens": ("point", np.full(len(place), self.tokens)),
                "statistic": ["value", "stderr", "dof"],
            },
            attrs={
                "activation": str(self.activation),
                "axis": self.axis,
                "gaussian": self.gaussian,
            },
        )


_SHAPE = ("variance", "kurtosis", "density")
_CONSTANT_HEADS = 2  # where they are not varied
_WIDTHS = (16, 64, 256, 1024)


def values_of(data: xr.Dataset, name: str, points: int) -> np.ndarray:
    """A variable with the points first, repeated if it is the same at all of them."""
    variable = data[name].isel(trial=0, drop=True) if name in data and "trial" in data[name].dims else data[name]
    axes = [dim for dim in variable.dims if dim not in ("x", "draw")]
    values = variable.values
    return values if axes else np.broadcast_to(values, (points, *values.shape))


def estimates_of(data: xr.Dataset, name: str, points: int) -> np.ndarray:
    """Value, standard error and degrees of freedom at every point."""
    return np.stack([values_of(data, f"{name}{part}", points) for part in ("", "_stderr", "_dof")], axis=-1)


def estimate(values: Any) -> Estimate:
    """Value, standard error and degrees of freedom, as stored."""
    return Estimate(*map(float, np.asarray(values)))


def clipped(settings: Settings) -> Design:
    """Figure 1: two heads, growing width."""
    return Design("clip", {"width": _WIDTHS})


def heads(settings: Settings) -> Design:
    """Figure 2b and the authors' further plots: n = 256, growing number of heads."""
    many = (1, 4, 16, 64, 256)
    return Design("heads", {"width": [256] * len(many), "heads": many}, axis="heads", gaussian=True)


def low_rank(settings: Settings) -> Design:
    """Figure 3: heads of dimension 64, as many as make up the width."""
    return Design("low rank", {"width": (64, 256, 1024), "heads": (1, 4, 16)}, axis="heads", head_dim=64, fixed=True)


def long(settings: Settings) -> Design:
    """Figure 4: figure 1 with more tokens."""
    reach = 3.5 * float(np.sqrt(4 / settings.tokens))
    return Design(f"{settings.tokens} tokens", {"width": _WIDTHS}, tokens=settings.tokens, reach=reach, fixed=True)


def relu(settings: Settings) -> Design:
    """Figure 5: figure 1 with ReLU tokens and twice the samples."""
    return Design("relu", {"width": _WIDTHS}, activation=activation("relu"), samples=100_000, reach=3.0)


MakeDesign = Callable[[Settings], Design]
"""Settings make a design of it."""
