"""Networks, with their draws, trajectories and laws."""

from collections.abc import Callable, Sequence
from math import inf, isinf
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from .. import _checks, _progress
from .._checks import ArgumentError, ArgumentTypeError
from .._format import Table
from ..numerics.batches import DEFAULT_MEMORY, Batch, draw_batches, seed_key
from ..numerics.linalg import calls_lapack
from . import _gram, _law, _lazy, cost, dense
from ._gram import BoundNetwork, has_blocks, needed_layers
from ._layer import BY_TOKEN, InputLayer, Layer, Layout, Node, Purpose, RowMap, zero_after
from ._rules import check_declared, derived_rule
from .described import Described, Traced
from .state import Recorder
from .trajectory import Trajectory, trajectory

if TYPE_CHECKING:
    from ..laws import GaussianMixture, Law
    from ..netsor import Program

_READINGS = ("gram", "lazy", "dense")
_OBSERVABLES = ("output", "covariance", "gram")  # of every network; layers have more


class Network(Described):
    """A network: input tokens, and layers that act on them one after the other.

    One object describes the network at every finite width and in the infinite-width limit. There are three ways to
    sample it, its *readings*. "dense" draws every weight matrix. "lazy" reveals the matrices of `program()` where they
    are used. "gram", the default, tracks the Gram matrix of the tokens, on which all later layers depend. It is exact,
    thousands of times faster, and the only reading at `width=inf`. Networks are values: they compare, hash and pickle.

    Args:
        inputs: The input tokens: `Inputs`, `GramInputs`, `GaussianInputs`, `Embedding`, or your own `InputLayer`.
        *layers: The layers, in order.
        width: The default width of all methods.

    Raises:
        ArgumentError: If the layers do not fit the inputs, or each other.

    Example:
        >>> import limitlaw as ll
        >>> net = ll.Network(ll.Inputs(tokens=4, activation=ll.clip(100.0)), ll.Attention(heads=2))
        >>> y = net.sample(20_000, width=64, seed=0)
        >>> bool(abs(y.var() - 0.4031) < 0.015)
        True
    """

    inputs: InputLayer
    layers: tuple[Node, ...]
    width: int | float = inf

    def __init__(self, inputs: InputLayer, *layers: Node, width: int | float = inf) -> None:
        if not isinstance(inputs, InputLayer):
            raise ArgumentTypeError(
                "inputs",
                f"inputs={inputs!r} is not the inputs of a network. Give Inputs, GramInputs, GaussianInputs or "
                "Embedding.",
            )
        for layer in layers:
            if not isinstance(layer, Node):
                raise ArgumentTypeError(
                    "layers",
                    f"layer={layer!r} is not a layer. Give layers after the inputs, such as Attention(heads=2).",
                )
            layer.check_layout(inputs.layout)
        for layer in layers[:-1]:
            if layer.ends_network:
                raise ArgumentError("layers", f"layer={layer!r} ends a network. Put it last.")
        # A norm without eps maps a zero token to 0 / 0, in every draw and at every width, so it is refused here
        # already.
        _refuse_zero_tokens(inputs, layers)
        self.inputs, self.layers = inputs, layers
        self.width = _checks.positive_integer("width", width, infinite=True)

    def __repr__(self) -> str:
        width = [] if isinf(self.width) else [f"width={self.width}"]
        return f"Network({', '.join([*map(repr, (self.inputs, *self.layers)), *width])})"

    def _repr_html_(self) -> str:
        parts = [("inputs", repr(self.inputs)), *((f"layer {i}", repr(part)) for i, part in enumerate(self.layers, 1))]
        return Table((f"Network of {self.tokens} tokens", f"width {self.width}"), parts).html()

    def plot(self, ax: Any = None, *, width: int | float | None = None, token: int = 0, kind: str = "pdf") -> Any:
        """Plot the law of a token's output.

        Args:
            ax: Matplotlib axes, the current ones by default.
            width: The width, by default that of the network.
            token: The token.
            kind: As for `Law.plot`.

        Returns:
            The axes.

        Example:
            >>> import matplotlib
            >>> matplotlib.use("agg")
            >>> import limitlaw as ll
            >>> axes = ll.Network(ll.Inputs(tokens=3), ll.Attention(heads=2)).plot()
            >>> axes.lines[0].get_label()
            'limit'
        """
        return self.law(width=width, token=token).plot(ax, kind=kind)

    @property
    def layout(self) -> Layout:
        """The lengths of the sequences that the tokens form."""
        return self.inputs.layout

    @property
    def tokens(self) -> int:
        """The number of tokens."""
        return self.inputs.size

    def program(self) -> "Program":
        """The network as a netsor program, line by line.

        Returns:
            The program.

        Raises:
            ArgumentError: If a part of the network cannot be written as a netsor program.

        Example:
            >>> import limitlaw as ll
            >>> print(ll.Network(ll.Inputs(tokens=1), ll.Attention(heads=1)).program())  # doctest: +ELLIPSIS
            matrices
            ...
        """
        self._refuse_traced("a netsor program")
        return _lazy.lower(self).program

    def draw(
        self,
        key: PRNGKeyArray,
        *,
        width: int | float | None = None,
        token: int | Sequence[int] | None = None,
        observe: str = "output",
    ) -> Array:
        """One draw, as a pure JAX function of the key and of the numbers of the network.

        It can be transformed by `jax.jit`, `jax.vmap` and `jax.grad`. It computes what `sample` does in the Gram
        reading. Numbers of the network (stds, `skip`, `eps`, `K`) may be traced, so a mean over draws can be
        differentiated with respect to them.

        Args:
            key: A JAX random key.
            width: The width, not traced, by default that of the network.
            token: As for `sample`.
            observe: As for `sample`.

        Returns:
            The draw, a JAX array with the shape of one draw of `sample`.

        Raises:
            ArgumentError: As for `sample`, except for checks that need the value of a traced number.

        Example:
            >>> import jax, numpy as np, limitlaw as ll
            >>> keys = jax.random.split(jax.random.key(0), 1000)
            >>> def mean_variance(std):
            ...     net = ll.Network(ll.GramInputs(np.eye(2)), ll.Attention(value_std=std))
            ...     return jax.vmap(lambda key: net.draw(key, width=16, observe="covariance")[0, 0])(keys).mean()
            >>> value, slope = jax.value_and_grad(mean_variance)(1.5)
            >>> bool(abs(slope - 2 * value / 1.5) < 1e-5)  # the variance is proportional to the square of the std
            True
        """
        # This is a batch of one draw. Rules that use a loop of traced length in `sample` get a static length here,
        # since such loops have no derivative in reverse mode.
        width = self.check_width(width)
        layers = self._layers_for(observe)
        rows, pick = self._rows(token, observe)
        bound = BoundNetwork.of(self, layers, width, self._purpose(observe, differentiable=True))
        key = _checked_key(key)
        recorder = Recorder(by_block=has_blocks(layers))
        draws = _gram.draw_batch(bound, 1, key, observe=observe, rows=rows, recorder=recorder)
        _gram.check_sound(recorder)
        return pick(draws)[0]

    def sample(
        self,
        samples: int,
        *,
        width: int | float | None = None,
        token: int | Sequence[int] | None = None,
        observe: str = "output",
        seed: int = 0,
        reading: str = "gram",
        max_memory: int = DEFAULT_MEMORY,
        progress: bool = True,
    ) -> np.ndarray:
        """Independent draws of the network at initialisation, each with fresh weights and random inputs.

        Draw `i` depends only on the seed, on `i` and on the arguments, so two calls with the same arguments return the
        same draws. Draws of other tokens or observables with the same seed are not draws of the same networks; for a
        joint law give all tokens at once.

        Args:
            samples: The number of draws.
            width: The width, by default that of the network.
            token: A token, or a list of tokens.
            observe: The observable, float32:

                - "output": coordinate 0 of `token` (default 0) after a layer that ends in a fresh matrix, otherwise a
                  fresh read-out `X w`, `w ~ N(0, I/n)`; shape `(samples,)`, or `(samples, k)` for a list of `k` tokens;
                - "covariance": the covariance of the output of all tokens, or of those in `token`, given everything
                  before the last matrix, `(samples, s, s)`; given it the output is Gaussian;
                - "gram": the Gram matrix `X X^T / n` of the last stream, `(samples, s, s)`;
                - "scores": the scores of the last attention layer before the mask, `(samples, H, s, s)`, or only the
                  rows of `token`;
                - any other name among the `observables` of a layer, such as "entropy".
            seed: An integer.
            reading: "gram", "lazy" or "dense".
            max_memory: The number of bytes that the draws and the computation may take.
            progress: Whether to show a progress bar after two seconds.

        Returns:
            The draws, an array whose first axis is that of draws.

        Raises:
            ArgumentError: If an argument is out of range, or a variance leaves the range of single precision.

        Example:
            >>> import numpy as np, limitlaw as ll
            >>> net = ll.Network(ll.GramInputs(np.eye(3)), ll.Attention(heads=2, head_dim=8))
            >>> net.sample(5, width=16, observe="scores").shape
            (5, 2, 3, 3)
            >>> net.sample(5, width=16, token=[0, 2]).shape
            (5, 2)
        """
        samples = int(_checks.positive_integer("samples", samples))
        seed = _checks.seed(seed)
        max_memory = int(_checks.positive_integer("max_memory", max_memory))
        _checks.boolean("progress", progress)
        _checks.one_of("reading", reading, _READINGS)
        # Tokens are counted before the first matrix of them is made, which may already exceed the memory.
        _checks.fitting_tokens("tokens", self.tokens, _BYTES_A_PAIR, max_memory)
        width = self.check_width(width)
        if reading != "gram":
            self._check_finite(reading, width)
        self._refuse_traced("net.sample")
        layers = self._layers_for(observe)
        rows, pick = self._rows(token, observe)
        batch = self._batch(layers, width, observe, rows, reading)
        draws = draw_batches(batch, samples=samples, seed=seed, max_memory=max_memory, progress=progress)
        return pick(draws)

    def _batch(
        self, layers: tuple[Node, ...], width: int | float, observe: str, rows: tuple[int, ...] | None, reading: str
    ) -> Batch:
        """The function that computes a batch of draws of an observable of these layers."""
        if reading == "lazy":
            return _lazy.batch_of(self, int(width), observe, rows)
        if reading == "dense":
            size, memory = dense.batch_of(self, int(width), layers)

            # Variances that leave single precision become NaN within the layers, so finite draws are sound.
            def draw_densely(key: PRNGKeyArray) -> Array:
                draws = dense.draw_batch(self.inputs, layers, int(width), observe, rows, size, key)
                if not _checks.is_traced(draws) and not bool(jnp.isfinite(draws).all()):
                    raise _gram.beyond_single_precision("within the layers")
                return draws

            return Batch(draw_densely, size, memory)
        bound = BoundNetwork.of(self, layers, width, self._purpose(observe))
        heads = self._observed_heads(layers, observe, width)
        size = cost.batch_size(self, width, heads)
        by_block = has_blocks(layers)

        # Large roots call LAPACK, which deadlocks XLA if two CPU threads do it at once, so their batches run alone.
        def draw(key: PRNGKeyArray) -> Array:
            recorder = Recorder(by_block=by_block)
            draws = _gram.draw_batch(bound, size, key, observe=observe, rows=rows, recorder=recorder)
            _gram.check_sound(recorder)
            return draws

        return Batch(draw, size, cost.memory(self, width, size, heads), alone=calls_lapack(self.tokens))

    def _observed_heads(self, layers: tuple[Node, ...], observe: str, width: int | float) -> int:
        """The number of token matrices that a draw of an observable of a layer returns."""
        if observe in _OBSERVABLES:
            return 0
        return int(layers[-1].cost(width, self.layout).matrices)

    def realise(self, width: int | None = None, seed: int = 0) -> "dense.Realisation":
        """Draw one network: its weights by path, and the function of the tokens that they define.

        Args:
            width: The width, finite, by default that of the network.
            seed: An integer.

        Returns:
            The network. Its `weights` are named by paths such as "0.3.1.query".

        Raises:
            ArgumentError: If the width is infinite.

        Example:
            >>> import numpy as np, limitlaw as ll
            >>> net = ll.Network(ll.GramInputs(np.eye(2)), ll.Repeat(2, ll.Residual(ll.MLP(ratio=2))))
            >>> one = net.realise(width=8, seed=0)
            >>> one.weights["0.1.0.0.in"].shape
            (8, 16)
        """
        checked = self.check_width(width)
        self._check_finite("dense", checked)
        return dense.realise(self.inputs, self.layers, int(checked), seed_key(_checks.seed(seed)))

    def trajectory(
        self,
        samples: int,
        *,
        width: int | float | None = None,
        seed: int = 0,
        max_memory: int = DEFAULT_MEMORY,
        progress: bool = True,
    ) -> Trajectory:
        """Independent draws of the network, observed after the input and after every block.

        If the network has `Block` nodes, these are the blocks. Otherwise each layer is a block, and each repetition of
        a `Repeat`.

        Args:
            samples: The number of draws, at least 2.
            width: The width, by default that of the network.
            seed: An integer. The last Gram matrix is that of `sample(..., observe="gram")` with the same seed, up to
                rounding, unless the network ends in a `Readout` that has layers.
            max_memory: The number of bytes that the draws and the computation may take.
            progress: Whether to show a progress bar after two seconds.

        Returns:
            The trajectory: variance, kurtosis, cosines, effective rank and attention entropy along the depth.

        Raises:
            ArgumentError: If an argument is out of range, or a variance leaves the range of single precision.

        Example:
            >>> import numpy as np, limitlaw as ll
            >>> net = ll.Network(ll.GramInputs(np.eye(3)), ll.Repeat(6, ll.Residual(ll.Attention(heads=2))))
            >>> t = net.trajectory(500, width=32)
            >>> print(t.cosine[:, 0, 1].round(1))  # tokens become alike
            [0.  0.2 0.4 0.6 0.7 0.8 0.9]
        """
        samples = int(_checks.positive_integer("samples", samples))
        if samples < 2:
            raise ArgumentError("samples", f"samples={samples} must be at least 2, so that there is a standard error.")
        max_memory = int(_checks.positive_integer("max_memory", max_memory))
        _checks.boolean("progress", progress)
        _checks.fitting_tokens("tokens", self.tokens, _BYTES_A_PAIR, max_memory)
        width, seed = self.check_width(width), _checks.seed(seed)
        self._refuse_traced("net.trajectory")
        return trajectory(self, samples, width, seed, max_memory, progress)

    def law(
        self,
        *,
        width: int | float | None = None,
        token: int = 0,
        seed: int = 0,
        samples: int | None = None,
        accuracy: float = 1e-4,
        method: str = "auto",
        max_memory: int = DEFAULT_MEMORY,
        progress: bool = True,
    ) -> "Law":
        """The law of the output of one token over the initialisation.

        Given the scores and the tokens the output is Gaussian, so at every width its law is a mixture of `N(0, v)` over
        the law of a random variance `v`.

        - At infinite width the law is exact if only one layer is random. Its characteristic function is
          `M(t^2 / 2H)^H` for `H` heads, where `M` is the Laplace transform of the variance of one head. That is an
          integral over its scores, by quadrature in up to four dimensions. In more dimensions it is computed by
          randomised quasi-Monte Carlo, with a standard error, from `samples` points (default 2^21). With `heads=inf`
          the law is a `Gaussian`.
        - Otherwise `v` is drawn, which has less variance than draws of the output (Rao-Blackwell). By default there are
          enough draws for a relative standard error of `accuracy` for `variance()` and a standard error of
          `10 accuracy (1 + kurtosis)` for `kurtosis()`, up to 2^22 draws or about half a minute.

        Laws at different widths, and draws of `sample` with the same seed, are independent of each other.

        Args:
            width: The width, by default that of the network.
            token: The token.
            seed: An integer.
            samples: The number of draws behind the law; by default as many as `accuracy` needs.
            accuracy: The relative standard error to reach, at least 1e-6.
            method: "auto"; "draws" to use draws at infinite width as well; "mixture" or "fourier" to choose the method
                by which densities are computed (see `laws.ScaleMixture`).
            max_memory: The number of bytes that the draws and the computation may take.
            progress: Whether to show a progress bar after two seconds.

        Returns:
            The law.

        Raises:
            ArgumentError: If an argument is out of range, or the output has no density.

        Example:
            >>> import limitlaw as ll
            >>> net = ll.Network(ll.Inputs(tokens=4, activation=ll.clip(100.0)), ll.Attention(heads=2))
            >>> law = net.law()  # infinite width
            >>> print(f"{law.variance():.10f} {law.kurtosis():.10f}")
            0.3919714436 0.1216592126
        """
        if token is None or np.ndim(token):
            raise ArgumentTypeError(
                "token", f"token={token!r} must be one token. For several use net.joint_law(tokens=[0, 1])."
            )
        width, seed, count = self._checked_for_a_law(width, seed, samples, max_memory, progress)
        _checks.one_of("method", method, ("auto", "draws", "mixture", "fourier"))
        if not _checks.non_negative("accuracy", accuracy) >= _FINEST:
            raise ArgumentError(
                "accuracy",
                f"accuracy={accuracy!r} is below {_FINEST:g} and would need more draws than the limit of 2^22. Use "
                "accuracy=1e-4.",
            )
        # The exact law is tried first. It exists only if the last layer alone is random, and otherwise draws follow.
        exact = isinf(width) and method != "draws"
        inner = "auto" if method == "draws" else method
        index = _checks.index("token", token, self.tokens, "tokens")
        if exact:
            with _progress.allowed(progress):
                law = _law.exact_output(self, index, seed, count, inner)
            if law is not None:
                return law
        draw = self._drawer(width, seed, max_memory, progress)
        return _law.drawn_output(self, index, width, draw, count, accuracy, inner, self._is_gaussian(width))

    def joint_law(
        self,
        tokens: Sequence[int],
        *,
        width: int | float | None = None,
        seed: int = 0,
        samples: int | None = None,
        max_memory: int = DEFAULT_MEMORY,
        progress: bool = True,
    ) -> "GaussianMixture":
        """The joint law of the outputs of several tokens, a Gaussian mixture over drawn covariances.

        Args:
            tokens: The tokens, without repetition.
            width: The width, by default that of the network.
            seed: An integer.
            samples: The number of draws of the covariance, 2^16 by default.
            max_memory: The number of bytes that the draws and the computation may take.
            progress: Whether to show a progress bar after two seconds.

        Returns:
            The law.

        Raises:
            ArgumentError: If a token is listed twice, or the list is empty.

        Example:
            >>> import numpy as np, limitlaw as ll
            >>> net = ll.Network(ll.GramInputs(np.eye(3)), ll.Attention(heads=2))
            >>> law = net.joint_law(tokens=[0, 2], width=16, samples=4096)
            >>> law.event_shape
            (2,)
        """
        width, seed, count = self._checked_for_a_law(width, seed, samples, max_memory, progress)
        if tokens is None or not np.ndim(tokens):
            raise ArgumentTypeError(
                "tokens", f"tokens={tokens!r} must be a list of tokens. For one use net.law(token=0)."
            )
        rows, _ = self._rows(tokens, "covariance", name="tokens")
        assert rows is not None
        if len(rows) < len(tokens):
            raise ArgumentError(
                "tokens", f"tokens={tokens!r} has a token twice, so there is no joint density. List each token once."
            )
        draw = self._drawer(width, seed, max_memory, progress)
        return _law.drawn_joint(self, list(rows), width, draw, count, self._is_gaussian(width))

    def score_law(
        self,
        query: int = 0,
        key: int = 0,
        *,
        width: int | float | None = None,
        seed: int = 0,
        samples: int | None = None,
        max_memory: int = DEFAULT_MEMORY,
        progress: bool = True,
    ) -> "Law":
        """The law of a score of one head in the last attention layer, before the mask.

        Args:
            query: The query token.
            key: The key token.
            width: The width, by default that of the network.
            seed: An integer.
            samples: The number of draws behind the law, where it is not exact.
            max_memory: The number of bytes that the draws and the computation may take.
            progress: Whether to show a progress bar after two seconds.

        Returns:
            The law.

        Raises:
            ArgumentError: If the network has no scores, or the score has no density.

        Example:
            >>> import limitlaw as ll
            >>> net = ll.Network(ll.Inputs(tokens=4, activation=ll.clip(100.0)), ll.Attention(heads=2))
            >>> net.score_law(query=0, key=1, width=256, samples=2**16).kurtosis().covers(0.1672, 0.999)
            True
        """
        width, seed, count = self._checked_for_a_law(width, seed, samples, max_memory, progress)
        self._layers_for("scores")
        row = _checks.index("query", query, self.tokens, "tokens")
        column = _checks.index("key", key, self.tokens, "tokens")
        law = _law.exact_score(self, row, column) if isinf(width) else None
        if law is not None:
            return law
        draw = self._drawer(width, seed, max_memory, progress)
        return _law.drawn_score(self, row, column, width, draw, count)

    def _checked_for_a_law(
        self, width: int | float | None, seed: int, samples: int | None, max_memory: int, progress: bool
    ) -> tuple[int | float, int, int | None]:
        """The width, seed and number of draws of a law, checked together with what all laws need."""
        self._refuse_traced("a law")
        _checks.boolean("progress", progress)
        memory = int(_checks.positive_integer("max_memory", max_memory))
        _checks.fitting_tokens("tokens", self.tokens, _BYTES_A_PAIR, memory)
        return self.check_width(width), _checks.seed(seed), _checked_samples(samples)

    def _drawer(self, width: int | float, seed: int, max_memory: int, progress: bool) -> Callable[..., np.ndarray]:
        """The function that draws observables for a law, of the network or of its first layers."""
        # The seed of draws at a finite width also serves the coupled draws of the limit, which control their variance.
        own = _law.seed_of(seed, width)

        def draw(count: int, *, layers: tuple[Node, ...] | None = None, **what: Any) -> np.ndarray:
            net = self if layers is None else Network(self.inputs, *layers)
            options = {"width": width, "seed": own, "max_memory": max_memory, "progress": progress, **what}
            return net.sample(count, **options)

        return draw

    def _refuse_traced(self, what: str) -> None:
        if any(map(_checks.is_traced, Traced.of((self.inputs, self.layers)).numbers)):
            raise ArgumentError(
                "layers",
                f"The network has a number that JAX traces, but {what} is computed by NumPy. Use net.draw(key), which "
                f"jax.jit, jax.vmap and jax.grad can transform.",
            )

    def _is_gaussian(self, width: int | float) -> bool:
        """Whether the Gram matrix of every stream is deterministic, so the law of the output is Gaussian."""
        return isinf(width) and all(node.is_deterministic(width) for node in self.layers)

    def check_width(self, width: int | float | None = None) -> int | float:
        """Refuse a width that the network cannot have.

        Args:
            width: The width; None for that of the network.

        Returns:
            The width, an integer or `inf`.

        Raises:
            ArgumentError: If the inputs or a layer are not defined at this width.

        Example:
            >>> import limitlaw as ll
            >>> ll.Network(ll.Inputs(tokens=4), ll.Attention(heads=8, head_dim="split")).check_width(64)
            64
        """
        width = self.width if width is None else _checks.positive_integer("width", width, infinite=True)
        self.inputs.check_width(width, mean=_gram.tracks_mean(self.inputs, self.layers))
        for layer in self.layers:
            layer.check_width(width)
        for node in self._derived_layers():
            check_declared(node, width, self.layout)
        return width

    def _derived_layers(self) -> list[Layer]:
        """The layers whose only rule is the one derived from their matrices and inner map."""
        nodes = [node for layer in self.layers for node, _ in layer.walk()]
        return [node for node in nodes if isinstance(node, Layer) and not node.has_contracted]

    def _check_finite(self, reading: str, width: int | float) -> None:
        if isinf(width):
            raise ArgumentError(
                "width", f"reading={reading!r} needs a finite width. Give width=..., or use reading='gram'."
            )
        for layer in self.layers:
            layer.check_finite(width, self.layout, reading)
        # The inner map is traced once before any work, so that its errors do not come from within a compiled program.
        for node in self._derived_layers():
            derived_rule(node, width, self.layout, Purpose())

    def _layers_for(self, observe: str) -> tuple[Node, ...]:
        """The layers that an observable depends on."""
        names = {name for layer in self.layers for node, _ in layer.walk() for name in node.observables}
        if isinstance(observe, str) and observe == "scores":  # its error names the missing layer
            return needed_layers(self.layers, observe)
        _checks.one_of("observe", observe, [*_OBSERVABLES, *sorted(names | {"scores"})])
        return needed_layers(self.layers, observe)

    @staticmethod
    def _purpose(observe: str, differentiable: bool = False) -> Purpose:
        return Purpose(frozenset() if observe in _OBSERVABLES else frozenset({observe}), differentiable)

    def _rows(
        self, token: int | Sequence[int] | None, observe: str, name: str = "token"
    ) -> tuple[tuple[int, ...] | None, Callable[[Any], Any]]:
        """The tokens to compute, without repetition (None for all), and a function from their draws to the result."""
        if token is not None and observe not in ("output", "covariance", *BY_TOKEN):
            what = "is the Gram matrix of all tokens" if observe == "gram" else "is always returned for all tokens"
            raise ArgumentError(
                name, f"{name}={token!r} cannot be combined with observe={observe!r}, which {what}. Leave {name} out."
            )
        if token is None:
            if observe != "output":
                return None, lambda draws: draws
            token = 0
        if isinstance(token, int | np.integer) and not isinstance(token, bool):
            only = _checks.index(name, token, self.tokens, "tokens")
            axes = {"output": (1,), "covariance": (1, 2)}.get(observe, (2,))
            return (only,), lambda draws: draws.squeeze(axes)
        if not isinstance(token, Sequence | np.ndarray) or isinstance(token, str) or np.ndim(token) != 1:
            raise ArgumentTypeError(name, f"{name}={token!r} must be an integer, or a list of them.")
        # Each token is computed once, and repetitions in the list are copied from the draws.
        tokens = [_checks.index(name, t, self.tokens, "tokens") for t in token]
        if not tokens:
            raise ArgumentError(name, f"{name}={token!r} is empty. Give at least one token.")
        rows = tuple(dict.fromkeys(tokens))
        index = np.array([rows.index(t) for t in tokens])
        if len(rows) == len(tokens):
            return rows, lambda draws: draws
        if observe == "output":
            return rows, lambda draws: draws[:, index]
        if observe == "covariance":
            return rows, lambda draws: draws[:, index][:, :, index]
        return rows, lambda draws: draws[:, :, index]


