"""NTK-aware scaling, fixed and dynamic."""

import jax
import numpy as np
import pytest
from golden_values import VALUES

import jrope


def test_ntk_is_a_larger_base_and_interpolates_only_the_slowest_band_in_full():
    start = jrope.spectrum(64)
    scaled = jrope.NTK(4.0)(start)
    want = jrope.spectrum(64, base=10_000 * 4.0 ** (64 / 62))
    np.testing.assert_allclose(scaled.frequencies, want.frequencies, rtol=1e-12)
    assert scaled.frequencies[0] == start.frequencies[0]
    assert scaled.frequencies[-1] == pytest.approx(start.frequencies[-1] / 4)


def test_dynamic_ntk_follows_the_length():
    """vllm#41236, #5093 kept one base for all lengths."""
    scaling, start = jrope.DynamicNTK(2.0, 4096), jrope.spectrum(128)
    bases = VALUES["spot"]["dynamic base M=4096 f=2 d=128 L=4096,8192,16384"]
    learned = jrope.LearnedSpectrum(start.frequencies)
    traced = jax.jit(lambda n: scaling(learned, length=n).frequencies)
    for length, base in zip((4096, 8192, 16384), bases, strict=True):
        want = jrope.spectrum(128, base=base).frequencies
        np.testing.assert_allclose(scaling(start, length=length).frequencies, want, rtol=1e-12)
        np.testing.assert_allclose(traced(length), want, rtol=1e-5)
    on_device = jax.numpy.asarray(8192)
    np.testing.assert_array_equal(
        scaling(start, length=on_device).frequencies, scaling(start, length=8192).frequencies
    )


def test_a_traced_length_needs_a_learned_spectrum():
    with pytest.raises(TypeError, match=r"traced.*jrope\.LearnedSpectrum"):
        jax.eval_shape(lambda n: jrope.DynamicNTK(2.0, 64)(jrope.spectrum(8), length=n), 128)
