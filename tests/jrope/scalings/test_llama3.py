"""Llama 3's ramp, and the step that is its limit."""

import numpy as np
from golden_values import VALUES

import jrope


def test_llama3_keeps_ramps_and_interpolates():
    """flashinfer#746, felafax#59, levanter PR#740: Llama 3.2 without its scaling."""
    start = jrope.spectrum(64, base=5e5)
    ratio = jrope.Llama3(32.0, 8192)(start).frequencies / start.frequencies
    golden = VALUES["spot"]["llama-3.2-1b ratio scaled/base per pair"]
    np.testing.assert_allclose(ratio, golden, rtol=1e-5)
    turns = 8192 * start.frequencies / (2 * np.pi)
    assert np.all(ratio[turns >= 4] == 1)
    np.testing.assert_allclose(ratio[turns <= 1], 1 / 32)


def test_llama3_with_equal_factors_is_a_step():
    start = jrope.spectrum(128, base=5e5)
    limit, near = (jrope.Llama3(16.0, 8192, 1.0, high)(start) for high in (1.0, 1.0 + 1e-9))
    np.testing.assert_allclose(limit.frequencies, near.frequencies, rtol=1e-12)
    np.testing.assert_array_equal(limit.frequencies, jrope.Step(16.0, 8192)(start).frequencies)


def test_step_interpolates_wavelengths_beyond_the_trained_length():
    start = jrope.spectrum(64)
    beyond = 2 * np.pi / start.frequencies > 1000
    ratio = jrope.Step(4.0, 1000)(start).frequencies / start.frequencies
    assert beyond.any()
    assert not beyond.all()
    np.testing.assert_array_equal(ratio, np.where(beyond, 0.25, 1.0))
