"""Published configs against independent values, and everything that is not known refused by name."""

import copy
import re

import numpy as np
import pytest
from golden_values import MODELS, VALUES

import jrope
from jrope import Encoding, Rope, from_huggingface

NAMED = {entry["name"]: entry for entry in MODELS}
LLAMA = {"model_type": "llama", "hidden_size": 256, "num_attention_heads": 4, "max_position_embeddings": 8192}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
LLAMA3 = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 2048}
MLA = NAMED["deepseek-v3 / r1"]["config"]
PHI = NAMED["phi-3.5-mini-128k @4096"]["config"]
GEMMA = NAMED["gemma-3-27b full_attention"]["config"]


def modern(config):
    """The same config in the form of transformers 5."""
    config = copy.deepcopy(config)
    given = config.pop("rope_scaling", None) or config.pop("rope_parameters", None) or {}
    kind = given.pop("type", given.pop("rope_type", "default"))
    base = config.pop("rope_theta", config.pop("rotary_emb_base", given.get("rope_theta", 10_000)))
    inner = {"rope_theta": base, **given, "rope_type": "default" if kind == "mrope" else kind}
    for name in ("partial_rotary_factor", "rotary_pct"):
        if name in config:
            inner["partial_rotary_factor"] = config.pop(name)
    if "rope_local_base_freq" in config:
        local = {"rope_type": "default", "rope_theta": config.pop("rope_local_base_freq")}
        return {**config, "rope_parameters": {"full_attention": inner, "sliding_attention": local}}
    return {**config, "rope_parameters": inner}


def is_nested(config):
    return any(isinstance(value, dict) for value in config.get("rope_parameters", {}).values())


