"""A model along its depth: its observables block by block, what stands out in them in words, and genuine models to compare with."""

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isinf
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri, stdtr

from ..networks import MLP, Attention, LayerNorm, Network, Readout, Repeat, Residual, RMSNorm, Trajectory
from ._config import FAMILIES

_ROUNDING = 1e-6  # relative: of float32, after some operations

_COLLAPSED = 0.99  # a mean cosine from which the tokens are one
_MOVED = 0.1  # a change of the mean cosine that is worth a word
_UNIFORM = 0.97  # of the largest entropy: attention averages
_SELECTIVE = 0.8  # it prefers some keys
_ONE_HOT = 0.3  # it picks one
_GROWN = 1.5  # a factor of the variance that is worth a word
_FIRST_BLOCK = 4.0  # a factor by which one block drowns the input
_UNEQUAL = 10.0  # a ratio of variances between tokens at the input
_FITS = 0.99  # a coefficient of determination from which a law of growth is named
_LEAST_BLOCKS = 4  # from which a law of growth can be told
_TAILS = 2.0  # a multiple of 6/n from which the kurtosis is more than that of n coordinates
_ENOUGH_DRAWS = 50  # that have a say in an average
_NOT_GAUSSIAN = 0.01  # an excess kurtosis at infinite width that is worth a word


def observations(trajectory: Trajectory, net: Network) -> list[str]:
    """What stands out along the depth of a network, a sentence each: collapse of the tokens, attention that averages or picks, growth
    of the variance, tails, tokens that see only themselves. Empty if nothing does.

    !!! Example

        >>> import numpy as np, limitlaw as ll
        >>> from limitlaw.models import observations
        >>> net = ll.Network(ll.GramInputs(np.eye(3)), ll.Repeat(6, ll.Attention()))
        >>> print(observations(net.trajectory(500, width=64), net)[0])
        Rank collapse: from block 2 on the mean cosine between tokens is above 0.99 (effective rank 1.00 of 3 at the end).
    """
    lost = ~np.isfinite(trajectory.gram).all(axis=(0, 2, 3))
    if lost.any():
        block = int(np.argmax(lost))
        return [
            f"The stream grows beyond what single precision holds by block {block}, and nothing is known from there on: add a norm, or make the skip or the gains smaller."
        ]
    rare = _rare(trajectory)
    found = [
        _collapse(trajectory),
        _attention(trajectory),
        rare or _variance(trajectory, net),
        _unequal_tokens(trajectory),
        None if rare else _tails(trajectory, net),
        None if rare else _alone(trajectory, net),
    ]
    return [sentence for sentence in found if sentence]


def _collapse(t: Trajectory) -> str | None:
    """Whether the tokens become alike."""
    if t.tokens == 1:
        return None
    cosine, rank = t.summary()["cosine"][0], t.effective_rank
    if cosine[-1] > _COLLAPSED:
        start = _from(cosine > _COLLAPSED)
        where = "From the input on" if start == 0 else f"Rank collapse: from block {start} on"
        return (
            f"{where} the mean cosine between tokens is above {_COLLAPSED} (effective rank {rank[-1]:.2f} of {t.tokens} "
            f"at the end)."
        )
    if abs(cosine[-1] - cosine[0]) < _MOVED:
        return None
    half = int(np.argmax(np.abs(cosine - cosine[0]) >= abs(cosine[-1] - cosine[0]) / 2))
    return (
        f"Tokens draw {'together' if cosine[-1] > cosine[0] else 'apart'}: mean cosine {cosine[0]:z.2f} at the input, "
        f"{cosine[-1]:z.2f} at the end, half of the way by block {half}; effective rank {rank[0]:.1f} to {rank[-1]:.1f} "
        f"of {t.tokens}."
    )


def _attention(t: Trajectory) -> str | None:
    """Whether heads average, pick, or something in between."""
    if not any((keys > 1).any() for keys in t.keys_in_sight):
        return None
    share = t.summary()["uniformity"][0]
    blocks = np.flatnonzero(~np.isnan(share))
    share = share[blocks]
    sharp = blocks[share < _ONE_HOT]
    if share.min() > _UNIFORM:
        return (
            f"Attention is uniform: its entropy is at least {np.floor(1000 * share.min()) / 10:.1f}% of the largest in every block, so heads "
            f"average over all they see and pick out nothing yet."
        )
    if len(sharp):
        return (
            f"Attention is nearly one-hot in {_listed(sharp, t.blocks)}: its entropy is down to {100 * share.min():.2g}% of the "
            f"largest, so a head passes on about one token."
        )
    if share[-1] > _UNIFORM:
        return (
            f"Attention becomes uniform: from block {blocks[_from(share > _UNIFORM)]} on its entropy is above {100 * _UNIFORM:.0f}% of "
            f"the largest, so heads average over all they see."
        )
    if share.min() < _SELECTIVE:
        seen, keys = np.exp(t.entropies[-1][:, :, -1].mean(dtype=np.float64)), t.keys_in_sight[-1][-1]
        return (
            f"Attention is selective: its entropy is {_range(100 * share, '.0f')}% of the largest; the last token looks "
            f"at about {seen:.1f} of {keys} keys in the last block."
        )
    return None


