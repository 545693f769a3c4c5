"""A spectrum is exact and cannot be edited, or it is learned and has gradients."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jrope

EXACT = jrope.spectrum(8)
LEARNED = jrope.LearnedSpectrum(EXACT.frequencies)
both = pytest.mark.parametrize("spectrum", [EXACT, LEARNED], ids=["exact", "learned"])


@both
def test_a_spectrum_cannot_be_edited(spectrum):
    """Once edited frequencies changed no angle, silently."""
    for name in ("frequencies", "amplitude", "axes", "phase_increments"):
        with pytest.raises(AttributeError, match=r"is frozen.*scaled\(\)"):
            setattr(spectrum, name, 1.0)
    if isinstance(spectrum, jrope.Spectrum):
        cast = jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), spectrum)
        with pytest.raises(TypeError, match="must be uint32, got float32: do not cast"):
            jrope.rotation_tables(np.arange(2), cast)


@both
def test_what_moves_a_spectrum_keeps_it(spectrum):
    moved = (
        copy.deepcopy(spectrum),
        jax.device_put(spectrum),
        jax.jit(lambda s: s)(spectrum),
        jax.tree.map(jnp.asarray, spectrum),
        spectrum.scaled(spectrum.frequencies),
        spectrum.with_axes(None, np.arange(4)),
    )
    for other in moved:
        np.testing.assert_array_equal(other.frequencies, spectrum.frequencies)
        assert other.frequencies.dtype == spectrum.frequencies.dtype
        assert other == spectrum
        assert hash(other) == hash(spectrum)


def test_exact_frequencies_are_the_float64_numbers_given():
    given = np.array([3.7, 1.0, -0.25, 1e-9, 1e-22, 0.0, 9e9])
    got = jrope.Spectrum(given).frequencies
    np.testing.assert_allclose(got, given, rtol=1e-15)
    assert jrope.spectrum(64).frequencies.tolist() == (1e4 ** (-np.arange(32) / 32)).tolist()


def test_spectra_differ_by_kind_numbers_amplitude_and_axes():
    others = (
        LEARNED,
        jrope.spectrum(8, base=9_999.0),
        EXACT.scaled(EXACT.frequencies, 2.0),
        EXACT.with_axes((0, 0, 1, 1)),
    )
    assert all(other != EXACT for other in others)
    assert len({EXACT, jrope.spectrum(8), *others}) == 5


@pytest.mark.parametrize(
    ("read", "words"),
    [
        (
            lambda s: s.frequencies,
            "it is traced, so its frequencies cannot be read.*LearnedSpectrum",
        ),
        (
            lambda s: jrope.Spectrum(s.phase_increments[0]),
            "frequencies are traced.*LearnedSpectrum",
        ),
        (hash, "a traced spectrum has no hash"),
    ],
)
def test_a_traced_spectrum_raises_where_it_cannot_be_exact(read, words):
    with pytest.raises(TypeError, match=words):
        jax.eval_shape(read, EXACT)


def test_a_learned_spectrum_has_gradients_and_an_exact_one_is_the_same_nearby():
    x, positions = jax.random.normal(jax.random.key(0), (3, 1, 8)), np.arange(3)
    want = jrope.rotate(x, positions, EXACT)
    np.testing.assert_allclose(jrope.rotate(x, positions, LEARNED), want, atol=1e-6)

    @jax.jit
    @jax.grad
    def gradient(spectrum):
        return (jrope.rotate(x, positions, spectrum) * jnp.flip(x, -1)).sum()

    learned = gradient(LEARNED)
    assert (np.abs(learned.frequencies) > 1e-3).all()
    assert isinstance(gradient(LEARNED), jrope.LearnedSpectrum)
    with pytest.raises(TypeError, match="uint32"):
        gradient(EXACT)


@both
def test_bad_axes_and_frequencies(spectrum):
    with pytest.raises(ValueError, match="axes must be 4 axis numbers"):
        spectrum.with_axes((0, 1))
    with pytest.raises(ValueError, match="must be finite and at most 1e10, got"):
        jrope.Spectrum([1.0, np.inf])