FORMS = {
    "as published": lambda config: config,
    "transformers 5": lambda config: config if is_nested(config) else modern(config),
    "text_config": lambda config: {"model_type": "some_vision_model", "text_config": config, "vision_config": {}},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("entry", MODELS, ids=NAMED)
def test_published_models(entry, form):
    """A scaling must not be lost in any form a config has had: NeMo Automodel PR#2825, LightLLM PR#1582, DeepSpeed PR#8345."""
    config = FORMS[form](entry["config"])
    before = copy.deepcopy(config)
    encoding = from_huggingface(config, entry["layer_type"])
    spectrum = encoding.spectrum(entry["head_dim"], length=entry["length"])
    np.testing.assert_allclose(spectrum.frequencies, entry["frequencies"], rtol=1e-12)
    assert spectrum.amplitude == pytest.approx(entry["amplitude"], rel=1e-12)
    assert encoding.layout == entry["layout"]
    assert 2 * len(spectrum.frequencies) == entry["rotary_dim"]
    scale = 192**-0.5 * entry.get("softmax_scale_multiplier", 1.0)
    assert encoding.softmax_scale(192) == pytest.approx(scale, rel=1e-12)
    if "mrope_section" in entry:
        assert encoding.axes == jrope.Sections(tuple(entry["mrope_section"]), entry["mrope_interleaved"])
    assert config == before
    assert eval(repr(encoding), vars(jrope)) == encoding


def test_softmax_multiplier_follows_mscale_all_dim():
    """Megatron-LM#1429, transformers PR#47435, onnxruntime PR#548: from mscale, or missing; and not for Ministral 3."""
    given = VALUES["spot"]["deepseek softmax multiplier v2 (.707,40), v3 (1,40)"]
    for name, want in zip(("deepseek-v2 / v2-lite", "deepseek-v3 / r1"), given, strict=True):
        assert from_huggingface(NAMED[name]["config"]).softmax_multiplier == pytest.approx(want, rel=1e-12)
    scaling = {**MLA["rope_scaling"], "mscale": 0.707}
    assert from_huggingface({**MLA, "rope_scaling": scaling}).softmax_multiplier == pytest.approx(given[1], rel=1e-12)
    parameters = {**YARN, "rope_theta": 1e6, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1}
    ministral = {"model_type": "mistral3", "text_config": {"model_type": "ministral3", "rope_parameters": parameters}}
    got = from_huggingface(ministral)
    assert got.softmax_multiplier == got.spectrum(128).amplitude == 1.0


def test_latent_heads_have_their_own_width_and_layout():
    parameters = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
    config = {"model_type": "mistral4", "qk_rope_head_dim": 64, "qk_nope_head_dim": 64, "rope_parameters": parameters}
    assert from_huggingface(config) == Rope()
    assert from_huggingface({**config, "rope_interleave": False}).layout == "half"


def test_truncate_counts_in_nested_parameters_too():
    """transformers 5.24 reads it beside the nesting; vllm PR#28244, sglang PR#14270 not at all."""
    parameters = {**YARN, "rope_theta": 5e5, "truncate": False}
    config = {"model_type": "olmo3", "rope_parameters": {"full_attention": parameters, "sliding_attention": None}}
    got = from_huggingface(config, "full_attention")
    assert got == Rope(5e5, jrope.Yarn(4.0, 2048, truncate=False), "half")
    assert from_huggingface(config, "sliding_attention") == Encoding()


def test_olmo3_has_one_base_for_both_layer_types():
    """transformers 5.24 gives the sliding layers the class's base; and only the others are scaled."""
    config = {"model_type": "olmo3", "rope_theta": 123_456, "rope_scaling": YARN}
    assert from_huggingface(config, "sliding_attention") == Rope(123_456, None, "half")
    assert from_huggingface(config, "full_attention") == Rope(123_456, jrope.Yarn(4.0, 2048), "half")


def test_gemma3_scales_the_global_layers_alone():
    """llama.cpp#14367, vllm PR#29111, mlx-vlm PR#1709."""
    assert from_huggingface(GEMMA, "full_attention").scaling == jrope.Linear(8.0)
    assert from_huggingface(GEMMA, "sliding_attention") == Rope(1e4, None, "half")
    with pytest.raises(ValueError, match="layer_type=None must be one of"):
        from_huggingface(GEMMA)


@pytest.mark.parametrize("old", ["su", "yarn", "longrope"])
def test_old_names_of_longrope(old):
    """transformers 5.24 raises KeyError for "su"; and Phi-3 has the trained length at the top level, which wins."""
    config = {**PHI, "rope_scaling": {**PHI["rope_scaling"], "type": old, "original_max_position_embeddings": 17}}
    assert from_huggingface(config) == from_huggingface(PHI)
    assert from_huggingface(PHI).scaling.original_length == 4096
    assert from_huggingface(PHI).scaling.factor == 32.0


def test_phimoe_has_its_amplitude_by_another_name():
    config = copy.deepcopy({**PHI, "model_type": "phimoe"})
    config["rope_scaling"].update(short_mscale=1.24, long_mscale=1.24)
    assert from_huggingface(config).spectrum(96).amplitude == 1.24
    config["rope_scaling"]["long_mscale"] = 1.3
    with pytest.raises(ValueError, match="short_mscale, long_mscale"):
        from_huggingface(config)


def test_yarn_fields():
    """vllm PR#46280: attention_factor dropped. A 0 for a beta counts as missing, and no factor is the ratio of lengths."""
    given = {**YARN, "factor": None, "beta_fast": 0, "beta_slow": 0, "attention_factor": 1, "finetuned": True}
    got = from_huggingface({**LLAMA, "rope_theta": 1e4, "rope_scaling": given})
    assert got.scaling == jrope.Yarn(4.0, 2048, attention_factor=1.0)
    assert got.spectrum(64).amplitude == 1.0


def test_one_rule_for_partial_rotary():
    """vllm PR#43770, lmdeploy PR#3861: the factor was lost without a rope dict, or by another name."""
    forms = [
        {"partial_rotary_factor": 0.25},
        {"rotary_pct": 0.25},
        {"rotary_dim": 16},
        {"partial_rotary_factor": 0.25, "rope_scaling": {"type": "linear", "factor": 1.0}},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.25}},
    ]
    for form in forms:
        assert from_huggingface({**LLAMA, "rope_theta": 1e4, **form}).spectrum(64).frequencies.shape == (8,)
    for head_dim in range(2, 200):  # a quotient that rounds down must not lose a feature
        for rotary_dim in range(2, head_dim + 1, 14):
            sizes = {"head_dim": head_dim, "rotary_dim": rotary_dim}
            got = from_huggingface({**LLAMA, "rope_theta": 1e4, **sizes})
            assert int(head_dim * got.rotary_fraction) == rotary_dim


