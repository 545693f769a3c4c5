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
    """vllm#41236 kept one base for all lengths."""
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
    """vllm PR#46280, mlx-lm PR#1507: an explicit attention factor was dropped."""
    start = jrope.spectrum(64)
    for factor, amplitude in zip((4, 8, 16, 32, 40, 64), VALUES["spot"]["yarn mscale f=4,8,16,32,40,64"], strict=True):
        assert jrope.Yarn(factor, 4096)(start).amplitude == pytest.approx(amplitude, rel=1e-12)
    assert jrope.Yarn(64.0, 4096, attention_factor=1.0)(start).amplitude == 1.0
    x = jax.random.normal(jax.random.key(0), (3, 1, 64))
    longer = jrope.rotate(x, jnp.arange(3), jrope.Yarn(4.0, 4096)(start))
    np.testing.assert_allclose(jnp.linalg.norm(longer, axis=-1) / jnp.linalg.norm(x, axis=-1), 1.1386294, rtol=1e-5)


def test_yarn_where_no_band_completes_a_turn():
    """The official ramp then runs backwards and would interpolate nothing."""
    start = jrope.spectrum(16)
    np.testing.assert_allclose(start.frequencies[1:] / jrope.Yarn(4.0, 4)(start).frequencies[1:], 4)


@pytest.mark.parametrize("scaling", [jrope.Linear(1.0), jrope.NTK(1.0), jrope.DynamicNTK(3.0, 64), jrope.Yarn(1.0, 64)])
@pytest.mark.parametrize("dim", [2, 4, 6, 128])
def test_factor_one_changes_nothing(scaling, dim):
    start = jrope.spectrum(dim)
    np.testing.assert_allclose(scaling(start, length=64).frequencies, start.frequencies, rtol=1e-15)
    assert scaling(start, length=64).amplitude == 1.0


@pytest.mark.parametrize("scaling", [jrope.Linear(4.0), jrope.NTK(4.0), jrope.DynamicNTK(4.0, 64), jrope.Yarn(4.0, 64)])
def test_scalings_are_differentiable_in_a_traced_base(scaling):
    def total(base):
        return scaling(jrope.spectrum(16, base=base), length=256).frequencies.sum()

    slope = (total(10_100.0) - total(9_900.0)) / 200
    np.testing.assert_allclose(jax.grad(total)(10_000.0), slope, rtol=1e-3)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: jrope.Linear(0.5), "Linear: factor must be a finite number at least 1, got 0.5"),
        (lambda: jrope.NTK(float("nan")), "NTK: factor.*got nan"),
        (lambda: jrope.DynamicNTK(2.0, 0), "DynamicNTK: original_length.*at least 1, got 0"),
        (lambda: jrope.Yarn(float("inf"), 64), "Yarn: factor.*got inf"),
        (lambda: jrope.Yarn(2.0, 64, beta_fast=0.5), "Yarn: beta_fast.*at least 1, got 0.5"),
        (lambda: jrope.Yarn(2.0, 64, beta_slow=0.0), "Yarn: beta_slow.*above 0, got 0.0"),
        (lambda: jrope.Yarn(2.0, 64, attention_factor=-1.0), "Yarn: attention_factor.*above 0, got -1.0"),
    ],
)
def test_bad_fields_are_told(make, words):
    with pytest.raises(ValueError, match=words):
        make()
