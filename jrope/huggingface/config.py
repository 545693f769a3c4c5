"""The encoding of a published model, from its config.json.

The steps: the part of the config about text, its model type, the rope parameters of a layer, their
scaling, and the `Rope` of all these. Every key is either understood or refused, because a scaling
that is silently dropped shows only beyond the trained length.
"""

import re

from jrope.encoding import Encoding
from jrope.encodings.rope import Layout, Rope
from jrope.huggingface import facts
from jrope.huggingface.heads import check_head, rotary_fraction, rotating_head
from jrope.huggingface.keys import Keys
from jrope.huggingface.scalings import read_scaling, softmax_multiplier
from jrope.scalings.axes import Sections
from jrope.scalings.proportional import Proportional

LAYER_TYPES = ("full_attention", "sliding_attention", "chunked_attention")


def from_huggingface(config: dict, layer_type: str | None = None) -> Encoding:
    """The encoding of a model in the Hugging Face format.

    Reads `rope_parameters` (transformers 5: one dict, or one for each layer type), `rope_scaling`
    with a top-level `rope_theta` (transformers 4), the keys of older model types, and `text_config`
    where there is one. The formulas are those of transformers 5.24, with two of its faults
    corrected: `truncate` also counts in nested parameters, and Phi-3's "su" is LongRoPE.

    Three things are not read, and the model must add them: the temperature by
    position of Llama 4, Ministral 3 and Mistral 4; which layers rotate (`no_rope_layers`); and a
    softmax scale that does not depend on positions (`attention_multiplier` of Granite,
    `query_pre_attn_scalar` of Gemma 2 and 3, the 1 of Gemma 3n and 4).

    Args:
      config: the content of config.json.
      layer_type: "full_attention", "sliding_attention" or another key of nested parameters; needed
        where layer types differ.

    Returns:
      A `Rope` with base, scaling, pair layout, rotary fraction, softmax multiplier and axes, or
      `Encoding()` for layers without position. With multi-head latent attention, its `spectrum`
      takes qk_rope_head_dim, and its `softmax_scale` qk_nope_head_dim + qk_rope_head_dim.

    Raises:
      TypeError: if the config is not a dict, or layer_type is not a string.
      ValueError: with the key and its value, if a model_type, rope_type, rope key or value is not
        known, if a needed key is missing (above all the base next to a rope dict), or if the number
        of rotary features is odd.
    """
    model = _read_model(_text_part(config))
    rope = _rope_of_layer(model, layer_type)
    if rope is None or not _rotates(model):
        return Encoding()
    scaling = read_scaling(model, rope)
    is_proportional = isinstance(scaling, Proportional)  # its share is a field of the scaling
    encoding = Rope(
        base=_base(model, rope, layer_type),
        scaling=scaling,
        layout=_layout(model),
        rotary_fraction=1.0 if is_proportional else rotary_fraction(model, rope, layer_type),
        softmax_multiplier=softmax_multiplier(model, scaling),
        axes=_axes(model, rope),
    )
    rope.refuse_unread()
    check_head(model, encoding, layer_type)
    return encoding


def layer_types(config: dict) -> tuple[str | None, ...]:
    """The layer types of this model that may have different encodings; (None,) if none may.

    Raises:
      TypeError, ValueError: as `from_huggingface`, where the model is not known.
    """
    model = _read_model(_text_part(config))
    nested = [key for key, value in _rope_dict(model).items() if isinstance(value, dict)]
    if nested:
        return tuple(nested)
    if local_layers := _local_layers(model):
        return "full_attention", local_layers
    return tuple(facts.BY_LAYER.get(model.model_type, ())) or (None,)


def head_dims(config: dict, layer_type: str | None = None) -> tuple[int | None, int | None]:
    """The head sizes that `spectrum` and `softmax_scale` take; None where the config has none.

    Raises:
      TypeError, ValueError: as `from_huggingface`, where the model or a size is not known.
    """
    model = _read_model(_text_part(config))
    _, rotating = rotating_head(model, layer_type)
    if model.model_type not in facts.LATENT:
        return rotating, rotating
    rest = model.size("qk_nope_head_dim")
    return rotating, rotating + rest if rotating and rest else None


def _text_part(config: dict) -> dict:
    """The part about the language model. Rope keys outside it count too, but must not differ."""
    if not isinstance(config, dict):
        raise TypeError(f"from_huggingface: config must be a dict, got {config!r}")
    text = config.get("text_config")
    if text is None:
        return config
    if not isinstance(text, dict):
        raise ValueError(f"from_huggingface: text_config={text!r} must be a dict")
    outside = {key: config[key] for key in facts.OUTER_KEYS if config.get(key) is not None}
    for key, value in outside.items():
        if text.get(key) not in (None, value):
            both = f"{key}={value!r} and text_config.{key}={text[key]!r} are not the same"
            raise ValueError(f"from_huggingface: {both}")
    return {"model_type": config.get("model_type"), **text, **outside}


