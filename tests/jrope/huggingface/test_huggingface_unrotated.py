"""Models that do not rotate: each is given, or refused with what to build instead."""

import math
import re

import pytest

from jrope import T5, Alibi, Chain, Encoding, Layers, Learned, Sinusoidal, Window, from_huggingface
from jrope.huggingface import head_dims, layer_types
from jrope.huggingface.unrotated import READERS

BERT = {"hidden_size": 768, "num_attention_heads": 12, "max_position_embeddings": 512}
BERT |= {"position_embedding_type": "absolute", "pad_token_id": 0}
ROBERTA = {**BERT, "max_position_embeddings": 514, "pad_token_id": 1}
BART = {"max_position_embeddings": 1024, "is_encoder_decoder": True}
SMALL = {"d_model": 512, "d_kv": 64, "num_heads": 8, "num_layers": 6}
SMALL |= {"relative_attention_num_buckets": 32, "is_encoder_decoder": True}
GPT2 = {"n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024, "n_ctx": 1024}
NEO = {"hidden_size": 2048, "num_heads": 16, "num_layers": 4, "max_position_embeddings": 2048}
NEO |= {"attention_types": [[["global", "local"], 2]], "window_size": 256}
MPT = {"d_model": 4096, "n_heads": 32, "n_layers": 32, "max_seq_len": 2048}
ATTENTION = {"alibi": True, "alibi_bias_max": 8, "attn_type": "multihead_attention"}

BERTS = """
    albert bert bert-generation blenderbot blenderbot-small convbert distilbert electra ernie
    megatron-bert mobilebert rembert roc_bert squeezebert
"""
GIVEN = [
    ("gpt2", GPT2, Learned(1024)),
    ("gpt_bigcode", {**GPT2, "n_positions": 8192}, Learned(8192)),
    ("openai-gpt", {**GPT2, "n_positions": 512}, Learned(512)),
    ("imagegpt", {**GPT2, "n_positions": 1024}, Learned(1024)),
    *((name, BERT, Learned(512)) for name in BERTS.split()),
    ("marian", {**BART, "d_model": 512}, Sinusoidal(layout="concatenated")),
    ("pegasus", {**BART, "d_model": 1024}, Sinusoidal(layout="concatenated")),
    ("gpt_neo", NEO, Chain((Learned(2048), Layers((Encoding(), Window(256)), (0, 1, 0, 1))))),
    ("bloom", {"hidden_size": 4096, "n_head": 32, "n_layer": 30}, Alibi()),
    ("mpt", {**MPT, "attn_config": ATTENTION}, Alibi()),
    ("mpt", {**MPT, "attn_config": {"alibi": False}}, Learned(2048)),
]


@pytest.mark.parametrize(("model_type", "config", "want"), GIVEN)
def test_what_a_model_has_instead_of_a_rotation(model_type, config, want):
    config = {"model_type": model_type, **config}
    assert from_huggingface(config) == want
    assert layer_types(config) == (None,)
    with pytest.raises(ValueError, match="layer_type='full_attention' must be one of"):
        from_huggingface(config, "full_attention")


@pytest.mark.parametrize("model_type", ["t5", "mt5", "switch_transformers"])
def test_t5_needs_its_side(model_type):
    """The encoder has half of the buckets for keys after the query."""
    config = {"model_type": model_type, **SMALL}
    assert from_huggingface(config, "encoder") == T5(32, 128, bidirectional=True)
    assert from_huggingface(config, "decoder") == T5(32, 128)
    wide = {**config, "relative_attention_max_distance": 256}
    assert from_huggingface(wide, "decoder").max_distance == 256
    assert layer_types(config) == ("encoder", "decoder")
    assert head_dims(config) == (64, 64)
    with pytest.raises(
        ValueError, match=r"layer_type=None must be one of \['encoder', 'decoder'\]"
    ):
        from_huggingface(config)


def test_umt5_has_a_table_in_each_layer():
    config = {"model_type": "umt5", **SMALL, "num_decoder_layers": 3}
    assert from_huggingface(config, "encoder") == Layers((T5(bidirectional=True),) * 6)
    assert from_huggingface(config, "decoder") == Layers((T5(),) * 3)


ROBERTAS = "roberta roberta-prelayernorm xlm-roberta xlm-roberta-xl camembert xmod"
SHIFTED = [
    ("opt", {"max_position_embeddings": 2048}, 2050, 2),
    ("bart", BART, 1026, 2),
    ("mbart", BART, 1026, 2),
    ("plbart", BART, 1026, 2),
    ("biogpt", {"max_position_embeddings": 1024}, 1026, 2),
    *((name, ROBERTA, 514, 2) for name in ROBERTAS.split()),
    ("roberta", {**ROBERTA, "pad_token_id": 4}, 514, 5),
]


@pytest.mark.parametrize(("model_type", "config", "rows", "shift"), SHIFTED)
def test_tables_that_start_before_position_0(model_type, config, rows, shift):
    """With the same weights, `Learned` would read the row of another position."""
    words = f"build jrope.Learned({rows}) by hand, and pass it positions + {shift}"
    with pytest.raises(ValueError, match=re.escape(words)):
        from_huggingface({"model_type": model_type, **config})


def test_every_model_type_is_tried():
    tried = {case[0] for case in (*GIVEN, *SHIFTED)}
    assert tried | {"t5", "mt5", "switch_transformers", "umt5", "xglm"} == {*READERS}


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"model_type": "gpt2"}, "n_positions=None is missing"),
        ({"model_type": "gpt2", "n_positions": "8"}, "n_positions='8'"),
        ({"model_type": "gpt2", "n_positions": 8, "rope_theta": 1e4}, "rope_theta=10000.0"),
        (
            {"model_type": "bert", **BERT, "position_embedding_type": "relative_key"},
            "'relative_key'",
        ),
        (
            {"model_type": "gpt_neo", **NEO, "attention_types": ["local"]},
            "attention_types=['local']",
        ),
        ({"model_type": "gpt_neo", **NEO, "window_size": None}, "window_size=None"),
        ({"model_type": "xglm"}, "endpoint=True) by hand, and pass it positions + 2"),
        ({"model_type": "mpt", **MPT}, "alibi=None must be true (ALiBi) or false (a table)"),
        (
            {"model_type": "mpt", "attn_config": {"alibi": True, "alibi_bias_max": 4}},
            "=4 gives other",
        ),
        ({"model_type": "mpt", "attn_config": {"alibi": False, "rope": True}}, "rope=True"),
        ({"model_type": "mpt", "attn_config": {"sliding_window_size": 8}}, "sliding_window_size=8"),
        (
            {"model_type": "falcon", "rope_theta": 1e4, "alibi": True},
            "jrope.alibi(...) / head_dim**0.5",
        ),
        ({"model_type": "llama", "rope_theta": 1e4, "alibi": True}, "build jrope.Alibi() by hand"),
    ],
)
def test_refusals_of_models_without_rotation(config, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        from_huggingface(config)


KEYS = """
    n_positions max_position_embeddings max_seq_len position_embedding_type attention_types
    window_size attn_config relative_attention_num_buckets n_embd n_head hidden_size d_model d_kv
"""


@pytest.mark.parametrize("wrong", ["?", math.nan])
@pytest.mark.parametrize(
    ("model_type", "config"), [*(case[:2] for case in GIVEN), ("t5", SMALL), ("umt5", SMALL)]
)
def test_each_key_with_a_wrong_value(model_type, config, wrong):
    layer_type = "decoder" if "t5" in model_type else None
    for key in {*config} & {*KEYS.split()}:
        damaged = {"model_type": model_type, **config, key: wrong}
        with pytest.raises(ValueError, match=re.escape(f"{key}={wrong!r}")):
            from_huggingface(damaged, layer_type)


def test_t5_with_wrong_buckets():
    config = {"model_type": "t5", **SMALL, "relative_attention_num_buckets": 3}
    with pytest.raises(ValueError, match="relative_attention_num_buckets=3: T5: buckets"):
        from_huggingface(config, "encoder")
