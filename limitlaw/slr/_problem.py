"""Single-location regression, and softmax attention on it."""

from __future__ import annotations

import dataclasses
import functools
import numbers
from dataclasses import dataclass
from math import exp, inf, isinf, log, log1p, sqrt
from typing import Any

import numpy as np

from .. import _arguments, _html
from ..numerics import seed_key
from ._baselines import gate_risk
from ._closed import EvenAttention, SingleToken
from ._comparison import Baselines, compare_with_baselines
from ._dynamics import StationaryPoint, Trajectory, descend, flow, stationary_points, velocity
from ._general import GeneralRisk
from ._landscape import Landscape
from ._linear import LinearRisk
from ._links import Linear, Link, Sign, as_link
from ._maps import SYMBOLS, BasinMap, PhaseDiagram, basin_map, phase_diagram
from ._mean_field import MeanFieldRisk, Noise, phase_of, refined_risk
from ._overlaps import NAMES, as_overlaps, random_start, vectors
from ._tables import MOST_SCALE, Setting, noise_alone

_MOST_LOG_TOKENS = 600.0  # averages over the other tokens go down to e^-(log L + 45), and floats to e^-708
_METHODS = ("exact", "mean-field", "refined")
_LANDSCAPES = ("exact", "mean-field")
_STARTS = ("uniform", "manifold", "informed")
_LARGEST_DATA = 2**31  # bytes
_DIAGRAMS = (("alpha", "gamma"), ("alpha", "beta"), ("mu", "beta"))
_POINTS = 19


