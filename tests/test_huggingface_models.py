"""Facts of single model types that a comparison with transformers 5.24 brought out, each by the model's name."""

import re

import numpy as np
import pytest

from jrope import NTK, Encoding, Linear, Rope, Sections, Yarn, from_huggingface

YARN = {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 512, "mscale": 0.8, "mscale_all_dim": 0.6}
LINEAR = {"rope_type": "linear", "factor": 8.0}


@pytest.mark.parametrize("wrap", [lambda text: text, lambda text: {"model_type": "gemma3", "text_config": text}])
def test_gemma3_as_published_leaves_out_its_bases(wrap):
    """Gemma-3-4b-it has a rope_scaling alone: the bases are those of its class, 1e6 and 1e4, and no other class's."""
    config = wrap({"model_type": "gemma3_text", "hidden_size": 2560, "rope_scaling": LINEAR})
    assert from_huggingface(config, "full_attention") == Rope(1e6, Linear(8.0), "half")
    assert from_huggingface(config, "sliding_attention") == Rope(1e4, None, "half")
    nested = {"full_attention": LINEAR, "sliding_attention": {"rope_type": "default"}}
    with pytest.raises(ValueError, match="rope_theta=None"):
        from_huggingface(wrap({"model_type": "gemma3_text", "rope_parameters": nested}), "full_attention")


@pytest.mark.parametrize("model", ["deepseek_v2", "deepseek_v3", "minicpm3", "glm4_moe_lite", "youtu"])
def test_rope_keys_outside_the_text_config_of_latent_models(model):
    """The width of the rotating part inside text_config made jrope drop the base and the scaling beside it."""
    text = {"model_type": model, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128}
    outside = {"rope_theta": 5e5, "rope_scaling": YARN}
    got = from_huggingface({"model_type": "some_vision_model", "text_config": text, **outside})
    assert got == from_huggingface({**text, **outside})
    assert (got.base, got.scaling.factor) == (5e5, 40.0)
    assert got.softmax_scale(192) == pytest.approx(192**-0.5 * (0.06 * np.log(40.0) + 1) ** 2, rel=1e-12)


def test_two_values_of_one_key_are_refused():
    text = {"model_type": "llama", "rope_theta": 1e4}
    with pytest.raises(ValueError, match=re.escape("rope_theta=500000.0 and text_config.rope_theta=10000.0")):
        from_huggingface({"model_type": "llava", "rope_theta": 5e5, "text_config": text})


def test_hunyuan_scales_by_alpha():
    """Its "dynamic" with an alpha is NTK-aware scaling at any length, and what it keeps of YaRN's keys is not read."""
    scaling = {"type": "dynamic", "alpha": 1000.0, "factor": 1.0, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0}
    got = from_huggingface({"model_type": "hunyuan_v1_dense", "head_dim": 128, "rope_theta": 1e4, "rope_scaling": scaling})
    assert got == Rope(1e4, NTK(1000.0), "half")
    want = (1e4 * 1000.0 ** (128 / 126)) ** (-np.arange(0, 128, 2) / 128)
    np.testing.assert_allclose(got.spectrum(128, length=300_000).frequencies, want, rtol=1e-12)


@pytest.mark.parametrize("model", ["apertus", "cwm", "gpt_oss", "ministral3", "mistral4"])
def test_a_class_that_scales_by_itself_is_not_plain(model):
    """transformers gives gpt-oss YaRN where the config has no rope dict; plain RoPE would be another model."""
    with pytest.raises(ValueError, match="rope_parameters=None is missing"):
        from_huggingface({"model_type": model, "head_dim": 64, "rope_theta": 150_000.0})


def test_models_that_rotate_by_choice():
    esm = {"model_type": "esm", "hidden_size": 320, "num_attention_heads": 20, "position_embedding_type": "rotary"}
    assert from_huggingface(esm) == Rope(layout="half")
    with pytest.raises(ValueError, match="position_embedding_type='absolute'"):
        from_huggingface({**esm, "position_embedding_type": "absolute"})
    granite = {"model_type": "granitemoehybrid", "rope_theta": 1e4, "position_embedding_type": "nope"}
    assert from_huggingface(granite) == Encoding()
    assert from_huggingface({**granite, "position_embedding_type": "rope"}) == Rope(layout="half")


