"""ALiBi."""

import jax.numpy as jnp
import numpy as np
import pytest
from golden_values import VALUES

import jrope


@pytest.mark.parametrize("heads", sorted(VALUES["alibi_slopes"], key=int))
def test_golden_slopes(heads):
    """mlx#343, TensorRT-LLM PR#1611, transformers PR#28380: wrong where the number of heads is no power of two."""
    np.testing.assert_allclose(jrope.alibi_slopes(int(heads)), VALUES["alibi_slopes"][heads], rtol=1e-6)


def test_bias_is_minus_slope_times_distance():
    bias = jrope.alibi(jnp.array([2, 5]), jnp.array([0, 5, 9]), num_heads=2)
    assert bias.shape == (2, 2, 3)
    assert bias.dtype == jnp.float32
    np.testing.assert_allclose(bias[0], -np.array([[2, 3, 7], [5, 0, 4]]) / 16)


def test_a_row_of_a_decoding_step_is_the_last_row_of_the_whole():
    """keras-hub PR#2862, vllm PR#945: the bias of one query was all zero."""
    whole = jrope.alibi(jnp.arange(7), jnp.arange(7), num_heads=4)
    np.testing.assert_array_equal(jrope.alibi(jnp.array([6]), jnp.arange(7), num_heads=4), whole[:, -1:])


def test_batched_positions():
    positions = jnp.array([[0, 1, 2], [5, 6, 9]])
    bias = jrope.alibi(positions, positions, num_heads=2)
    assert bias.shape == (2, 2, 3, 3)
    np.testing.assert_array_equal(bias[1], jrope.alibi(positions[1], positions[1], num_heads=2))


def test_no_heads():
    with pytest.raises(ValueError, match="at least 1, got 0"):
        jrope.alibi_slopes(0)
