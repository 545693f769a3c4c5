"""Weights from one pair layout to the other: the scores stay the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from golden_values import VALUES

import jrope
from jrope import to_half, to_interleaved

N, K, H, D = 4, 2, 8, 6  # query heads, key heads, features of a head, width


def test_golden_rows():
    half = VALUES["permute_interleaved_to_half_rows"]
    interleaved = VALUES["permute_half_to_interleaved_rows"]
    np.testing.assert_array_equal(to_half(np.arange(8), num_heads=1), half)
    np.testing.assert_array_equal(to_interleaved(np.arange(8), num_heads=1), interleaved)


@pytest.mark.parametrize("rotary_dim", [None, 2, 4, 8])
@pytest.mark.parametrize(("shape", "axis"), [((24, 5), 0), ((5, 24), 1), ((5, 24), -1), ((24,), 0)])
def test_each_is_the_inverse_of_the_other(rotary_dim, shape, axis):
    weight = np.arange(np.prod(shape)).reshape(shape)
    options = {"num_heads": 3, "rotary_dim": rotary_dim, "axis": axis}
    half, interleaved = to_half(weight, **options), to_interleaved(weight, **options)
    np.testing.assert_array_equal(to_interleaved(half, **options), weight)
    np.testing.assert_array_equal(to_half(interleaved, **options), weight)
    assert np.array_equal(half, weight) == (rotary_dim == 2)


@pytest.mark.parametrize("rotary_dim", [8, 4])
def test_scores_of_a_converted_checkpoint_are_the_same(rotary_dim):
    """Others rotated the weights of one layout in the other layout.

    transformers#25199, flash-attention#288, gpt-neox#834.
    """
    rng = np.random.default_rng(0)
    x, positions = rng.normal(size=(5, D)), jnp.array([0, 1, 7, 100, 4000])
    shapes = {n: [(n * H, D), (n * H,), (H,)] for n in (N, K)}
    weights = {n: [rng.normal(size=shape) for shape in shapes[n]] for n in (N, K)}
    rotate = jax.jit(jrope.rotate, static_argnames="layout")

    def scores(layout, convert):
        def project(heads):
            weight, bias, norm = map(convert, weights[heads], (heads, heads, 1))
            y = (x @ weight.T + bias).reshape(5, heads, H)
            return norm * y / np.sqrt((y**2).mean(-1, keepdims=True))

        qk = np.concatenate([project(N), project(K)], axis=1, dtype=np.float32)
        qk = np.asarray(rotate(qk, positions, jrope.spectrum(rotary_dim), layout=layout))
        return np.einsum("tkgh,skh->kgts", qk[:, :N].reshape(5, K, N // K, H), qk[:, N:])

    want = scores("interleaved", lambda w, heads: w)
    got = scores("half", lambda w, heads: to_half(w, num_heads=heads, rotary_dim=rotary_dim))
    np.testing.assert_allclose(got, want, atol=2e-5)
    assert np.abs(scores("half", lambda w, heads: w) - want).max() > 1e-2


def test_kind_and_dtype_are_kept():
    for weight in (np.ones((8, 2), np.float16), jnp.ones((8, 2), jnp.bfloat16)):
        got = to_half(weight, num_heads=2)
        assert type(got) is type(weight)
        assert got.dtype == weight.dtype


@pytest.mark.parametrize(
    ("convert", "rows", "options", "words"),
    [
        (to_half, 10, {"num_heads": 4}, "to_half: 10 rows along axis 0.*num_heads=4"),
        (to_half, 6, {"num_heads": 2}, "rotary_dim must be even.*got 3"),
        (to_interleaved, 8, {"num_heads": 2, "rotary_dim": 6}, "interleaved: .*the 4 rows.*got 6"),
        (to_half, 8, {"num_heads": 0}, "num_heads=0"),
    ],
)
def test_bad_sizes_are_refused(convert, rows, options, words):
    with pytest.raises(ValueError, match=words):
        convert(np.ones(rows), **options)
