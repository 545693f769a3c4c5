"""Checkpoints between layouts: scores are what is kept."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from golden_values import VALUES

import jrope

N, K, H, D = 4, 2, 8, 6  # query heads, key heads, features of a head, width


def normal(*shape, seed=0):
    return jax.random.normal(jax.random.key(seed), shape)


def test_golden_rows():
    rows = np.arange(8)
    np.testing.assert_array_equal(jrope.to_half(rows, num_heads=1), VALUES["permute_interleaved_to_half_rows"])
    np.testing.assert_array_equal(jrope.to_interleaved(rows, num_heads=1), VALUES["permute_half_to_interleaved_rows"])


@pytest.mark.parametrize("rotary_dim", [None, 2, 4, 8])
@pytest.mark.parametrize(("shape", "axis"), [((24, 5), 0), ((5, 24), 1), ((5, 24), -1), ((24,), 0)])
def test_each_is_the_inverse_of_the_other(rotary_dim, shape, axis):
    weight, options = np.arange(np.prod(shape)).reshape(shape), {"num_heads": 3, "rotary_dim": rotary_dim, "axis": axis}
    np.testing.assert_array_equal(jrope.to_interleaved(jrope.to_half(weight, **options), **options), weight)
    np.testing.assert_array_equal(jrope.to_half(jrope.to_interleaved(weight, **options), **options), weight)
    assert np.array_equal(jrope.to_half(weight, **options), weight) == (rotary_dim == 2)


@pytest.mark.parametrize("rotary_dim", [8, 4])
def test_scores_of_a_converted_checkpoint_are_the_same(rotary_dim):
    """transformers#25199, flash-attention#288, gpt-neox#834: weights of one layout, rotated in the other."""
    x, positions, spectrum = normal(5, D), jnp.array([0, 1, 7, 100, 4000]), jrope.spectrum(rotary_dim)
    weights = {n: (normal(n * H, D, seed=n), normal(n * H, seed=n + 10), normal(H, seed=n + 20)) for n in (N, K)}

    def project(heads, layout, convert):
        weight, bias, norm = (np.asarray(convert(w, h)) for w, h in zip(weights[heads], (heads, heads, 1), strict=True))
        y = (np.asarray(x) @ weight.T + bias).reshape(5, heads, H)
        y = norm * y / np.sqrt((y**2).mean(-1, keepdims=True))
        return np.asarray(jrope.rotate(y, positions, spectrum, layout=layout))

    def scores(layout, convert):
        q, k = (project(heads, layout, convert) for heads in (N, K))
        return np.einsum("tkgh,skh->kgts", q.reshape(5, K, N // K, H), k)

    want = scores("interleaved", lambda w, heads: w)
    got = scores("half", lambda w, heads: jrope.to_half(w, num_heads=heads, rotary_dim=rotary_dim))
    np.testing.assert_allclose(got, want, atol=2e-5)
    assert jnp.abs(scores("half", lambda w, heads: w) - want).max() > 1e-2


def test_kind_and_dtype_are_kept():
    for weight in (np.ones((8, 2), np.float16), jnp.ones((8, 2), jnp.bfloat16)):
        got = jrope.to_half(weight, num_heads=2)
        assert type(got) is type(weight)
        assert got.dtype == weight.dtype


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: jrope.to_half(np.ones(10), num_heads=4), "to_half: 10 rows along axis 0.*num_heads=4"),
        (lambda: jrope.to_half(np.ones(6), num_heads=2), "rotary_dim must be even.*got 3"),
        (lambda: jrope.to_interleaved(np.ones(8), num_heads=2, rotary_dim=6), "to_interleaved: .*at most the 4 rows.*got 6"),
        (lambda: jrope.to_half(np.ones(8), num_heads=0), "num_heads=0"),
    ],
)
def test_bad_sizes_are_told(call, words):
    with pytest.raises(ValueError, match=words):
        call()