def test_an_even_slice_of_an_odd_head_is_legal_and_so_is_a_small_one():
    """rotary-embedding-torch#45, transformers#35233 crash on odd sizes; x-transformers#296 forced 32 features."""
    config = {**LLAMA, "rope_theta": 1e4, "head_dim": 5, "rotary_dim": 2}
    assert from_huggingface(config).spectrum(5).frequencies.shape == (1,)


def test_layers_without_position():
    llama4 = NAMED["llama-4-scout (low=high=1)"]["config"]
    assert from_huggingface(llama4, "full_attention") == Encoding()
    assert from_huggingface(llama4, "chunked_attention") == from_huggingface(llama4)
    exaone = {"model_type": "exaone4", "rope_theta": 1e6, "sliding_window": None}
    assert from_huggingface(exaone, "full_attention") == Rope(1e6, None, "half")
    assert from_huggingface({**exaone, "sliding_window": 4096}, "full_attention") == Encoding()


def test_multimodal_configs_keep_scaling_and_axes():
    scaling = {**YARN, "mrope_section": [16, 24, 24]}
    for outer in ({}, {"text_config": {"model_type": "qwen2_5_vl_text"}}):
        config = {"model_type": "qwen2_5_vl", "rope_theta": 1e6, "rope_scaling": scaling, "vision_config": {}, **outer}
        want = Rope(1e6, jrope.Yarn(4.0, 2048), "half", axes=jrope.Sections((16, 24, 24)))
        assert from_huggingface(config) == want
    scaling = {"type": "default", "rope_type": "default", "mrope_section": [8, 12, 12]}
    glm = {"model_type": "glm4v_text", "rope_theta": 1e4, "partial_rotary_factor": 0.5, "rope_scaling": scaling}
    assert from_huggingface({"model_type": "glm4v", "text_config": glm}) == Rope(
        1e4, None, "interleaved", 0.5, axes=jrope.Sections((8, 12, 12))
    )


def test_a_base_is_defaulted_only_where_nothing_is_given():
    """MarinFold PR#184, vllm PR#44158: a base in a place that was not read became 10,000, at 0.77 nats a token."""
    assert from_huggingface(LLAMA) == Rope(layout="half")
    assert from_huggingface({**LLAMA, "model_type": "mixtral"}).base == 1e6
    with pytest.raises(ValueError, match="rope_theta=None must be a positive number"):
        from_huggingface({**LLAMA, "rope_scaling": {"type": "linear", "factor": 2.0}})


