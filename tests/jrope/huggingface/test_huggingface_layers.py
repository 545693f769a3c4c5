"""Windows, and layers that differ: a config is read whole, or says what is left out."""

import json
import re

import numpy as np
import pytest
from golden_values import PEER_CONFIGS

from jrope import Chain, Encoding, Layers, Rope, Window, from_huggingface
from jrope.huggingface import layer_types
from jrope.huggingface.facts import LAYOUT

SIZES = {"hidden_size": 64, "num_attention_heads": 4}
MISTRAL = {"model_type": "mistral", **SIZES, "num_hidden_layers": 4, "rope_theta": 1e4}
# In transformers their window is only that of the cache; in their own code it is that of attention.
OWN_WINDOWS = {"kyutai_speech_to_text": 375, "moshi": 3000}
# Their class has no local layers, or other ones, where the config does not list them.
LISTED = ("laguna", "mellum", "lfm3")


def members(encoding):
    return encoding.encodings if isinstance(encoding, Chain) else (encoding,)


def of_layer(encoding, index):
    """The window and the base of a layer; None for what it does not have."""
    parts = members(encoding.layer({}, index)[0])
    window = next((part.size for part in parts if isinstance(part, Window)), None)
    base = next((part.base for part in parts if isinstance(part, Rope)), None)
    return [window, base]


@pytest.mark.parametrize("is_listed", [True, False])
@pytest.mark.parametrize("entry", PEER_CONFIGS, ids=lambda entry: entry["config"]["model_type"])
def test_layers_of_every_model_type(entry, is_listed):
    """Windows and bases of eight layers, with and without the list of their types."""
    config, name = dict(entry["config"]), entry["config"]["model_type"]
    if not is_listed and (config.pop("layer_types", None) is None or name in LISTED):
        return
    encoding = from_huggingface(json.loads(json.dumps(config)))
    for index, layer in enumerate(entry["layers"]):
        if layer is not None:  # a layer without attention asks for no encoding
            window, base = layer
            assert of_layer(encoding, index) == [OWN_WINDOWS.get(name, window), base]
    if isinstance(encoding, Layers):
        assert len(encoding.pattern) == len(entry["layers"])


def test_every_rotating_model_type_is_tried():
    """Kimi K2 has the class of DeepSeek V3."""
    assert {entry["config"]["model_type"] for entry in PEER_CONFIGS} == {*LAYOUT} - {"kimi_k2"}


@pytest.mark.parametrize("entry", PEER_CONFIGS, ids=lambda entry: entry["config"]["model_type"])
def test_a_layer_type_gives_one_of_the_layers(entry):
    config = entry["config"]
    whole = from_huggingface(config)
    types = config.get("layer_types") or []
    for layer_type in layer_types(config):
        if layer_type in types:
            index = types.index(layer_type)
            assert from_huggingface(config, layer_type) == whole.layer({}, index)[0]


@pytest.mark.parametrize("size", [1, 3, 6])
def test_a_window_masks_what_transformers_masks(size):
    """Its causal mask of a sliding window: key <= query and key > query - size."""
    encoding = from_huggingface({**MISTRAL, "sliding_window": size})
    assert encoding == Chain((Rope(layout="half"), Window(size)))
    positions = np.arange(6)
    bias = np.asarray(encoding.bias({}, positions, positions, num_heads=1))[0]
    query, key = np.indices((6, 6))
    is_causal = key <= query
    assert np.array_equal((bias == 0) & is_causal, is_causal & (key > query - size))


@pytest.mark.parametrize(
    ("model_type", "keys", "reach"),
    [
        ("modernbert", {"local_attention": 8}, 4),  # abs(query - key) <= local_attention // 2
        ("openai_privacy_filter", {"sliding_window": 3}, 3),  # abs(query - key) <= sliding_window
        ("t5_gemma_module", {"sliding_window": 3}, 3),  # the same, in the encoder
        # abs(query - key) < sliding_window // 2 + 1
        ("gemma3_text", {"sliding_window": 8, "use_bidirectional_attention": True}, 4),
    ],
)
def test_windows_on_both_sides(model_type, keys, reach):
    config = {"model_type": model_type, "num_hidden_layers": 6, "rope_theta": 1e4, **keys}
    if model_type == "openai_privacy_filter":
        config["rope_parameters"] = {"rope_type": "default", "rope_theta": 1e4}
    window = members(from_huggingface(config, "sliding_attention"))[1]
    positions = np.arange(12)
    bias = np.asarray(window.bias({}, positions, positions, num_heads=1))[0]
    query, key = np.indices((12, 12))
    assert np.array_equal(bias == 0, abs(query - key) <= reach)


@pytest.mark.parametrize("keys", [{}, {"sliding_window": None}, {"use_sliding_window": False}])
def test_no_window_is_plain_rope(keys):
    if "use_sliding_window" in keys:
        keys = {**keys, "sliding_window": 4096}
    assert from_huggingface({**MISTRAL, **keys}) == Rope(layout="half")


def test_qwen2_has_its_window_in_the_upper_layers():
    config = {"model_type": "qwen2", **SIZES, "num_hidden_layers": 4, "rope_theta": 1e6}
    config |= {"sliding_window": 131_072, "max_window_layers": 3}
    rope = Rope(1e6, layout="half")
    assert from_huggingface(config) == rope  # use_sliding_window is false by default
    assert from_huggingface({**config, "use_sliding_window": False}) == rope
    config["use_sliding_window"] = True
    local = Chain((rope, Window(131_072)))
    assert from_huggingface(config) == Layers((rope, local), (0, 0, 0, 1))
    assert from_huggingface({**config, "max_window_layers": 4}) == rope
    assert layer_types(config) == ("full_attention", "sliding_attention")
    assert from_huggingface(config, "sliding_attention") == local
    with pytest.raises(ValueError, match="max_window_layers=None does not say which layers"):
        from_huggingface({**config, "max_window_layers": None})
    del config["num_hidden_layers"]
    with pytest.raises(ValueError, match="only some layers have sliding_window=131072"):
        from_huggingface(config)


