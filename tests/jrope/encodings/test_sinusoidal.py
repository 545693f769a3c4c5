"""The sinusoidal encoding."""

import jax.numpy as jnp
import numpy as np
import pytest
from golden_values import VALUES

import jrope


@pytest.mark.parametrize("name", VALUES["sinusoidal_variants"])
def test_golden_sinusoidal(name):
    """SamLynnEvans/Transformer#25, PapersReimplementations#9: cosines with another exponent, and
    one variant mistaken for another."""
    golden = np.array(VALUES["sinusoidal_variants"][name])
    layout = "concatenated" if "concat" in name else "interleaved"
    options = {"layout": layout, "endpoint": "i/(h-1)" in name}
    got = jrope.sinusoidal(jnp.arange(len(golden)), golden.shape[1], **options)
    np.testing.assert_allclose(got, golden, atol=1e-7)


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
        np.asarray(jrope.sinusoidal(jnp.array([3]), dim, layout=layout, endpoint=endpoint))
        for layout in ("interleaved", "concatenated")
    )
    np.testing.assert_array_equal(np.concatenate([a[..., 0::2], a[..., 1::2]], -1), b)
    if endpoint and dim > 2:
        np.testing.assert_allclose(b[0, (dim - 1) // 2], np.sin(3e-4), atol=1e-8)


def test_shape_is_that_of_positions_and_dim():
    """mlx#147."""
    assert jrope.sinusoidal(jnp.zeros((2, 3), int), 6).shape == (2, 3, 6)


def test_products_depend_on_the_distance_only():
    def gram(start):
        pe = np.asarray(jrope.sinusoidal(start + np.arange(5), 64))
        return pe @ pe.T

    np.testing.assert_allclose(gram(0), gram(10**8), atol=1e-5)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: jrope.sinusoidal(jnp.arange(2), 0), "dim must be at least 1, got 0"),
        (lambda: jrope.sinusoidal(jnp.arange(2), 4, base=0.0), "base must be positive"),
        (
            lambda: jrope.sinusoidal(jnp.arange(2), 4, layout="half"),
            "layout must be one of.*'half'",
        ),
        (lambda: jrope.Sinusoidal(base=np.nan), "Sinusoidal: base must be positive.*got nan"),
        (lambda: jrope.Sinusoidal(layout="half"), "Sinusoidal: layout must be one of.*'half'"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(ValueError, match=words):
        call()
