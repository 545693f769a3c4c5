"""What a config.json leaves to the code of its model type: facts about rotations.

Read from the modelling code of transformers 5.24. A model type that is neither here nor in
`unrotated.py` is refused, because its pair layout is unknown. Facts about layers are in
`layer_facts.py`.
"""

from typing import NamedTuple, TypeVar

from jrope.encodings.rope import Layout

Fact = TypeVar("Fact")


def each(fact: Fact, names: str) -> dict[str, Fact]:
    """The same fact about many names."""
    return dict.fromkeys(names.split(), fact)


def _names(names: str) -> tuple[str, ...]:
    return tuple(names.split())


_HALF = """
    afmoe apertus apertus1p5_text arcee aria_text bamba bitnet chameleon csm cwm deepseek_ocr2_text
    diffllama doge dots1 emu3_text_model esm eurobert exaone4 exaone_moe falcon falcon_h1 flex_olmo
    gemma gemma2 gemma3_text gemma3n_text gemma4_text gemma4_unified_text glm4_moe glm4v_moe_text
    gpt_neox gpt_neox_japanese gpt_oss granite granite4_vision_text granite_docling_text granitemoe
    granitemoehybrid granitemoeshared higgs_audio_v2 hunyuan_v1_dense hunyuan_v1_moe hy_v3
    hyperclovax idefics jais2 jetmoe kyutai_speech_to_text laguna lfm2 lfm2_moe lfm3 llama mellum
    mimi mimo_v2_flash minicpm3 minimax minimax_m2 ministral ministral3 mistral mixtral
    mllama_text_model modernbert modernbert-decoder moshi nemotron olmo olmo2 olmo3 olmo_hybrid
    olmoe persimmon phi phi3 phi4_multimodal phimoe qwen2 qwen2_5_omni_text qwen2_5_vl_text
    qwen2_moe qwen2_vl_text qwen3 qwen3_5_moe_text qwen3_5_text qwen3_moe qwen3_next
    qwen3_omni_moe_text qwen3_vl_moe_text qwen3_vl_text recurrent_gemma seed_oss smollm3 solar_open
    stablelm starcoder2 t5_gemma_module t5gemma2_decoder t5gemma2_text vaultgemma
"""
_INTERLEAVED = """
    codegen cohere cohere2 deepseek_v2 deepseek_v3 deepseek_v32 ernie4_5 ernie4_5_moe glm glm4
    glm4_moe_lite glm4v_text glm_moe_dsa glm_ocr_text gptj helium kimi_k2 llama4_text longcat_flash
    mistral4 openai_privacy_filter youtu
"""
LAYOUT: dict[str, Layout] = {**each("half", _HALF), **each("interleaved", _INTERLEAVED)}

# Multi-head latent attention: qk_rope_head_dim features rotate, in a separate part of the head, and
# YaRN's temperature also multiplies the softmax scale. Most of the interleaved models write the
# rotated features in half order, which changes no score.
LATENT = _names(
    "deepseek_v2 deepseek_v3 deepseek_v32 glm4_moe_lite glm_moe_dsa kimi_k2"
    " longcat_flash minicpm3 mistral4 youtu"
)

# The bases of model classes whose published configs leave rope_theta out, or whose config has no
# such key (GPT-J).
_TEN_THOUSAND = """
    codegen deepseek_v2 deepseek_v3 esm falcon gemma gemma2 glm glm4 gpt_neox gptj idefics llama
    mistral olmo olmo2 olmoe phi phi3 qwen2 qwen2_moe qwen3 qwen3_moe stablelm starcoder2
"""
BASE = {
    **each(1e4, _TEN_THOUSAND),
    **each(1e6, "mixtral qwen2_vl_text qwen2_5_vl_text"),
    "llama4_text": 500_000.0,
}

# The share of a head that rotates, where it is not the whole head by default; None where the class
# has no default.
ROTARY_FRACTION = {
    **each(0.5, "bamba glm glm4 glm4_moe glm4v_moe_text nemotron persimmon phi recurrent_gemma"),
    **each(0.25, "gpt_neox qwen3_next qwen3_5_text qwen3_5_moe_text stablelm"),
    **each(None, "codegen gptj"),
    "mimo_v2_flash": 0.334,
}

# M-RoPE: whether the sections of the axes are interleaved.
MROPE = {
    **each(False, "glm4v_text glm4v_moe_text glm_ocr_text"),
    **each(False, "qwen2_vl_text qwen2_5_omni_text qwen2_5_vl_text"),
    **each(True, "qwen3_vl_text qwen3_vl_moe_text qwen3_5_text qwen3_5_moe_text"),
    **each(True, "qwen3_omni_moe_text"),
}


