"""xPos: scores of the distance alone, that decay with it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from golden_values import VALUES

import jrope
from jrope.xpos import reach

Q, K = (jax.random.normal(jax.random.key(i), (1, 1, 8)) for i in range(2))


def score(q_position, k_position, **options):
    q, k = jrope.xpos(Q, K, jnp.array([q_position]), jnp.array([k_position]), **options)
    return float(jnp.vdot(q, k))


def exact(distance, base=10_000.0, scale_base=512.0):
    """The score in float64, interleaved."""
    q, k = (np.asarray(x, np.float64).reshape(4, 2) @ [1, 1j] for x in (Q, K))
    i = np.arange(4)
    zeta = (2 * i / 8 + 0.4) / 1.4
    return (q * k.conj() * np.exp(1j * distance * base ** (-2 * i / 8)) * zeta ** (distance / scale_base)).sum().real


@pytest.mark.parametrize("distance", [0, 1, 95, 1000, -3])
@pytest.mark.parametrize("start", [0, 5, 25_000, -26_000])
def test_scores_depend_on_the_distance_alone(start, distance):
    """rotary-embedding-torch#27: the origin was the middle of the sequence, so that the same query differed by .169."""
    np.testing.assert_allclose(score(start + distance, start), exact(distance), rtol=3e-5, atol=3e-5)


def test_a_query_does_not_know_the_length():
    """rotary-embedding-torch#27, and cached keys that no longer fit: one position is rotated alike in any context."""
    short, long = (jrope.xpos(*[jnp.ones((n, 1, 8))] * 2, jnp.arange(n), jnp.arange(n)) for n in (10, 20))
    for a, b in zip(short, long, strict=True):
        np.testing.assert_array_equal(a, b[:10])


def test_the_origin_cancels_and_moves_the_reach():
    np.testing.assert_allclose(score(900, 400, origin=700), exact(500), rtol=1e-5)
    far = 2 * reach(512.0)
    np.testing.assert_allclose(score(far, far - 9, origin=reach(512.0)), exact(9), rtol=3e-5)
    top = 2**31 - 1  # positions near the end of int32 are as good as any
    np.testing.assert_allclose(score(top, top - 9, origin=top - 100), exact(9), rtol=1e-5)


def test_nothing_is_scaled_at_the_origin_and_rope_is_the_limit():
    np.testing.assert_allclose(jrope.xpos_scale(jnp.array([7]), 4, origin=7), 1.0)
    turned = [jrope.rope(x, jnp.array([300])) for x in (Q, K)]
    for got, want in zip(jrope.xpos(Q, K, *[jnp.array([300])] * 2, scale_base=1e12), turned, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-6)


@pytest.mark.parametrize(("layout", "pairs"), [("interleaved", [[0, 1], [2, 3], [4, 5], [6, 7]]), ("half", None)])
def test_both_features_of_a_pair_have_its_zeta(layout, pairs):
    """zeta#106, transformers PR#16298: the scales were repeated in the other order of duplication."""
    pairs = np.array(pairs or [[i, i + 4] for i in range(4)])
    q, k = jrope.xpos(Q, K, jnp.array([512]), jnp.array([512]), layout=layout)
    zeta = np.array(VALUES["spot"]["xpos zeta d=8"])
    for after, before, scale in ((q, Q, zeta), (k, K, 1 / zeta)):
        long, short = (np.linalg.norm(np.asarray(x)[0, 0][pairs], axis=1) for x in (after, before))
        np.testing.assert_allclose(long / short, scale, rtol=1e-5)


def test_there_is_no_value_beyond_reach():
    """The factors overflow float32; 0 * inf would be NaN and inf would be a lie."""
    edge = reach(512.0)
    assert edge == 26_156
    assert jrope.XPos().limit == edge + 1
    for position in (edge, -edge):
        assert np.isfinite(jax.jit(jrope.xpos_scale, static_argnums=1)(jnp.array([position]), 4)).all()
        assert np.isfinite(1 / jrope.xpos_scale(jnp.array([position]), 4)).all()
    outside = jax.jit(jrope.xpos_scale, static_argnums=1)(jnp.array([edge + 1, 0, -edge - 1]), 4)
    np.testing.assert_array_equal(np.isnan(outside), np.array([[True], [False], [True]]) & np.ones((3, 4), bool))
    with pytest.raises(ValueError, match=r"within 26156 of the origin, 0, where float32 ends, got 26157..26157"):
        jrope.xpos_scale(jnp.array([edge + 1]), 4)


def test_gradients_at_the_edge_are_those_of_the_middle():
    def loss(q, start):
        positions = start + jnp.arange(2)
        a, b = jrope.xpos(q, jnp.concatenate([K, K]), positions, positions)
        return jax.nn.softmax(jnp.einsum("tnh,snh->ts", a, b) - 20 * jnp.eye(2))[1, 0]

    q = jnp.concatenate([Q, Q])
    gradients = [jax.grad(loss)(q, start) for start in (0, 26_100, -26_100)]
    for other in gradients[1:]:
        np.testing.assert_allclose(other, gradients[0], rtol=1e-3, atol=1e-6)


def test_dtype_and_bad_input():
    out = jrope.xpos(Q.astype(jnp.bfloat16), K.astype(jnp.bfloat16), jnp.array([5]), jnp.array([3]))
    assert [x.dtype for x in out] == [jnp.bfloat16] * 2
    with pytest.raises(ValueError, match="scale_base must be positive and finite, got 0"):
        jrope.xpos(Q, K, jnp.array([0]), jnp.array([0]), scale_base=0)
    with pytest.raises(ValueError, match="layout must be one of"):
        jrope.xpos(Q, K, jnp.array([0]), jnp.array([0]), layout="neox")
