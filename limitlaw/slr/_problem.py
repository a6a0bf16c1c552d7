"""The problem of single-location regression as plain data, and its risk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, inf, isinf, log, log1p, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._checks import (
    ArgumentError,
    ArgumentTypeError,
    finite_number,
    known_keys,
    non_negative,
    one_of,
    positive_integer,
)
from .._format import Table
from ._landscapes import Noise, exact_risk, landscape, limiting_noise, refined_risk, setting_of
from ._links import LINKS, Link, as_link
from ._overlaps import NAMES, as_overlaps
from ._phases import SYMBOLS, phase
from ._tables import MOST_SCALE, noise_alone

_MOST_LOG_TOKENS = 600.0  # averages over the other tokens go down to e^-(log L + 45), and floats to e^-708
_METHODS = ("exact", "mean-field", "refined")
_ARGUMENTS = ("dim", "tokens", "gamma", "beta", "noise", "link", "log_tokens", "signal")


@dataclass(frozen=True, init=False, repr=False)
class Problem:
    """Single-location regression: one of `L` tokens carries the label, and softmax attention has to find it.

    `x_1 ~ N(m u_*, gamma^2 I_d)`, the other tokens are `N(0, I_d)`, and the label is `sigma(x_1 . v_*) + noise`, with
    orthogonal unit vectors `u_*` and `v_*` and an unknown place of `x_1`. The learner has two unit vectors,
    `f = sum_l softmax(b x_l . u) sigma(x_l . v)` with `b = beta sqrt(d)`. Its risk depends on their overlaps
    `mu = u.u_*, nu = v.v_*, eta = u.v_*, zeta = v.u_*, rho = u.v` alone. Risks are excess risks: the test error is
    `noise^2` more. Problems are plain values: they compare, hash, copy and pickle.

    Args:
        dim: The dimension `d` of a token, at least 2.
        tokens: Their number `L`. Give `tokens` or `log_tokens`.
        gamma: Standard deviation of the token with the signal, in (0, 1].
        beta: Normalised inverse temperature; scores are multiplied by `beta sqrt(d)`.
        noise: Standard deviation of the noise of the labels.
        link: "linear", "quadratic", "relu", "sign", a smooth function of an array, or a `slr.Link`.
        log_tokens: `log L`, up to 600.
        signal: `m`, by default `sqrt((1 - gamma^2) d)`.

    Raises:
        ArgumentError: If an argument is out of its range.

    Example:
        >>> from limitlaw import slr
        >>> problem = slr.Problem(dim=100, tokens=20, gamma=2**-0.5, beta=1.0, noise=0.1, link="linear")
        >>> problem.risk(mu=0.0, nu=0.0)
        1.308573842321...
        >>> problem.risk(mu=1.0, nu=1.0)  # the oracle
        8.6363916...e-08

    References:
        Dohmatob, *Understanding Softmax Attention Layers: Exact Mean-Field Analysis on a Toy Problem*, NeurIPS 2025.
    """

    dim: int
    tokens: int | None
    gamma: float
    beta: float
    noise: float
    link: Link
    log_tokens: float
    signal: float
    default_signal: bool
    """Whether the signal is `sqrt((1 - gamma^2) d)`, so that `changed` lets it follow `gamma` and `dim`."""

    def __init__(
        self,
        dim: int,
        tokens: int | None = None,
        gamma: float = 2**-0.5,
        beta: float = 1.0,
        noise: float = 0.0,
        link: str | Link | Callable[[Any], Any] = "linear",
        *,
        log_tokens: float | None = None,
        signal: float | None = None,
    ) -> None:
        dim = int(positive_integer("dim", dim))
        if dim < 2:
            raise ArgumentError("dim", f"dim={dim!r} is too small for two orthogonal directions. Use dim=2 or more.")
        gamma = finite_number("gamma", gamma)
        if not 0 < gamma <= 1:
            raise ArgumentError(
                "gamma",
                f"gamma={gamma!r} must lie in (0, 1]. It is the standard deviation of the token with the signal.",
            )
        count, log_count = _number_of_tokens(tokens, log_tokens)
        checked = {
            "dim": dim,
            "tokens": count,
            "gamma": gamma,
            "beta": non_negative("beta", beta),
            "noise": non_negative("noise", noise),
            "link": as_link(link),
            "log_tokens": log_count,
            "signal": sqrt((1 - gamma**2) * dim) if signal is None else non_negative("signal", signal),
            "default_signal": signal is None,
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.scale > MOST_SCALE:
            raise ArgumentError(
                "beta",
                f"beta={self.beta:g} at dim={dim} multiplies scores by beta sqrt(dim) = {self.scale:.4g}. Beyond "
                f"{MOST_SCALE:g} softmax is an argmax to rounding. Use a smaller beta.",
            )

    @classmethod
    def marion(cls, dim: int, tokens: int | None = None, *, gamma: float = 2**-0.5, **settings: Any) -> Problem:
        """The convention of Marion et al. (ICLR 2025), a signal of `sqrt(d / 2)` whatever `gamma` is.

        Args:
            dim: As for `Problem`, and so are all others.
            tokens: As for `Problem`.
            gamma: As for `Problem`.
            **settings: Other arguments of `Problem`, without `signal`.

        Raises:
            ArgumentError: If `signal` is given, or an argument is out of its range.

        Example:
            >>> from limitlaw import slr
            >>> slr.Problem.marion(dim=50, tokens=10, gamma=0.3).signal
            5.0
        """
        if "signal" in settings:
            raise ArgumentError(
                "signal",
                f"signal={settings['signal']!r} is not an argument of Problem.marion, where it is sqrt(dim / 2). "
                f"Use Problem to choose it.",
            )
        known_keys("slr.Problem.marion", settings, [name for name in _ARGUMENTS if name != "signal"])
        return cls(dim, tokens, gamma, signal=sqrt(positive_integer("dim", dim) / 2), **settings)

    def changed(self, *, alpha: float | None = None, **settings: Any) -> Problem:
        """The same problem with other arguments.

        A default signal follows `gamma` and `dim`; one that was given stays.

        Args:
            alpha: `log L / d`, which sets `log_tokens = alpha d`.
            **settings: Arguments of `Problem`.

        Raises:
            ArgumentError: If `Problem` has no such argument, an argument is out of its range, or the number of tokens
                is given as well as `alpha`.

        Example:
            >>> from limitlaw import slr
            >>> slr.Problem(dim=100, tokens=20).changed(gamma=0.6, beta=2.0).signal
            8.0
        """
        known_keys("slr.Problem", settings, (*_ARGUMENTS, "alpha"))
        if alpha is not None and {"tokens", "log_tokens"} & set(settings):
            raise ArgumentError(
                "alpha", f"alpha={alpha!r} is log L / d, and the number of tokens is given as well. Give one of them."
            )
        own = {name: getattr(self, name) for name in ("dim", "gamma", "beta", "noise", "link")}
        own |= {"tokens": None, "log_tokens": None, "signal": None if self.default_signal else self.signal} | settings
        if alpha is not None:
            own["log_tokens"] = non_negative("alpha", alpha) * own["dim"]
        elif own["tokens"] is None and own["log_tokens"] is None:
            own["tokens"], own["log_tokens"] = self.tokens, None if self.tokens is not None else self.log_tokens
        return Problem(**own)

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

    def overlaps(
        self, mu: ArrayLike, nu: ArrayLike, eta: ArrayLike = 0.0, zeta: ArrayLike = 0.0, rho: ArrayLike = 0.0
    ) -> np.ndarray:
        """The five overlaps as one array, checked.

        Args:
            mu: `u . u_*`, a number or an array; all five broadcast.
            nu: `v . v_*`.
            eta: `u . v_*`.
            zeta: `v . u_*`.
            rho: `u . v`.

        Returns:
            An array of shape (..., 5).

        Raises:
            ArgumentError: If no four unit vectors of `R^dim` have these overlaps.

        Example:
            >>> from limitlaw import slr
            >>> slr.Problem(dim=100, tokens=20).overlaps(0.3, [0.1, 0.2]).tolist()
            [[0.3, 0.1, 0.0, 0.0, 0.0], [0.3, 0.2, 0.0, 0.0, 0.0]]
        """
        arrays = []
        for name, value in zip(NAMES, (mu, nu, eta, zeta, rho), strict=True):
            try:
                arrays.append(np.asarray(value, np.float64))
            except (TypeError, ValueError):
                raise ArgumentTypeError(name, f"{name}={value!r} must be a number or an array of numbers.") from None
        try:
            together = np.broadcast_arrays(*arrays)
        except ValueError:
            shapes = ", ".join(f"{name} {array.shape}" for name, array in zip(NAMES, arrays, strict=True))
            raise ArgumentError(
                "overlaps", f"overlaps have shapes {shapes}, which do not broadcast. Give numbers, or arrays that do."
            ) from None
        return as_overlaps(np.stack(together, axis=-1), self.dim)

    def risk(
        self,
        mu: ArrayLike,
        nu: ArrayLike,
        eta: ArrayLike = 0.0,
        zeta: ArrayLike = 0.0,
        rho: ArrayLike = 0.0,
        *,
        method: str = "exact",
        alpha: float | None = None,
    ) -> Any:
        """The excess risk at overlaps.

        Args:
            mu: `u . u_*`, a number or an array; all five broadcast.
            nu: `v . v_*`.
            eta: `u . v_*`.
            zeta: `v . u_*`.
            rho: `u . v`.
            method: "exact" (at this dimension and number of tokens, to rounding), "mean-field" (the paper's
                Proposition 1) or "refined" (what the exact risk tends to, a mixture over whether the signal is found).
            alpha: Replaces `log L / d` in the last two methods, such as 0.0 for the paper's sub-exponential limit.

        Returns:
            A float for numbers, otherwise an array.

        Raises:
            ArgumentError: If no unit vectors have these overlaps, or the method is unknown.

        Example:
            >>> from limitlaw import slr
            >>> problem = slr.Problem(dim=100, tokens=20, link="quadratic")
            >>> [round(problem.risk(-0.4, 0.0, method=m), 5) for m in ("exact", "refined", "mean-field")]
            [2.38455, 2.38455, 0.75]
        """
        one_of("method", method, _METHODS)
        overlaps = self.overlaps(mu, nu, eta, zeta, rho)
        flat = overlaps.reshape(-1, 5)
        if method != "refined":
            values = landscape(self, method, alpha).risk(flat)
        elif isinf(self.log_others):  # one token cannot be missed
            values = exact_risk(self).risk(flat)
        else:
            values = refined_risk(self.link, flat, self.dim, self.signal, self.gamma, self._refined_noise(alpha))
        if not np.isfinite(values).all():
            raise ArgumentError(
                "link",
                f"link={self.link} makes the risk {values[~np.isfinite(values)][0]}. "
                f"Give a link that is finite at every number.",
            )
        return float(values[0]) if overlaps.ndim == 1 else values.reshape(overlaps.shape[:-1])

    def gradient(
        self,
        mu: ArrayLike,
        nu: ArrayLike,
        eta: ArrayLike = 0.0,
        zeta: ArrayLike = 0.0,
        rho: ArrayLike = 0.0,
        *,
        method: str = "exact",
        alpha: float | None = None,
    ) -> np.ndarray:
        """Derivatives of the risk in `mu, nu, eta, zeta, rho`.

        Args:
            mu: As for `risk`, and so are all others.
            nu: As for `risk`.
            eta: As for `risk`.
            zeta: As for `risk`.
            rho: As for `risk`.
            method: "exact" or "mean-field".
            alpha: As for `risk`.

        Returns:
            An array with a new last axis of length 5.

        Raises:
            ArgumentError: If no unit vectors have these overlaps, or the method is unknown.

        Example:
            >>> from limitlaw import slr
            >>> slr.Problem(dim=100, tokens=20).gradient(0.3, 0.2)[:2].round(6)
            array([-1.471716, -0.62088 ])
        """
        overlaps = self.overlaps(mu, nu, eta, zeta, rho)
        _, gradient = landscape(self, method, alpha).risk_and_gradient(overlaps.reshape(-1, 5))
        return gradient.reshape(overlaps.shape)

    def _refined_noise(self, alpha: float | None) -> Noise:
        """The noise tokens at their actual number, or in the limit of a given `alpha`."""
        limit = limiting_noise(self, alpha)
        return limit if alpha is not None else Noise(limit.psi, *noise_alone(setting_of(self)))

    def __repr__(self) -> str:
        count = {"tokens": self.tokens} if self.tokens is not None else {"log_tokens": self.log_tokens}
        signal = {} if self.default_signal else {"signal": self.signal}
        arguments = {
            "dim": self.dim, **count, "gamma": self.gamma, "beta": self.beta, "noise": self.noise,
            "link": self.link.name if self.link in LINKS.values() else self.link, **signal,
        }  # fmt: skip
        return f"Problem({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"

    def _repr_html_(self) -> str:
        uniform = self.beta == 0 and not isinf(self.log_others)
        rows = [
            ("dimension d", self.dim),
            ("tokens L", f"e^{self.log_tokens:.6g}" if self.tokens is None else f"{self.tokens:,}"),
            ("standard deviation γ of the token with the signal", f"{self.gamma:.6g}"),
            ("signal m", f"{self.signal:.6g}"),
            ("inverse temperature β", f"{self.beta:.6g}"),
            ("noise of the label", f"{self.noise:.6g}"),
            ("link σ", str(self.link)),
            (SYMBOLS["alpha"], f"{self.alpha:.6g}"),
            ("phase", "none, since β = 0 makes attention uniform" if uniform else phase(self)),
        ]
        return Table(("single-location regression", ""), rows)._repr_html_()


def _number_of_tokens(tokens: int | None, log_tokens: float | None) -> tuple[int | None, float]:
    """`tokens`, if it is known, and `log_tokens`."""
    if (tokens is None) == (log_tokens is None):
        raise ArgumentError(
            "tokens",
            f"tokens={tokens!r} and log_tokens={log_tokens!r} both set the number of tokens. Give exactly one.",
        )
    if tokens is not None:
        count = int(positive_integer("tokens", tokens))
        return count, log(count)
    size = non_negative("log_tokens", log_tokens)
    if size > _MOST_LOG_TOKENS:
        raise ArgumentError(
            "log_tokens", f"log_tokens={log_tokens!r} exceeds {_MOST_LOG_TOKENS:g}, beyond which numbers overflow."
        )
    if 0 < size < log(2):
        raise ArgumentError(
            "log_tokens",
            f"log_tokens={log_tokens!r} lies between one token (0) and two (log(2)). Use 0, or at least 0.6932.",
        )
    return None, size
