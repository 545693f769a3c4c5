"""FoX: the forgetting gate against its formula, in layers, in a cache, and block by block."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jrope
from jrope import transformer
from jrope.attention import attention
from jrope.transformer import TransformerConfig

SIZES = {"features": 6, "num_heads": 2, "head_dim": 3, "num_layers": 3}
GATE = jrope.ForgettingGate()
PARAMS = jax.tree.map(
    lambda p: p + jnp.cos(jnp.arange(1.0, p.size + 1)).reshape(p.shape),
    GATE.init(jax.random.key(0), **SIZES),
)
X = jax.random.normal(jax.random.key(1), (2, 5, 6))


def gates(layer, x=X):
    """f [B, T, N], in plain NumPy."""
    logits = np.asarray(x, np.float64) @ np.asarray(PARAMS["kernel"][layer]) + np.asarray(
        PARAMS["bias"][layer]
    )
    return 1 / (1 + np.exp(-logits))


@pytest.mark.parametrize("layer", [0, 2])
def test_the_weight_of_a_key_is_multiplied_by_the_gates_after_it(layer):
    """Equation 4 of the paper: F_ij is the product of f_l over j < l <= i."""
    state = GATE.state(PARAMS, X, layer=layer)
    bias = np.asarray(GATE.state_bias(PARAMS, state, state))
    f = gates(layer)
    for batch, head, i, j in np.ndindex(2, 2, 5, 5):
        if j <= i:
            want = np.prod(f[batch, j + 1 : i + 1, head])
            np.testing.assert_allclose(np.exp(bias[batch, head, i, j]), want, rtol=1e-5)


def test_attention_is_the_papers():
    """Softmax of q k^T + D, whose rows are the weights times the products of gates, normalised."""
    q, k, v = (jax.random.normal(jax.random.key(i), (2, 5, 2, 3)) for i in range(3))
    state = GATE.state(PARAMS, X, layer=1)
    got = attention(
        q, k, v, bias=GATE.state_bias(PARAMS, state, state), mask=jnp.tri(5, dtype=bool)
    )
    total = np.cumsum(np.log(gates(1)), axis=1)
    products = np.exp(total[:, :, None] - total[:, None]).transpose(0, 3, 1, 2)
    weights = np.exp(np.einsum("btnh,bsnh->bnts", q, k) * 3**-0.5) * np.tril(products)
    want = np.einsum("bnts,bsnh->btnh", weights / weights.sum(-1, keepdims=True), v)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_a_state_continues_where_the_last_one_ended():
    whole = GATE.state(PARAMS, X, layer=0)
    first = GATE.state(PARAMS, X[:, :3], layer=0)
    rest = GATE.state(PARAMS, X[:, 3:], layer=0, last=first[..., -1])
    np.testing.assert_allclose(jnp.concatenate([first, rest], axis=-1), whole, rtol=1e-5)


def test_padding_forgets_nothing_and_a_cumulated_gate_only_falls():
    mask = jnp.array([[True, False, True, True, False], [True] * 5])
    state = GATE.state(PARAMS, X, layer=0, token_mask=mask)
    assert (state[0, :, 1] == state[0, :, 0]).all()
    assert (state[0, :, 4] == state[0, :, 3]).all()
    assert (jnp.diff(state, axis=-1) <= 0).all()
    far = jrope.forgetting(state - 1000, state - 1000)
    np.testing.assert_allclose(far, jrope.forgetting(state, state), atol=1e-3)


def test_gates_start_near_a_half_and_are_learned_through_the_layers():
    config = TransformerConfig(vocabulary=11, encoding=GATE, features=16, heads=2)
    params = jax.jit(config.init)(jax.random.key(0))
    tokens = jax.random.randint(jax.random.key(1), (2, 8), 0, 11)

    @jax.jit
    @jax.grad
    def gradient(params):
        return config.apply(params, tokens, jnp.arange(8)).var()

    own = gradient(params)["encoding"]
    assert own["kernel"][...].shape == (2, 16, 2)
    assert (jnp.abs(own["kernel"][...]).max(axis=(1, 2)) > 0).all()  # in both layers
    assert (jnp.abs(params["encoding"]["bias"][...]) == 0).all()


def test_beyond_512_tokens_it_runs_block_by_block_and_a_cache_equals_the_full_pass():
    """600 tokens, values as those of one array of scores; and no array of all pairs in the program."""
    length = 600
    config = TransformerConfig(vocabulary=11, encoding=GATE, features=8, heads=2, layers=1)
    params, graphdef = jax.jit(config.init)(jax.random.key(0)), transformer.abstract(config)
    tokens = jax.random.randint(jax.random.key(1), (1, length), 0, 11)
    full = jax.jit(partial(transformer.apply, graphdef))
    lowered = full.lower(params, tokens, jnp.arange(length))
    assert f"{length}x{length}" not in lowered.as_text()
    want = full(params, tokens, jnp.arange(length))
    decode = jax.jit(partial(transformer.decode, graphdef))
    cache = transformer.empty_cache(config, 1, length)
    first, cache = decode(params, tokens[:, :590], jnp.arange(590), cache)  # in blocks
    rest, cache = decode(params, tokens[:, 590:], jnp.arange(590, length), cache)  # all scores
    np.testing.assert_allclose(jnp.concatenate([first, rest], axis=1), want, atol=2e-5)
    assert cache.states[0].shape == (1, 2, length)
