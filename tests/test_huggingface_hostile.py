"""Damaged configs: every one is refused by name, or read as what it still says; nothing else is raised and nothing assumed."""

import copy
import math

from golden_values import MODELS
from hypothesis import given, settings
from hypothesis import strategies as st

from jrope import from_huggingface

HUNYUAN = {"type": "dynamic", "alpha": 1000.0, "factor": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0}
CASES = [(entry["config"], entry["layer_type"]) for entry in MODELS] + [
    ({"model_type": "hunyuan_v1_dense", "max_position_embeddings": 32_768, "rope_theta": 1e4, "rope_scaling": HUNYUAN}, None),
    ({"model_type": "esm", "position_embedding_type": "rotary", "hidden_size": 64, "num_attention_heads": 4}, None),
]
DICTS = ("rope_scaling", "rope_parameters")
SIZES = ("head_dim", "hidden_size", "num_attention_heads", "n_embd", "n_head", "qk_rope_head_dim")
READ = ("rope_theta", "rope_local_base_freq", "rotary_dim", "rotary_pct", "rotary_emb_base", "partial_rotary_factor")
WRONG = [math.nan, math.inf, True, False, "8", "", [], [1.0], {}, {"factor": 2.0}, -1.0, -8, object(), 1j, b"yarn"]
# a negative mscale is a number like another, and an amplitude may have any sign
FREE = {"mscale": (-1.0, -8), "mscale_all_dim": (-1.0, -8), "truncate": (True, False), "mrope_interleaved": (True, False)}
# keys whose absence has a meaning of its own, by the published code of the model or by the formula
OPTIONAL = {"beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate", "attention_factor", "mrope_interleaved", "alpha"}
OPTIONAL |= {"rope_type", "partial_rotary_factor"}  # a dict with a base and no type is plain, and without a share turns all


def places(config, layer_type):
    """The dicts of a config that are read for this layer type, each with the keys that are."""
    yield config, [key for key in (*SIZES, *READ, *DICTS, "model_type") if config.get(key) is not None]
    for key in DICTS:
        inner = config.get(key) or {}
        inner = inner.get(layer_type, inner)
        if inner and layer_type != "sliding_attention":
            yield inner, list(inner)


def read(config, layer_type):
    """The encoding or the refusal; any other exception fails the test."""
    try:
        return from_huggingface(config, layer_type), ""
    except (ValueError, TypeError) as error:
        return None, str(error)


def some(draw, case):
    config, layer_type = copy.deepcopy(CASES[case])
    place, keys = draw(st.sampled_from(list(places(config, layer_type))))
    return config, layer_type, place, draw(st.sampled_from(keys))


@settings(max_examples=400, deadline=None)
@given(st.data(), st.integers(0, len(CASES) - 1), st.sampled_from(WRONG))
def test_a_wrong_value_is_refused_with_its_key(data, case, wrong):
    config, layer_type, place, key = some(data.draw, case)
    if any(wrong is free or (wrong == free and type(wrong) is type(free)) for free in FREE.get(key, ())):
        return
    before, _ = read(config, layer_type)
    place[key] = wrong
    encoding, words = read(config, layer_type)
    if encoding is None:
        assert key in words or (key in DICTS and isinstance(wrong, dict)), words
    else:  # the key is not read for this layer, or an empty dict gives nothing
        assert encoding == before or wrong == {}


@settings(max_examples=200, deadline=None)
@given(st.data(), st.integers(0, len(CASES) - 1), st.integers(0, 20))
def test_a_misspelt_key_is_refused(data, case, at):
    config, layer_type, place, key = some(data.draw, case)
    at %= len(key) - 1
    wrong = key[:at] + key[at + 1] + key[at] + key[at + 2 :]
    if place is config or wrong == key:
        return
    place[wrong] = place.pop(key)
    encoding, words = read(config, layer_type)
    assert encoding is None
    assert wrong in words or key in words or key in ("type", "rope_type"), words


@settings(max_examples=200, deadline=None)
@given(st.data(), st.integers(0, len(CASES) - 1))
def test_a_missing_key_is_refused_or_optional(data, case):
    config, layer_type, place, key = some(data.draw, case)
    before, _ = read(config, layer_type)
    if place is config and key in DICTS:
        return  # a config without scaling is another config
    del place[key]
    encoding, words = read(config, layer_type)
    if encoding is None:
        assert words
    elif encoding != before:  # LongRoPE's factor may be the ratio of the lengths
        assert key in OPTIONAL or place is config, key
