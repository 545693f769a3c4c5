"""Damaged configs. Each is refused with the key, or read without the damaged part."""

import copy
import math
import re

import pytest
from golden_values import MODELS, PEER_CONFIGS
from hypothesis import given, settings
from hypothesis import strategies as st

from jrope import from_huggingface
from jrope.huggingface import head_dims, layer_types

NAMED = {entry["name"]: entry["config"] for entry in MODELS}
MLA, GEMMA = NAMED["deepseek-v3 / r1"], NAMED["gemma-3-27b full_attention"]
LENGTH = "original_max_position_embeddings"
YARN = {"rope_type": "yarn", "factor": 4.0, LENGTH: 2048}
LLAMA3 = {"type": "llama3", "factor": 8.0, LENGTH: 2048}
LLAMA3 |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}


def llama(**keys):
    sizes = {"hidden_size": 256, "num_attention_heads": 4, "max_position_embeddings": 8192}
    return {"model_type": "llama", **sizes, "rope_theta": 1e4, **keys}


def other(model, **keys):
    return {"model_type": model, "rope_theta": 1e4, **keys}


def scaled(**keys):
    return llama(rope_scaling=keys)


def longrope(count):
    factors = {"short_factor": [1.0] * count, "long_factor": [2.0] * count, "factor": 2.0}
    return {"type": "longrope", LENGTH: 4096, **factors}


def mrope(*sections):
    return {"type": "mrope", "mrope_section": list(sections)}


REFUSED = [
    # the model
    ({}, "model_type=None"),
    (llama(model_type="lama"), "model_type='lama'"),
    (llama(model_type=["llama"]), "model_type=['llama']"),
    (other("falcon", alibi=True), "alibi=True"),
    (other("llava", text_config=[]), "text_config=[]"),
    # its scaling
    (scaled(rope_type="dynamic-ntk", factor=2.0), "rope_type='dynamic-ntk'"),
    (scaled(type="mrope"), "type='mrope'"),
    (scaled(type=["linear"], factor=2.0), "type=['linear']"),
    (scaled(type="linear", rope_type="dynamic", factor=2.0), "type='linear' are not the same"),
    (scaled(type="linear", factor=2.0, fcator=3), "fcator=3"),
    (scaled(factor=2.0), "factor=2.0"),
    (scaled(type="linear"), "factor is missing"),
    (scaled(type="linear", factor="2"), "factor='2'"),
    (scaled(type="linear", factor=True), "factor=True"),
    (llama(rope_scaling="linear"), "rope_scaling='linear' must be a dict"),
    (scaled(**YARN, truncate="no"), "truncate='no'"),
    (scaled(**YARN, mrope_section=[1, 2]), "mrope_section=[1, 2]"),
    (scaled(**YARN, llama_4_scaling_beta=0.1), "llama_4_scaling_beta=0.1"),
    (scaled(type="yarn", factor=4.0), f"{LENGTH}=None is missing"),
    (scaled(type="yarn", **{LENGTH: 512}), "factor=None is missing"),
    (scaled(type="yarn", **{LENGTH: 8192}, factor=None), "factor=None is missing, and 8192"),
    (scaled(**{**LLAMA3, "low_freq_factor": None}), "low_freq_factor is missing"),
    (scaled(**{**longrope(32), "short_factor": 1.0}), "short_factor=1.0 must be a list"),
    (other("phi3", head_dim=96, rope_scaling=longrope(47)), "short_factor"),
    (scaled(type="dynamic", factor=2.0, alpha=9.0), "alpha=9.0"),
    (
        scaled(type="dynamic", factor=2.0, **{LENGTH: 2048}),
        f"{LENGTH}=2048 and max_position_embeddings=8192",
    ),
    (llama(rope_parameters=YARN, rope_scaling=LLAMA3), "are not the same"),
    # base and head
    (llama(rope_theta="1e4"), "rope_theta='1e4'"),
    (llama(rope_theta=-1), "rope_theta=-1"),
    (llama(rope_ratio=2), "rope_ratio=2"),
    ({"model_type": "helium", "head_dim": 64}, "rope_theta=None"),
    (llama(head_dim="64"), "head_dim='64'"),
    (llama(head_dim=65), "head_dim=65 has 65 rotary features, which is odd"),
    (llama(head_dim=10, partial_rotary_factor=0.5), "head_dim=10 has 5 rotary features"),
    (llama(partial_rotary_factor=1.5), "partial_rotary_factor=1.5"),
    (llama(rotary_dim=128), "rotary_dim=128 does not fit"),
    (llama(rotary_dim=16, partial_rotary_factor=0.5), "=16 and partial_rotary_factor=0.5"),
    (other("gptj", n_embd=64, n_head=4), "rotary_dim=None is missing"),
    # latent attention
    ({**MLA, "qk_rope_head_dim": 63}, "qk_rope_head_dim=63 has 63"),
    ({**MLA, "partial_rotary_factor": 0.5}, "=0.5 does not fit qk_rope_head_dim=64"),
    ({**MLA, "partial_rotary_factor": 0.5, "qk_nope_head_dim": "8"}, "qk_nope_head_dim='8'"),
    ({**MLA, "rope_interleave": "false"}, "rope_interleave='false'"),
    # axes
    (other("qwen2_vl"), "mrope_section=None"),
    (other("qwen2_vl", head_dim=128, rope_scaling=mrope(16, 24)), "(16, 24)"),
    (other("qwen2_vl", rope_scaling=mrope(16, 24.5, 24)), "mrope_section=(16, 24.5"),
    (other("qwen3_vl", rope_scaling={"mrope_interleaved": False}), "mrope_interleaved=False"),
    # layers
    (llama(rope_parameters={"full_attention": {}, "sliding_attention": None}), "layer_type=None"),
    (llama(rope_parameters={"full_attention": {}, "rope_theta": 1e4}), "{'rope_theta': 10000.0}"),
]


