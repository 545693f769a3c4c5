"""Laws that all scalings keep."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jrope

SCALED = [
    jrope.Linear(4.0),
    jrope.NTK(4.0),
    jrope.DynamicNTK(4.0, 64),
    jrope.Yarn(4.0, 64),
    jrope.Llama3(4.0, 64),
    jrope.Llama3(4.0, 64, 1.0, 1.0),
    jrope.LongRope((1.5,) * 8, tuple(range(1, 9)), 64, 4.0),
    jrope.Step(4.0, 64),
    jrope.Proportional(0.5, 2.0),
]
NEUTRAL = [
    jrope.Linear(1.0),
    jrope.NTK(1.0),
    jrope.DynamicNTK(3.0, 64),
    jrope.Yarn(1.0, 64),
    jrope.Yarn(1.0, 64, mscale=0.7, mscale_all_dim=1.0),
    jrope.Llama3(1.0, 64),
    jrope.Step(1.0, 64),
    jrope.Proportional(1.0),
]
each = pytest.mark.parametrize("scaling", SCALED, ids=repr)
tables = jax.jit(jrope.rotation_tables)


def cosines(positions, spectrum):
    """The definition, in the precision of the host."""
    angles = np.longdouble(positions)[:, None] * np.longdouble(spectrum.frequencies)
    return np.cos(angles) * spectrum.amplitude


def sum_from_base(base, scaling):
    return scaling(jrope.spectrum(16, base=base), length=256).frequencies.sum()


def sum_from_frequencies(frequencies, scaling):
    return scaling(jrope.LearnedSpectrum(frequencies), length=256).frequencies.sum()


# one program for each scaling
base_gradient, frequency_gradient = (
    jax.jit(jax.value_and_grad(f), static_argnums=1) for f in (sum_from_base, sum_from_frequencies)
)


@pytest.mark.parametrize("scaling", NEUTRAL, ids=repr)
def test_factor_one_changes_nothing(scaling):
    for dim in (2, 4, 6, 128):
        start = jrope.spectrum(dim)
        scaled = scaling(start, length=64)
        np.testing.assert_allclose(scaled.frequencies, start.frequencies, rtol=1e-15)
        assert scaled.amplitude == 1.0


def test_all_scalings_share_one_compiled_program():
    traced = []

    @jax.jit
    def rotated(x, spectrum):
        traced.append(spectrum)
        return jrope.rotate(x, np.arange(3), spectrum)

    x, start = jax.random.normal(jax.random.key(0), (3, 1, 16)), jrope.spectrum(16)
    for spectrum in (start, *(scaling(start, length=256) for scaling in SCALED)):
        got = rotated(x, spectrum)
    np.testing.assert_allclose(got, jrope.rotate(x, np.arange(3), spectrum), atol=1e-6)
    assert len(traced) == 1


@each
def test_a_scaling_is_exact_wherever_its_spectrum_comes_from(scaling):
    """A device, a pytree and a jitted function keep a spectrum exact."""
    start, positions = jrope.spectrum(16), np.array([0, 5, 10**6])
    want = cosines(positions, scaling(start, length=256))
    moved = (
        start,
        jax.device_put(start),
        jax.tree.map(jnp.asarray, start),
        jax.jit(lambda s: s)(start),
    )
    for spectrum in moved:
        got, _ = tables(positions, scaling(spectrum, length=256))
        np.testing.assert_allclose(got, want, atol=1.5e-7 * float(scaling(start).amplitude))


def test_linear_and_axes_are_exact_outside_and_inside_jit():
    """A cosine at position 10^6 was wrong by 0.019 where the spectrum was an argument."""
    start, positions = jrope.spectrum(16), np.array([10**6])
    scaled = jrope.Linear(3.0)(jax.device_put(start))
    np.testing.assert_allclose(
        tables(positions, scaled)[0], cosines(positions, scaled), atol=1.5e-7
    )
    made_inside = jax.jit(lambda p: jrope.rotation_tables(p, jrope.Linear(3.0)(jrope.spectrum(16))))
    far = np.array([10**8])
    np.testing.assert_allclose(made_inside(far)[0], cosines(far, scaled), atol=3e-7)
    for axes in (
        jrope.Sections((4, 4)),
        jrope.Sections((3, 3, 2), interleaved=True),
        jrope.Axial(2),
    ):
        inside = jax.jit(lambda p, s, axes=axes: jrope.rotation_tables(p, axes(s)))
        got, _ = inside(np.tile(positions, (3, 1)), start)
        np.testing.assert_allclose(got, cosines(positions, axes(start)), atol=1.5e-7)


def test_cached_keys_are_rotated_again_exactly_inside_jit():
    x, positions = jax.random.normal(jax.random.key(0), (2, 1, 16)), np.array([3, 10**6])
    old, new = jrope.spectrum(16), jrope.Yarn(4.0, 64)(jrope.spectrum(16))
    got = jax.jit(jrope.rerotate)(jrope.rotate(x, positions, old), positions, old, new)
    np.testing.assert_allclose(got, jrope.rotate(x, positions, new), atol=2e-6)


@each
def test_a_traced_spectrum_has_to_be_a_learned_one(scaling):
    start = jrope.spectrum(16)
    scaled = partial(scaling, length=256)
    with pytest.raises(TypeError, match=r"traced.*outside jit.*jrope\.LearnedSpectrum"):
        jax.eval_shape(scaled, start)
    learned = jrope.LearnedSpectrum(start.frequencies)
    inside, outside = jax.jit(scaled)(learned), scaled(start)
    assert isinstance(inside, jrope.LearnedSpectrum)
    np.testing.assert_allclose(inside.frequencies, outside.frequencies, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(inside.amplitude, outside.amplitude, rtol=1e-6)


@each
def test_scalings_keep_the_axes(scaling):
    start = jrope.Sections((2, 3, 3))(jrope.spectrum(16))
    assert scaling(start, length=256).axes == start.axes
    shape = jax.eval_shape(lambda base: scaling(jrope.spectrum(16, base=base), length=256), 1e4)
    assert shape.axes is None


@each
def test_scalings_are_differentiable_in_a_traced_base(scaling):
    slope = (sum_from_base(10_100.0, scaling) - sum_from_base(9_900.0, scaling)) / 200
    np.testing.assert_allclose(base_gradient(10_000.0, scaling)[1], slope, rtol=1e-3)


@each
def test_no_scaling_makes_nan_of_a_spectrum_that_does_not_fall(scaling):
    """Base 1 has equal frequencies: a band index divides by zero, which tracing hides."""
    for base in (1.0, 0.5):
        assert np.isfinite(base_gradient(base, scaling)).all()


@each
def test_no_gradient_is_nan_where_a_band_is_on_a_corner(scaling):
    """Llama 4 Scout: low and high factors are equal, and a where() would hide 0/0 from values but
    not from gradients."""
    for turns in (1.0, 4.0):
        corner = np.full(8, turns * 2 * np.pi / 64, np.float32)
        corner[0] = 1.0
        assert np.isfinite(frequency_gradient(corner, scaling)[1]).all()


def test_a_single_band_is_its_own_fastest():
    """The exponent d / (d - 2) of NTK-aware scaling, and the spacing of YaRN's bands, have no value
    for d = 2."""
    for scaling in (jrope.NTK(4.0), jrope.DynamicNTK(4.0, 64), jrope.Yarn(4.0, 64)):
        np.testing.assert_array_equal(scaling(jrope.spectrum(2), length=256).frequencies, [1.0])


@each
def test_the_trained_length_is_a_field(scaling):
    """Megatron-LM#1418 took the table's length for YaRN's range. Only DynamicNTK and LongRoPE
    depend on the current length."""
    start = jrope.spectrum(16)
    short, none, long = (scaling(start, length=n).frequencies for n in (60, None, 4000))
    np.testing.assert_array_equal(short, none)
    follows = isinstance(scaling, jrope.DynamicNTK | jrope.LongRope)
    assert np.array_equal(none, long) is not follows


def test_no_scaling_has_a_factor_by_default():
    """mlx-lm PR#1553 interpolated by 2 where none was asked for."""
    for cls in (jrope.Linear, jrope.NTK, jrope.DynamicNTK, jrope.Yarn, jrope.Llama3, jrope.Step):
        with pytest.raises(TypeError, match="factor"):
            cls()
    assert jrope.Rope().scaling is None


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: jrope.Linear(0.5), "Linear: factor must be a finite number at least 1, got 0.5"),
        (lambda: jrope.NTK(float("nan")), "NTK: factor.*got nan"),
        (lambda: jrope.DynamicNTK(2.0, 0), "DynamicNTK: original_length.*at least 1, got 0"),
        (lambda: jrope.Yarn(float("inf"), 64), "Yarn: factor.*got inf"),
        (lambda: jrope.Yarn(2.0, 64, beta_fast=0.5), "Yarn: beta_fast.*at least 1, got 0.5"),
        (lambda: jrope.Yarn(2.0, 64, beta_slow=0.0), "Yarn: beta_slow.*above 0, got 0.0"),
        (lambda: jrope.Yarn(2.0, 64, mscale=-1.0), "Yarn: mscale must be.*at least 0, got -1.0"),
        (
            lambda: jrope.Yarn(2.0, 64, attention_factor=-1.0),
            "Yarn: attention_factor.*above 0, got",
        ),
        (lambda: jrope.Llama3(2.0, 64, 4.0, 1.0), "high_freq_factor.*at least 4, got 1.0"),
        (lambda: jrope.Llama3(2.0, 64, 0.0), "Llama3: low_freq_factor.*above 0, got 0.0"),
        (lambda: jrope.Step(0.5, 64), "Step: factor.*got 0.5"),
        (lambda: jrope.Proportional(1.5), "Proportional: rotary_fraction.*got 1.5"),
        (lambda: jrope.LongRope((1.0, 0.0), (1.0, 1.0), 64), "short_factor must be positive.*0.0"),
    ],
)
def test_bad_fields(make, words):
    with pytest.raises(ValueError, match=words):
        make()
