"""The model: causal, equivariant without position, and the same in every way it can be called."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_encoding import EVERY, new, nonzero

import jrope
from jrope import Encoding, Learned, Rope, XPos, transformer
from jrope.attention import attention
from jrope.transformer import TransformerConfig

ABSOLUTE = ("sinusoidal", "learned", "chain", "xpos", "fire", "log_n")
RELATIVE = [e for e in EVERY if e.name not in ABSOLUTE]
TOKENS = jax.random.randint(jax.random.key(1), (2, 8), 0, 11)
each = pytest.mark.parametrize("encoding", EVERY, ids=lambda e: type(e).__name__)


@cache
def model(encoding, **options):
    """Parameters away from zero, and the jitted model of them."""
    config = TransformerConfig(vocabulary=11, encoding=encoding, features=16, heads=2, **options)
    return nonzero(new(config)), jax.jit(partial(transformer.apply, transformer.abstract(config)))


@each
def test_no_logit_depends_on_a_later_token(encoding):
    params, apply = model(encoding)
    gradient = jax.jit(
        jax.grad(lambda params: apply(params, jnp.arange(8)[None], jnp.arange(8))[0, 4].sum())
    )(params)
    moved = jnp.abs(gradient["embedding"]["embedding"][...]).sum(
        -1
    )  # token ids 0 to 7 are at positions 0 to 7
    reach = 3 if encoding == jrope.Window(2) else 5  # two layers of it see two tokens back
    assert (moved[5 - reach : 5] > 0).all()
    assert (moved[5:] == 0).all()


def test_without_encoding_and_mask_attention_is_permutation_equivariant():
    order = jnp.array([3, 0, 7, 1, 6, 2, 5, 4])
    for encoding in EVERY:  # and with one it is not
        params, apply = model(encoding, causal=False)
        logits, permuted = (apply(params, t, jnp.arange(8)) for t in (TOKENS, TOKENS[:, order]))
        difference = jnp.abs(permuted - logits[:, order]).max()
        assert difference < 1e-5 if encoding == Encoding() else difference > 1e-3


@pytest.mark.parametrize("encoding", RELATIVE, ids=lambda e: type(e).__name__)
def test_relative_encodings_do_not_see_a_shift(encoding):
    params, apply = model(encoding)
    shifted = apply(params, TOKENS, jnp.arange(8) + 1_000_000)
    np.testing.assert_allclose(shifted, apply(params, TOKENS, jnp.arange(8)), atol=1e-5)


@each
def test_jit_batched_positions_and_a_given_encoding_change_nothing(encoding):
    params, apply = model(encoding)
    want = apply(params, TOKENS, jnp.arange(8))
    config = TransformerConfig(vocabulary=11, encoding=encoding, features=16, heads=2)
    eager = config.apply(params, TOKENS, jnp.arange(8))
    np.testing.assert_allclose(eager, want, atol=1e-5)
    batched, bound = jnp.tile(jnp.arange(8), (2, 1)), encoding.bind(head_dim=8, length=8)
    got = apply(params, TOKENS, batched, encoding=bound)
    np.testing.assert_allclose(got, want, atol=1e-5)


def test_xpos_does_not_see_a_shift_within_its_reach():
    params, apply = model(XPos())
    shifted = apply(params, TOKENS, jnp.arange(8) + 20_000)
    np.testing.assert_allclose(shifted, apply(params, TOKENS, jnp.arange(8)), atol=1e-4)


def test_a_learned_encoding_has_no_value_past_its_table():
    params, apply = model(Learned(max_length=6))
    logits = apply(params, TOKENS, jnp.arange(8))
    assert jnp.isnan(logits[:, 6:]).all()
    assert jnp.isfinite(apply(params, TOKENS[:, :6], jnp.arange(6))).all()


def test_seeds_are_an_axis():
    config = TransformerConfig(vocabulary=11, encoding=Learned(max_length=8), features=16)
    keys = jax.random.split(jax.random.key(0), 3)
    params = jax.jit(jax.vmap(lambda key: transformer.init(config, key)))(keys)
    graphdef = transformer.abstract(config)
    together = jax.vmap(lambda p: transformer.apply(graphdef, p, TOKENS, jnp.arange(8)))(params)
    own = jax.jit(lambda key: transformer.init(config, key))(keys[1])
    alone = transformer.apply(graphdef, own, TOKENS, jnp.arange(8))
    np.testing.assert_allclose(together[1], alone, atol=1e-5)


def test_a_scaling_reaches_the_scores():
    params, apply = model(Rope())
    scaled = Rope(scaling=jrope.Linear(4.0))
    got = apply(params, TOKENS, jnp.arange(8) * 4, encoding=scaled)
    np.testing.assert_allclose(got, apply(params, TOKENS, jnp.arange(8)), atol=1e-5)


def test_the_softmax_scale_of_an_encoding_reaches_the_scores():
    params, apply = model(Encoding())
    narrow = apply(params, TOKENS, jnp.arange(8), encoding=Rope(base=1e30, softmax_multiplier=2.0))
    assert (
        jnp.abs(narrow - apply(params, TOKENS, jnp.arange(8), encoding=Rope(base=1e30))).max()
        > 1e-3
    )
    q, k, v = (jax.random.normal(jax.random.key(i), (1, 5, 2, 4)) for i in range(3))
    np.testing.assert_allclose(attention(q, k, v, scale=1.0), attention(2 * q, k, v), atol=1e-6)


def test_attention_is_softmax_of_scores_and_bias():
    q, k, v = (jax.random.normal(jax.random.key(i), (2, 5, 2, 4)) for i in range(3))
    bias = jrope.alibi(jnp.arange(5), jnp.arange(5), num_heads=2)
    scores = np.einsum("btnh,bsnh->bnts", q, k) / 2 + bias[None]
    scores = np.where(np.tril(np.ones((5, 5), bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    want = np.einsum("bnts,bsnh->btnh", weights / weights.sum(-1, keepdims=True), v)
    np.testing.assert_allclose(
        attention(q, k, v, bias=bias, mask=jnp.tri(5, dtype=bool)), want, atol=1e-5
    )


@pytest.mark.parametrize(("field", "value"), [("layers", 0), ("heads", 3), ("vocabulary", 0)])
def test_bad_shapes_are_told(field, value):
    with pytest.raises(ValueError, match=f"TransformerConfig: .*{field}.*{value}"):
        TransformerConfig(**{"vocabulary": 11, field: value})


def test_attention_with_heads_that_do_not_fit():
    q, k = jnp.zeros((1, 3, 4, 8)), jnp.zeros((1, 3, 3, 8))
    with pytest.raises(
        ValueError, match=r"^attention: .* with K dividing N, got \(1, 3, 4, 8\), \(1, 3, 3, 8\)"
    ):
        attention(q, k, k)
