"""Angles are exact: against mpmath, against outside golden values, and as integers modulo one turn."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from golden_values import VALUES
from hypothesis import given, settings
from hypothesis import strategies as st

import jrope
from jrope import exact

tables = jax.jit(jrope.rotation_tables)  # one program for every position and spectrum below


def error(positions, base, dim=128):
    """The largest error of cos and sin over all bands at these positions, made inside jit with x64 off."""
    positions = np.asarray(positions, np.int32)
    cos, sin = tables(positions, jrope.spectrum(dim, base=base))
    with mpmath.workdps(60):
        frequencies = [mpmath.mpf(base) ** (mpmath.mpf(-2 * i) / dim) for i in range(dim // 2)]
        worst = 0.0
        for row, position in enumerate(positions.tolist()):
            for i, frequency in enumerate(frequencies):
                angle = position * frequency
                worst = max(
                    worst,
                    abs(float(mpmath.cos(angle) - float(cos[row, i]))),
                    abs(float(mpmath.sin(angle) - float(sin[row, i]))),
                )
    return worst


@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
@pytest.mark.parametrize("position", [10**3, 10**5, 10**6, 10**8, 10**9, 2**31 - 8])
def test_error_is_that_of_float32_trigonometry_at_any_position(position, base):
    assert not jax.config.jax_enable_x64
    signed = position * np.array([1, -1])[:, None] + np.arange(4)
    assert error(signed.ravel(), base) < (1.5e-7 if position <= 10**8 else 4e-7)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
def test_an_angle_does_not_know_the_dtype_of_what_it_turns(dtype):
    """gpt-neox#1003: position 1857 of a bfloat16 model; in float16 the angle 1044.27 has a step of 1."""
    angle, cosine = VALUES["spot"]["cos(1857*10000^(-1/16)) gpt-neox 1003"]
    s = jrope.spectrum(32)
    assert 1857 * s.frequencies[1] == pytest.approx(angle, rel=1e-12)
    x = (
        jnp.zeros((1, 1, 32), dtype).at[0, 0, 2].set(1)
    )  # the first feature of pair 1: turned, it is the cosine
    got = jrope.rope(x, jnp.array([1857]))[0, 0, 2]
    assert float(got) == pytest.approx(
        cosine, abs=1.5e-7 if dtype == jnp.float32 else float(jnp.finfo(dtype).eps) * cosine
    )


def test_a_cast_of_a_spectrum_changes_no_angle_or_is_refused():
    """sglang-jax#1472: inv_freq in bfloat16 before the product, wrong by .83 at position 4095; transformers#29496 alike."""
    s, positions = jrope.spectrum(128), np.array([1000, 4095])
    for dtype in (jnp.bfloat16, jnp.float32):
        floats = jax.tree.map(lambda a, d=dtype: jnp.asarray(a, d) if a.dtype.kind == "f" else a, s)
        for got, function in zip(tables(positions, floats), (np.cos, np.sin), strict=True):
            np.testing.assert_allclose(
                got, function(positions[:, None] * s.frequencies), atol=1.5e-7
            )
        everything = jax.tree.map(lambda a, d=dtype: jnp.asarray(a, d), s)
        with pytest.raises(TypeError, match=f"phase_increments must be uint32, got {dtype.dtype}"):
            tables(positions, everything)


@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
def test_every_position_to_the_trained_length_is_that_of_float64(base):
    """imp#1316, PR#1325: fast sines that were tested up to position 40, and wrong by 1e-2 at 131071."""
    positions, s = np.arange(131_072, dtype=np.int32), jrope.spectrum(16, base=base)
    angles = positions[:, None] * s.frequencies
    for got, want in zip(tables(positions, s), (np.cos(angles), np.sin(angles)), strict=True):
        np.testing.assert_allclose(got, want, atol=1.5e-7, rtol=0)


def test_the_float32_product_is_what_this_replaces():
    """If float32 were as good, all of jrope.exact would be for nothing."""
    positions = np.arange(10**6 - 31, 10**6 + 1)
    frequencies = np.float64(10_000) ** (-np.arange(0, 128, 2) / 128)
    cos, _ = exact.tables(positions.astype(np.float32), frequencies)
    assert np.abs(cos - np.cos(positions[:, None] * frequencies)).max() > 1e-2


@pytest.mark.parametrize("case", sorted(VALUES["exact_trig_d128"]))
def test_golden_cos_and_sin(case):
    _, base, _, position = case.split()
    cos, sin = tables(jnp.array([int(position)] * 8), jrope.spectrum(128, base=float(base)))
    golden = VALUES["exact_trig_d128"][case]
    np.testing.assert_allclose(cos[0], golden["cos"], atol=2.5e-7, rtol=0)
    np.testing.assert_allclose(sin[0], golden["sin"], atol=2.5e-7, rtol=0)


