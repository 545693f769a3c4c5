"""ALiBi's own values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from golden_values import VALUES

import jrope

alibi = jax.jit(jrope.alibi, static_argnames="num_heads")


@pytest.mark.parametrize("heads", sorted(VALUES["alibi_slopes"], key=int))
def test_golden_slopes(heads):
    """mlx#343, TensorRT-LLM PR#1611, transformers PR#28380, Baichuan2#225: wrong unless the number
    of heads is a power of two."""
    want = VALUES["alibi_slopes"][heads]
    np.testing.assert_allclose(jrope.alibi_slopes(int(heads)), want, rtol=1e-6)


def test_bias_is_minus_slope_times_distance():
    bias = alibi(jnp.array([2, 5]), jnp.array([0, 5, 9]), num_heads=2)
    np.testing.assert_allclose(bias[0], -np.array([[2, 3, 7], [5, 0, 4]]) / 16)


def test_the_key_only_form_of_alibi_is_the_same_after_a_causal_softmax():
    """llm-foundry#186, NeMo PR#7105: the two biases differ, the attention does not."""
    positions = jnp.arange(6)
    key_only = jrope.alibi_slopes(4)[:, None, None] * np.arange(6, dtype=np.float32)[None, None]
    bias = alibi(positions, positions, num_heads=4)
    scores = jax.random.normal(jax.random.key(0), (4, 6, 6))
    hidden = np.where(np.tril(np.ones((6, 6), bool)), 0.0, -np.inf)[None]
    assert not np.allclose(bias, key_only + np.zeros((4, 6, 6)))
    weights = [
        jax.nn.softmax(scores + np.asarray(b + hidden, np.float32)) for b in (bias, key_only)
    ]
    np.testing.assert_allclose(*weights, atol=1e-6)


def test_bad_input():
    with pytest.raises(ValueError, match="at least 1, got 0"):
        jrope.alibi_slopes(0)
