"""Configs as their hub carries them, with their own names of keys."""

import re

import pytest

from jrope import (
    NTK,
    Chain,
    Encoding,
    Layers,
    Llama3,
    LongRope,
    Rope,
    Sections,
    Window,
    Yarn,
    from_huggingface,
)
from jrope.huggingface import head_dims

HALF = {"layout": "half"}
YARN = {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096}
YARN |= {"beta_fast": 32.0, "beta_slow": 1.0}


def published(model_type, hidden_size, heads, layers, **keys):
    sizes = {"hidden_size": hidden_size, "num_attention_heads": heads, "num_hidden_layers": layers}
    return {"model_type": model_type, **sizes, **keys}


def alternating(period, layers, start=0):
    """0 in local layers, 1 in the last layer of each period."""
    return tuple(int((i + 1 + start) % period == 0) for i in range(layers))


def local(base, size, **fields):
    return Chain((Rope(base, layout="half", **fields), Window(size)))


def test_gpt_j_says_that_it_rotates():
    config = {
        "model_type": "gptj",
        "n_embd": 4096,
        "n_head": 16,
        "n_layer": 28,
        "n_positions": 2048,
    }
    config |= {"rotary": True, "rotary_dim": 64, "scale_attn_weights": True}
    assert from_huggingface(config) == Rope(1e4, None, "interleaved", 0.25)
    with pytest.raises(ValueError, match="rotary=False"):
        from_huggingface({**config, "rotary": False})


MODERN = published("modernbert", 768, 12, 22, global_rope_theta=160_000.0, local_attention=128)
MODERN |= {"global_attn_every_n_layers": 3, "max_position_embeddings": 8192}


@pytest.mark.parametrize(
    ("keys", "base"),
    [({"local_rope_theta": 10_000.0}, 1e4), ({"local_rope_theta": None}, 160_000.0), ({}, 1e4)],
)
def test_modernbert_without_a_local_base_has_the_global_one(keys, base):
    """Its own code: `if config.local_rope_theta is not None`. The default of the class is 10,000."""
    full, sliding = Rope(160_000.0, **HALF), local(base, 65)
    got = from_huggingface({**MODERN, **keys})
    assert got == Layers((full, sliding), tuple(int(i % 3 != 0) for i in range(22)))
    assert from_huggingface({**MODERN, **keys}, "sliding_attention") == sliding


def test_mimo_v2_flash():
    """Its window is counted without a token's own position, by SGLang and transformers."""
    pattern = [0, *[1] * 4, 0, *([1] * 5 + [0]) * 7]
    keys = {"head_dim": 192, "v_head_dim": 128, "swa_head_dim": 192, "rope_theta": 5_000_000}
    keys |= {"swa_rope_theta": 10_000, "partial_rotary_factor": 0.334, "hybrid_block_size": None}
    keys |= {"sliding_window": 128, "sliding_window_size": 128, "attention_chunk_size": 128}
    config = published("mimo_v2_flash", 4096, 64, 48, hybrid_layer_pattern=pattern, **keys)
    full = Rope(5e6, **HALF, rotary_fraction=0.334)
    sliding = local(1e4, 129, rotary_fraction=0.334)
    assert from_huggingface(config) == Layers((full, sliding), pattern)
    assert full.spectrum(192).num_pairs == 32
    with pytest.raises(ValueError, match="nest rope_parameters under the layer types"):
        from_huggingface({**config, "rope_scaling": {**YARN, "rope_theta": 5e6}})
    with pytest.raises(ValueError, match="num_hidden_layers=47"):
        from_huggingface({**config, "num_hidden_layers": 47})


def laguna(parameters, **keys):
    types = ["full_attention" if i % 4 == 0 else "sliding_attention" for i in range(40)]
    config = published("laguna", 2048, 48, 40, head_dim=128, layer_types=types, sliding_window=512)
    return {**config, "rope_parameters": parameters, **keys}


def without(config, key):
    return {name: value for name, value in config.items() if name != key}


FULL = {**YARN, "rope_theta": 500_000.0, "factor": 64.0, "partial_rotary_factor": 0.5}
LOCAL = {"rope_type": "default", "rope_theta": 10_000.0, "partial_rotary_factor": 1.0}
NESTED = {"full_attention": FULL, "sliding_attention": LOCAL}
TRAINED = "original_max_position_embeddings"


@pytest.mark.parametrize(
    "config",
    [
        laguna(NESTED),
        laguna({**NESTED, TRAINED: 4096}),  # XS.2 has the trained length also next to the dicts
        laguna({**NESTED, "full_attention": without(FULL, TRAINED), TRAINED: 4096}),
        laguna(FULL, swa_rope_parameters=LOCAL),  # its first form
        laguna({"full_attention": FULL}, swa_rope_parameters=LOCAL),
    ],
)
def test_laguna(config):
    full = Rope(5e5, Yarn(64.0, 4096), "half", 0.5)
    want = Layers((full, local(1e4, 512)), tuple(int(i % 4 != 0) for i in range(40)))
    assert from_huggingface(config) == want


