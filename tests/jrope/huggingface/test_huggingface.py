"""Published configs compared with independent values, in every form that a config has had."""

import copy

import numpy as np
import pytest
from golden_values import MODELS, VALUES

import jrope
from jrope import Encoding, Linear, Rope, Sections, Yarn, from_huggingface

NAMED = {entry["name"]: entry for entry in MODELS}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}
LLAMA = {"model_type": "llama", "hidden_size": 256, "num_attention_heads": 4}
MLA = NAMED["deepseek-v3 / r1"]["config"]
PHI = NAMED["phi-3.5-mini-128k @4096"]["config"]
GEMMA = NAMED["gemma-3-27b full_attention"]["config"]


def llama(**keys):
    return {**LLAMA, "max_position_embeddings": 8192, "rope_theta": 1e4, **keys}


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


VISION = {"model_type": "some_vision_model", "vision_config": {}}
FORMS = {
    "as published": lambda config: config,
    "transformers 5": lambda config: config if is_nested(config) else modern(config),
    "text_config": lambda config: {**VISION, "text_config": config},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("entry", MODELS, ids=NAMED)
def test_published_models(entry, form):
    """Others have lost a scaling: NeMo Automodel PR#2825, LightLLM PR#1582, DeepSpeed PR#8345."""
    config = FORMS[form](entry["config"])
    before = copy.deepcopy(config)
    encoding = from_huggingface(config, entry["layer_type"])
    spectrum = encoding.spectrum(entry["head_dim"], length=entry["length"] or 1)
    np.testing.assert_allclose(spectrum.frequencies, entry["frequencies"], rtol=1e-12)
    assert spectrum.amplitude == pytest.approx(entry["amplitude"], rel=1e-12)
    assert encoding.layout == entry["layout"]
    assert 2 * len(spectrum.frequencies) == entry["rotary_dim"]
    scale = 192**-0.5 * entry.get("softmax_scale_multiplier", 1.0)
    assert encoding.softmax_scale(192) == pytest.approx(scale, rel=1e-12)
    if "mrope_section" in entry:
        assert encoding.axes == Sections(entry["mrope_section"], entry["mrope_interleaved"])
    assert config == before
    assert eval(repr(encoding), vars(jrope)) == encoding


def test_softmax_multiplier_follows_mscale_all_dim():
    """Others take it from mscale, or drop it, or give it to Ministral 3.

    Megatron-LM#1429, transformers PR#47435, onnxruntime PR#548.
    """
    v2, v3 = VALUES["spot"]["deepseek softmax multiplier v2 (.707,40), v3 (1,40)"]
    other_mscale = {**MLA, "rope_scaling": {**MLA["rope_scaling"], "mscale": 0.707}}
    configs = [(NAMED["deepseek-v2 / v2-lite"]["config"], v2), (MLA, v3), (other_mscale, v3)]
    for config, want in configs:
        assert from_huggingface(config).softmax_multiplier == pytest.approx(want, rel=1e-12)
    weights = {"mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1}
    parameters = {**YARN, **weights, "rope_theta": 1e6}
    text = {"model_type": "ministral3", "rope_parameters": parameters}
    got = from_huggingface({"model_type": "mistral3", "text_config": text})
    assert got.softmax_multiplier == got.spectrum(128).amplitude == 1.0


def test_latent_heads_have_their_own_width_and_layout():
    parameters = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
    sizes = {"qk_rope_head_dim": 64, "qk_nope_head_dim": 64}
    config = {"model_type": "mistral4", **sizes, "rope_parameters": parameters}
    assert from_huggingface(config) == Rope()
    assert from_huggingface({**config, "rope_interleave": False}).layout == "half"


def test_truncate_counts_in_nested_parameters_too():
    """transformers 5.24 reads it only outside them; vllm PR#28244 and sglang PR#14270 nowhere."""
    full = {**YARN, "rope_theta": 5e5, "truncate": False}
    parameters = {"full_attention": full, "sliding_attention": None}
    config = {"model_type": "olmo3", "rope_parameters": parameters}
    got = from_huggingface(config, "full_attention")
    assert got == Rope(5e5, Yarn(4.0, 2048, truncate=False), "half")
    assert from_huggingface(config, "sliding_attention") == Encoding()


def test_olmo3_has_one_base_and_scales_only_full_attention():
    """transformers 5.24 gives the sliding layers the base of the class."""
    config = {"model_type": "olmo3", "rope_theta": 123_456, "rope_scaling": YARN}
    full, sliding = Rope(123_456, Yarn(4.0, 2048), "half"), Rope(123_456, None, "half")
    assert from_huggingface(config, "full_attention") == full
    assert from_huggingface(config, "sliding_attention") == sliding


def test_gemma3_scales_only_the_global_layers():
    """llama.cpp#14367, vllm PR#29111, mlx-vlm PR#1709."""
    assert from_huggingface(GEMMA, "full_attention").scaling == Linear(8.0)
    assert from_huggingface(GEMMA, "sliding_attention") == Rope(1e4, None, "half")
    with pytest.raises(ValueError, match="layer_type=None must be one of"):
        from_huggingface(GEMMA)


@pytest.mark.parametrize("old", ["su", "yarn", "longrope"])
def test_old_names_of_longrope(old):
    """transformers 5.24 raises KeyError for "su". Phi-3's trained length is at the top level."""
    scaling = {**PHI["rope_scaling"], "type": old, "original_max_position_embeddings": 17}
    assert from_huggingface({**PHI, "rope_scaling": scaling}) == from_huggingface(PHI)
    assert from_huggingface(PHI).scaling.original_length == 4096
    assert from_huggingface(PHI).scaling.factor == 32.0


def test_phimoe_has_its_amplitude_by_another_name():
    config = copy.deepcopy({**PHI, "model_type": "phimoe"})
    config["rope_scaling"].update(short_mscale=1.24, long_mscale=1.24)
    assert from_huggingface(config).spectrum(96, 1).amplitude == 1.24
    config["rope_scaling"]["long_mscale"] = 1.3
    with pytest.raises(ValueError, match="short_mscale, long_mscale"):
        from_huggingface(config)


def test_yarn_fields():
    """A beta of 0 counts as missing, and a null factor is the ratio of the lengths.

    vllm PR#46280 dropped attention_factor.
    """
    missing = {"factor": None, "beta_fast": 0, "beta_slow": 0}
    given = {**YARN, **missing, "attention_factor": 1, "finetuned": True}
    got = from_huggingface(llama(rope_scaling=given))
    assert got.scaling == Yarn(4.0, 2048, attention_factor=1.0)
    assert got.spectrum(64).amplitude == 1.0


@pytest.mark.parametrize(
    "form",
    [
        {"partial_rotary_factor": 0.25},
        {"rotary_pct": 0.25},
        {"rotary_dim": 16},
        {"partial_rotary_factor": 0.25, "rope_scaling": {"type": "linear", "factor": 1.0}},
        {"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.25}},
    ],
)
def test_one_rule_for_partial_rotary(form):
    """Others lost it without a rope dict, or by another name: vllm PR#43770, lmdeploy PR#3861."""
    assert from_huggingface(llama(**form)).spectrum(64).num_pairs == 8


def test_a_quotient_that_rounds_down_does_not_lose_a_feature():
    for head_dim in range(2, 200):
        for rotary_dim in range(2, head_dim + 1, 14):
            got = from_huggingface(llama(head_dim=head_dim, rotary_dim=rotary_dim))
            assert int(head_dim * got.rotary_fraction) == rotary_dim


def test_an_even_part_of_an_odd_head_is_legal_and_so_is_a_small_one():
    """rotary-embedding-torch#45 and transformers#35233 crash; x-transformers#296 rotated 32."""
    assert from_huggingface(llama(head_dim=5, rotary_dim=2)).spectrum(5).num_pairs == 1


def test_layers_without_position():
    llama4 = NAMED["llama-4-scout (low=high=1)"]["config"]
    assert from_huggingface(llama4, "full_attention") == Encoding()
    assert from_huggingface(llama4, "chunked_attention") == from_huggingface(llama4)
    exaone = {"model_type": "exaone4", "rope_theta": 1e6, "sliding_window": None}
    assert from_huggingface(exaone, "full_attention") == Rope(1e6, None, "half")
    assert from_huggingface({**exaone, "sliding_window": 4096}, "full_attention") == Encoding()


def test_multimodal_configs_keep_scaling_and_axes():
    qwen = {"model_type": "qwen2_5_vl", "rope_theta": 1e6, "vision_config": {}}
    qwen["rope_scaling"] = {**YARN, "mrope_section": [16, 24, 24]}
    want = Rope(1e6, Yarn(4.0, 2048), "half", axes=Sections((16, 24, 24)))
    assert from_huggingface(qwen) == want
    assert from_huggingface({**qwen, "text_config": {"model_type": "qwen2_5_vl_text"}}) == want
    scaling = {"type": "default", "rope_type": "default", "mrope_section": [8, 12, 12]}
    glm = {"model_type": "glm4v_text", "rope_theta": 1e4, "partial_rotary_factor": 0.5}
    got = from_huggingface({"model_type": "glm4v", "text_config": {**glm, "rope_scaling": scaling}})
    assert got == Rope(1e4, None, "interleaved", 0.5, axes=Sections((8, 12, 12)))


def test_a_base_is_defaulted_only_where_nothing_is_given():
    """Elsewhere a base in a place that was not read became 10,000, at 0.77 nats a token.

    MarinFold PR#184, vllm PR#44158.
    """
    assert from_huggingface(LLAMA) == Rope(layout="half")
    assert from_huggingface({**LLAMA, "model_type": "mixtral"}).base == 1e6
    with pytest.raises(ValueError, match="rope_theta=None must be a positive number"):
        from_huggingface({**LLAMA, "rope_scaling": {"type": "linear", "factor": 2.0}})


def test_two_names_of_one_thing_must_agree():
    sizes = {"hidden_size": 64, "num_attention_heads": 2}
    config = {"model_type": "gpt_neox", **sizes, "rotary_emb_base": 10_000, "rotary_pct": 0.25}
    assert from_huggingface(config).rotary_fraction == 0.25
    assert from_huggingface({**config, "partial_rotary_factor": 0.25}).rotary_fraction == 0.25
    words = "partial_rotary_factor=0.5 and rotary_pct=0.25 are not the same"
    with pytest.raises(ValueError, match=words):
        from_huggingface({**config, "partial_rotary_factor": 0.5})
