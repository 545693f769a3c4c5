"""Position interpolation."""

import jax
import numpy as np

import jrope


def test_linear_is_dividing_positions():
    x, start = jax.random.normal(jax.random.key(0), (4, 1, 8)), jrope.spectrum(8)
    positions, rotate = np.array([0, 4, 8, 4000]), jax.jit(jrope.rotate)
    got, want = rotate(x, positions, jrope.Linear(4.0)(start)), rotate(x, positions // 4, start)
    np.testing.assert_allclose(got, want, atol=1e-6)
