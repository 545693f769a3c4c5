"""Scalings against the frequencies of published models."""

import numpy as np
import pytest
from golden_values import MODELS

import jrope

KEYS = {
    "factor": "factor",
    "original_max_position_embeddings": "original_length",
    "beta_fast": "beta_fast",
    "beta_slow": "beta_slow",
    "truncate": "truncate",
}
SCALINGS = {"yarn": jrope.Yarn, "linear": jrope.Linear, "dynamic": jrope.DynamicNTK}


def published():
    """Golden entries with only the keys above (no mscale, no layer types)."""
    for entry in MODELS:
        given = dict(entry["config"].get("rope_scaling") or {})
        given.pop("type", given.pop("rope_type", None))
        kind = entry["rope_type"]
        local = entry["layer_type"] == "sliding_attention"
        if kind in SCALINGS and given.keys() <= KEYS.keys() and not local:
            fields = {KEYS[key]: value for key, value in given.items()}
            if kind == "dynamic":
                fields["original_length"] = entry["config"]["max_position_embeddings"]
            yield pytest.param(entry, SCALINGS[kind](**fields), id=f"{kind} {entry['name']}")


@pytest.mark.parametrize(("entry", "scaling"), list(published()))
def test_frequencies_and_amplitude_of_published_models(entry, scaling):
    base = entry["config"].get("rope_theta", 10_000.0)
    spectrum = scaling(jrope.spectrum(entry["rotary_dim"], base=base), length=entry.get("length"))
    np.testing.assert_allclose(spectrum.frequencies, entry["frequencies"], rtol=1e-12)
    assert spectrum.amplitude == pytest.approx(entry["amplitude"], rel=1e-12)


def test_every_kind_has_published_models():
    kinds = [type(case.values[1]) for case in published()]
    assert set(kinds) == set(SCALINGS.values())
