"""Facts about single model types, found by a comparison with transformers 5.24."""

import re

import numpy as np
import pytest

from jrope import NTK, Encoding, Linear, Rope, Sections, Yarn, from_huggingface

LINEAR = {"rope_type": "linear", "factor": 8.0}
YARN = {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 512}


@pytest.mark.parametrize("is_inside", [False, True])
def test_gemma3_as_published_leaves_out_its_bases(is_inside):
    """Gemma-3-4b-it has only a rope_scaling: the bases are those of its class, 1e6 and 1e4."""

    def read(layer_type, **keys):
        text = {"model_type": "gemma3_text", "hidden_size": 2560, **keys}
        config = {"model_type": "gemma3", "text_config": text} if is_inside else text
        return from_huggingface(config, layer_type)

    assert read("full_attention", rope_scaling=LINEAR) == Rope(1e6, Linear(8.0), "half")
    assert read("sliding_attention", rope_scaling=LINEAR) == Rope(1e4, None, "half")
    nested = {"full_attention": LINEAR, "sliding_attention": {"rope_type": "default"}}
    with pytest.raises(ValueError, match="rope_theta=None"):
        read("full_attention", rope_parameters=nested)


@pytest.mark.parametrize(
    "model", ["deepseek_v2", "deepseek_v3", "minicpm3", "glm4_moe_lite", "youtu"]
)
def test_rope_keys_outside_the_text_config_of_latent_models(model):
    """jrope once dropped the base and the scaling, for the size of the rotating part inside."""
    text = {"model_type": model, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128}
    scaling = {**YARN, "mscale": 0.8, "mscale_all_dim": 0.6}
    outside = {"rope_theta": 5e5, "rope_scaling": scaling}
    got = from_huggingface({"model_type": "some_vision_model", "text_config": text, **outside})
    assert got == from_huggingface({**text, **outside})
    assert (got.base, got.scaling.factor) == (5e5, 40.0)
    want = 192**-0.5 * (0.06 * np.log(40.0) + 1) ** 2
    assert got.softmax_scale(192) == pytest.approx(want, rel=1e-12)


def test_two_values_of_one_key_are_refused():
    text = {"model_type": "llama", "rope_theta": 1e4}
    words = "rope_theta=500000.0 and text_config.rope_theta=10000.0"
    with pytest.raises(ValueError, match=re.escape(words)):
        from_huggingface({"model_type": "llava", "rope_theta": 5e5, "text_config": text})


def test_hunyuan_scales_by_alpha():
    """Its "dynamic" with an alpha is NTK-aware scaling at any length, and ignores YaRN's keys."""
    yarn = {"factor": 1.0, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0}
    scaling = {"type": "dynamic", "alpha": 1000.0, **yarn}
    config = {"model_type": "hunyuan_v1_dense", "head_dim": 128, "rope_theta": 1e4}
    got = from_huggingface({**config, "rope_scaling": scaling})
    assert got == Rope(1e4, NTK(1000.0), "half")
    want = (1e4 * 1000.0 ** (128 / 126)) ** (-np.arange(0, 128, 2) / 128)
    np.testing.assert_allclose(got.spectrum(128, length=300_000).frequencies, want, rtol=1e-12)


@pytest.mark.parametrize("model", ["apertus", "cwm", "gpt_oss", "ministral3", "mistral4"])
def test_a_class_that_scales_by_itself_is_not_plain(model):
    """transformers gives gpt-oss YaRN without a rope dict; plain RoPE would be another model."""
    with pytest.raises(ValueError, match="rope_parameters=None is missing"):
        from_huggingface({"model_type": model, "head_dim": 64, "rope_theta": 150_000.0})


def test_models_that_rotate_by_choice():
    esm = {"model_type": "esm", "hidden_size": 320, "num_attention_heads": 20}
    esm["position_embedding_type"] = "rotary"
    assert from_huggingface(esm) == Rope(layout="half")
    with pytest.raises(ValueError, match="position_embedding_type='absolute'"):
        from_huggingface({**esm, "position_embedding_type": "absolute"})
    granite = {"model_type": "granitemoehybrid", "rope_theta": 1e4}
    assert from_huggingface({**granite, "position_embedding_type": "nope"}) == Encoding()
    rotating = from_huggingface({**granite, "position_embedding_type": "rope"})
    assert rotating == Rope(layout="half")


def test_jetmoe_has_its_head_dim_by_another_name():
    config = {"model_type": "jetmoe", "hidden_size": 2048, "num_attention_heads": 32}
    sizes = {"kv_channels": 128, "rotary_dim": 96}  # of 128 features, not of 64
    assert from_huggingface({**config, **sizes, "rope_theta": 1e4}).rotary_fraction == 0.75


def test_qwen2_5_omni_has_axes():
    scaling = {"type": "default", "rope_type": "default", "mrope_section": [16, 24, 24]}
    text = {"model_type": "qwen2_5_omni_text", "rope_theta": 1e6, "rope_scaling": scaling}
    got = from_huggingface({"model_type": "qwen2_5_omni_thinker", "text_config": text})
    assert got == Rope(1e6, None, "half", axes=Sections((16, 24, 24)))


@pytest.mark.parametrize(
    "model", ["gemma4_unified_text", "laguna", "lfm3", "mellum", "mimo_v2_flash"]
)
def test_layer_types_that_differ_need_nested_parameters(model):
    def read(parameters):
        config = {"model_type": model, "rope_parameters": parameters}
        return from_huggingface(config, "full_attention")

    with pytest.raises(ValueError, match="must be nested"):
        read({"rope_theta": 1e4})
    full = {"rope_theta": 5e6, "partial_rotary_factor": 0.5}
    nested = {"full_attention": full, "sliding_attention": {"rope_theta": 1e4}}
    assert read(nested) == Rope(5e6, None, "half", 0.5)


def test_openai_privacy_filter_is_interleaved():
    yarn = {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096}
    parameters = {**yarn, "truncate": False, "rope_theta": 150_000.0}
    config = {"model_type": "openai_privacy_filter", "rope_parameters": parameters}
    scaling = Yarn(32.0, 4096, truncate=False)
    assert from_huggingface(config) == Rope(150_000.0, scaling, "interleaved")
