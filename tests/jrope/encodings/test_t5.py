"""T5's buckets."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from golden_values import VALUES

import jrope
from jrope.encodings.t5 import thresholds

OPTIONS = ("buckets", "max_distance", "bidirectional")
t5 = jax.jit(jrope.t5, static_argnames=OPTIONS[1:])
t5_bucket = jax.jit(jrope.t5_bucket, static_argnames=OPTIONS)


@pytest.mark.parametrize("name", VALUES["t5_bucket_thresholds"])
def test_golden_thresholds(name):
    """The float32 logarithm of the usual code rounds at distances such as 8 * 16^(1/2)."""
    words = (word.strip(",") for word in name.split())
    buckets, max_distance = (int(word) for word in words if word.isdigit())
    golden = VALUES["t5_bucket_thresholds"][name]
    assert list(thresholds(buckets, max_distance)) == golden
    distances = np.arange(2 * max_distance)
    want = np.searchsorted(golden, distances, side="right") - 1
    one = {"max_distance": max_distance, "buckets": buckets}
    two = {"max_distance": max_distance, "buckets": 2 * buckets, "bidirectional": True}
    np.testing.assert_array_equal(t5_bucket(-distances, **one), want)
    np.testing.assert_array_equal(t5_bucket(-distances, **two), want)
    after = want + np.where(distances > 0, buckets, 0)
    np.testing.assert_array_equal(t5_bucket(distances, **two), after)
    assert int(t5_bucket(jnp.int32(-(2**31)), **one)) == buckets - 1


def test_t5_looks_up_key_minus_query():
    table = jnp.arange(8.0)[:, None]
    positions = jnp.arange(4)
    causal = t5(table, positions, positions, max_distance=20)[0]
    np.testing.assert_array_equal(causal, [[0, 0, 0, 0], [1, 0, 0, 0], [2, 1, 0, 0], [3, 2, 1, 0]])
    both = t5(table, positions, positions, max_distance=20, bidirectional=True)[0]
    np.testing.assert_array_equal(both[0, :3], [0, 5, 6])
    np.testing.assert_array_equal(both[:3, 0], [0, 1, 2])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"buckets": 1}, "buckets must be at least 2, got 1"),
        ({"buckets": 5, "bidirectional": True}, "even and at least 4.*got 5"),
        ({"max_distance": 16}, "max_distance must be above 16.*got 16"),
    ],
)
def test_bad_input(options, words):
    for call in (lambda **o: jrope.t5_bucket(jnp.arange(2), **o), jrope.T5):
        with pytest.raises(ValueError, match=words):
            call(**options)


def test_fractional_positions_have_no_bucket():
    with pytest.raises(TypeError, match="integers, got float32"):
        jrope.t5_bucket(jnp.array([0.5]))