def llama(**keys):
    return {**LLAMA, "rope_theta": 1e4, **keys}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "model_type=None"),
        (llama(model_type="lama"), "model_type='lama'"),
        (llama(rope_scaling={"rope_type": "dynamic-ntk", "factor": 2.0}), "rope_type='dynamic-ntk'"),
        (llama(rope_scaling={"type": "mrope"}), "type='mrope'"),
        (llama(rope_scaling={"type": ["linear"], "factor": 2.0}), "type=['linear']"),
        (llama(rope_scaling={"type": "linear", "rope_type": "dynamic", "factor": 2.0}), "type='linear' are not the same"),
        (llama(rope_scaling={"type": "linear", "factor": 2.0, "fcator": 3}), "fcator=3"),
        (llama(rope_scaling={"factor": 2.0}), "factor=2.0"),
        (llama(rope_scaling={"type": "linear"}), "factor is missing"),
        (llama(rope_scaling={"type": "linear", "factor": "2"}), "factor='2'"),
        (llama(rope_scaling={"type": "linear", "factor": True}), "factor=True"),
        (llama(rope_scaling="linear"), "rope_scaling='linear' must be a dict"),
        (llama(rope_scaling={**YARN, "truncate": "no"}), "truncate='no'"),
        (llama(rope_scaling={**YARN, "mrope_section": [1, 2]}), "mrope_section=[1, 2]"),
        (llama(rope_scaling={**YARN, "llama_4_scaling_beta": 0.1}), "llama_4_scaling_beta=0.1"),
        (llama(rope_scaling={"type": "yarn", "factor": 4.0}), "original_max_position_embeddings=None is missing"),
        (llama(rope_scaling={**LLAMA3, "rope_type": "llama3", "low_freq_factor": None}), "low_freq_factor is missing"),
        (llama(rope_scaling={**YARN, "rope_type": "longrope", "short_factor": 1.0}), "short_factor=1.0 must be a list"),
        (llama(rope_scaling={"type": "dynamic", "factor": 2.0, "alpha": 9.0}), "alpha=9.0"),
        (
            llama(rope_scaling={"type": "dynamic", "factor": 2.0, "original_max_position_embeddings": 2048}),
            "original_max_position_embeddings=2048 and max_position_embeddings=8192",
        ),
        (llama(rope_parameters=YARN, rope_scaling=LLAMA3), "are not the same"),
        (llama(rope_theta="1e4"), "rope_theta='1e4'"),
        (llama(rope_theta=-1), "rope_theta=-1"),
        (llama(rope_ratio=2), "rope_ratio=2"),
        (llama(rotary_dim=128), "rotary_dim=128 does not fit"),
        (llama(rotary_dim=16, partial_rotary_factor=0.5), "rotary_dim=16 and partial_rotary_factor=0.5"),
        (llama(partial_rotary_factor=1.5), "partial_rotary_factor=1.5"),
        (llama(head_dim=65), "head_dim=65 has 65 rotary features, which is odd"),
        (llama(head_dim=10, partial_rotary_factor=0.5), "head_dim=10 has 5 rotary features"),
        ({**MLA, "qk_rope_head_dim": 63}, "qk_rope_head_dim=63 has 63"),
        ({**MLA, "partial_rotary_factor": 0.5}, "partial_rotary_factor=0.5 does not fit qk_rope_head_dim=64"),
        ({"model_type": "helium", "head_dim": 64}, "rope_theta=None"),
        ({"model_type": "gptj", "n_embd": 64, "n_head": 4}, "rotary_dim=None is missing"),
        ({"model_type": "falcon", "alibi": True, "rope_theta": 1e4}, "alibi=True"),
        ({"model_type": "qwen2_vl", "rope_theta": 1e6}, "mrope_section=None"),
        (
            {"model_type": "qwen3_vl", "rope_theta": 1e6, "rope_scaling": {"type": "mrope", "mrope_interleaved": False}},
            "mrope_interleaved=False",
        ),
        (llama(rope_parameters={"full_attention": {}, "sliding_attention": None}), "layer_type=None must be one of"),
        (
            llama(rope_parameters={"full_attention": {}, "rope_theta": 1e4}),
            "{'rope_theta': 10000.0} cannot stand beside",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_known_is_refused_by_name(config, words):
    """NeMo Automodel PR#2825, sglang PR#13313: an unknown type, or a key in an unread place, meant the default rotation."""
    with pytest.raises(ValueError, match=re.escape(words)):
        from_huggingface(config)


@pytest.mark.parametrize(
    ("config", "layer_type"),
    [(LLAMA, "linear_attention"), (GEMMA, "global"), (modern(GEMMA), "global"), ({**GEMMA, "model_type": "gemma4"}, None)],
)
def test_unknown_layer_types_are_refused(config, layer_type):
    with pytest.raises(ValueError, match=f"layer_type={layer_type!r}"):
        from_huggingface(config, layer_type)


def test_two_names_of_one_thing_must_agree():
    config = {
        "model_type": "gpt_neox",
        "hidden_size": 64,
        "num_attention_heads": 2,
        "rotary_emb_base": 10_000,
        "rotary_pct": 0.25,
    }
    assert jrope.from_huggingface(config).rotary_fraction == 0.25
    assert jrope.from_huggingface({**config, "partial_rotary_factor": 0.25}).rotary_fraction == 0.25
    with pytest.raises(ValueError, match=r"partial_rotary_factor=0.5 and rotary_pct=0.25 are not the same"):
        jrope.from_huggingface({**config, "partial_rotary_factor": 0.5})
