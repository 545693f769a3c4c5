"""Laws that all biases keep."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jrope

SIZES = {"features": 8, "num_heads": 4, "head_dim": 2, "num_layers": 1}
TABLE = jax.random.normal(jax.random.key(0), (32, 4))
R1, R2 = jnp.array([0.1, 0.5, 1.0, 2.0]), jnp.array([0.2, 1.0, 1.5, 2.0])
FIRE = jrope.Fire().init(jax.random.key(1), **SIZES)
RELATIVE = {
    "alibi": lambda q, k: jrope.alibi(q, k, num_heads=4),
    "windowed": lambda q, k: jrope.windowed(q, k, windows=(1, 2, 5, None)),
    "sandwich": lambda q, k: jrope.sandwich(q, k, num_heads=4),
    "t5": lambda q, k: jrope.t5(TABLE, q, k),
    "t5 bidirectional": lambda q, k: jrope.t5(TABLE, q, k, bidirectional=True),
    "kerple_log": lambda q, k: jrope.kerple_log(R1, R2, q, k),
    "kerple_power": lambda q, k: jrope.kerple_power(R1, R2, q, k),
}
ALL = {**RELATIVE, "fire": lambda q, k: jrope.fire(FIRE, q, k, threshold=4.0)}
COMPILED = {name: jax.jit(bias) for name, bias in ALL.items()}
each = pytest.mark.parametrize("name", ALL)
each_relative = pytest.mark.parametrize("name", RELATIVE)


@each
def test_a_row_of_a_decoding_step_is_the_last_row_of_the_whole(name):
    """keras-hub PR#2862, vllm PR#945, axlearn PR#502: a bias over the query's length is all zero
    for one query. TensorRT-LLM#1343, PR#13870, candle PR#899: T5's lacks the query's offset."""
    bias, positions = COMPILED[name], np.arange(4)
    step, whole = bias(positions[3:], positions), bias(positions, positions)
    np.testing.assert_allclose(step, whole[:, 3:], rtol=1e-6)


@each
def test_shape_dtype_batch_and_jit(name):
    bias = ALL[name]
    q, k = jnp.array([[0, 4], [5, 9]]), jnp.array([[0, 1, 3], [5, 6, 8]])
    out = bias(q, k)
    assert out.shape == (2, 4, 2, 3)
    assert out.dtype == jnp.float32
    np.testing.assert_allclose(bias(q[1], k[1]), out[1], rtol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.vmap(bias))(q, k), out, rtol=1e-6)
    compiled = COMPILED[name](q, k)
    np.testing.assert_allclose(compiled, out, rtol=1e-6)
    narrow = q.astype(jnp.int16), np.asarray(k, np.int64)
    np.testing.assert_array_equal(COMPILED[name](*narrow), compiled)


@each_relative
def test_a_shift_changes_nothing_up_to_the_ends_of_int32(name):
    """JAX's int32 wraps: arange(3) + 2147483647 turns negative."""
    bias, positions = COMPILED[name], np.array([0, 1, 7, 399], np.int32)
    want = bias(positions, positions)
    for start in (-(2**31), 2**31 - 400, -200):
        shifted = (start + positions.astype(np.int64)).astype(np.int32)
        np.testing.assert_array_equal(bias(shifted, shifted), want)


@each_relative
def test_two_ends_of_int32_are_far_apart(name):
    bias, low, high = ALL[name], np.array([-(2**31)]), np.array([2**31 - 1])
    for q, k in ((low, high), (high, low)):
        narrow = bias(jnp.asarray(q.astype(np.int32)), jnp.asarray(k.astype(np.int32)))
        np.testing.assert_array_equal(narrow, bias(q + 5, k + 5))  # int64
    assert not np.allclose(bias(high, low), bias(high, high - 1))


def test_no_relative_bias_in_cross_attention():
    """transformers#7323: queries and keys of two sequences have no distance, so no encoding."""
    assert jrope.Encoding().bias({}, jnp.arange(3), jnp.arange(9), num_heads=2) is None


@pytest.mark.parametrize(
    "encoding", [jrope.T5(), jrope.KerpleLog(), jrope.KerplePower(), jrope.Fire()], ids=repr
)
def test_gradients_are_finite_and_reach_every_parameter(encoding):
    params = encoding.init(jax.random.key(0), **SIZES)
    weights = jax.random.normal(jax.random.key(1), (4, 600, 600))
    positions = jnp.arange(600)

    def loss(params):
        return (encoding.bias(params, positions, positions, num_heads=4) * weights).sum()

    gradient = jax.jit(jax.grad(loss))(params)
    leaves = jax.tree.leaves(gradient)
    assert all(np.isfinite(g).all() and (jnp.abs(g) > 0).any() for g in leaves)
    assert all(p.dtype == jnp.float32 for p in jax.tree.leaves(params))
    half = jax.tree.map(lambda p: p.astype(jnp.bfloat16), params)
    shape = jax.eval_shape(lambda p: encoding.bias(p, positions, positions, num_heads=4), half)
    assert shape.dtype == jnp.float32
