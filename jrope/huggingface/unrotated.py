"""Published models that do not rotate: tables of positions, sinusoids, ALiBi, and T5's buckets.

Read from the modelling code of transformers 5.24, and for MPT without ALiBi from that of its
authors, which transformers does not have.
"""

from collections.abc import Callable
from functools import partial

from jrope.composition import Chain, Layers
from jrope.encoding import Encoding
from jrope.encodings.alibi import Alibi
from jrope.encodings.learned import Learned
from jrope.encodings.sinusoidal import Sinusoidal
from jrope.encodings.t5 import T5
from jrope.encodings.window import Window
from jrope.huggingface.facts import each
from jrope.huggingface.keys import Keys

SIDES = {"encoder": True, "decoder": False}  # of T5, and whether it is bidirectional


def read_unrotated(model: Keys, layer_type: str | None) -> Encoding:
    """The encoding of a model type that does not rotate.

    Raises:
      ValueError: with the key and its value, where something is not known, missing or wrong.
    """
    allowed = unrotated_types(model)
    if layer_type not in allowed:
        why = f"must be one of {list(allowed)}"
        if allowed == (None,):
            remedy = "leave it out, since all layers are the same"
            model.refuse("layer_type", layer_type, why, remedy)
        why += ", since only the encoder has buckets for keys after the query"
        model.refuse("layer_type", layer_type, why, "pass one of these as layer_type")
    return READERS[model.model_type](model, layer_type)


def unrotated_types(model: Keys) -> tuple[str | None, ...]:
    """The layer types of a model that does not rotate."""
    return tuple(SIDES) if model.model_type in T5_TYPES else (None,)


def _learned(key: str, model: Keys, _) -> Encoding:
    kind = model.value("position_embedding_type")
    if kind not in (None, "absolute"):
        why = "is not a table of positions, and no encoding of jrope is the same"
        model.refuse("position_embedding_type", kind, why, "write an encoding of your own")
    return Learned(_rows(model, key))


def _rows(model: Keys, key: str) -> int:
    rows = model.count(key, "positions", least=1)
    if rows is None:
        remedy = f"add {key}, or build jrope.Learned(max_length) by hand"
        model.refuse(key, None, "is missing from the config", remedy)
    return rows


def _shifted(shift: int | None, model: Keys, _) -> Encoding:
    """Refuses a table with rows before that of position 0: `Learned` would read other rows."""
    rows = _rows(model, "max_position_embeddings")
    if shift is None:  # the rows up to that of padding, which max_position_embeddings counts
        padding = model.count("pad_token_id", "tokens")
        shift = 1 + (1 if padding is None else padding)
    else:
        rows += shift
    why = f"has a table of {rows} rows where position p has row p + {shift}, not p"
    remedy = f"build jrope.Learned({rows}) by hand, and pass it positions + {shift}"
    model.refuse("model_type", model.model_type, why, remedy)


def _sinusoidal(model: Keys, _) -> Encoding:
    return Sinusoidal(layout="concatenated")


def _xglm(model: Keys, _) -> Encoding:
    """Refuses fairseq's table: position p has that of p + 2."""
    why = "adds to position p what jrope.sinusoidal has for p + 2"
    values = 'jrope.Sinusoidal(layout="concatenated", endpoint=True)'
    remedy = f"build {values} by hand, and pass it positions + 2"
    model.refuse("model_type", model.model_type, why, remedy)


def _gpt_neo(model: Keys, _) -> Encoding:
    learned = _learned("max_position_embeddings", model, None)
    groups, size = model.value("attention_types"), model.count("window_size", "positions", least=1)
    try:
        words = [word for block, count in groups for _ in range(count) for word in block]
    except (TypeError, ValueError):
        words = []
    if not words or not {*words} <= {"global", "local"}:
        why = "must be blocks of 'global' and 'local' with counts, as [[['global', 'local'], 12]]"
        model.refuse("attention_types", groups, why)
    if "local" not in words:
        return learned
    if size is None:
        model.refuse("window_size", None, "is missing from the config", "add window_size")
    members = tuple(dict.fromkeys(words))
    encodings = tuple(Window(size) if word == "local" else Encoding() for word in members)
    return Chain((learned, Layers(encodings, tuple(map(members.index, words)))))


def _alibi(model: Keys, _) -> Encoding:
    return Alibi()


def _mpt(model: Keys, _) -> Encoding:
    """ALiBi if the config of attention says so; otherwise a table."""
    attention = Keys("mpt", model.dictionary("attn_config"))
    if attention.flag("rope", False):
        remedy = "build jrope.Rope by hand, from attn_config"
        attention.refuse("rope", True, "is not read from attn_config", remedy)
    size = attention.number("sliding_window_size", -1)
    if size != -1:
        remedy = "build jrope.Chain by hand, with jrope.Window"
        attention.refuse("sliding_window_size", size, "is not read from attn_config", remedy)
    if not isinstance(attention.value("alibi"), bool):
        given, remedy = attention.value("alibi"), "state which one the model has"
        attention.refuse("alibi", given, "must be true (ALiBi) or false (a table)", remedy)
    if not attention.value("alibi"):
        if not model.flag("learned_pos_emb", True):
            return Encoding()
        return Learned(_rows(model, "max_seq_len"))
    if attention.number("alibi_bias_max", 8) != 8:
        why = "gives other slopes than jrope.Alibi, which has those of 8"
        remedy = "write an encoding of your own with these slopes"
        attention.refuse("alibi_bias_max", attention.number("alibi_bias_max"), why, remedy)
    return Alibi()


def _t5(model: Keys, side: str | None) -> Encoding:
    """T5's buckets. Where each layer has a table of its numbers (UMT5), a member for each layer."""
    buckets = model.count("relative_attention_num_buckets", "buckets", least=2)
    distance = model.count("relative_attention_max_distance", "positions", least=2)
    options = {"buckets": buckets or 32, "max_distance": distance or 128}  # those of the class
    try:
        encoding = T5(**options, bidirectional=SIDES[side or ""])
    except ValueError as error:
        model.fail(f"relative_attention_num_buckets={buckets!r}: {error}")
    if model.model_type != "umt5":
        return encoding
    keys = ["num_layers"] if side == "encoder" else ["num_decoder_layers", "num_layers"]
    counts = [model.count(key, "layers", least=1) for key in keys]
    count = next((count for count in counts if count), None)
    if count is None:
        why = "is missing from the config, and each layer has a table"
        model.refuse("num_layers", None, why, "add num_layers")
    return Layers((encoding,) * count)


_BERTS = """
    albert bert bert-generation blenderbot blenderbot-small convbert distilbert electra ernie
    megatron-bert mobilebert rembert roc_bert squeezebert
"""
T5_TYPES = ("t5", "mt5", "umt5", "switch_transformers")
READERS: dict[str, Callable[[Keys, str | None], Encoding]] = {
    **each(partial(_learned, "n_positions"), "gpt2 gpt_bigcode imagegpt openai-gpt"),
    **each(partial(_learned, "max_position_embeddings"), _BERTS),
    "gpt_neo": _gpt_neo,
    **each(partial(_shifted, 2), "opt bart mbart plbart biogpt"),
    **each(partial(_shifted, None), "roberta roberta-prelayernorm xlm-roberta xlm-roberta-xl"),
    **each(partial(_shifted, None), "camembert xmod"),
    **each(_sinusoidal, "marian pegasus"),
    "xglm": _xglm,
    "bloom": _alibi,
    "mpt": _mpt,
    **each(_t5, " ".join(T5_TYPES)),
}