@pytest.mark.parametrize("base", ["10000", "500000"])
def test_golden_fixed_point(base):
    """Equal to turns from 60-digit frequencies, to what rounding the frequency to float64 costs (2^-53, relative)."""
    whole, high, low, *_ = jrope.spectrum(128, base=float(base)).phase_increments.astype(object)
    assert not whole.any()
    for word, golden in zip(
        (high * 2**32 + low).tolist(), VALUES["turns_u64_d128"][base], strict=True
    ):
        assert abs(word - int(golden)) <= 8 * 2**-53 * int(golden) + 1


@given(st.floats(min_value=-7, max_value=7), st.integers(-(2**31), 2**31 - 1))
@settings(max_examples=300, deadline=None)
def test_phase_is_the_product_modulo_one_turn(frequency, position):
    """Against Python's big integers, bit for bit."""
    fraction = exact._fraction(exact.phase_increments(np.array([frequency])))
    high, low = exact.split(np.array([position]))
    got = exact._multiply(high[:, None], low[:, None], *(word[None] for word in fraction))
    word = int(fraction[0][0]) * 2**32 + int(fraction[1][0])
    assert int(got[0, 0]) == (word * position % 2**64) >> 32


@pytest.mark.parametrize(
    "dtype", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32]
)
def test_every_integer_dtype_means_the_same_position(dtype):
    positions = np.array([0, 1, 77, 127], dtype)
    s = jrope.spectrum(16)
    wanted = exact.cos_sin(np.array([0, 1, 77, 127]), s.phase_increments)
    for given_as in (positions, jnp.asarray(positions)):
        for got, want in zip(exact.cos_sin(given_as, s.phase_increments), wanted, strict=True):
            np.testing.assert_array_equal(got, want)


def test_positions_beyond_int32_do_not_wrap():
    """JAX's int32 wraps: arange(3) + 2147483647 turns negative. Here uint32 and NumPy int64 hold what they say."""
    assert int((jnp.arange(3) + 2147483647)[1]) < 0
    s = jrope.spectrum(16)
    for position in (
        np.array([2**31 + 5], np.uint32),
        np.array([2**31 + 5], np.int64),
        np.array([-(2**36) - 3], np.int64),
    ):
        cos, sin = exact.cos_sin(position, s.phase_increments)
        with mpmath.workdps(60):
            angles = [mpmath.mpf(float(f)) * int(position[0]) for f in s.frequencies]
            np.testing.assert_allclose(cos[0], [float(mpmath.cos(a)) for a in angles], atol=1.5e-7)
            np.testing.assert_allclose(sin[0], [float(mpmath.sin(a)) for a in angles], atol=1.5e-7)


def test_no_matrix_product_makes_an_angle():
    """transformers PR#27700, #48428: half and TF32 products rounded 2049 to 2048."""
    one, spot = jrope.spectrum(2), VALUES["spot"]["cos/sin(2049),(2048) transformers 48428"]
    cos, sin = tables(jnp.array([2049, 2048]), one)
    np.testing.assert_allclose([cos[0, 0], sin[0, 0], cos[1, 0], sin[1, 0]], spot, atol=1.5e-7)
    jaxpr = str(jax.make_jaxpr(jrope.rotation_tables)(jnp.arange(8), jrope.spectrum(16)))
    assert "dot_general" not in jaxpr


def test_fractional_positions_take_the_float_product():
    s = jrope.spectrum(8)
    cos, _ = exact.cos_sin(jnp.array([0.5]), s.phase_increments)
    np.testing.assert_allclose(cos[0], np.cos(0.5 * s.frequencies), atol=1e-6)
    small = jrope.Spectrum([-1e-6])  # whose two's complement is nearly a whole turn
    _, sin = exact.cos_sin(jnp.array([1e5]), small.phase_increments)
    np.testing.assert_allclose(sin[0], np.sin(-0.1), atol=1e-6)


def test_x64_mode_gives_the_same_tables():
    s = jrope.spectrum(32)
    want = exact.cos_sin(np.array([3, 10**9]), s.phase_increments)
    with jax.enable_x64(True):
        got = exact.cos_sin(jnp.array([3, 10**9], jnp.int64), s.phase_increments)
        assert got[0].dtype == jnp.float32
        np.testing.assert_array_equal(got[0], want[0])


@given(st.lists(st.floats(min_value=-100, max_value=100), min_size=1, max_size=4))
@settings(max_examples=200, deadline=None)
def test_frequencies_come_back_as_they_were(given):
    """Any float64 above 1e-22, of either sign, also after a device and a program."""
    wanted = [f if abs(f) > 1e-20 else 0.0 for f in given]
    s = jrope.Spectrum(wanted)
    np.testing.assert_array_equal(s.frequencies, wanted)
    np.testing.assert_array_equal(jax.device_put(s).frequencies, wanted)


def test_differences_of_spectra_are_exact():
    new, old = jrope.spectrum(16, base=5e5), jrope.spectrum(16)
    got = jax.jit(lambda a, b: a.minus(b))(new, old)
    np.testing.assert_allclose(
        got.frequencies, new.frequencies - old.frequencies, rtol=1e-12, atol=0
    )