def test_jetmoe_has_its_head_dim_by_another_name():
    config = {"model_type": "jetmoe", "hidden_size": 2048, "num_attention_heads": 32, "kv_channels": 128, "rope_theta": 1e4}
    assert from_huggingface({**config, "rotary_dim": 96}).rotary_fraction == 0.75  # of 128 features, not of 64


def test_qwen2_5_omni_has_axes():
    scaling = {"type": "default", "rope_type": "default", "mrope_section": [16, 24, 24]}
    text = {"model_type": "qwen2_5_omni_text", "rope_theta": 1e6, "rope_scaling": scaling}
    got = from_huggingface({"model_type": "qwen2_5_omni_thinker", "text_config": text})
    assert got == Rope(1e6, None, "half", axes=Sections((16, 24, 24)))


@pytest.mark.parametrize("model", ["gemma4_unified_text", "laguna", "lfm3", "mellum", "mimo_v2_flash"])
def test_layer_types_that_differ_must_be_told_apart(model):
    with pytest.raises(ValueError, match="must be nested"):
        from_huggingface({"model_type": model, "rope_parameters": {"rope_theta": 1e4}}, "full_attention")
    parts = {"full_attention": {"rope_theta": 5e6, "partial_rotary_factor": 0.5}, "sliding_attention": {"rope_theta": 1e4}}
    assert from_huggingface({"model_type": model, "rope_parameters": parts}, "full_attention") == Rope(5e6, None, "half", 0.5)


def longrope(count):
    factors = {"short_factor": [1.0] * count, "long_factor": [2.0] * count, "factor": 2.0}
    return {"rope_scaling": {"type": "longrope", "original_max_position_embeddings": 4096, **factors}}


def mrope(*sections):
    return {"model_type": "qwen2_vl", "rope_scaling": {"type": "mrope", "mrope_section": list(sections)}}


def yarn(**keys):
    return {"model_type": "mistral", "rope_scaling": {"rope_type": "yarn", "original_max_position_embeddings": 512, **keys}}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"model_type": "phi3", "head_dim": 96, **longrope(47)}, "short_factor"),
        ({**mrope(16, 24), "head_dim": 128}, "(16, 24)"),
        (mrope(16, 24.5, 24), "mrope_section=(16, 24.5"),
        ({**yarn(factor=None), "max_position_embeddings": 512}, "factor=None is missing, and 512"),
        ({**yarn(), "max_position_embeddings": 4096}, "factor=None is missing"),
        ({"model_type": "llama", "head_dim": "64"}, "head_dim='64'"),
        ({"model_type": "deepseek_v3", "rope_interleave": "false"}, "rope_interleave='false'"),
        ({"model_type": "llava", "text_config": []}, "text_config=[]"),
        ({"model_type": ["llama"]}, "model_type=['llama']"),
        ({"model_type": "gemma3_text", "rope_local_base_freq": -1.0}, "rope_local_base_freq=-1.0"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_damage_is_refused_by_name(config, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        from_huggingface({"rope_theta": 1e4, **config}, "sliding_attention" if "gemma" in config["model_type"] else None)


def test_what_is_no_config_at_all():
    with pytest.raises(TypeError, match="config must be a dict"):
        from_huggingface([("model_type", "llama")])
    with pytest.raises(TypeError, match="layer_type=0"):
        from_huggingface({"model_type": "llama"}, 0)


def test_openai_privacy_filter_is_interleaved():
    scaling = {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096, "truncate": False}
    config = {"model_type": "openai_privacy_filter", "rope_parameters": {**scaling, "rope_theta": 150_000.0}}
    assert from_huggingface(config) == Rope(150_000.0, Yarn(32.0, 4096, truncate=False), "interleaved")
