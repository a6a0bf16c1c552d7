import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats
from same_law import FALSE_ALARM, assert_mean

from limitlaw.numerics import Streams

MASK = 0xFFFFFFFF


def reference(state, count):
    """xoshiro128++ as its authors write it, on Python's integers."""

    def rotl(x, k):
        return ((x << k) | (x >> (32 - k))) & MASK

    s, out = list(state), []
    for _ in range(count):
        out.append((rotl((s[0] + s[3]) & MASK, 7) + s[0]) & MASK)
        t = (s[1] << 9) & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotl(s[3], 11)
    return out


def test_bits_are_those_of_the_published_generator():
    # the test vector that implementations share: state 1, 2, 3, 4
    known = [641, 1573767, 3222811527, 3517856514, 836907274, 4247214768, 3867114732, 1355841295, 495546011, 621204420]
    assert reference((1, 2, 3, 4), 10) == known
    streams, words = Streams(*(jnp.array([k, 7 * k + 1], jnp.uint32) for k in (1, 2, 3, 4))), []
    for _ in range(10):
        streams, bits = streams.bits()
        words.append(np.asarray(bits))
    assert np.array(words)[:, 0].tolist() == known
    assert np.array(words)[:, 1].tolist() == reference([7 * k + 1 for k in (1, 2, 3, 4)], 10)


def test_normals_are_the_quantiles_of_their_bits():
    streams = Streams.start(jax.random.key(3), (4, 50_000))
    _, bits = streams.bits()
    _, normals = streams.normals()
    truth = scipy.stats.norm.ppf(((np.asarray(bits) >> 9) + 0.5) / 2**23)
    assert np.abs(np.asarray(normals, np.float64) / truth - 1).max() < 2e-5


def test_lanes_and_steps_are_independent_normals():
    """Along a stream and across streams; products and products of positive parts, which make up a Gram matrix."""
    streams, rows = Streams.start(jax.random.key(5), (4, 60_000)), []
    for _ in range(30):
        streams, z = streams.normals()
        rows.append(np.asarray(z, np.float64))
    z = np.stack(rows)  # (steps, 4, lanes)
    assert scipy.stats.kstest(z.ravel(), "norm").pvalue > FALSE_ALARM
    assert_mean(z.ravel() ** 2, 1.0)
    assert_mean(z.ravel() ** 4, 3.0, catches=1.03)
    positive = np.maximum(z, 0)
    half = 1 / (2 * np.pi)
    for first, second in (
        (positive[:, 0], positive[:, 1]),  # tokens
        (positive[:, 2], positive[:, 3]),
        (positive[:-1], positive[1:]),  # steps
        (positive[..., :-1], positive[..., 1:]),  # draws
    ):
        assert_mean((first * second).ravel(), half, catches=1.03)
