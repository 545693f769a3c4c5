"""Sandwich's own values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jrope


def test_sandwich_is_a_compressed_sum_of_cosines():
    """NeMo once summed distances without their cosine. A far distance must be exact."""
    far = np.array([3, 2**31 - 8, 0])
    options = {"num_heads": 4, "dim": 64, "base": 1000.0}
    bias = jax.jit(lambda q, k: jrope.sandwich(q, k, **options))(far, np.array([0]))
    angles = far[:, None].astype(np.float64) * 1000.0 ** (-2 * np.arange(1, 33) / 64)
    want = (np.cos(angles).sum(-1) - 32) / (np.arange(1, 5) * 8 / 4)[:, None]
    np.testing.assert_allclose(bias[:, :, 0], want, atol=2e-6)
    np.testing.assert_array_equal(bias[:, 2], 0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_heads": 0}, "num_heads.*got 0"),
        ({"num_heads": 1, "dim": 3}, "dim must be an even.*got 3"),
        ({"num_heads": 1, "base": -1.0}, "base must be positive and finite, got -1"),
    ],
)
def test_bad_input(options, words):
    with pytest.raises(ValueError, match=words):
        jrope.sandwich(jnp.arange(2), jnp.arange(2), **options)
    options.pop("num_heads")
    if options:
        with pytest.raises(ValueError, match=f"Sandwich: {words}"):
            jrope.Sandwich(**options)
