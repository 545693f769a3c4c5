"""The rotation of the layers of one type: their rope parameters, scaling, layout and axes."""

from jrope.encoding import Encoding
from jrope.encodings.rope import Layout, Rope
from jrope.huggingface import facts, layer_facts
from jrope.huggingface.heads import check_head, rotary_fraction
from jrope.huggingface.keys import Keys
from jrope.huggingface.scalings import read_scaling, softmax_multiplier
from jrope.scalings.axes import Sections
from jrope.scalings.proportional import Proportional

LAYER_TYPES = (layer_facts.FULL, layer_facts.SLIDING, layer_facts.CHUNKED)
ORIGINAL = "original_max_position_embeddings"


def read_rope(model: Keys, layer_type: str | None) -> Encoding:
    """The `Rope` of the layers of a type that rotate; `Encoding()` if the model has no rotation.

    Raises:
      ValueError: with the key and its value, where something is not known, missing or wrong.
    """
    rope = _rope_of_layer(model, layer_type)
    if rope is None or not _is_rotating(model, rope):
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


def nested_types(model: Keys) -> tuple[str, ...]:
    """The layer types that have their own dict in the rope parameters."""
    return tuple(key for key, value in _rope_dict(model).items() if isinstance(value, dict))


def _is_rotating(model: Keys, rope: Keys) -> bool:
    """Whether a model whose rotation is optional rotates; if not, it has no position at all."""
    if model.model_type in facts.NULL_BASE and rope.is_null("rope_theta"):
        return False
    word, given = facts.OPT_IN.get(model.model_type), model.value("position_embedding_type")
    if word not in (None, given) and (model.model_type == "esm" or given not in (None, "nope")):
        table = "its position p has row p + pad_token_id + 1 of a table"
        remedy = f"for 'absolute', {table}: build jrope.Learned by hand"
        model.refuse("position_embedding_type", given, f"is not {word!r}", remedy)
    if word is None and given not in (None, "rope", "rotary"):
        why = "is not the rotation of this model type"
        model.refuse("position_embedding_type", given, why)
    return word in (None, given)


def _rope_dict(model: Keys) -> dict:
    """The rope parameters of all layers, which transformers 4 calls `rope_scaling`."""
    new, old = model.dictionary("rope_parameters"), model.dictionary("rope_scaling")
    if new and old and new != old:
        remedy = "remove the one that the model does not use"
        model.refuse("rope_parameters", new, f"and rope_scaling={old!r} are not the same", remedy)
    if not new and not old and model.model_type in facts.SCALED:
        why = "is missing, and its class scales by default"
        model.refuse("rope_parameters", None, why, "add the rope_parameters of the class")
    local = model.dictionary(facts.LOCAL_ROPE.get(model.model_type, ""))
    return _with_local(model, new, local) if local else new or old


def _with_local(model: Keys, rope: dict, local: dict) -> dict:
    """The rope parameters with those of local layers, from a dict outside."""
    full = rope.get(layer_facts.FULL, rope)
    inside = rope.get(layer_facts.SLIDING, local)
    if inside != local:
        key = facts.LOCAL_ROPE[model.model_type]
        both = f"and rope_parameters[{layer_facts.SLIDING!r}]={inside!r} are not the same"
        model.refuse(key, local, both, "remove the one that the model does not use")
    return {layer_facts.FULL: full, layer_facts.SLIDING: local}


def _rope_of_layer(model: Keys, layer_type: str | None) -> Keys | None:
    """The rope parameters of one layer type; None for layers without position."""
    rope, by_layer = _rope_dict(model), facts.BY_LAYER.get(model.model_type)
    if layer_type in rope or any(isinstance(value, dict) for value in rope.values()):
        return _nested(model, rope, layer_type)
    if by_layer is not None:
        new, old = model.value("rope_parameters"), by_layer.get(layer_type or "")
        if new or old is None:
            types = sorted(by_layer or LAYER_TYPES[:2])
            nested = f"any rope_parameters={new!r} must be nested under these"
            why = f"must be one of {types}, and {nested}, since its layer types rotate differently"
            remedy = "nest rope_parameters under the layer types" if new else _name_a_type(model)
            model.refuse("layer_type", layer_type, why, remedy)
        if old.is_scaled is None and rope:
            remedy = "nest rope_parameters under the layer types instead"
            model.refuse("rope_scaling", rope, "is for layers that are not known", remedy)
        rope = rope if old.is_scaled else {}
    elif layer_type not in (None, *LAYER_TYPES):
        model.refuse("layer_type", layer_type, f"must be one of {LAYER_TYPES}", "pass one of these")
    return Keys(model.model_type, rope)


def _name_a_type(model: Keys) -> str:
    remedy = "pass one of these as layer_type"
    if model.model_type not in layer_facts.LOCAL:
        return remedy
    return f"{remedy}, or add num_hidden_layers or layer_types to the config, for all layers"


def _nested(model: Keys, rope: dict, layer_type: str | None) -> Keys | None:
    """The parameters of one layer type, where each has its own.

    The trained length may be next to them, for all.
    """
    layers = {key: value for key, value in rope.items() if isinstance(value, dict | None)}
    shared = {key: value for key, value in rope.items() if key == ORIGINAL and key not in layers}
    stray = {key: value for key, value in rope.items() if key not in {**layers, **shared}}
    if stray:
        remedy = "move it into the dict of each layer type"
        model.fail(f"{stray!r} cannot be next to {layers!r}, one for each layer type", remedy)
    if layer_type not in layers:
        why = f"must be one of {sorted(layers)}"
        model.refuse("layer_type", layer_type, why, _name_a_type(model))
    if (given := layers[layer_type]) is None:
        return None
    own = Keys(model.model_type, {**shared, **given})
    if shared and own.length(ORIGINAL) != Keys(model.model_type, shared).length(ORIGINAL):
        both = f"and {ORIGINAL}={own.given[ORIGINAL]!r} of {layer_type} are not the same"
        model.refuse(ORIGINAL, shared[ORIGINAL], both, "remove the one that the model does not use")
    return own


def _base(model: Keys, rope: Keys, layer_type: str | None) -> float:
    """The base: of the rope parameters, of the config, or of the model's class.

    That of the class counts only without a rope dict, or next to an old one of certain layer types.
    """
    key, default = "rope_theta", facts.BASE.get(model.model_type)
    by_layer = facts.BY_LAYER.get(model.model_type, {})
    if old := by_layer.get(layer_type or ""):
        old = by_layer[old.null] if old.null and model.is_null(old.base_key) else old
        key, default = old.base_key, old.base
    elif model.value("rope_scaling"):
        default = None
    if model.value("rope_parameters"):
        default = None
    outside = model.either(model.number, key, "rotary_emb_base")
    base = rope.positive("rope_theta") or outside or default
    if base is None:
        why = "must be a positive number in the config: it is not defaulted"
        rope.refuse("rope_theta", None, why, "add the rope_theta of the model")
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
    for key in ("mrope_interleaved", "interleaved"):  # the latter in Qwen3-Omni, next to the former
        if rope.flag(key, is_interleaved) != is_interleaved:
            rope.refuse(key, not is_interleaved, f"is not what {model.model_type} does")
    sections = rope.numbers("mrope_section")
    if not all(isinstance(count, int) and count >= 0 for count in sections):
        rope.refuse("mrope_section", sections, "must be numbers of pairs")
    return Sections(sections, is_interleaved)