class OldLayer(NamedTuple):
    """One layer type in configs before `rope_parameters`."""

    base_key: str
    base: float  # of the class: Gemma-3 configs leave it out, even next to a rope_scaling
    is_scaled: bool | None  # whether rope_scaling is for this layer type; None: not known
    null: str = ""  # the layer type whose base a null means; a missing key means that of the class


# Models whose layer types rotate differently. An empty dict means that there is no such old form.
_GEMMA3 = {
    "full_attention": OldLayer("rope_theta", 1e6, True),
    "sliding_attention": OldLayer("rope_local_base_freq", 1e4, False),
}
_BERT = {
    "full_attention": OldLayer("global_rope_theta", 160_000.0, True),
    "sliding_attention": OldLayer("local_rope_theta", 1e4, True, null="full_attention"),
}
_OLMO3 = {
    "full_attention": OldLayer("rope_theta", 500_000.0, True),
    "sliding_attention": OldLayer("rope_theta", 500_000.0, False),
}
_MIMO = {
    "full_attention": OldLayer("rope_theta", 5e6, None),
    "sliding_attention": OldLayer("swa_rope_theta", 1e4, None),
}
BY_LAYER: dict[str, dict[str, OldLayer]] = {
    **each(_GEMMA3, "gemma3_text gemma3n_text t5gemma2_text t5gemma2_decoder"),
    **each(_BERT, "modernbert modernbert-decoder"),
    "olmo3": _OLMO3,
    "mimo_v2_flash": _MIMO,
    **each({}, "gemma4_text gemma4_unified_text laguna lfm3 mellum"),
}

# Models that once had the rope parameters of their local layers in a dict outside.
LOCAL_ROPE = {"laguna": "swa_rope_parameters"}

# Models that do not rotate if the base is null in the rope parameters.
NULL_BASE = _names("olmo_hybrid")

# Models that rotate only if position_embedding_type is this word.
OPT_IN = {"esm": "rotary", "granitemoehybrid": "rope"}

# Models whose class scales by default: a config of theirs without a rope dict is not plain RoPE.
SCALED = _names(
    "apertus apertus1p5_text cwm gpt_oss higgs_audio_v2 ministral3 mistral4 openai_privacy_filter"
)

# Models whose "dynamic" with an `alpha` is NTK-aware scaling by alpha at any length. They read no
# other key of it.
NTK_ALPHA = _names("hunyuan_v1_dense hunyuan_v1_moe")

# Models whose queries are also scaled by a function of position, which is not part of an encoding.
SCALED_QUERIES = _names("ministral3 mistral4")

# Keys of the model outside the rope dict: bases, rope keys, and sizes.
BASES = _names(
    "rope_theta rope_local_base_freq global_rope_theta local_rope_theta swa_rope_theta"
    " rotary_emb_base"
)
ROPE_KEYS = BASES + _names(
    "rope_scaling rope_parameters swa_rope_parameters rope_interleave rotary use_rotary_pos_emb"
    " rotary_pct rotary_dim partial_rotary_factor qk_rope_head_dim no_rope_layers"
    " no_rope_layer_interval indexer_rope_interleave original_max_position_embeddings"
)
SIZES = _names(
    "head_dim hidden_size n_embd num_attention_heads n_head kv_channels global_head_dim"
    " swa_head_dim qk_rope_head_dim qk_nope_head_dim rotary_dim d_model n_heads d_kv num_heads"
)

FRACTIONS = _names("partial_rotary_factor rotary_pct")
LENGTHS = _names("max_position_embeddings n_positions max_seq_len original_max_position_embeddings")
SWITCHES = _names("alibi rope_interleave use_sliding_window")
ROTATES = _names("rotary use_rotary_pos_emb")  # GPT-J and Hunyuan say that they rotate


def _with_base(key: str) -> tuple[str, ...]:
    """The model types whose old configs have a base by this name."""
    return tuple(n for n, old in BY_LAYER.items() if key in [o.base_key for o in old.values()])


# Rope keys that only these model types read. The indexer of sparse attention is not an encoding.
ONLY_READ_BY = {
    **each(LATENT, "rope_interleave qk_rope_head_dim"),
    **each(_names("llama4_text smollm3"), "no_rope_layers no_rope_layer_interval"),
    "indexer_rope_interleave": _names("deepseek_v32 glm_moe_dsa"),
    "swa_rope_parameters": tuple(LOCAL_ROPE),
    **{key: _with_base(key) for key in BASES if key not in ("rope_theta", "rotary_emb_base")},
}