def test_layer_types_outside_the_rule_of_the_class():
    """A Mistral config with layer_types is read as Ministral, by transformers too."""
    types = ["full_attention", *["sliding_attention"] * 3]
    rope = Rope(layout="half")
    got = from_huggingface({**MISTRAL, "sliding_window": 8, "layer_types": types})
    assert got == Layers((rope, Chain((rope, Window(8)))), (0, 1, 1, 1))


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"model_type": "llama", "sliding_window": 8}, "sliding_window=8 is not known"),
        ({"model_type": "llama", "layer_types": ["sliding_attention"]}, "'sliding_attention'"),
        ({"model_type": "llama", "no_rope_layers": [1, 0]}, "no_rope_layers=[1, 0]"),
        ({"model_type": "llama", "local_rope_theta": 1e4}, "local_rope_theta=10000.0"),
        ({**MISTRAL, "layer_types": ["full_attention"]}, "num_hidden_layers=4"),
        ({**MISTRAL, "layer_types": ["linear"] * 4}, "layer_types='linear'"),
        ({**MISTRAL, "sliding_window": 0}, "sliding_window=0"),
        ({**MISTRAL, "sliding_window": 2.5}, "sliding_window=2.5"),
        ({"model_type": "exaone4", "sliding_window_pattern": "LLLGX"}, "'LLLGX'"),
    ],
)
def test_what_is_not_read_is_refused(config, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        from_huggingface({"rope_theta": 1e4, **config})


LLAMA4 = {"model_type": "llama4_text", "num_hidden_layers": 4, "rope_theta": 5e5, "head_dim": 128}


def test_chunks_and_a_temperature_by_position_are_refused_with_what_to_do():
    """Llama 4: local layers see their chunk of positions, the others scale their queries."""
    config = {**LLAMA4, "attention_chunk_size": 8192, "no_rope_layers": []}
    for layer_type in (None, "chunked_attention"):
        with pytest.raises(
            ValueError, match="remove attention_chunk_size from the config, and mask"
        ):
            from_huggingface(config, layer_type)
    assert from_huggingface(config, "full_attention") == Encoding()
    tuned = {**config, "attn_temperature_tuning": 4}
    with pytest.raises(ValueError, match="attn_temperature_tuning=4 scales the queries"):
        from_huggingface(tuned, "full_attention")
    del config["attention_chunk_size"]
    rope = Rope(5e5)
    assert from_huggingface(config) == Layers((rope, Encoding()), (0, 0, 0, 1))
    assert from_huggingface({**config, "no_rope_layers": [0, 1, 1, 1]}).pattern == (0, 1, 1, 1)


def test_t5gemma2_sees_one_position_more_after_a_token():
    config = {"model_type": "t5gemma2_text", "num_hidden_layers": 6, "sliding_window": 512}
    words = "mask all but 255 keys before and 256 after a token"
    with pytest.raises(ValueError, match=words):
        from_huggingface(config)


def test_layers_of_one_type_that_differ():
    config = {"model_type": "smollm3", "num_hidden_layers": 4, "rope_theta": 5e6}
    rope = Rope(5e6, layout="half")
    assert from_huggingface(config) == Layers((rope, Encoding()), (0, 0, 0, 1))
    assert layer_types(config) == (None,)
    with pytest.raises(ValueError, match="with and without position: leave layer_type out"):
        from_huggingface(config, "full_attention")


def test_a_part_of_a_config_without_layers_gives_those_that_rotate():
    """Neither a number of layers nor a window: nothing says that layers differ."""
    for name in ("llama4_text", "cohere2", "gpt_oss", "smollm3"):
        config = next(e["config"] for e in PEER_CONFIGS if e["config"]["model_type"] == name)
        part = {key: config[key] for key in ("rope_parameters", "model_type")}
        assert isinstance(from_huggingface(part), Rope)


def test_layers_without_attention_are_not_counted():
    config = {"model_type": "lfm3", "head_dim": 64, "sliding_window": 256, "rope_parameters": {}}
    config["layer_types"] = ["conv", "conv", "full_attention", "conv", "sliding_attention"]
    for layer_type, base in (("full_attention", 1e6), ("sliding_attention", 1e4)):
        config["rope_parameters"][layer_type] = {"rope_theta": base}
    full, local = Rope(1e6, layout="half"), Chain((Rope(1e4, layout="half"), Window(256)))
    assert from_huggingface(config) == Layers((Encoding(), full, local), (0, 0, 1, 0, 2))
    qwen = {"model_type": "qwen3_next", "rope_theta": 1e7, "num_hidden_layers": 4}
    qwen["layer_types"] = [*["linear_attention"] * 3, "full_attention"]
    assert from_huggingface(qwen) == Rope(1e7, layout="half", rotary_fraction=0.25)


def test_windows_outside_a_text_config():
    text = {"model_type": "mistral", **SIZES, "rope_theta": 1e4}
    local = Chain((Rope(layout="half"), Window(8)))
    assert from_huggingface({"text_config": text, "sliding_window": 8}) == local
    inside = {**text, "sliding_window": None}
    assert from_huggingface({"text_config": inside, "sliding_window": 8}) == Rope(layout="half")
