"""YaRN: its ramp, its corners and its amplitude."""

import jax
import numpy as np
import pytest
from golden_values import VALUES

import jrope


def test_yarn_keeps_fast_bands_and_interpolates_slow_ones():
    start = jrope.spectrum(128)
    ratio = start.frequencies / jrope.Yarn(8.0, 4096)(start).frequencies
    turns = 4096 * start.frequencies / (2 * np.pi)
    assert np.all(ratio[turns > 40] == 1)
    np.testing.assert_allclose(ratio[turns < 0.8], 8)
    assert np.all(np.diff(ratio) >= 0)


def test_yarn_amplitude():
    """vllm PR#46280, PR#48351, mlx-lm PR#1507: an explicit attention factor was dropped."""
    start, amplitudes = jrope.spectrum(64), VALUES["spot"]["yarn mscale f=4,8,16,32,40,64"]
    for factor, amplitude in zip((4, 8, 16, 32, 40, 64), amplitudes, strict=True):
        assert jrope.Yarn(factor, 4096)(start).amplitude == pytest.approx(amplitude, rel=1e-12)
    assert jrope.Yarn(64.0, 4096, attention_factor=1.0)(start).amplitude == 1.0
    x = jax.random.normal(jax.random.key(0), (3, 1, 64))
    longer = jax.jit(jrope.rotate)(x, np.arange(3), jrope.Yarn(4.0, 4096)(start))
    ratio = np.linalg.norm(longer, axis=-1) / np.linalg.norm(x, axis=-1)
    np.testing.assert_allclose(ratio, 1.1386294, rtol=1e-5)


def test_equal_mscales_leave_the_amplitude_at_one():
    """exllamav3#259: where mscale and mscale_all_dim are equal, the temperature is in the softmax
    scale."""
    start, given = jrope.spectrum(64), {"mscale": 0.707, "mscale_all_dim": 1.0}

    def amplitude(**fields):
        return jrope.Yarn(40.0, 4096, **fields)(start).amplitude

    assert amplitude(mscale=1.0, mscale_all_dim=1.0) == 1.0
    want = (0.0707 * np.log(40) + 1) / (0.1 * np.log(40) + 1)
    assert amplitude(**given) == pytest.approx(want, rel=1e-12)
    assert amplitude(**given, attention_factor=1.25) == 1.25
    assert amplitude(mscale=0.707) == amplitude(mscale_all_dim=0.707) == amplitude()


def test_yarn_without_truncate_ramps_between_real_bands():
    """vllm PR#28244, sglang PR#14270: truncate=false was ignored for gpt-oss, whose ramp is from
    8.09 to 17.40."""
    start, at = jrope.spectrum(64, base=150_000.0), np.arange(9, 18)
    for truncate, ends in ((False, [8.092779115512402, 17.39802450158856]), (True, [8.0, 18.0])):
        ramp = jrope.Yarn(32.0, 4096, truncate=truncate).ramp(start)
        slope, intercept = np.polyfit(at, ramp[at], 1)
        got = [-intercept / slope, (1 - intercept) / slope]
        np.testing.assert_allclose(got, ends, rtol=1e-12)


@pytest.mark.parametrize("frequencies", [[1.0, 1.0, 1.0], [0.5, 1.0, 2.0], [1.0, 0.0, 0.0]])
def test_yarn_needs_frequencies_that_fall(frequencies):
    for spectrum in (jrope.Spectrum(frequencies), jrope.LearnedSpectrum(frequencies)):
        with pytest.raises(ValueError, match=r"Yarn: the spectrum must fall.*got \["):
            jrope.Yarn(4.0, 64)(spectrum)


def test_yarn_where_no_band_completes_a_turn():
    """The official ramp then runs backwards and would interpolate nothing."""
    start = jrope.spectrum(16)
    ratio = start.frequencies / jrope.Yarn(4.0, 4)(start).frequencies
    np.testing.assert_allclose(ratio[1:], 4)