@pytest.mark.parametrize(("config", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_what_is_not_known_is_refused_by_name(config, words):
    """Elsewhere an unknown type, or a key in an unread place, meant the default rotation.

    NeMo Automodel PR#2825, sglang PR#13313.
    """
    with pytest.raises(ValueError, match=re.escape(words)):
        from_huggingface(config)


VERBS = "add build chain correct leave move nest pass remove set write"


@pytest.mark.parametrize(("config", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_a_refusal_ends_with_what_to_do(config, words):
    with pytest.raises(ValueError, match=r"^from_huggingface: ") as error:
        from_huggingface(config)
    remedy = str(error.value).rpartition(": ")[2]
    assert remedy.partition(" ")[0] in VERBS.split(), remedy


NESTED = {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}


@pytest.mark.parametrize(
    ("config", "layer_type", "words"),
    [
        (llama(), "linear_attention", "layer_type='linear_attention'"),
        (GEMMA, "global", "layer_type='global'"),
        ({"model_type": "gemma3_text", "rope_parameters": NESTED}, "global", "layer_type='global'"),
        ({**GEMMA, "model_type": "gemma4"}, None, "layer_type=None"),
        ({**GEMMA, "rope_local_base_freq": -1.0}, "sliding_attention", "base_freq=-1.0"),
    ],
)
def test_unknown_layers_and_their_bases_are_refused(config, layer_type, words):
    with pytest.raises(ValueError, match=words):
        from_huggingface(config, layer_type)


KNOWN = {entry["config"]["model_type"]: entry["config"] for entry in PEER_CONFIGS}


def dicts(config):
    """The config and the dicts inside it."""
    yield config
    for value in config.values():
        if isinstance(value, dict):
            yield from dicts(value)


@pytest.mark.parametrize("wrong", ["?", math.nan])
@pytest.mark.parametrize("name", KNOWN)
def test_each_key_of_each_model_type_with_a_wrong_value(name, wrong):
    """Neither value is right for any key: a key that is not read would show here."""
    config = copy.deepcopy(KNOWN[name])
    for place in list(dicts(config)):
        for key, right in list(place.items()):
            if isinstance(right, dict) and place is not config:
                continue
            place[key] = wrong
            with pytest.raises(ValueError, match=re.escape(f"{key}={wrong!r}")):
                from_huggingface(config)
            place[key] = right


def test_what_is_no_config_at_all():
    for read in (from_huggingface, layer_types, head_dims):
        with pytest.raises(TypeError, match="config must be a dict"):
            read([("model_type", "llama")])
    with pytest.raises(TypeError, match="layer_type=0"):
        from_huggingface({"model_type": "llama"}, 0)


ALPHA = {"type": "dynamic", "alpha": 1000.0, "factor": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0}
HUNYUAN = other("hunyuan_v1_dense", max_position_embeddings=32_768, rope_scaling=ALPHA)
ESM = {"model_type": "esm", "position_embedding_type": "rotary"}
CASES = [(entry["config"], entry["layer_type"]) for entry in MODELS]
CASES += [(HUNYUAN, None), ({**ESM, "hidden_size": 64, "num_attention_heads": 4}, None)]
DICTS = ("rope_scaling", "rope_parameters")
READ = """
    head_dim hidden_size num_attention_heads n_embd n_head qk_rope_head_dim
    rope_theta rope_local_base_freq rotary_dim rotary_pct rotary_emb_base partial_rotary_factor
    rope_scaling rope_parameters model_type
"""
WRONG = [math.nan, math.inf, True, False, "8", "", [], [1.0], {}, {"factor": 2.0}]
WRONG += [-1.0, -8, object(), 1j, b"yarn"]
# values above that are right for a key
RIGHT = {"truncate": (True, False), "mrope_interleaved": (True, False)}
# A missing key has a meaning here, by the code of the model or by the formula. A dict with a base
# and no type is plain RoPE, and without a share the whole head rotates.
OPTIONAL = """
    beta_fast beta_slow mscale mscale_all_dim truncate attention_factor mrope_interleaved alpha
    rope_type partial_rotary_factor
"""


def places(config, layer_type):
    """The dicts of a config that are read for this layer type, each with the keys that are read."""
    yield config, [key for key in READ.split() if config.get(key) is not None]
    for key in DICTS:
        inner = config.get(key) or {}
        inner = inner.get(layer_type, inner)
        if inner and layer_type != "sliding_attention":
            yield inner, list(inner)


def read(config, layer_type):
    """The encoding or the message of the refusal; any other exception fails the test."""
    try:
        return from_huggingface(config, layer_type), ""
    except (ValueError, TypeError) as error:
        return None, str(error)


def draw_key(draw, case):
    config, layer_type = copy.deepcopy(CASES[case])
    place, keys = draw(st.sampled_from(list(places(config, layer_type))))
    return config, layer_type, place, draw(st.sampled_from(keys))


any_case = st.integers(0, len(CASES) - 1)


@settings(max_examples=400, deadline=None)
@given(st.data(), any_case, st.sampled_from(WRONG))
def test_a_wrong_value_is_refused_with_its_key(data, case, wrong):
    config, layer_type, place, key = draw_key(data.draw, case)
    if any(wrong is right for right in RIGHT.get(key, ())):
        return
    before, _ = read(config, layer_type)
    place[key] = wrong
    encoding, words = read(config, layer_type)
    if encoding is None:
        assert key in words or (key in DICTS and isinstance(wrong, dict)), words
    else:  # the key is not read for this layer, or an empty dict gives nothing
        assert encoding == before or wrong == {}


@settings(max_examples=200, deadline=None)
@given(st.data(), any_case, st.integers(0, 20))
def test_a_misspelt_key_is_refused(data, case, at):
    config, layer_type, place, key = draw_key(data.draw, case)
    at %= len(key) - 1
    wrong = key[:at] + key[at + 1] + key[at] + key[at + 2 :]
    if place is config or wrong == key:
        return
    place[wrong] = place.pop(key)
    encoding, words = read(config, layer_type)
    assert encoding is None
    assert wrong in words or key in words or key in ("type", "rope_type"), words


@settings(max_examples=200, deadline=None)
@given(st.data(), any_case)
def test_a_missing_key_is_refused_or_optional(data, case):
    config, layer_type, place, key = draw_key(data.draw, case)
    before, _ = read(config, layer_type)
    if place is config and key in DICTS:
        return  # a config without scaling is another config
    del place[key]
    encoding, words = read(config, layer_type)
    if encoding is None:
        assert words
    elif encoding != before:  # LongRoPE's factor may be the ratio of the lengths
        assert key in OPTIONAL.split() or place is config, key