def _rare(t: Trajectory) -> str | None:
    """Whether averages over networks are those of a few of them: if `log v` has the variance `s2`, of the order of one in `exp(2 s2)` draws has a say in them."""
    last = t.gram[:, -1, -1, -1].astype(np.float64)
    spread = np.log(last[last > 0]).std() if (last > 0).any() else 0.0
    if np.expm1(2 * spread**2) < t.samples / _ENOUGH_DRAWS:
        return None
    return (
        f"Few networks decide the averages: from one to the next the variance of the last token differs by factors of {_about(np.exp(spread))}, "
        f"so that {t.samples} draws mostly show too small a variance and kurtosis, with errors that are too small; draw many more, or add a norm."
    )


def _variance(t: Trajectory, net: Network) -> str | None:
    """Whether the variance of the last token grows or falls, and by which law."""
    variance = t.variance[:, -1]
    if _is_fixed(t, net):
        return (
            f"Every block ends in a norm, which holds the variance of every token at {_about(variance[-1])}: a read-out of one "
            f"token is Gaussian at every depth, and what happens is seen in cosines."
        )
    if variance[0] <= 0 or variance[-1] <= 0 or 1 / _GROWN < variance[-1] / variance[0] < _GROWN:
        return None
    law = _growth(variance[1:])
    if variance[-1] < variance[0]:
        text = f"Variance falls to {_percent(variance[-1] / variance[0])} of the input's"
        return f"{text}{law and f', {law}'}: the signal fades."
    text = (
        f"Variance grows {_fold(variance[-1] / variance[0])}-fold, from {_about(variance[0])} to {_about(variance[-1])}"
    )
    text += f", {law}" if law else ""
    if variance[1] / variance[0] < _FIRST_BLOCK or t.blocks == 1:
        return f"{text}."
    text += f"; block 1 alone makes it {_fold(variance[1] / variance[0])} times as large"
    if not _keeps_input(net):
        return f"{text}."
    return (
        f"{text}, so that the input is {_percent(variance[0] / variance[1])} of the stream after it, "
        f"{_percent(variance[0] / variance[-1])} at the end."
    )


def _growth(variance: np.ndarray) -> str:
    """A law that the variance follows from the first block on; empty if none fits, or none can be told."""
    if len(variance) < _LEAST_BLOCKS or variance.min() <= 0 or 1 / _GROWN < variance[-1] / variance[0] < _GROWN:
        return ""
    block = np.arange(len(variance))
    slope, rate = np.polyfit(block, variance, 1)[0], np.polyfit(block, np.log(variance), 1)[0]
    fit = {
        f"linearly in depth ({_about(slope, '+.3g')} a block)": np.corrcoef(block, variance)[0, 1] ** 2,
        f"exponentially in depth (times {_about(np.exp(rate))} a block)": np.corrcoef(block, np.log(variance))[0, 1]
        ** 2,
    }
    best = max(fit, key=lambda law: fit[law])
    return best if fit[best] > _FITS else ""


def _unequal_tokens(t: Trajectory) -> str | None:
    """Whether tokens enter with very different variances."""
    first, last = t.variance[0], t.variance[-1]
    small, large = int(first.argmin()), int(first.argmax())
    if first[large] < _UNEQUAL * first[small] or t.blocks == 0:
        return None
    return (
        f"Tokens enter with unequal variances: {_about(first[small])} (token {small}) to {_about(first[large])} (token {large}); "
        f"at the end they have {_about(last[small])} and {_about(last[large])}."
    )


