"""Sinusoidal and learned encodings."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from golden_values import VALUES

import jrope


@pytest.mark.parametrize("name", VALUES["sinusoidal_variants"])
def test_golden_sinusoidal(name):
    """SamLynnEvans/Transformer#25, PapersReimplementations#9:
    cosines with an exponent of their own; and the variants taken for one another."""
    golden = np.array(VALUES["sinusoidal_variants"][name])
    options = {"layout": "concatenated" if "concat" in name else "interleaved", "endpoint": "i/(h-1)" in name}
    np.testing.assert_allclose(jrope.sinusoidal(jnp.arange(len(golden)), golden.shape[1], **options), golden, atol=1e-7)


def test_odd_dims_have_one_sine_more_than_cosines():
    """pyaptamer#526, #607, BERT-pytorch#78, Informer2020#224, base-llm#67 crash."""
    pe = jrope.sinusoidal(jnp.array([2]), 5)
    frequencies = 10_000.0 ** (-np.array([0, 2, 4]) / 5)
    np.testing.assert_allclose(pe[0, 0::2], np.sin(2 * frequencies), atol=1e-7)
    np.testing.assert_allclose(pe[0, 1::2], np.cos(2 * frequencies[:2]), atol=1e-7)


@pytest.mark.parametrize("endpoint", [False, True])
@pytest.mark.parametrize("dim", [1, 2, 5, 8])
def test_layouts_are_permutations_of_each_other(dim, endpoint):
    a, b = (
        jrope.sinusoidal(jnp.array([3]), dim, layout=layout, endpoint=endpoint) for layout in ("interleaved", "concatenated")
    )
    np.testing.assert_array_equal(jnp.concatenate([a[..., 0::2], a[..., 1::2]], -1), b)
    if endpoint and dim > 2:
        np.testing.assert_allclose(b[0, (dim - 1) // 2], np.sin(3e-4), atol=1e-8)


def test_shape_is_that_of_positions_and_dim():
    """mlx#147."""
    assert jrope.sinusoidal(jnp.zeros((2, 3), int), 6).shape == (2, 3, 6)


def test_products_depend_on_the_distance_alone():
    def gram(start):
        pe = jrope.sinusoidal(start + np.arange(5), 64)
        return pe @ pe.T

    np.testing.assert_allclose(gram(0), gram(10**8), atol=1e-5)


def test_lookup_has_no_value_outside_its_table():
    """jax docs PR#4455, tt-mlir#9211: JAX clamps an index past the end and wraps -1 round; neither may happen."""
    table = jnp.arange(6.0).reshape(3, 2) + 1
    np.testing.assert_array_equal(jrope.lookup(table, jnp.array([[2], [0]])), table[jnp.array([[2], [0]])])
    inside = jax.jit(jrope.lookup)(table, jnp.array([0, 2, 3, 12, -1, -4]))
    np.testing.assert_array_equal(np.isnan(inside).all(-1), [False, False, True, True, True, True])
    for position in (3, -1):
        with pytest.raises(IndexError, match=rf"within 0..2, the rows of the table, got {position}"):
            jrope.lookup(table, jnp.array([position]))
    with pytest.raises(TypeError, match="integers, got float32"):
        jrope.lookup(table, jnp.array([0.5]))


def test_lookup_clips_if_told_and_keeps_the_gradient():
    table = jnp.arange(6.0).reshape(3, 2)
    positions = jnp.array([-(2**31), -1, 1, 3, 2**31 - 1])
    for call in (jrope.lookup, jax.jit(jrope.lookup, static_argnames="mode")):
        np.testing.assert_array_equal(call(table, positions, mode="clip"), table[jnp.array([0, 0, 1, 2, 2])])
    gradient = jax.grad(lambda table: jrope.lookup(table, positions, mode="clip").sum())(table)
    np.testing.assert_array_equal(gradient, [[2, 2], [1, 1], [2, 2]])


def test_lookup_gradient_reaches_the_rows_read_and_no_others():
    gradient = jax.jit(jax.grad(lambda table: jrope.lookup(table, jnp.array([1, 1])).sum()))(jnp.ones((3, 2)))
    np.testing.assert_array_equal(gradient, [[0, 0], [2, 2], [0, 0]])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: jrope.sinusoidal(jnp.arange(2), 0), "dim must be at least 1, got 0"),
        (lambda: jrope.sinusoidal(jnp.arange(2), 4, base=0.0), "base must be positive"),
        (lambda: jrope.sinusoidal(jnp.arange(2), 4, layout="half"), "layout must be one of.*'half'"),
        (lambda: jrope.lookup(jnp.ones((2, 2)), jnp.arange(2), mode="wrap"), "mode must be one of.*'wrap'"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(ValueError, match=words):
        call()
