"""p-RoPE."""

import jax
import numpy as np

import jrope


def test_proportional_keeps_the_width_and_the_whole_heads_exponents():
    """Neither partial rotary (pairs inside a narrower slice) nor a spectrum of fewer exponents."""
    start = jrope.spectrum(16)
    got = jrope.Proportional(0.4, 2.0)(start).frequencies
    np.testing.assert_array_equal(got, np.where(np.arange(8) < 3, start.frequencies / 2, 0))
    x = np.asarray(jax.random.normal(jax.random.key(0), (3, 1, 16)))
    spectrum = jrope.Proportional(0.25)(start)
    turned = np.asarray(jrope.rotate(x, np.arange(3), spectrum, layout="half"))
    np.testing.assert_array_equal(turned[..., 2:8], x[..., 2:8])
    assert np.abs(turned[1:, :, 8:10] - x[1:, :, 8:10]).max() > 1e-2
    np.testing.assert_array_equal(turned[..., 10:], x[..., 10:])