def _tails(t: Trajectory, net: Network) -> str | None:
    """How far the last token is from Gaussian, and whether its width explains it."""
    if _is_fixed(t, net):
        return None
    kurtosis, error = t.kurtosis[-1, -1], t.error("kurtosis")[-1, -1]
    after = " The final norm removes it from a single token." if _ends_in_norm(net) else ""
    if isinf(t.width):
        if kurtosis < _NOT_GAUSSIAN:
            return None
        return (
            f"Tails: the excess kurtosis of the last token is {_about(kurtosis)} at the end, at infinite width.{after}"
        )
    own, layers = 6 / t.width, _random_layers(net)
    deep = 3 * ((1 + 2 / t.width) ** (2 * layers) - 1)  # of two matrices in each, without skips and norms
    found = f"the last token ends with an excess kurtosis of {_with_error(kurtosis, error)}"
    if kurtosis < _TAILS * own:
        return (
            f"Close to Gaussian: {found}, {'less than' if kurtosis < own / _TAILS else 'about'} the 6/n = {_about(own)} that any "
            f"{t.width} Gaussian coordinates have."
        )
    if kurtosis - 3 * error < deep:
        return (
            f"Tails from finite width: {found}, {_fold(kurtosis / own)} times 6/n; {layers} layers at this width can bring "
            f"{_about(deep)} by themselves.{after}"
        )
    return (
        f"Tails: {found}, more than the {_about(deep)} that {layers} layers at this width can bring by themselves, so the "
        f"randomness of attention is seen.{after}"
    )


def _random_layers(net: Network) -> int:
    """How many attention and perceptron layers there are."""
    return sum(count for top in net.layers for layer, count in top.walk() if isinstance(layer, Attention | MLP))


def _alone(t: Trajectory, net: Network) -> str | None:
    """Whether a token sees itself alone, as the first of a causal model does."""
    if not t.keys_in_sight:
        return None
    alone = np.all([keys == 1 for keys in t.keys_in_sight], axis=0)
    if not alone.any() or alone.all():
        return None
    token = int(alone.argmax())
    text = f"Token {token} sees only itself, so no attention score enters its law"
    if _is_fixed(t, net):
        return f"{text}."
    if isinf(t.width):
        return f"{text}: its variance is deterministic, and it is Gaussian at every depth."
    own, last = (_with_error(t.kurtosis[-1, i], t.error("kurtosis")[-1, i]) for i in (token, -1))
    return f"{text}: its excess kurtosis at the end, {own}, is finite width alone (last token {last})."


def _is_fixed(t: Trajectory, net: Network) -> bool:
    """Whether norms at the ends of the blocks hold every token at one variance."""
    ends = all(block and isinstance(block[-1], LayerNorm | RMSNorm) for block in _bodies(net))
    return (
        ends and t.blocks > 0 and bool(np.ptp(t.gram.diagonal(axis1=2, axis2=3)[:, 1:]) < 1e-3 * t.variance[-1].max())
    )


def _keeps_input(net: Network) -> bool:
    """Whether the stream is the input plus what branches add to it."""
    return all(isinstance(part, Residual) and part.skip == 1 for block in _bodies(net) for part in block)


def _bodies(net: Network) -> list[tuple[Any, ...]]:
    """The layers of each block, those that are repeated once."""
    layers = [layer for layer in net.layers if not isinstance(layer, Readout)]
    return [layer.layers if isinstance(layer, Repeat) else (layer,) for layer in layers]


def _ends_in_norm(net: Network) -> bool:
    last = net.layers[-1] if net.layers else None
    return isinstance(last, Readout) and bool(last.layers) and isinstance(last.layers[-1], LayerNorm | RMSNorm)


def _from(holds: np.ndarray) -> int:
    """Since when something holds that holds at the end."""
    return len(holds) - int(np.argmin(holds[::-1])) if not holds.all() else 0


def _listed(blocks: np.ndarray, count: int) -> str:
    if len(blocks) == count > 1:
        return "every block"
    if len(blocks) == 1:
        return f"block {blocks[0]}"
    if len(blocks) == blocks[-1] - blocks[0] + 1:
        return f"blocks {blocks[0]} to {blocks[-1]}"
    return f"{len(blocks)} of {count} blocks, {blocks[0]} the first"


def _range(values: np.ndarray, spec: str) -> str:
    low, high = f"{values.min():{spec}}", f"{values.max():{spec}}"
    return low if low == high else f"{low} to {high}"


