"""Distances between integer positions are exact."""

import jax.numpy as jnp
import numpy as np
import pytest

from jrope.exact import distance


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64])
def test_distance_is_exact(dtype):
    info = np.iinfo(np.int32 if dtype is np.int64 else dtype)
    positions = np.array([info.min, info.min + 1, info.max // 2, info.max - 1, info.max], dtype)
    other = jnp.asarray(positions) if dtype is np.int32 else positions
    got, after = distance(positions, other)
    wide = positions.astype(object)
    np.testing.assert_array_equal(got, np.abs(wide[:, None] - wide[None]).astype(np.uint32))
    np.testing.assert_array_equal(after, positions[None] > positions[:, None])


def test_distance_of_mixed_wide_and_fractional_positions():
    got, after = distance(jnp.array([-1], jnp.int32), jnp.array([2**32 - 1], jnp.uint32))
    assert (int(got[0, 0]), bool(after[0, 0])) == (2**32 - 1, True)  # saturated: it is 2^32
    got, after = distance(np.array([2**40]), np.array([2**40 - 3, 0]))
    assert got.tolist() == [[3, 2**32 - 1]]
    got, after = distance(jnp.array([0.5]), jnp.array([2.0]))
    assert (float(got[0, 0]), bool(after[0, 0])) == (1.5, True)
