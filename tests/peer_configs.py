"""What transformers makes of configs: `python tests/peer_configs.py` writes golden/huggingface.json again.

It needs transformers, without torch. For each model type that jrope reads, the config of the class
with eight layers, and a few others: its keys about positions, and of each layer the window (with a
token's own position) and the base. [null, null] is a layer without position; null has no attention.
"""

import copy
import inspect
import json
import re
from pathlib import Path

GOLDEN = Path(__file__).parent / "golden" / "huggingface.json"

MROPE = {"rope_theta": 1e6, "mrope_section": [16, 24, 24]}
HEAD = {"head_dim": 128}
LAYERS = {"layer_types": ["full_attention", *["sliding_attention"] * 7]}
LISTED = {"no_rope_layers": [1, 0, 1, 0, 1, 1, 1, 1]}
QWEN = {"use_sliding_window": True, "max_window_layers": 5, "sliding_window": 4096}
NARROW = {"sliding_window": 100}
# What a config needs besides the defaults of its class, or has in several published forms.
GIVEN: dict[str, list[dict]] = {
    "esm": [{"position_embedding_type": "rotary"}],
    "granitemoehybrid": [{"position_embedding_type": "rope"}],
    "glm4_moe": [HEAD],
    **{name: [{}, QWEN] for name in ("qwen2", "qwen3", "qwen2_moe", "qwen3_moe")},
    **{
        name: [{"rope_parameters": MROPE}, {"rope_parameters": MROPE, **QWEN}]
        for name in ("qwen2_vl_text", "qwen2_5_vl_text", "qwen2_5_omni_text")
    },
    **{
        name: [{"rope_parameters": {"rope_theta": 1e6, "mrope_section": [24, 20, 20]}, **HEAD}]
        for name in ("qwen3_vl_text", "qwen3_vl_moe_text", "qwen3_omni_moe_text")
    },
    **{
        name: [{"rope_parameters": {"rope_theta": 1e6, "mrope_section": [11, 11, 10]}}]
        for name in ("qwen3_5_text", "qwen3_5_moe_text")
    },
    **{name: [{"rope_parameters": MROPE, **HEAD}] for name in ("glm4v_text", "glm_ocr_text")},
    "glm4v_moe_text": [{"rope_parameters": {**MROPE, "mrope_section": [8, 12, 12]}, **HEAD}],
    **{name: [{}, NARROW] for name in ("mixtral", "phi3", "phi4_multimodal", "phimoe")},
    **{name: [{}, NARROW] for name in ("starcoder2", "doge", "ministral3")},
    "mistral": [{}, {"sliding_window": None}],
    "gemma3_text": [{}, {"use_bidirectional_attention": True}, {"sliding_window_pattern": 3}],
    "gemma4_text": [{}, {"num_hidden_layers": 7}, {"use_bidirectional_attention": "all"}],
    "cohere2": [{}, {"sliding_window_pattern": 3}],
    "afmoe": [{}, {"global_attn_every_n_layers": 3}],
    "modernbert": [{}, {"global_attn_every_n_layers": 2, "local_attention": 64}],
    "dots1": [{}, {"max_window_layers": 5}],
    "laguna": [{}, LAYERS],
    "mellum": [{}, LAYERS],
    "mimo_v2_flash": [{}, {"sliding_window_size": 128}],
    "smollm3": [{}, LISTED, {"no_rope_layer_interval": 3}, {"use_sliding_window": True, **NARROW}],
    "t5_gemma_module": [{}, {"is_decoder": True}],
    "t5gemma2_text": [{"sliding_window": 513}],
    **{
        name: [{"attention_chunk_size": None, "attn_temperature_tuning": False, **more}]
        for name, more in {"llama4_text": LISTED}.items()
    },
}
KEYS = re.compile(
    "rope|rotary|sliding_window|window_layers|window_size|layer_types|no_rope|local_attention"
    "|global_attn|bidirectional|head_dim$|^hidden_size|attention_heads$|^n_embd|^n_head$|kv_channels"
    "|^max_position|^n_positions|^model_type|^num_hidden|^position_emb|temperature|^is_decoder"
    "|attention_chunk_size|attn_temperature"
)
NOT_READ = re.compile("^mlp_|^mtp_|^linear_|^index_|^v_|^_|^keep_|^qk_head_dim|^hidden_size_")
NO_ATTENTION = ("linear_attention", "conv")
# The modelling files rotate only in local layers.
ONLY_LOCAL_ROTATES = ("afmoe", "cohere2", "exaone4", "exaone_moe")


def modelling(config) -> str:
    """The source of the modelling file of a config's class."""
    path = Path(inspect.getfile(type(config)))
    return path.with_name(path.name.replace("configuration", "modeling")).read_text()


def window(config, layer_type, source) -> int | None:
    """How far a token sees by the mask of its layer type, its own position included."""
    size = getattr(config, "sliding_window", None)
    has_types = getattr(config, "layer_types", None) is not None
    if not size or (has_types and layer_type != "sliding_attention"):
        return None
    if config.model_type == "t5gemma2_text":  # its own mask; (size + 1) // 2 on both sides, if odd
        return (size + 1) // 2
    is_both = "create_bidirectional_sliding_window_mask" in source
    if is_both and not getattr(config, "is_decoder", False):
        return size + 1  # abs(query - key) <= size
    return size if "create_sliding_window_causal_mask" in source else None


def layers(config) -> list:
    source = modelling(config)
    # GPT-J, CodeGen and ESM have 10,000 in their code
    parameters = getattr(config, "rope_parameters", None) or {"rope_theta": 1e4}
    count = config.num_hidden_layers
    types = getattr(config, "layer_types", None) or [None] * count
    found = []
    for index, layer_type in enumerate(types):
        if layer_type in NO_ATTENTION:
            found.append(None)
            continue
        own = parameters.get(layer_type, parameters)
        rotates = getattr(config, "no_rope_layers", [True] * count)[index]
        if config.model_type in ONLY_LOCAL_ROTATES:
            rotates = layer_type == "sliding_attention"
        found.append([window(config, layer_type, source), own["rope_theta"] if rotates else None])
    return found


def entries():
    from transformers import CONFIG_MAPPING

    from jrope.huggingface.facts import LAYOUT

    for name in LAYOUT:
        if name not in CONFIG_MAPPING:
            continue  # Kimi K2 is DeepSeek V3 by another name
        for given in copy.deepcopy(GIVEN.get(name, [{}])):  # the classes change their dicts
            try:
                config = CONFIG_MAPPING[name](**{"num_hidden_layers": 8, **given})
            except ValueError:  # its number of layers is fixed by others
                config = CONFIG_MAPPING[name](**given)
            content = {**config.to_dict(), **given}
            kept = {k: v for k, v in content.items() if KEYS.search(k) and not NOT_READ.search(k)}
            yield {"config": kept, "layers": layers(config)}


if __name__ == "__main__":
    lines = ",\n".join(json.dumps(entry, default=list) for entry in entries())
    GOLDEN.write_text(f"[\n{lines}\n]\n")