@dataclass(frozen=True)
class Problem:
    """One of `L` tokens carries the label, and softmax attention has to find it.

    `x_1 ~ N(m u_*, gamma^2 I_d)`, the other tokens `N(0, I_d)`, the label `sigma(x_1 . v_*) + noise`, with `u_*` and `v_*` orthogonal unit
    vectors and the place of `x_1` unknown. The learner has two unit vectors, `f = sum_l softmax(b x_l . u) sigma(x_l . v)`, with `b = beta sqrt(d)`;
    its risk depends on their overlaps `mu = u.u_*, nu = v.v_*, eta = u.v_*, zeta = v.u_*, rho = u.v` alone. Risks are excess risks: the test
    error is `noise^2` more.

    `tokens` is `L`, or give `log_tokens` (up to 600). `signal` is `m`, `sqrt((1 - gamma^2) d)` unless given. `link` is "linear", "quadratic",
    "relu", "sign", a smooth function of an array, or a `slr.Link`.

    Dohmatob, *Understanding Softmax Attention Layers: Exact Mean-Field Analysis on a Toy Problem*, NeurIPS 2025.

    !!! Example

        >>> from limitlaw import slr
        >>> p = slr.Problem(dim=100, tokens=20, gamma=2**-0.5, beta=1.0, noise=0.1, link="linear")
        >>> p.risk(mu=0.0, nu=0.0)
        1.308573842321...
        >>> p.risk(mu=1.0, nu=1.0)  # the oracle
        8.6363916...e-08
    """

    dim: int
    tokens: int | None = None
    gamma: float = 2**-0.5
    beta: float = 1.0
    noise: float = 0.0
    link: Any = "linear"
    _: dataclasses.KW_ONLY
    log_tokens: Any = None
    signal: Any = None
    _given_signal: Any = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        dim = _arguments.positive_integer("dim", self.dim)
        if dim < 2:
            raise ValueError(f"dim={self.dim!r}: two orthogonal directions need at least 2 dimensions.")
        gamma = _number("gamma", self.gamma)
        if not 0 < gamma <= 1:
            raise ValueError(
                f"gamma={self.gamma!r}: must lie in (0, 1]; it is the standard deviation of the token with the signal."
            )
        settings = {
            "dim": dim,
            "gamma": gamma,
            "beta": _arguments.non_negative("beta", self.beta),
            "noise": _arguments.non_negative("noise", self.noise),
            "link": as_link(self.link),
            "signal": sqrt((1 - gamma**2) * dim)
            if self.signal is None
            else _arguments.non_negative("signal", self.signal),
            **self._counted(),
        }
        object.__setattr__(self, "_given_signal", self.signal)
        for name, value in settings.items():
            object.__setattr__(self, name, value)
        if self.scale > MOST_SCALE:
            raise ValueError(
                f"beta={self.beta:g} at dim={dim}: the score scale beta sqrt(dim) is {self.scale:.4g}; beyond {MOST_SCALE:g} attention is hard "
                f"to every digit, so use a smaller beta."
            )

    def _counted(self) -> dict[str, Any]:
        if (self.tokens is None) == (self.log_tokens is None):
            raise ValueError(f"tokens={self.tokens!r}, log_tokens={self.log_tokens!r}: give one of the two.")
        if self.tokens is not None:
            tokens = int(_arguments.positive_integer("tokens", self.tokens))
            return {"tokens": tokens, "log_tokens": log(tokens)}
        size = _arguments.non_negative("log_tokens", self.log_tokens)
        if size > _MOST_LOG_TOKENS:
            raise ValueError(
                f"log_tokens={self.log_tokens!r}: at most {_MOST_LOG_TOKENS:g}, beyond which numbers overflow."
            )
        if 0 < size < log(2):
            raise ValueError(
                f"log_tokens={self.log_tokens!r}: 0 is one token and log(2) two; there is nothing between."
            )
        return {"log_tokens": size}

    @classmethod
    def marion(cls, dim: int, tokens: int | None = None, *, gamma: float = 2**-0.5, **settings: Any) -> Problem:
        """The convention of Marion et al. (ICLR 2025): a signal of `sqrt(d / 2)` whatever `gamma` is.

        !!! Example

            >>> from limitlaw import slr
            >>> slr.Problem.marion(dim=50, tokens=10, gamma=0.3).signal
            5.0
        """
        if "signal" in settings:
            raise ValueError(f"signal={settings['signal']!r}: here it is sqrt(dim / 2); use Problem to choose it.")
        return cls(dim, tokens, gamma, signal=sqrt(_arguments.positive_integer("dim", dim) / 2), **settings)

    def _repr_html_(self) -> str:
        rows = [
            ("dimension d", str(self.dim)),
            ("tokens L", f"e^{self.log_tokens:.6g}" if self.tokens is None else f"{self.tokens:,}"),
            ("deviation γ of the token with the signal", f"{self.gamma:.6g}"),
            ("signal m", f"{self.signal:.6g}"),
            ("inverse temperature β", f"{self.beta:.6g}"),
            ("noise of the label", f"{self.noise:.6g}"),
            ("link σ", str(self.link)),
            (SYMBOLS["alpha"], f"{self.alpha:.6g}"),
            ("phase", self.phase() if self.beta or isinf(self.log_others) else "none: β = 0 looks at all tokens alike"),
        ]
        return _html.table(("single-location regression", ""), rows)

    @property
    def scale(self) -> float:
        """The score scale `b = beta sqrt(d)`."""
        return self.beta * sqrt(self.dim)

    @property
    def alpha(self) -> float:
        """`log L / d`."""
        return self.log_tokens / self.dim

    @property
    def strength(self) -> float:
        """`c = m / sqrt(d)`."""
        return self.signal / sqrt(self.dim)

    @property
    def log_others(self) -> float:
        """`log(L - 1)`."""
        size = self.log_tokens
        if self.tokens is not None:
            return log(self.tokens - 1) if self.tokens > 1 else -inf
        return size + log1p(-exp(-size)) if size > 0 else -inf

    def _setting(self) -> Setting:
        return Setting(self.scale, self.signal, self.gamma, self.log_others)

    @functools.cached_property
    def _exact(self) -> Landscape:
        link: Link = self.link
        if isinf(self.log_others):
            return SingleToken(link, self.signal, self.gamma)
        if self.beta == 0:
            return EvenAttention(link, self.signal, self.gamma, self.log_others)
        return LinearRisk(self._setting()) if isinstance(link, Linear) else GeneralRisk(self._setting(), link)

    def _noise(self, alpha: float | None) -> Noise:
        if self.beta == 0:
            raise ValueError(
                "beta=0: attention that does not look has no phases and no mean field; use a positive beta, or the exact risk."
            )
        alpha = self.alpha if alpha is None else _arguments.non_negative("alpha", alpha)
        return Noise.limit(self.beta, alpha, self.dim)

    def _mean_field(self, alpha: float | None) -> MeanFieldRisk:
        return MeanFieldRisk(self.link, self.dim, self.signal, self.scale, self.gamma, self._noise(alpha))

    def _landscape(self, method: str, alpha: float | None) -> Landscape:
        _arguments.one_of("method", method, _LANDSCAPES)
        if method == "exact" and alpha is not None:
            raise ValueError(
                f"alpha={alpha!r} with method='exact': the exact risk knows the number of tokens; use method='mean-field'."
            )
        return self._exact if method == "exact" else self._mean_field(alpha)

    @functools.cached_property
    def participation(self) -> float:
        """`E sum q^2` over the other tokens when the signal is out of reach: 1 if one of them has all the attention, `1 / (L - 1)` if all share it."""
        if isinf(self.log_others):
            return 0.0
        if self.beta == 0:
            return exp(-self.log_others)
        return noise_alone(self._setting())[2]

    def risk(
        self,
        mu: Any,
        nu: Any,
        eta: Any = 0.0,
        zeta: Any = 0.0,
        rho: Any = 0.0,
        *,
        method: str = "exact",
        alpha: float | None = None,
    ) -> Any:
        """The excess risk at overlaps, numbers or arrays that broadcast.

        `method` is "exact" (at this dimension and number of tokens, to rounding), "mean-field" (the paper's Proposition 1) or "refined" (what
        the exact risk tends to: a mixture over whether the signal is found). The last two use `alpha = log L / d`; give another, such as 0.0 for the
        paper's sub-exponential limit.

        !!! Example

            >>> from limitlaw import slr
            >>> p = slr.Problem(dim=100, tokens=20, link="quadratic")
            >>> [round(p.risk(-0.4, 0.0, method=m), 5) for m in ("exact", "refined", "mean-field")]
            [2.38455, 2.38455, 0.75]
        """
        _arguments.one_of("method", method, _METHODS)
        overlaps = self._checked(mu, nu, eta, zeta, rho)
        flat = overlaps.reshape(-1, 5)
        if method == "refined" and not isinf(self.log_others):  # one token cannot be missed
            values = refined_risk(self.link, flat, self.dim, self.signal, self.gamma, self._refined_noise(alpha))
        else:
            values = self._landscape("exact" if method == "refined" else method, alpha).risk(flat)
        if not np.isfinite(values).all():
            raise ValueError(
                f"link={self.link}: the risk is {values[~np.isfinite(values)][0]}, so the link is not finite everywhere; mend it."
            )
        return _shaped(values, overlaps.shape[:-1])

    def _refined_noise(self, alpha: float | None) -> Noise:
        """The noise at this number of tokens, without the signal, unless another `alpha` is asked for."""
        limit = self._noise(alpha)
        if alpha is not None:
            return limit
        return Noise(limit.psi, *noise_alone(self._setting()))

    def gradient(
        self,
        mu: Any,
        nu: Any,
        eta: Any = 0.0,
        zeta: Any = 0.0,
        rho: Any = 0.0,
        *,
        method: str = "exact",
        alpha: float | None = None,
    ) -> np.ndarray:
        """Derivatives of the risk in `mu, nu, eta, zeta, rho`, along a new last axis.

        !!! Example

            >>> from limitlaw import slr
            >>> slr.Problem(dim=100, tokens=20).gradient(0.3, 0.2)[:2].round(6)
            array([-1.471716, -0.62088 ])
        """
        overlaps = self._checked(mu, nu, eta, zeta, rho)
        _, gradient = self._landscape(method, alpha).risk_and_gradient(overlaps.reshape(-1, 5))
        return gradient.reshape(overlaps.shape)

    def _checked(self, *overlaps: Any) -> np.ndarray:
        given = []
        for name, value in zip(NAMES, overlaps, strict=True):
            try:
                given.append(np.asarray(value, np.float64))
            except (TypeError, ValueError):
                raise TypeError(f"{name}={value!r}: must be a number, or an array of numbers.") from None
        try:
            together = np.broadcast_arrays(*given)
        except ValueError:
            shapes = ", ".join(f"{name} {array.shape}" for name, array in zip(NAMES, given, strict=True))
            raise ValueError(
                f"overlaps have shapes {shapes}, which do not broadcast; give numbers, or arrays that do."
            ) from None
        return as_overlaps(np.stack(together, axis=-1), self.dim)

    def sample(self, count: int, *, seed: int = 0) -> tuple[Any, Any]:
        """Data, as jax arrays: `X` of shape (count, L, d) and `y` of shape (count,); `u_*` and `v_*` are the first two axes.

        !!! Example

            >>> from limitlaw import slr
            >>> X, y = slr.Problem(dim=5, tokens=3).sample(1000, seed=1)
            >>> X.shape, y.shape
            ((1000, 3, 5), (1000,))
        """
        count = int(_arguments.positive_integer("count", count))
        self._check_drawable("count", count)
        return self._data(seed_key(_arguments.seed(seed)), count)

    def _data(self, key: Any, count: int) -> tuple[Any, Any]:
        from ._simulation import draw_data

        assert self.tokens is not None
        return draw_data(
            key, count, tokens=self.tokens, signal=self.signal, gamma=self.gamma, noise=self.noise,
            directions=self._directions, link=self.link,
        )  # fmt: skip

    def _check_drawable(self, name: str, count: int) -> None:
        if self.tokens is None:
            raise ValueError(
                f"log_tokens={self.log_tokens:.6g}: data need a whole number of tokens; give tokens instead."
            )
        if 4.0 * count * self.tokens * self.dim > _LARGEST_DATA:
            raise ValueError(
                f"{name}={count} with tokens={self.tokens} at dim={self.dim}: that is more than 2 GiB of data; use fewer."
            )

    @property
    def _directions(self) -> tuple[np.ndarray, np.ndarray]:
        first, second = np.eye(2, self.dim)
        return first, second

    def start(
        self,
        kind: str = "uniform",
        count: int | None = None,
        *,
        mu: float | None = None,
        nu: float | None = None,
        seed: int = 0,
    ) -> np.ndarray:
        """Overlaps to begin with, `(5,)`, or `(count, 5)`.

        "uniform": `u` and `v` uniform on the sphere. "manifold": the same `mu` and `nu` with `eta = zeta = rho = 0`. "informed": `mu` and `nu`
        as given, everything else uniform.

        !!! Example

            >>> from limitlaw import slr
            >>> slr.Problem(dim=100, tokens=20).start("informed", mu=0.3, nu=0.1)[:2]
            array([0.3, 0.1])
        """
        _arguments.one_of("kind", kind, _STARTS)
        if kind == "informed" and mu is None and nu is None:
            raise ValueError("kind='informed': informed of what? Give mu, nu, or both.")
        if kind != "informed" and (mu is not None or nu is not None):
            raise ValueError(
                f"kind={kind!r} with mu={mu!r}, nu={nu!r}: only an informed start is told its overlaps; use kind='informed'."
            )
        for name, value in (("mu", mu), ("nu", nu)):
            if value is not None:
                _overlap(name, value)
        number = 1 if count is None else int(_arguments.positive_integer("count", count))
        overlaps = random_start(self.dim, number, seed, mu, nu)
        if kind == "manifold":
            overlaps[:, 2:] = 0.0
        return overlaps[0] if count is None else overlaps

    def descent(
        self,
        steps: int = 2000,
        step_size: float = 0.01,
        start: Any = None,
        *,
        method: str = "exact",
        alpha: float | None = None,
        every: int = 1,
    ) -> Trajectory:
        """Riemannian gradient descent on the population risk: the exact map of the five overlaps, step by step.

        `start` are overlaps `(5,)`, or `(starts, 5)` to run several (a uniform start with seed 0 unless given); every `every`-th step is kept.

        !!! Example

            >>> from limitlaw import slr
            >>> p = slr.Problem(dim=100, tokens=20)
            >>> run = p.descent(steps=1000, start=p.start("informed", mu=0.3, nu=0.1))
            >>> bool(run.risk[-1] < 1e-3), bool(run.nu[-1] > 0.99)
            (True, True)
        """
        steps, every = (int(_arguments.positive_integer(*named)) for named in (("steps", steps), ("every", every)))
        size = _positive("step_size", step_size)
        landscape = self._landscape(method, alpha)
        beginning = self._beginning(start)
        at, overlaps, risk = descend(landscape, beginning.reshape(-1, 5), steps, size, every)
        one = beginning.ndim == 1
        return Trajectory(at, overlaps[0] if one else overlaps, risk[0] if one else risk, method, "step")

    def flow(
        self,
        time: float = 20.0,
        start: Any = None,
        *,
        method: str = "exact",
        alpha: float | None = None,
        points: int = 201,
        planar: bool = False,
    ) -> Trajectory:
        """The gradient flow, which descent follows with small steps, by a stiff solver.

        With `method="mean-field"` and `alpha=0.0` this is the paper's four-dimensional flow (there `rho` has no effect), and with `planar=True`
        its two-dimensional one, on `eta = zeta = rho = 0`; for links that are neither odd nor even that is a restriction, not a solution.

        !!! Example

            >>> from limitlaw import slr
            >>> p = slr.Problem(dim=100, tokens=20)
            >>> run = p.flow(10.0, [0.1, 0.3, 0, 0, 0], method="mean-field", alpha=0.0, planar=True)
            >>> bool(run.nu[-1] > 0.999)
            True
        """
        end = _positive("time", time)
        if _arguments.positive_integer("points", points) < 2:
            raise ValueError(f"points={points!r}: a trajectory has at least 2.")
        landscape, beginning = self._landscape(method, alpha), self._beginning(start)
        if planar and np.abs(beginning[..., 2:]).max() > 0:
            raise ValueError("planar=True: the start must have eta = zeta = rho = 0; use p.start('manifold').")
        times = np.linspace(0.0, end, int(points))
        runs = [flow(landscape, one, times, planar=planar) for one in beginning.reshape(-1, 5)]
        overlaps, risk = (
            np.stack(parts).reshape(*beginning.shape[:-1], *parts[0].shape) for parts in zip(*runs, strict=True)
        )
        return Trajectory(times, overlaps, risk, method, "time")

    def vector_field(self, mu: Any, nu: Any, *, method: str = "exact", alpha: float | None = None) -> np.ndarray:
        """Velocities of `mu` and `nu` on the plane `eta = zeta = rho = 0`, along a new last axis.

        !!! Example

            >>> from limitlaw import slr
            >>> slr.Problem(dim=100, tokens=20).vector_field(0.3, 0.8).shape
            (2,)
        """
        overlaps = self._checked(mu, nu, 0.0, 0.0, 0.0)
        flat = overlaps.reshape(-1, 5)
        rates = velocity(flat, self._landscape(method, alpha).risk_and_gradient(flat)[1])
        return rates[:, :2].reshape(*overlaps.shape[:-1], 2)

    def _beginning(self, start: Any) -> np.ndarray:
        try:
            array = np.asarray(self.start() if start is None else start, np.float64)
        except (TypeError, ValueError):
            raise TypeError(
                f"start={start!r}: must be overlaps of shape (5,) or (starts, 5), such as p.start('uniform')."
            ) from None
        if array.ndim not in (1, 2) or not array.size:
            raise ValueError(f"start has shape {array.shape}: give overlaps of shape (5,), or (starts, 5).")
        return as_overlaps(array, self.dim)

    def stationary_points(self, *, alpha: float | None = 0.0) -> list[StationaryPoint]:
        """Where the mean-field flow on `eta = zeta = rho = 0` rests, each with its kind (the paper's Propositions 4 and 10).

        !!! Example

            >>> from limitlaw import slr
            >>> for point in slr.Problem(dim=100, tokens=20).stationary_points():
            ...     print((point.mu, point.nu), point.kind)
            (-1.0, -1.0) saddle
            (1.0, -1.0) source
            (-1.0, 1.0) saddle
            (1.0, 1.0) sink
        """
        if not self.link.kernel(self.gamma, np.ones(1))[0][0]:
            raise ValueError(
                f"link={self.link}: it is 0 wherever it matters, so that there is nothing to learn; use another."
            )
        if not self.signal:
            raise ValueError(
                "signal=0: nothing moves mu, so that every value of it is stationary; use gamma below 1, or give a signal."
            )
        return stationary_points(self._mean_field(alpha), self.link, self.gamma)

    def simulate(
        self,
        samples: int = 1000,
        steps: int = 2000,
        step_size: float = 0.01,
        seed: int = 0,
        *,
        start: Any = None,
        test_samples: int = 10_000,
        every: int | None = None,
    ) -> Trajectory:
        """The same descent in `R^d` on the empirical risk of `samples` labelled sequences; the risk is measured on fresh ones, less `noise^2`.

        Several starts `(starts, 5)` see the same data and run at once; risk and overlaps are kept at every `every`-th step, a divisor of `steps` (the
        largest up to 25 unless given). The directions `u, v` have the overlaps of the start; by symmetry nothing
        else about them matters.

        !!! Example

            >>> from limitlaw import slr
            >>> p = slr.Problem(dim=20, tokens=5)
            >>> run = p.simulate(samples=200, steps=50, start=p.start("informed", mu=0.5, nu=0.5), test_samples=500)
            >>> run.risk.shape
            (3,)
        """
        import jax

        from ._simulation import check_schedule, simulate

        if self.dim < 4:
            raise ValueError(
                f"dim={self.dim}: four directions need at least 4 dimensions to move in; use dim=4 or more."
            )
        if isinstance(self.link, Sign):
            raise ValueError(
                "link='sign': its slope is 0 almost everywhere, so that gradient descent on samples does not move v; use descent."
            )
        samples, steps, test_samples = (
            int(_arguments.positive_integer(name, value))
            for name, value in (("samples", samples), ("steps", steps), ("test_samples", test_samples))
        )
        every = _shared_divisor(steps) if every is None else int(_arguments.positive_integer("every", every))
        check_schedule(steps, every)
        for name, count in (("samples", samples), ("test_samples", test_samples)):
            self._check_drawable(name, count)
        self._check_differentiable()
        size, beginning = _positive("step_size", step_size), self._beginning(start)
        keys = jax.random.split(seed_key(_arguments.seed(seed)))
        (X, y), (X_test, y_test) = (
            self._data(key, count) for key, count in zip(keys, (samples, test_samples), strict=True)
        )
        run = simulate(
            X, y, X_test, y_test, vectors(beginning.reshape(-1, 5), self.dim), directions=self._directions, scale=self.scale,
            link=self.link, steps=steps, step_size=size, every=every,
        )  # fmt: skip
        overlaps, risk = np.asarray(run.overlaps, np.float64), np.asarray(run.test_risk, np.float64) - self.noise**2
        one = beginning.ndim == 1
        return Trajectory(
            np.asarray(run.steps), overlaps[0] if one else overlaps, risk[0] if one else risk, "simulation", "step"
        )

    def _check_differentiable(self) -> None:
        import jax

        try:
            jax.eval_shape(jax.grad(lambda t: self.link(t)), jax.ShapeDtypeStruct((), np.float32))
        except Exception as error:
            reason = str(error).splitlines()[0]
            raise ValueError(
                f"link={self.link}: jax cannot differentiate it ({reason}); write it with jax.numpy."
            ) from None

    def phase(self, mu: float = 1.0, *, alpha: float | None = None) -> str:
        """ "retrieval", "paramagnetic" or "frozen": the phase of the mean-field limit at overlap `mu`.

        !!! Example

            >>> from limitlaw import slr
            >>> slr.Problem(dim=100, tokens=20).phase(), slr.Problem(dim=100, log_tokens=60.0).phase()
            ('retrieval', 'paramagnetic')
        """
        if isinf(self.log_others):
            return "retrieval"  # there is nothing else
        return str(phase_of(*self.distances(mu, alpha=alpha)))

    def distances(self, mu: float = 1.0, *, alpha: float | None = None) -> tuple[float, float]:
        """How far the limit is inside the retrieval phase, `c mu - psi`, and inside the frozen one, `beta - sqrt(2 alpha)`.

        !!! Example

            >>> from limitlaw import slr
            >>> [round(x, 4) for x in slr.Problem(dim=100, tokens=20).distances(mu=0.5)]
            [0.1088, 0.7552]
        """
        psi = self._noise(alpha).psi
        return self.strength * _overlap("mu", mu) - psi, self.beta - sqrt(2 * (self.alpha if alpha is None else alpha))

    @property
    def realisable(self) -> bool:
        """Whether the oracle's risk vanishes in the mean-field limit (Proposition 2): `c > psi`."""
        return self.phase() == "retrieval"

    def thresholds(self) -> dict[str, float]:
        """Where the mean-field limit changes: `mu` and `beta` above which the signal is found at this `alpha`, `alpha` below which the oracle finds it at
        this `beta` and at the best one, and below which Bayes with the whole likelihood does; `inf` or 0 where nothing does.

        !!! Example

            >>> from limitlaw import slr
            >>> {name: round(value, 4) for name, value in slr.Problem(dim=100, tokens=20).thresholds().items()}
            {'mu': 0.3462, 'beta': 0.0437, 'alpha': 0.25, 'alpha_best_beta': 0.25, 'alpha_bayes': 0.3466}
        """
        c, alpha, psi = self.strength, self.alpha, self._noise(None).psi
        room = c**2 - 2 * alpha
        return {
            "mu": psi / c if c else inf,
            "beta": c - sqrt(room) if room > 0 else inf,
            "alpha": c**2 / 2 if self.beta >= c else self.beta * c - self.beta**2 / 2,
            "alpha_best_beta": c**2 / 2,
            "alpha_bayes": -log(self.gamma) + (c**2 + self.gamma**2 - 1) / 2,
        }

    def changed(self, *, alpha: float | None = None, **settings: Any) -> Problem:
        """The same with other settings; `alpha` sets `log_tokens = alpha d`, `gamma` the signal with it where that follows from `gamma`.

        !!! Example

            >>> from limitlaw import slr
            >>> slr.Problem(dim=100, tokens=20).changed(gamma=0.6, beta=2.0).signal
            8.0
        """
        if alpha is not None and {"tokens", "log_tokens"} & set(settings):
            raise ValueError(f"alpha={alpha!r} beside a number of tokens: alpha is log L / d; give one of them.")
        own = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.init}
        own |= {"signal": self._given_signal, "tokens": None, "log_tokens": None} | settings
        if alpha is not None:
            own["log_tokens"] = _arguments.non_negative("alpha", alpha) * own["dim"]
        elif own["tokens"] is None and own["log_tokens"] is None:
            own["tokens"], own["log_tokens"] = self.tokens, None if self.tokens is not None else self.log_tokens
        return Problem(**own)

    def phase_diagram(
        self, x: str = "alpha", y: str = "gamma", *, x_values: Any = None, y_values: Any = None
    ) -> PhaseDiagram:
        """Phases over (alpha, gamma), (alpha, beta) or (mu, beta), with the oracle's exact risk at this dimension underneath.

        !!! Example

            >>> from limitlaw import slr
            >>> diagram = slr.Problem(dim=20, tokens=5).phase_diagram("mu", "beta", x_values=[0.2, 0.8], y_values=[0.5, 2.0])
            >>> diagram.phase.tolist()
            [['frozen', 'retrieval'], ['frozen', 'retrieval']]
        """
        if (x, y) not in _DIAGRAMS:
            raise ValueError(f"x={x!r}, y={y!r}: diagrams are drawn over {', '.join(map(str, _DIAGRAMS))}.")
        return phase_diagram(self, x, y, self._axis(x, x_values), self._axis(y, y_values))

    def _axis(self, name: str, values: Any) -> np.ndarray:
        if values is not None:
            array = _arguments.finite_array(f"values of {name}", values, 1)
            if array.size < 2:
                raise ValueError(f"values of {name}: a diagram needs at least 2 along each axis, not {array.size}.")
            if name == "beta" and array.min() <= 0:
                raise ValueError(
                    f"values of beta: {array.min():g} is not positive, and attention that does not look has no phases."
                )
            return array
        low, high = {
            "alpha": (log(2) / self.dim, 0.6),
            "gamma": (0.1, 0.95),
            "beta": (0.05, max(2.0, self.beta)),
            "mu": (-0.2, 1.0),
        }[name]
        return np.linspace(low, high, _POINTS)

    def basins(
        self,
        mu: Any = None,
        nu: Any = None,
        *,
        steps: int = 2000,
        step_size: float = 0.01,
        level: float = 0.01,
        method: str = "exact",
        alpha: float | None = None,
        every: int = 20,
    ) -> BasinMap:
        """From which starts `(mu, nu)`, with `eta = zeta = rho = 0`, descent reaches a risk below `level`, and when.

        The paper claims that no special start is needed; the exact dynamics stall where the signal's score is lost among the others, since gradients
        are exponentially small there.

        !!! Example

            >>> from limitlaw import slr
            >>> basins = slr.Problem(dim=100, tokens=20).basins([-0.5, 0.5], [0.5], steps=500)
            >>> basins.learned_at
            array([[ nan, 220.]])
        """
        middle = np.linspace(-0.9, 0.9, _POINTS)
        return basin_map(
            self,
            _arguments.finite_array("mu", middle if mu is None else mu, 1),
            _arguments.finite_array("nu", middle if nu is None else nu, 1),
            _positive("level", level),
            steps=steps,
            step_size=step_size,
            method=method,
            alpha=alpha,
            every=every,
        )

    def gated_risk(
        self, gate: Any, mu: float = 1.0, nu: float = 1.0, eta: float = 0.0, zeta: float = 0.0, rho: float = 0.0
    ) -> float:
        """The excess risk of `f = sum_l gate(x_l . u) x_l . v`, a gate that looks at one token at a time, for the linear link.

        !!! Example

            >>> from scipy.special import erf
            >>> from limitlaw import slr
            >>> p = slr.Problem(dim=100, tokens=20, gamma=0.5)
            >>> round(p.gated_risk(lambda h: erf(0.1 * h)), 6), round(p.baselines()["erf_best"], 6)
            (0.249667, 0.133128)
        """
        if not isinstance(self.link, Linear):
            raise ValueError(
                f"link={self.link.name!r}: a gated sum is compared with the linear link; use link='linear'."
            )
        overlaps = self._checked(mu, nu, eta, zeta, rho)
        if overlaps.ndim > 1:
            raise ValueError(f"overlaps have shape {overlaps.shape[:-1]}: give numbers.")
        return gate_risk(gate, overlaps.tolist(), self.gamma, self.signal, self.log_others)

    def baselines(self, *names: str) -> Baselines:
        """What other predictors of the linear link reach with the true directions, beside softmax attention: one table.

        Given some `names`, these alone: `softmax_best`, attention at its best temperature, takes most of the time.

        !!! Example

            >>> from limitlaw import slr
            >>> print(slr.Problem(dim=20, tokens=20, gamma=0.8).baselines())
            predictor          excess risk
            zero               0.64
            linear             0.61914
            linear_attention   0.5035
            erf_best           0.51869     lambda = 0.0626
            best_pointwise     0.28631
            softmax            0.22283     beta = 1
            softmax_best       0.20878     beta = 0.6063
            bayes_projections  0.19468
            bayes_full         0.13234
        """
        return compare_with_baselines(self, names)


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{name}={value!r}: must be a number.")
    return float(value)


def _positive(name: str, value: Any) -> float:
    if not 0 < _number(name, value) < inf:
        raise ValueError(f"{name}={value!r}: must be positive and finite.")
    return float(value)


def _overlap(name: str, value: Any) -> float:
    if not -1 <= _number(name, value) <= 1:
        raise ValueError(f"{name}={value!r}: an overlap lies in [-1, 1].")
    return float(value)


def _shared_divisor(steps: int) -> int:
    """The largest divisor of the number of steps up to 25."""
    return next(k for k in range(25, 0, -1) if steps % k == 0)


def _shaped(values: np.ndarray, shape: tuple[int, ...]) -> Any:
    return float(values[0]) if shape == () else values.reshape(shape)
