"""CoPE: counts backwards from the query, never ahead of it."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jrope

T, N, H = 6, 2, 4
Q, K = (jax.random.normal(jax.random.key(i), (1, T, N, H)) for i in range(2))
TABLE = jax.random.normal(jax.random.key(2), (5, H))
POSITIONS = jnp.arange(T)
cope = jax.jit(jrope.cope)


def reference(table, q, k, scale):
    """The definition, key by key in float64, for one row of a batch."""
    table, q, k = (np.asarray(x, np.float64) for x in (table, q, k))
    bias = np.zeros((q.shape[1], q.shape[0], k.shape[0]))
    for n, i, j in np.ndindex(bias.shape):
        gates = [1 / (1 + np.exp(-scale * q[i, n] @ k[m, n])) for m in range(j, i + 1)]
        p = min(sum(gates), len(table) - 1)
        low, high = int(np.floor(p)), int(np.ceil(p))
        bias[n, i, j] = q[i, n] @ (table[high] * (p - low) + table[low] * (1 - p + low))
    return bias


@pytest.mark.parametrize("rows", [1, 2, 5, 64])
def test_is_its_definition(rows):
    table = jax.random.normal(jax.random.key(3), (rows, H))
    got = cope(table, Q, K, POSITIONS, POSITIONS)[0]
    seen = np.tril(np.ones((1, T, T), bool))
    want = reference(table, Q[0], K[0], H**-0.5)
    np.testing.assert_allclose(got * seen, want * seen, atol=1e-5)


def test_a_later_key_changes_nothing_before_it():
    """x-transformers' CoPE: without its mask, future logits moved causal outputs by 7.6."""
    changed = K.at[:, 4:].add(10.0)
    before, after = (cope(TABLE, Q, k, POSITIONS, POSITIONS) for k in (K, changed))
    np.testing.assert_array_equal(before[:, :, :4, :4], after[:, :, :4, :4])

    @jax.jit
    @jax.grad
    def gradient(k):
        return jrope.cope(TABLE, Q, k, POSITIONS, POSITIONS)[:, :, 3].sum()

    gradient = np.abs(gradient(K)).sum((0, 2, 3))
    assert (gradient[:4] > 0).any()
    np.testing.assert_array_equal(gradient[4:], 0)


def test_counts_from_the_query_backwards():
    """With all gates open, the position of key j is i - j + 1; those past the table share its last
    row."""
    ones = jnp.ones((1, T, N, H))
    table = jnp.arange(5.0)[:, None] * jnp.ones((1, H)) / H  # q . e[p] = p
    bias = cope(table, ones, 100 * ones, POSITIONS, POSITIONS)[0, 0]
    np.testing.assert_allclose(bias[5], [4, 4, 4, 3, 2, 1], atol=1e-5)


def test_a_hidden_key_is_not_counted():
    ones = jnp.ones((1, T, N, H))
    table = jnp.arange(5.0)[:, None] * jnp.ones((1, H)) / H
    mask = jnp.ones((T, T), bool).at[:, 4].set(False)
    bias = jax.jit(jrope.cope)(table, ones, 100 * ones, POSITIONS, POSITIONS, mask=mask)
    np.testing.assert_allclose(bias[0, 0, 5], [4, 4, 3, 2, 1, 1], atol=1e-5)
    former = jax.jit(jrope.cope)(table, ones, 100 * ones, POSITIONS, POSITIONS, visible=mask[None])
    np.testing.assert_array_equal(former, bias)


def test_a_decoding_step_is_the_last_row_and_a_shift_changes_nothing():
    whole = cope(TABLE, Q, K, POSITIONS, POSITIONS)
    step = cope(TABLE, Q[:, -1:], K, POSITIONS[-1:], POSITIONS)
    np.testing.assert_allclose(step, whole[:, :, -1:], atol=1e-5)
    far = POSITIONS + (2**31 - 1 - T)
    np.testing.assert_array_equal(cope(TABLE, Q, K, far, far), whole)
    batched = jnp.tile(far, (1, 1))
    np.testing.assert_allclose(cope(TABLE, Q, K, batched, batched), whole, atol=1e-6)


def test_scale_dtype_jit_and_gradients():
    whole = cope(TABLE, Q, K, POSITIONS, POSITIONS)
    np.testing.assert_allclose(jrope.cope(TABLE, Q, K, POSITIONS, POSITIONS), whole, atol=1e-5)
    assert not np.allclose(cope(TABLE, Q, K, POSITIONS, POSITIONS, scale=1.0), whole)
    half = [x.astype(jnp.bfloat16) for x in (TABLE, Q, K)]
    assert jax.eval_shape(jrope.cope, *half, POSITIONS, POSITIONS).dtype == jnp.float32

    @jax.jit
    @partial(jax.grad, argnums=(0, 1, 2))
    def gradients(*x):
        return jnp.tril(jrope.cope(*x, POSITIONS, POSITIONS)).sum()

    assert all(np.isfinite(g).all() and (g != 0).any() for g in gradients(TABLE, Q, K))


def test_as_a_value_and_in_a_chain():
    copes = (jrope.Cope(max_positions=5), jrope.Cope(max_positions=5))
    encoding = jrope.Chain((jrope.Rope(), *copes, jrope.Alibi()))
    params = {"1": {"table": TABLE}, "2": {"table": 2 * TABLE}}
    options = {"layer": 0, "mask": None, "scale": 0.5}
    got = encoding.content_bias(params, Q, K, POSITIONS, POSITIONS, **options)
    want = 3 * cope(TABLE, Q, K, POSITIONS, POSITIONS, scale=0.5)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert jrope.Rope().content_bias({}, Q, K, POSITIONS, POSITIONS, **options) is None
    sizes = {"features": 8, "num_heads": N, "head_dim": H, "num_layers": 1}
    assert jrope.Cope().init(jax.random.key(0), **sizes)["table"].shape == (64, H)


def test_bad_input():
    with pytest.raises(ValueError, match=r"must be \[max_positions, 4\], got shape \(5, 3\)"):
        jrope.cope(TABLE[:, :3], Q, K, POSITIONS, POSITIONS)
    with pytest.raises(ValueError, match="same heads"):
        jrope.cope(TABLE, Q, K[:, :, :1], POSITIONS, POSITIONS)
    with pytest.raises(ValueError, match="max_positions must be at least 1, got 0"):
        jrope.Cope(max_positions=0)