def _about(value: float, spec: str = ".3g") -> str:
    """Three digits."""
    if 0 < abs(value) < 1e-3:
        spec = spec.replace(".3g", ".2e")
    mantissa, _, exponent = f"{value:{spec}}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def short(value: float, error: float) -> tuple[str, str]:
    """A value and its standard error as short text: one digit of the error, and the digits of the value that it leaves.

    !!! Example

        >>> from limitlaw.models._inspection import short
        >>> short(0.006797, 2.3e-5), short(189.42, 0.47), short(1.0, 1e-9), short(7.1e-6, 2e-7)
        (('0.00680', '2e-5'), ('189.4', '0.5'), ('1', ''), ('7.1e-6', '2e-7'))
    """
    if np.isnan(value):
        return "", ""
    if abs(value) < _ROUNDING**2:
        return "0", ""
    if error < _ROUNDING * abs(value):
        return f"{value:.4g}", ""
    error = float(f"{error:.0e}")
    place, size = (int(np.floor(np.log10(x))) for x in (error, max(abs(value), error)))
    if size >= 6 or (size < -3 and place < -5):
        return _scientific(value, max(size - place, 0)), _scientific(error, 0)
    shown = f"{error:.0f}" if place >= 0 else f"{error:.{-place}f}" if place > -3 else _scientific(error, 0)
    return f"{value:.{max(-place, 0)}f}", shown


def _scientific(value: float, digits: int) -> str:
    mantissa, exponent = f"{value:.{digits}e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def _with_error(value: float, error: float) -> str:
    return " ± ".join(part for part in short(value, error) if part)


def _percent(share: float) -> str:
    return f"{_about(100 * float(f'{share:.2g}'))}%"


def _fold(factor: float) -> str:
    if factor < 1000:
        return f"{float(f'{factor:.3g}'):,.3g}"
    return f"{float(f'{factor:.2g}'):,.0f}" if factor < 1e7 else f"{factor:.2g}"


_CLASSES = {"bert": "Bert", "gpt2": "GPT2", "llama": "Llama", "vit": "ViT"}
_MOST_BYTES = 2**32  # of the weights of a genuine model


def genuine(
    config: Mapping[str, Any],
    tokens: Any,
    models: int,
    *,
    width: int | None = None,
    depth: int | None = None,
    seed: int = 0,
    progress: Callable[[Sequence[int]], Iterator[int]] = iter,
) -> Trajectory:
    """The trajectory of `models` models that transformers builds and initialises from a configuration, on the same tokens.

    Needs torch and transformers, a configuration as a dict and one sequence of ids (or one image) that `from_config` accepts; `progress` goes round the loop over models.

    !!! Example

        >>> import numpy as np
        >>> from limitlaw.models import genuine
        >>> config = {"model_type": "gpt2", "n_embd": 64, "n_head": 2, "n_layer": 1, "vocab_size": 10}
        >>> t = genuine(config, [1, 2, 3], models=50)
        >>> t.blocks, bool(np.allclose(t.variance[0], 2 * 0.02**2, rtol=0.2))  # words and positions
        (1, True)
    """
    torch, make = _maker(config, width, depth)
    model = make().eval()
    blocks = _blocks_of(torch, model)
    seen: list[np.ndarray] = []

    def gram(x: Any) -> None:
        x = x[0].double()
        seen.append((x @ x.T / x.shape[1]).numpy())

    hooks = [blocks[0].register_forward_pre_hook(lambda module, args: gram(args[0]))]
    hooks += [
        block.register_forward_hook(
            lambda module, args, output: gram(output[0] if isinstance(output, tuple) else output)
        )
        for block in blocks
    ]
    if config["model_type"] == "vit":
        inputs = {"pixel_values": torch.tensor(np.asarray(tokens, np.float32))[None]}
    else:
        inputs = {"input_ids": torch.tensor(tokens)[None], "use_cache": False}
    grams, entropies, sights = [], [], []
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for _ in progress(range(models)):
            _redraw(model)
            seen.clear()
            attentions = model(**inputs, output_attentions=True).attentions
            weights = np.stack([attention[0].double().numpy() for attention in attentions])
            grams.append(np.stack(seen))
            entropies.append(-(weights * np.log(weights, out=np.zeros_like(weights), where=weights > 0)).sum(axis=-1))
            sights.append(weights.any(axis=1))
    for hook in hooks:
        hook.remove()
    if models > 1 and np.array_equal(grams[0], grams[1]):
        raise RuntimeError("transformers did not draw new weights; this version of it is not supported by the check.")
    keys = np.any(sights, axis=0).sum(axis=-1)
    return Trajectory(
        np.stack(grams),
        tuple(np.stack(entropies, axis=1)),
        tuple(range(1, len(blocks) + 1)),
        model.config.hidden_size,
        tuple(keys),
    )


def require_genuine(config: Mapping[str, Any], width: int | None = None, depth: int | None = None) -> None:
    """Refuse where torch or transformers is missing, or a model is too large to build."""
    torch, make = _maker(config, width, depth)
    with torch.device("meta"):
        size = sum(weight.numel() * weight.element_size() for weight in make().parameters())
    if size > _MOST_BYTES:
        raise ValueError(
            f"--check: the weights of one genuine model take {size / 2**30:.3g} GiB, more than the {_MOST_BYTES / 2**30:.3g} "
            f"allowed; check a smaller one, with --width and --depth."
        )


