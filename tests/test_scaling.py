"""Scalings against published models, against their definitions, and at their corners."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from golden_values import MODELS, VALUES

import jrope

KEYS = {
    "factor": "factor",
    "original_max_position_embeddings": "original_length",
    "beta_fast": "beta_fast",
    "beta_slow": "beta_slow",
    "truncate": "truncate",
}


def published(kind):
    """Golden entries with nothing but the keys above (no mscale, no layer types)."""
    for entry in MODELS:
        given = dict(entry["config"].get("rope_scaling") or {})
        given.pop("type", given.pop("rope_type", None))
        if entry["rope_type"] == kind and given.keys() <= KEYS.keys() and entry["layer_type"] != "sliding_attention":
            yield pytest.param(entry, {KEYS[key]: value for key, value in given.items()}, id=entry["name"])


def agrees(spectrum, entry):
    np.testing.assert_allclose(spectrum.frequencies, entry["frequencies"], rtol=1e-12)
    assert spectrum.amplitude == pytest.approx(entry["amplitude"], rel=1e-12)


def plain(entry):
    return jrope.spectrum(entry["rotary_dim"], base=entry["config"].get("rope_theta", 10_000.0))


@pytest.mark.parametrize(("entry", "fields"), list(published("yarn")))
def test_yarn_of_published_models(entry, fields):
    agrees(jrope.Yarn(**fields)(plain(entry)), entry)


@pytest.mark.parametrize(("entry", "fields"), list(published("linear")))
def test_linear_of_published_models(entry, fields):
    agrees(jrope.Linear(**fields)(plain(entry)), entry)


@pytest.mark.parametrize(("entry", "fields"), list(published("dynamic")))
def test_dynamic_ntk_of_published_models(entry, fields):
    scaling = jrope.DynamicNTK(**fields, original_length=entry["config"]["max_position_embeddings"])
    agrees(scaling(plain(entry), length=entry["length"]), entry)


def test_dynamic_ntk_follows_the_length():
    """vllm#41236, #5093 kept one base for all lengths."""
    scaling, start = jrope.DynamicNTK(2.0, 4096), jrope.spectrum(128)
    for length, base in zip(
        (4096, 8192, 16384), VALUES["spot"]["dynamic base M=4096 f=2 d=128 L=4096,8192,16384"], strict=True
    ):
        np.testing.assert_allclose(
            scaling(start, length=length).frequencies, jrope.spectrum(128, base=base).frequencies, rtol=1e-12
        )
    traced = jax.jit(lambda n: scaling(start, length=n).frequencies)(8192)
    np.testing.assert_allclose(traced, scaling(start, length=8192).frequencies, rtol=1e-5)


