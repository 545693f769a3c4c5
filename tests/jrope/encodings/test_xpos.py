"""xPos: scores of the distance only, which decay with it."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from golden_values import VALUES

import jrope
from jrope.encodings.xpos import max_offset

Q, K = (jax.random.normal(jax.random.key(i), (1, 1, 8)) for i in range(2))
scale = jax.jit(jrope.xpos_scale, static_argnums=1)


@partial(jax.jit, static_argnames="origin")
def scores(q_positions, k_positions, origin=0):
    q, k = (jnp.tile(x, (q_positions.shape[0], 1, 1)) for x in (Q, K))
    q, k = jrope.xpos(q, k, q_positions, k_positions, origin=origin)
    return (q * k).sum((-2, -1))


def exact(distance, base=10_000.0, scale_base=512.0):
    """The score in float64, interleaved."""
    q, k = (np.asarray(x, np.float64).reshape(4, 2) @ [1, 1j] for x in (Q, K))
    i = np.arange(4)
    turned = np.exp(1j * distance * base ** (-2 * i / 8))
    zeta = (2 * i / 8 + 0.4) / 1.4
    return (q * k.conj() * turned * zeta ** (distance / scale_base)).sum().real


def test_scores_depend_on_the_distance_only():
    """rotary-embedding-torch#27: the origin was the middle of the sequence, so that the same query
    differed by .169."""
    start, distance = map(np.ravel, np.meshgrid([0, 5, 25_000, -26_000], [0, 1, 95, 1000, -3]))
    want = [exact(d) for d in distance]
    np.testing.assert_allclose(scores(start + distance, start), want, rtol=3e-5, atol=3e-5)


def test_a_query_does_not_depend_on_the_length():
    """rotary-embedding-torch#27, and cached keys that do not fit: one position has one rotation."""
    ones, xpos = np.ones((20, 1, 8), np.float32), jax.jit(jrope.xpos)
    short, long = (xpos(*[ones[:n]] * 2, np.arange(n), np.arange(n)) for n in (10, 20))
    for a, b in zip(short, long, strict=True):
        np.testing.assert_array_equal(a, b[:10])


def test_the_origin_cancels_and_moves_the_limit():
    far, top = 2 * max_offset(512.0), 2**31 - 1  # the end of int32 is as good as any position
    for q, k, origin in ((900, 400, 700), (far, far - 9, far // 2), (top, top - 9, top - 100)):
        got = scores(np.array([q]), np.array([k]), origin=origin)
        np.testing.assert_allclose(got, [exact(q - k)], rtol=3e-5)


def test_nothing_is_scaled_at_the_origin_and_rope_is_the_limit():
    np.testing.assert_allclose(jrope.xpos_scale(jnp.array([7]), 4, origin=7), 1.0)
    turned = [jrope.rope(x, jnp.array([300])) for x in (Q, K)]
    same = jrope.xpos(Q, K, *[jnp.array([300])] * 2, scale_base=1e12)
    for got, want in zip(same, turned, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-6)


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_both_features_of_a_pair_have_its_zeta(layout):
    """zeta#106, transformers PR#16298: the scales were repeated in the other order."""
    pairs = np.arange(8).reshape(4, 2) if layout == "interleaved" else np.arange(8).reshape(2, 4).T
    q, k = jrope.xpos(Q, K, jnp.array([512]), jnp.array([512]), layout=layout)
    zeta = np.array(VALUES["spot"]["xpos zeta d=8"])
    for after, before, scale in ((q, Q, zeta), (k, K, 1 / zeta)):
        long, short = (np.linalg.norm(np.asarray(x)[0, 0][pairs], axis=1) for x in (after, before))
        np.testing.assert_allclose(long / short, scale, rtol=1e-5)


def test_there_is_no_value_beyond_the_limit():
    """The factors overflow float32; 0 * inf would be NaN and inf would be wrong."""
    edge = max_offset(512.0)
    assert edge == 26_156
    assert jrope.XPos().position_limit == edge + 1
    assert jrope.XPos(origin=edge).position_limit == 2 * edge + 1
    assert jrope.XPos(origin=edge + 1).position_limit == 0
    got = scale(jnp.array([edge, -edge, edge + 1, 0, -edge - 1]), 4)
    assert np.isfinite(got[:2]).all()
    assert np.isfinite(1 / got[:2]).all()
    outside = np.array([[True], [False], [True]]) & np.ones((3, 4), bool)
    np.testing.assert_array_equal(np.isnan(got[2:]), outside)
    words = r"within 26156 of the origin, 0, where float32 ends, got 26157..26157"
    with pytest.raises(ValueError, match=words):
        jrope.xpos_scale(jnp.array([edge + 1]), 4)


def test_gradients_at_the_edge_are_those_of_the_middle():
    @jax.jit
    @jax.grad
    def gradient(q, start):
        positions = start + jnp.arange(2)
        a, b = jrope.xpos(q, jnp.concatenate([K, K]), positions, positions)
        return jax.nn.softmax(jnp.einsum("tnh,snh->ts", a, b) - 20 * jnp.eye(2))[1, 0]

    q = jnp.concatenate([Q, Q])
    middle, *edges = [gradient(q, start) for start in (0, 26_100, -26_100)]
    for edge in edges:
        np.testing.assert_allclose(edge, middle, rtol=1e-3, atol=1e-6)


def test_dtype_and_bad_input():
    half, positions = [x.astype(jnp.bfloat16) for x in (Q, K)], np.array([5])
    out = jax.eval_shape(jrope.xpos, *half, positions, positions)
    assert [x.dtype for x in out] == [jnp.bfloat16] * 2
    with pytest.raises(ValueError, match="scale_base must be positive and finite, got 0"):
        jrope.xpos(Q, K, positions, positions, scale_base=0)
    with pytest.raises(ValueError, match="layout must be one of"):
        jrope.xpos(Q, K, positions, positions, layout="neox")
    with pytest.raises(ValueError, match=r"XPos: layout must be one of.*neox"):
        jrope.XPos(layout="neox")
    for field in ("base", "scale_base"):
        with pytest.raises(ValueError, match=f"XPos: {field} must be positive"):
            jrope.XPos(**{field: np.inf})