def _maker(config: Mapping[str, Any], width: int | None, depth: int | None) -> tuple[Any, Callable[[], Any]]:
    """torch, and what makes a model of transformers whose attention shows its weights."""
    try:
        torch, transformers = (importlib.import_module(name) for name in ("torch", "transformers"))
    except ImportError as error:
        raise ValueError(
            f'--check: genuine models need {error.name}, which is not installed; run pip install "limitlaw[torch]", or leave '
            f"--check out."
        ) from None
    transformers.logging.set_verbosity_error()  # about tokens that a small vocabulary lacks
    kind = config["model_type"]
    family = FAMILIES[kind]
    own = {key: value for key, value in config.items() if key not in family.aliases}
    used = family.settings(config, width, depth).values
    known = {key: value for key, value in used.items() if value is not None or key in own}
    full = getattr(transformers, f"{_CLASSES[kind]}Config").from_dict({**own, **known})
    full._attn_implementation = "eager"
    options = {"add_pooling_layer": False} if kind in ("bert", "vit") else {}
    return torch, lambda: getattr(transformers, f"{_CLASSES[kind]}Model")(full, **options)


def _blocks_of(torch: Any, model: Any) -> Sequence[Any]:
    """The blocks of a model: its longest list of modules that is not within another."""
    depth = model.config.num_hidden_layers
    return next(part for part in model.modules() if isinstance(part, torch.nn.ModuleList) and len(part) == depth)


def _redraw(model: Any) -> None:
    """All weights of a model afresh, by its own initialiser, which passes over modules that are marked as initialised."""
    for module in model.modules():
        module._is_hf_initialized = False
    model.init_weights()


@dataclass(frozen=True)
class Agreement:
    """Two trajectories side by side: for each quantity, the values of both after each block, and z-scores.

    A z-score has the p-value of Student's test with a pooled variance: if the laws are one, so are their variances, and it is exact
    for a few draws too. NaN where there is nothing to compare: a block without attention, or numbers that are equal in every draw.
    """

    first: Mapping[str, tuple[np.ndarray, np.ndarray]]
    second: Mapping[str, tuple[np.ndarray, np.ndarray]]
    z: Mapping[str, np.ndarray]

    @property
    def count(self) -> int:
        """How many z-scores there are."""
        return int(sum(np.sum(~np.isnan(z)) for z in self.z.values()))

    @property
    def largest(self) -> tuple[str, int]:
        """Quantity and block of the largest z-score."""
        size = {name: np.nan_to_num(np.abs(z), nan=-1.0) for name, z in self.z.items()}
        name = max(size, key=lambda name: size[name].max())
        return name, int(size[name].argmax())

    @property
    def p(self) -> float:
        """The chance of a z-score as large as the largest, at most: by Bonferroni."""
        name, block = self.largest
        return min(1.0, self.count * 2 * float(ndtr(-abs(self.z[name][block])))) if self.count else 1.0


def compared(first: Trajectory, second: Trajectory) -> Agreement:
    """Variance, cosine and entropy of two trajectories after each block."""
    ours, theirs = (
        {name: found[name] for name in ("variance", "cosine", "entropy")}
        for found in (first.summary(), second.summary())
    )
    z = {name: _z(*ours[name], *theirs[name], first.samples, second.samples) for name in ours}
    return Agreement(ours, theirs, z)


def _z(a: np.ndarray, a_error: np.ndarray, b: np.ndarray, b_error: np.ndarray, a_size: int, b_size: int) -> np.ndarray:
    """Student's t with a pooled variance, as the normal that has its p-value; NaN where both sides are one number, up to rounding."""
    freedom = a_size + b_size - 2
    squares = (a_size - 1) * a_size * a_error**2 + (b_size - 1) * b_size * b_error**2
    error = np.sqrt(squares / freedom * (1 / a_size + 1 / b_size))
    fixed = error <= _ROUNDING * np.abs(a)
    equal = fixed & (np.abs(a - b) <= 10 * _ROUNDING * np.abs(a))
    t = (a - b) / np.where(fixed, 1.0, error)
    tail = stdtr(freedom, -np.abs(t))
    z = np.where(tail > 0, -ndtri(np.maximum(tail, 1e-300)), np.abs(t)) * np.sign(t)
    return np.where(equal, np.nan, np.where(fixed, np.inf, z))