def _read_model(config: dict) -> Keys:
    """The keys of a known model type, without unknown rope keys and wrong sizes and bases."""
    name = config.get("model_type")
    known = [n for n in (name, f"{name}_text") if isinstance(name, str) and n in facts.LAYOUT]
    if not known:
        what = f"model_type={name!r} is not known, so its pair layout is not known either"
        raise ValueError(f"from_huggingface: {what}")
    model = Keys(known[0], config)
    for key in model.unread:
        if re.search("rope|rotary", str(key)) and key not in facts.OUTER_KEYS:
            model.refuse(key, config[key], "is not a known rope key")
    if config.get("alibi"):
        model.refuse("alibi", config["alibi"], "is another encoding, jrope.Alibi")
    for key in facts.SIZES:
        model.size(key)
    for key in facts.BASES:
        model.positive(key)
    return model


def _rotates(model: Keys) -> bool:
    """Whether a model whose rotation is optional rotates; if not, it has no position at all."""
    word, given = facts.OPT_IN.get(model.model_type), model.value("position_embedding_type")
    if word not in (None, given) and (model.model_type == "esm" or given not in (None, "nope")):
        model.refuse("position_embedding_type", given, f"is not {word!r}")
    return word in (None, given)


def _local_layers(model: Keys) -> str | None:
    """The type of local layers, next to which full attention has no position; None without them."""
    layer_type, key = facts.NOPE.get(model.model_type, (None, ""))
    return None if model.given.get(key, "present") is None else layer_type


def _rope_dict(model: Keys) -> dict:
    """The rope parameters of all layers, which transformers 4 calls `rope_scaling`."""
    new, old = model.dictionary("rope_parameters"), model.dictionary("rope_scaling")
    if new and old and new != old:
        model.refuse("rope_parameters", new, f"and rope_scaling={old!r} are not the same")
    if not new and not old and model.model_type in facts.SCALED:
        model.refuse("rope_parameters", None, "is missing, and its class scales by default")
    return new or old


def _rope_of_layer(model: Keys, layer_type: str | None) -> Keys | None:
    """The rope parameters of one layer type; None for layers without position."""
    if not isinstance(layer_type, str | None):
        raise TypeError(f"from_huggingface: layer_type={layer_type!r} must be a string or None")
    rope, by_layer = _rope_dict(model), facts.BY_LAYER.get(model.model_type)
    if layer_type in rope or any(isinstance(value, dict) for value in rope.values()):
        rope = _nested(model, rope, layer_type)
    elif by_layer is not None:
        new, old = model.value("rope_parameters"), by_layer.get(layer_type or "")
        if new or old is None:
            types = sorted(by_layer or LAYER_TYPES[:2])
            nested = f"any rope_parameters={new!r} must be nested under these"
            why = f"must be one of {types}, and {nested}, since its layer types rotate differently"
            model.refuse("layer_type", layer_type, why)
        rope = rope if old.is_scaled else {}
    elif layer_type not in (None, *LAYER_TYPES):
        model.refuse("layer_type", layer_type, f"must be one of {LAYER_TYPES}")
    elif layer_type == "full_attention" and _local_layers(model):
        return None
    return None if rope is None else Keys(model.model_type, rope)


def _nested(model: Keys, rope: dict, layer_type: str | None) -> dict | None:
    """The parameters of one layer type, where each has its own."""
    layers = {key: value for key, value in rope.items() if isinstance(value, dict | None)}
    stray = {key: value for key, value in rope.items() if key not in layers}
    if stray:
        model.fail(f"{stray!r} cannot be next to {layers!r}, one for each layer type")
    if layer_type not in rope:
        model.refuse("layer_type", layer_type, f"must be one of {sorted(rope)}")
    return rope[layer_type]


def _base(model: Keys, rope: Keys, layer_type: str | None) -> float:
    """The base: of the rope parameters, of the config, or of the model's class.

    That of the class counts only without a rope dict, or next to an old one of certain layer types.
    """
    key, default = "rope_theta", facts.BASE.get(model.model_type)
    if old := facts.BY_LAYER.get(model.model_type, {}).get(layer_type or ""):
        key, default = old.base_key, old.base
    elif model.value("rope_scaling"):
        default = None
    if model.value("rope_parameters"):
        default = None
    outside = model.either(model.number, key, "rotary_emb_base")
    base = rope.positive("rope_theta") or outside or default
    if base is None:
        why = "must be a positive number in the config: it is not defaulted"
        rope.refuse("rope_theta", None, why)
    return base


def _layout(model: Keys) -> Layout:
    layout = facts.LAYOUT[model.model_type]
    if model.model_type in facts.LATENT:
        is_interleaved = model.flag("rope_interleave", layout == "interleaved")
        layout = "interleaved" if is_interleaved else "half"
    return layout


def _axes(model: Keys, rope: Keys) -> Sections | None:
    is_interleaved = facts.MROPE.get(model.model_type)
    if is_interleaved is None:
        return None
    if rope.flag("mrope_interleaved", is_interleaved) != is_interleaved:
        why = f"is not what {model.model_type} does"
        rope.refuse("mrope_interleaved", not is_interleaved, why)
    sections = rope.numbers("mrope_section")
    if not all(isinstance(count, int) and count >= 0 for count in sections):
        rope.refuse("mrope_section", sections, "must be numbers of pairs")
    return Sections(sections, is_interleaved)
