"""LongRoPE: two lists, one amplitude, and cached keys that change from one list to the other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from golden_values import VALUES

import jrope

LONGROPE = jrope.LongRope((1.0, 1.5), (2.0, 9.0), 4096, 32.0)
START = jrope.spectrum(4)


def test_longrope_is_long_past_the_trained_length():
    """unsloth PR#10681: exactly the trained length is short. llama.cpp#24823, PR#24875,
    mlxcel#1358, lalamo PR#326: the length is the sequence's, not that of the allocated memory."""
    traced = jax.jit(lambda n: LONGROPE(START, length=n))
    short, long = (1.0, 1.5), (2.0, 9.0)
    for length, factors in ((1, short), (4096, short), (4097, long), (131072, long)):
        spectrum = LONGROPE(START, length=length)
        np.testing.assert_allclose(START.frequencies / spectrum.frequencies, factors, rtol=1e-15)
        inside = traced(length)  # exact: it selects one of two exact spectra
        np.testing.assert_array_equal(inside.phase_increments, spectrum.phase_increments)
        np.testing.assert_allclose(inside.amplitude, spectrum.amplitude, rtol=1e-7)
        assert LONGROPE(START, length=jnp.asarray(length)) == spectrum
    assert LONGROPE(START) == LONGROPE(START, length=4096)


def test_a_traced_length_selects_the_list_of_an_encoding():
    """Through `Rope`, where one program serves all lengths."""
    rope, x = jrope.Rope(scaling=LONGROPE), jax.random.normal(jax.random.key(0), (2, 1, 4))
    positions = np.array([7, 10**6])

    @jax.jit
    def rotated(length):
        return rope.rotation({}, positions, positions, head_dim=4, length=length)(x, x)[0]

    for length in (4096, 4097):
        want = jrope.rotate(x, positions, LONGROPE(START, length=length))
        np.testing.assert_allclose(rotated(length), want, atol=1e-6)


def test_longrope_has_one_amplitude_for_both_lists():
    want = VALUES["spot"]["longrope attention factor s=32,L0=4096"]
    for length in (None, 4096, 4097):
        assert LONGROPE(START, length=length).amplitude == pytest.approx(want, rel=1e-12)
    assert jrope.LongRope((1.0,), (2.0,), 4096, 0.5).amplitude() == 1.0
    given = jrope.LongRope((1.0,), (2.0,), 4096, 32.0, attention_factor=1.25)
    assert given(jrope.spectrum(2)).amplitude == 1.25


def test_longrope_cached_keys_can_be_turned_to_the_other_list():
    """uzu PR#604: a cache must not mix two rotations."""
    x, positions = jax.random.normal(jax.random.key(0), (6, 1, 4)), np.arange(4093, 4099)
    short, long = (LONGROPE(START, length=n) for n in (4096, 4097))
    rotate = jax.jit(jrope.rotate)
    cached, want = (rotate(x, positions, spectrum) for spectrum in (short, long))
    got = jax.jit(jrope.rerotate)(cached, positions, short, long)
    np.testing.assert_allclose(got, want, atol=1e-5)
    assert np.abs(cached - want).max() > 0.1


def test_bad_input():
    sizes = "short_factor has 2 numbers and long_factor 2, but the spectrum has 4"
    with pytest.raises(ValueError, match=sizes):
        LONGROPE(jrope.spectrum(8))
    with pytest.raises(ValueError, match="original_length of at least 2, got 1"):
        jrope.LongRope((1.0,), (1.0,), 1, 2.0)(jrope.spectrum(2))
