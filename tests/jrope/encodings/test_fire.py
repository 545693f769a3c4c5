"""FIRE's network."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jrope

SIZES = {"features": 8, "num_heads": 4, "head_dim": 2, "num_layers": 1}
PARAMS = jrope.Fire().init(jax.random.key(1), **SIZES)
bias = jax.jit(lambda q, k: jrope.fire(PARAMS, q, k, threshold=8.0))


def test_fire_is_its_formula():
    made = bias(jnp.array([3, 50]), jnp.array([0, 3]))
    f = {name: np.asarray(p, np.float64) for name, p in PARAMS.items()}
    for t, (q, denominator) in enumerate(((3, 8), (50, 50))):
        x = np.log1p(0.1 * np.abs(q - np.array([0, 3]))) / np.log1p(0.1 * denominator)
        hidden = np.maximum(x[:, None] * f["hidden_kernel"] + f["hidden_bias"], 0)
        want = hidden @ f["out_kernel"] + f["out_bias"]
        np.testing.assert_allclose(made[:, t].T, want, atol=1e-5)


def test_fire_interpolates_any_length_into_the_trained_range():
    """The farthest key of every query past the threshold has distance 1, and the nearest 0."""
    want = bias(jnp.array([8]), jnp.array([0, 8]))
    for q in (1000, 10**6):
        np.testing.assert_allclose(bias(jnp.array([q]), jnp.array([0, q])), want, atol=1e-5)


@pytest.mark.parametrize("field", ["hidden", "c", "threshold"])
def test_bad_fields(field):
    wanted = "at least 1" if field == "hidden" else "positive and finite"
    with pytest.raises(ValueError, match=f"Fire: {field} must be {wanted}, got 0"):
        jrope.Fire(**{field: 0})