def test_laguna_with_two_values():
    with pytest.raises(ValueError, match=f"{TRAINED}=8192 and {TRAINED}=4096 of full_attention"):
        from_huggingface(laguna({**NESTED, TRAINED: 8192}))
    with pytest.raises(ValueError, match="swa_rope_parameters="):
        from_huggingface(laguna(NESTED, swa_rope_parameters={**LOCAL, "rope_theta": 2e4}))


OMNI = {"interleaved": True, "mrope_interleaved": True, "mrope_section": [24, 20, 20]}
OMNI |= {"rope_type": "default", "type": "default"}
THINKER = published("qwen3_omni_moe_text", 2048, 32, 48, head_dim=128, rope_theta=1_000_000)
THINKER |= {"rope_scaling": OMNI, "sliding_window": None, "use_sliding_window": False}


def test_qwen3_omni_is_read_by_its_parts():
    thinker = {"model_type": "qwen3_omni_moe_thinker", "text_config": THINKER}
    talker = {"text_config": {"model_type": "qwen3_omni_moe_talker_text"}}
    config = {"model_type": "qwen3_omni_moe", "thinker_config": thinker, "talker_config": talker}
    want = Rope(1e6, **HALF, axes=Sections((24, 20, 20), True))
    assert from_huggingface(config["thinker_config"]) == want
    with pytest.raises(ValueError, match=re.escape("pass config['thinker_config']")):
        from_huggingface(config)
    with pytest.raises(ValueError, match="interleaved=False is not what qwen3_omni_moe_text does"):
        from_huggingface({**THINKER, "rope_scaling": {**OMNI, "interleaved": False}})


def test_t5gemma_is_read_by_its_parts():
    part = published(
        "t5_gemma_module", 2304, 8, 4, head_dim=256, rope_theta=1e4, sliding_window=4096
    )
    config = {"model_type": "t5gemma", "encoder": part, "decoder": {**part, "is_decoder": True}}
    with pytest.raises(ValueError, match=r"pass config\['encoder'\] or config\['decoder'\]"):
        from_huggingface(config)
    rope = Rope(**HALF)
    for side, size in (("encoder", 4097), ("decoder", 4096)):
        want = Layers((Chain((rope, Window(size))), rope), (0, 1, 0, 1))
        assert from_huggingface(config[side]) == want


