"""Log-n scaling: nothing within the trained length, and the ratio of logarithms past it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jrope


def test_the_formula():
    positions = np.array([0, 1, 99, 100, 9_999])
    want = [1, 1, 1, np.log(101) / np.log(100), 2]
    got = jax.jit(lambda p: jrope.log_n(p, original_length=100))(positions)
    np.testing.assert_allclose(got, want, rtol=1e-6)
    assert got.dtype == jnp.float32


def test_scores_of_a_query_are_multiplied():
    encoding, positions = jrope.LogN(4), jnp.array([2, 15])
    assert encoding.query_scale({}, positions).tolist() == pytest.approx([1, 2])
    both = jrope.Chain((encoding, jrope.Rope(), encoding))
    np.testing.assert_allclose(both.query_scale({}, positions), [1, 4], rtol=1e-6)
    assert jrope.Chain((jrope.Rope(),)).query_scale({}, positions) is None


def test_bad_lengths():
    for call in (lambda: jrope.LogN(1), lambda: jrope.log_n(jnp.arange(3), original_length=1)):
        with pytest.raises(ValueError, match="original_length must be at least 2, got 1"):
            call()