def test_linear_is_dividing_positions():
    x, start = jax.random.normal(jax.random.key(0), (4, 1, 8)), jrope.spectrum(8)
    positions = np.array([0, 4, 8, 4000])
    np.testing.assert_allclose(
        jrope.rotate(x, positions, jrope.Linear(4.0)(start)), jrope.rotate(x, positions // 4, start), atol=1e-6
    )


def test_ntk_is_a_larger_base_and_interpolates_the_slowest_band_alone_in_full():
    start = jrope.spectrum(64)
    scaled = jrope.NTK(4.0)(start)
    np.testing.assert_allclose(scaled.frequencies, jrope.spectrum(64, base=10_000 * 4.0 ** (64 / 62)).frequencies, rtol=1e-12)
    assert scaled.frequencies[0] == start.frequencies[0]
    assert scaled.frequencies[-1] == pytest.approx(start.frequencies[-1] / 4)


def test_yarn_keeps_fast_bands_and_interpolates_slow_ones():
    start = jrope.spectrum(128)
    ratio = start.frequencies / jrope.Yarn(8.0, 4096)(start).frequencies
    turns = 4096 * start.frequencies / (2 * np.pi)
    assert np.all(ratio[turns > 40] == 1)
    np.testing.assert_allclose(ratio[turns < 0.8], 8)
    assert np.all(np.diff(ratio) >= 0)


def test_yarn_amplitude():
    """vllm PR#46280, PR#48351, mlx-lm PR#1507: an explicit attention factor was dropped."""
    start = jrope.spectrum(64)
    for factor, amplitude in zip((4, 8, 16, 32, 40, 64), VALUES["spot"]["yarn mscale f=4,8,16,32,40,64"], strict=True):
        assert jrope.Yarn(factor, 4096)(start).amplitude == pytest.approx(amplitude, rel=1e-12)
    assert jrope.Yarn(64.0, 4096, attention_factor=1.0)(start).amplitude == 1.0
    x = jax.random.normal(jax.random.key(0), (3, 1, 64))
    longer = jrope.rotate(x, jnp.arange(3), jrope.Yarn(4.0, 4096)(start))
    np.testing.assert_allclose(jnp.linalg.norm(longer, axis=-1) / jnp.linalg.norm(x, axis=-1), 1.1386294, rtol=1e-5)


def test_yarn_without_truncate_ramps_between_real_bands():
    """vllm PR#28244, sglang PR#14270: truncate=false was ignored for gpt-oss, whose ramp runs from 8.09 to 17.40."""
    start = jrope.spectrum(64, base=150_000.0)
    for truncate, low, high in ((False, 8.092779115512402, 17.39802450158856), (True, 8.0, 18.0)):
        ramp = jrope.Yarn(32.0, 4096, truncate=truncate).ramp(start)
        slope, intercept = np.polyfit(np.arange(9, 18), ramp[9:18], 1)
        np.testing.assert_allclose([-intercept / slope, (1 - intercept) / slope], [low, high], rtol=1e-12)


@pytest.mark.parametrize("frequencies", [[1.0, 1.0, 1.0], [0.5, 1.0, 2.0], [1.0, 0.0, 0.0]])
def test_yarn_needs_frequencies_that_fall(frequencies):
    with pytest.raises(ValueError, match=r"Yarn: the spectrum must fall.*got \["):
        jrope.Yarn(4.0, 64)(jrope.Spectrum(frequencies))


@pytest.mark.parametrize("base", [1.0, 0.5])
def test_no_scaling_makes_nan_of_a_spectrum_that_does_not_fall(base):
    """Base 1 has equal frequencies: a band index is then a division by zero, which tracing hides."""
    for scaling in SCALED:

        def total(base, scaling=scaling):
            return scaling(jrope.spectrum(16, base=base), length=256).frequencies.sum()

        value, gradient = jax.value_and_grad(total)(base)
        assert np.isfinite([value, gradient]).all(), scaling


def test_a_single_band_is_its_own_fastest():
    """The exponent d / (d - 2) of NTK-aware scaling, and the spacing of YaRN's bands, have no value for d = 2."""
    for scaling in (jrope.NTK(4.0), jrope.DynamicNTK(4.0, 64), jrope.Yarn(4.0, 64)):
        np.testing.assert_array_equal(scaling(jrope.spectrum(2), length=256).frequencies, [1.0])


def test_a_scaling_is_exact_outside_jit_and_a_float32_product_inside():
    start, near, far = jrope.spectrum(16), np.array([0, 5, 40]), np.array([10**8])
    outside = jax.jit(jrope.rotation_tables)
    inside = jax.jit(lambda positions, spectrum: jrope.rotation_tables(positions, jrope.Linear(3.0)(spectrum)))
    host = jax.jit(lambda positions: jrope.rotation_tables(positions, jrope.Linear(3.0)(jrope.spectrum(16))))
    scaled = jrope.Linear(3.0)(start)
    for positions in (near, far):
        want = np.cos(positions.astype(np.longdouble)[:, None] * scaled.frequencies.astype(np.longdouble))
        for exact in (outside(positions, scaled), host(positions)):
            np.testing.assert_allclose(exact[0], want, atol=3e-7)
    np.testing.assert_allclose(inside(near, start)[0], outside(near, scaled)[0], atol=1e-5)
    assert jnp.abs(inside(far, start)[0] - outside(far, scaled)[0]).max() > 0.1
    assert jax.eval_shape(jrope.Linear(3.0), start).turns is None


def test_yarn_where_no_band_completes_a_turn():
    """The official ramp then runs backwards and would interpolate nothing."""
    start = jrope.spectrum(16)
    np.testing.assert_allclose(start.frequencies[1:] / jrope.Yarn(4.0, 4)(start).frequencies[1:], 4)


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


@pytest.mark.parametrize("scaling", NEUTRAL)
@pytest.mark.parametrize("dim", [2, 4, 6, 128])
def test_factor_one_changes_nothing(scaling, dim):
    start = jrope.spectrum(dim)
    np.testing.assert_allclose(scaling(start, length=64).frequencies, start.frequencies, rtol=1e-15)
    assert scaling(start, length=64).amplitude == 1.0


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


@pytest.mark.parametrize("scaling", SCALED)
def test_scalings_keep_the_axes(scaling):
    start = jrope.Sections((2, 3, 3))(jrope.spectrum(16))
    assert scaling(start, length=256).axes == start.axes
    assert jax.eval_shape(lambda base: scaling(jrope.spectrum(16, base=base), length=256), 1e4).axes is None


@pytest.mark.parametrize("scaling", SCALED)
def test_scalings_are_differentiable_in_a_traced_base(scaling):
    def total(base):
        return scaling(jrope.spectrum(16, base=base), length=256).frequencies.sum()

    slope = (total(10_100.0) - total(9_900.0)) / 200
    np.testing.assert_allclose(jax.grad(total)(10_000.0), slope, rtol=1e-3)


@pytest.mark.parametrize("scaling", SCALED)
@pytest.mark.parametrize("turns", [1.0, 4.0])
def test_no_gradient_is_nan_where_a_band_stands_on_a_corner(scaling, turns):
    """Llama 4 Scout: low and high factors are equal, and a where() would hide 0/0 from values but not from gradients."""
    corner = jnp.full(8, turns * 2 * np.pi / 64, jnp.float32).at[0].set(1.0)

    def total(frequencies):
        return scaling(jrope.Spectrum(frequencies), length=256).frequencies.sum()

    assert np.isfinite(jax.grad(total)(corner)).all()


def test_llama3_keeps_ramps_and_interpolates():
    """flashinfer#746, felafax#59, levanter PR#740: without its scaling, Llama 3.2 is another model."""
    start = jrope.spectrum(64, base=5e5)
    ratio = jrope.Llama3(32.0, 8192)(start).frequencies / start.frequencies
    np.testing.assert_allclose(ratio, VALUES["spot"]["llama-3.2-1b ratio scaled/base per pair"], rtol=1e-5)
    turns = 8192 * start.frequencies / (2 * np.pi)
    assert np.all(ratio[turns >= 4] == 1)
    np.testing.assert_allclose(ratio[turns <= 1], 1 / 32)


def test_llama3_with_equal_factors_is_a_step():
    start = jrope.spectrum(128, base=5e5)
    limit, near = jrope.Llama3(16.0, 8192, 1.0, 1.0)(start), jrope.Llama3(16.0, 8192, 1.0, 1.0 + 1e-9)(start)
    np.testing.assert_allclose(limit.frequencies, near.frequencies, rtol=1e-12)
    np.testing.assert_array_equal(limit.frequencies, jrope.Step(16.0, 8192)(start).frequencies)


def test_step_interpolates_wavelengths_beyond_the_trained_length():
    start = jrope.spectrum(64)
    beyond = 2 * np.pi / start.frequencies > 1000
    ratio = jrope.Step(4.0, 1000)(start).frequencies / start.frequencies
    assert beyond.any()
    assert not beyond.all()
    np.testing.assert_array_equal(ratio, np.where(beyond, 0.25, 1.0))


LONGROPE = jrope.LongRope((1.0, 1.5), (2.0, 9.0), 4096, 32.0)


@pytest.mark.parametrize("traced", [False, True])
def test_longrope_is_long_past_the_trained_length(traced):
    """unsloth PR#10681: exactly the trained length is short; llama.cpp#24823, PR#24875, mlxcel#1358, lalamo PR#326: it is the
    length of the sequence that counts, not of what was allocated for it."""
    start = jrope.spectrum(4)

    def divisors(length):
        return start.frequencies / LONGROPE(start, length=length).frequencies

    lengths = jax.jit(divisors) if traced else divisors
    for length, factors in ((1, (1.0, 1.5)), (4096, (1.0, 1.5)), (4097, (2.0, 9.0)), (131072, (2.0, 9.0))):
        np.testing.assert_allclose(lengths(length), factors, rtol=1e-6)
    np.testing.assert_array_equal(divisors(None), (1.0, 1.5))


def test_longrope_has_one_amplitude_for_both_lists():
    start = jrope.spectrum(4)
    want = VALUES["spot"]["longrope attention factor s=32,L0=4096"]
    for length in (None, 4096, 4097):
        assert LONGROPE(start, length=length).amplitude == pytest.approx(want, rel=1e-12)
    assert jrope.LongRope((1.0,), (2.0,), 4096, 0.5)(jrope.spectrum(2)).amplitude == 1.0
    assert jrope.LongRope((1.0,), (2.0,), 4096, 32.0, attention_factor=1.25)(jrope.spectrum(2)).amplitude == 1.25


def test_longrope_cached_keys_can_be_turned_to_the_other_list():
    """uzu PR#604: a cache must not mix two rotations; turning by the difference of the spectra makes it whole."""
    x, positions = jax.random.normal(jax.random.key(0), (6, 1, 4)), jnp.arange(4093, 4099)
    short, long = (LONGROPE(jrope.spectrum(4), length=n) for n in (4096, 4097))
    cached, want = (jrope.rotate(x, positions, spectrum) for spectrum in (short, long))
    np.testing.assert_allclose(jrope.rerotate(cached, positions, short, long), want, atol=1e-5)
    assert jnp.abs(cached - want).max() > 0.1


def test_proportional_keeps_the_width_and_the_whole_heads_exponents():
    """Neither partial rotary (pairs inside a narrower slice) nor a spectrum of fewer exponents."""
    start = jrope.spectrum(16)
    got = jrope.Proportional(0.4, 2.0)(start).frequencies
    np.testing.assert_array_equal(got, np.where(np.arange(8) < 3, start.frequencies / 2, 0))
    x = jax.random.normal(jax.random.key(0), (3, 1, 16))
    turned = jrope.rotate(x, jnp.arange(3), jrope.Proportional(0.25)(start), layout="half")
    np.testing.assert_array_equal(turned[..., 2:8], x[..., 2:8])
    assert jnp.abs(turned[1:, :, 8:10] - x[1:, :, 8:10]).max() > 1e-2
    np.testing.assert_array_equal(turned[..., 10:], x[..., 10:])


def test_equal_mscales_leave_the_amplitude_alone():
    """exllamav3#259: where mscale and mscale_all_dim are equal, the temperature is the softmax scale's."""
    start, given = jrope.spectrum(64), {"mscale": 0.707, "mscale_all_dim": 1.0}
    assert jrope.Yarn(40.0, 4096, mscale=1.0, mscale_all_dim=1.0)(start).amplitude == 1.0
    want = (0.0707 * np.log(40) + 1) / (0.1 * np.log(40) + 1)
    assert jrope.Yarn(40.0, 4096, **given)(start).amplitude == pytest.approx(want, rel=1e-12)
    assert jrope.Yarn(40.0, 4096, **given, attention_factor=1.25)(start).amplitude == 1.25
    for alone in ({"mscale": 0.707}, {"mscale_all_dim": 0.707}):
        assert jrope.Yarn(40.0, 4096, **alone)(start).amplitude == jrope.Yarn(40.0, 4096)(start).amplitude


@pytest.mark.parametrize("scaling", [jrope.Yarn(8.0, 100), jrope.Llama3(8.0, 100), jrope.Step(8.0, 100), LONGROPE])
def test_the_trained_length_is_a_field_of_its_own(scaling):
    """Megatron-LM#1418 took the table's length for YaRN's range: here only LongRoPE's list asks for the current length."""
    start = jrope.spectrum(4 if scaling is LONGROPE else 64)
    got = [scaling(start, length=n).frequencies for n in (None, 90, 4000)]
    np.testing.assert_array_equal(got[0], got[1])
    np.testing.assert_array_equal(got[0], got[2])


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
        (lambda: jrope.Llama3(2.0, 64, 4.0, 1.0), "Llama3: high_freq_factor.*at least 4, got 1.0"),
        (lambda: jrope.Llama3(2.0, 64, 0.0), "Llama3: low_freq_factor.*above 0, got 0.0"),
        (lambda: jrope.Step(0.5, 64), "Step: factor.*got 0.5"),
        (lambda: jrope.Proportional(1.5), "Proportional: rotary_fraction.*got 1.5"),
        (lambda: jrope.LongRope((1.0, 0.0), (1.0, 1.0), 64), "LongRope: short_factor must be positive.*0.0"),
        (lambda: LONGROPE(jrope.spectrum(8)), "short_factor has 2 numbers and long_factor 2, but the spectrum has 4"),
        (lambda: jrope.LongRope((1.0,), (1.0,), 1, 2.0)(jrope.spectrum(2)), "original_length of at least 2, got 1"),
        (lambda: jrope.Yarn(2.0, 64, attention_factor=-1.0), "Yarn: attention_factor.*above 0, got -1.0"),
    ],
)
def test_bad_fields_are_told(make, words):
    with pytest.raises(ValueError, match=words):
        make()