LLAMA3 = {"rope_type": "llama3", "factor": 16.0, "original_max_position_embeddings": 8192}
LLAMA3 |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0}
EXAONE = published("exaone4", 5120, 40, 64, head_dim=128, rope_theta=1e6, rope_scaling=LLAMA3)
EXAONE |= {"sliding_window": 4096, "sliding_window_pattern": "LLLG"}
EXAONE["layer_types"] = [*["sliding_attention"] * 3, "full_attention"] * 16
WHOLE = [
    ("Mistral 7B v0.1", published("mistral", 4096, 32, 32, rope_theta=1e4, sliding_window=4096),
     local(1e4, 4096)),
    ("Mistral 7B v0.3", published("mistral", 4096, 32, 32, rope_theta=1e6, sliding_window=None),
     Rope(1e6, **HALF)),
    ("Phi-3 mini 4k", published("phi3", 3072, 32, 32, rope_theta=1e4, sliding_window=2047),
     local(1e4, 2047)),
    ("Starcoder 2", published("starcoder2", 3072, 24, 30, rope_theta=999_999.4420358813,
                              sliding_window=4096), local(999_999.4420358813, 4096)),
    ("Mixtral", published("mixtral", 4096, 32, 32, rope_theta=1e6, sliding_window=None),
     Rope(1e6, **HALF)),
    ("Qwen 2.5", published("qwen2", 3584, 28, 28, rope_theta=1e6, use_sliding_window=False,
                           sliding_window=131_072, max_window_layers=28), Rope(1e6, **HALF)),
    ("Gemma 2", published("gemma2", 2304, 8, 26, head_dim=256, rope_theta=1e4,
                          sliding_window=4096),
     Layers((local(1e4, 4096), Rope(**HALF)), alternating(2, 26))),
    ("Gemma 3", published("gemma3_text", 1152, 4, 26, head_dim=256, rope_theta=1_000_000,
                          rope_local_base_freq=10_000, sliding_window=512,
                          sliding_window_pattern=6),
     Layers((local(1e4, 512), Rope(1e6, **HALF)), alternating(6, 26))),
    ("Command R7B", published("cohere2", 4096, 32, 32, head_dim=128, rope_theta=50_000,
                              sliding_window=4096, sliding_window_pattern=4),
     Layers((Chain((Rope(5e4), Window(4096))), Encoding()), alternating(4, 32))),
    ("gpt-oss", published("gpt_oss", 2880, 64, 24, head_dim=64, rope_theta=150_000,
                          sliding_window=128, rope_scaling={**YARN, "truncate": False}),
     Layers((local(150_000.0, 128, scaling=Yarn(32.0, 4096, truncate=False)),
             Rope(150_000.0, Yarn(32.0, 4096, truncate=False), "half")), alternating(2, 24))),
    ("OLMo 3", published("olmo3", 4096, 32, 32, rope_theta=500_000, sliding_window=4096,
                         rope_scaling={**YARN, "factor": 8.0}),
     Layers((local(5e5, 4096), Rope(5e5, Yarn(8.0, 4096), "half")), alternating(4, 32))),
    ("EXAONE 4.0 32B", EXAONE,
     Layers((local(1e6, 4096, scaling=Llama3(16.0, 8192)), Encoding()), alternating(4, 64))),
    ("EXAONE 4.0 1.2B", published("exaone4", 2048, 32, 30, head_dim=64, rope_theta=1e6,
                                  rope_scaling=LLAMA3, sliding_window=None,
                                  sliding_window_pattern=None),
     Rope(1e6, Llama3(16.0, 8192), "half")),
    ("SmolLM3", published("smollm3", 2048, 16, 36, rope_theta=5_000_000, sliding_window=None,
                          use_sliding_window=False, no_rope_layer_interval=4, rope_scaling=None,
                          no_rope_layers=[1, 1, 1, 0] * 9, max_window_layers=28,
                          layer_types=["full_attention"] * 36),
     Layers((Rope(5e6, **HALF), Encoding()), alternating(4, 36))),
    ("AFMoE", published("afmoe", 1024, 8, 8, head_dim=128, rope_theta=1e4, sliding_window=2048,
                          global_attn_every_n_layers=4),
     Layers((local(1e4, 2048), Encoding()), alternating(4, 8))),
    ("RecurrentGemma", published("recurrent_gemma", 2560, 10, 26, head_dim=256, rope_theta=1e4,
                                 partial_rotary_factor=0.5, attention_window_size=2048,
                                 block_types=["recurrent", "recurrent", "attention"]),
     local(1e4, 2048, rotary_fraction=0.5)),
    ("IDEFICS", published("idefics", 4096, 32, 32), Rope(**HALF)),
    ("OLMo Hybrid", published("olmo_hybrid", 3840, 30, 4, layer_types=["linear_attention",
                              "linear_attention", "linear_attention", "full_attention"],
                              rope_parameters={"rope_theta": None, "rope_type": "default"}),
     Encoding()),
    ("Granite 4", published("granitemoehybrid", 1536, 12, 3, position_embedding_type="nope",
                            layer_types=["mamba", "mamba", "attention"], rope_theta=10_000),
     Encoding()),
]  # fmt: skip


@pytest.mark.parametrize(
    ("config", "want"), [case[1:] for case in WHOLE], ids=[case[0] for case in WHOLE]
)
def test_the_whole_of_a_published_config(config, want):
    assert from_huggingface(config) == want


def test_lists_for_the_trained_length():
    """MiniCPM3 has LongRoPE's lists for the length that it was trained on."""
    lists = {"type": "longrope", "short_factor": [1.1] * 16, "long_factor": [1.1] * 16}
    config = published("minicpm3", 2560, 40, 62, qk_rope_head_dim=32, qk_nope_head_dim=64)
    config |= {"max_position_embeddings": 32_768, "rope_theta": 1e4}
    config["rope_scaling"] = {**lists, TRAINED: 32_768}
    scaling = LongRope((1.1,) * 16, (1.1,) * 16, 32_768)
    assert from_huggingface(config) == Rope(1e4, scaling, "half")


def test_hunyuan_says_that_it_rotates():
    alpha = {"type": "dynamic", "alpha": 1000.0, "factor": 1.0, "mscale": 1.0, "beta_fast": 32}
    config = published("hunyuan_v1_dense", 4096, 32, 32, head_dim=128, rope_scaling=alpha)
    config |= {"use_rotary_pos_emb": True, "rope_theta": 1e4, "max_position_embeddings": 262_144}
    assert from_huggingface(config) == Rope(1e4, NTK(1000.0), "half")
    with pytest.raises(ValueError, match="use_rotary_pos_emb=False is not what"):
        from_huggingface({**config, "use_rotary_pos_emb": False})


def test_kimi_k2_is_deepseek_v3():
    yarn = {**YARN, "type": "yarn", "mscale": 1.0, "mscale_all_dim": 1.0}
    config = published("kimi_k2", 7168, 64, 61, qk_rope_head_dim=64, qk_nope_head_dim=128)
    config |= {"rope_theta": 50_000.0, "rope_scaling": yarn, "max_position_embeddings": 131_072}
    got = from_huggingface(config)
    assert got == from_huggingface({**config, "model_type": "deepseek_v3"})
    assert (got.base, got.layout, head_dims(config)) == (5e4, "interleaved", (64, 192))