_BYTES_A_PAIR = 32  # bytes for each pair of tokens: four matrices in double precision on the host
_FINEST = 1e-6  # smallest accuracy of a law: the limit of 2^22 draws reaches no less for any network


def _checked_key(key: Any) -> PRNGKeyArray:
    """One threefry key, as `jax.random.key` or `jax.random.PRNGKey` make it."""
    if isinstance(key, jax.Array) and key.dtype == np.uint32 and key.shape == (2,):
        return jax.random.wrap_key_data(key, impl="threefry2x32")
    is_key = isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    if not is_key or key.shape or str(jax.random.key_impl(key)) not in ("fry", "threefry2x32"):
        raise ArgumentTypeError(
            "key", "key must be one key of jax.random.key(seed). For several draws use jax.vmap over several keys."
        )
    return key


def _checked_samples(samples: int | None) -> int | None:
    if samples is None:
        return None
    if _checks.positive_integer("samples", samples) < 2:
        raise ArgumentError("samples", f"samples={samples!r} must be at least 2, so that there is a standard error.")
    return int(samples)


def _refuse_zero_tokens(inputs: InputLayer, layers: tuple[Node, ...]) -> None:
    """Raise if a norm without `eps` meets a token that is zero in every draw."""
    # A first LayerNorm also fails on tokens whose coordinates are all equal, as they are zero once centred. Later
    # layers write random coordinates, which are not constant.
    zero = np.array(inputs.zero_tokens())
    active = np.ones(len(zero), bool)
    first = layers[0] if layers else None
    if isinstance(first, RowMap) and first.centres:
        first.zero_tokens(np.array(inputs.zero_tokens(centred=True)), active, inputs.layout)
    zero_after(layers, zero, active, inputs.layout)
