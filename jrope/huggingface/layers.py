"""The layers of a published model: which of them are local, and which rotate."""

from typing import NamedTuple

from jrope.huggingface import layer_facts
from jrope.huggingface.keys import Keys
from jrope.huggingface.layer_facts import CHUNKED, FULL, LAYER_TYPES, SLIDING
from jrope.huggingface.windows import local_type, said_window


class Layer(NamedTuple):
    """What differs between the layers of a model.

    Attributes:
      type: "full_attention", "sliding_attention" or "chunked_attention"; "" without attention; None
        where the model has no types of layers.
      rotates: False for a layer without position.
    """

    type: str | None
    rotates: bool = True


def read_layers(model: Keys) -> tuple[Layer, ...] | None:
    """The layers in order; None if they are the same, or the config does not say how many."""
    types, rotating = _listed_types(model), _rotating(model)
    if types is None:
        types = _types_by_rule(model, rotating)
    if types is None or model.model_type not in layer_facts.LOCAL:
        return None
    if rotating is None:
        return tuple(Layer(word, rotates_by_type(model, word)) for word in types)
    if len(rotating) != len(types):
        both = f"has {len(rotating)} entries, and the model has {len(types)} layers"
        model.refuse("no_rope_layers", list(rotating), both)
    return tuple(map(Layer, types, rotating))


def layer_of_type(model: Keys, layers: tuple[Layer, ...] | None, layer_type: str) -> Layer:
    """The layers of a type, which must be the same."""
    found = {layer for layer in layers or () if layer.type == layer_type}
    if len(found) > 1:
        why = "has layers with and without position"
        model.refuse("layer_type", layer_type, why, "leave layer_type out, for jrope.Layers")
    return found.pop() if found else Layer(layer_type, rotates_by_type(model, layer_type))


def any_layer(model: Keys) -> Layer:
    """The layer that stands for all, where the config does not say how many there are."""
    if model.model_type not in layer_facts.LOCAL or (said := said_window(model)) is None:
        return Layer(None)
    if not _are_all_local(model):
        key, size = said
        types = [FULL, local_type(model)]
        why = f"must be one of {types}, since only some layers have {key}={size}"
        remedy = "pass one of these, or add num_hidden_layers or layer_types to the config"
        model.refuse("layer_type", None, why, remedy)
    return Layer(local_type(model))


def differing_types(model: Keys) -> tuple[str, ...]:
    """The types of layers that differ in their window, or of which one does not rotate."""
    local = local_type(model)
    if local is None:
        return ()
    layers = read_layers(model)
    types = {layer.type for layer in layers} if layers else {local, FULL}
    has_both = types >= {local, FULL} and (layers or not _are_all_local(model))
    differs = not rotates_by_type(model, FULL) or (has_both and said_window(model))
    return (FULL, local) if differs else ()


def _are_all_local(model: Keys) -> bool:
    return layer_facts.LOCAL[model.model_type].rule is layer_facts.every


def rotates_by_type(model: Keys, layer_type: str | None) -> bool:
    """Whether the layers of a type rotate, in models where the type decides that."""
    if layer_type != FULL or model.model_type not in layer_facts.NOPE:
        return True
    return model.is_null(layer_facts.NOPE[model.model_type])


def _listed_types(model: Keys) -> list[str] | None:
    words = model.words("layer_types")
    if words is None:
        return None
    allowed = [word for word in LAYER_TYPES if word not in (SLIDING, CHUNKED)]
    allowed += [word for word in (local_type(model),) if word]
    for word in words:
        if word not in allowed:
            model.refuse("layer_types", word, f"is not one of {allowed}")
    count = model.num_layers("num_hidden_layers")
    if count not in (None, len(words)):
        model.refuse("num_hidden_layers", count, f"and {len(words)} layer_types are not the same")
    return [LAYER_TYPES[word] for word in words]


def _rotating(model: Keys) -> tuple[bool, ...] | None:
    """Which layers rotate, in models with a list of them or an interval."""
    if model.model_type not in layer_facts.NO_ROPE_LAYERS:
        return None
    listed = model.switches("no_rope_layers")
    count = model.num_layers("num_hidden_layers")
    interval = model.num_layers("no_rope_layer_interval") or 4  # that of the class
    if listed is None and count is not None:
        return tuple((index + 1) % interval != 0 for index in range(count))
    return listed


def _types_by_rule(model: Keys, rotating: tuple[bool, ...] | None) -> list[str] | None:
    """The types of the layers where the config does not list them, by the code of the class."""
    name, local = model.model_type, layer_facts.LOCAL.get(model.model_type)
    listed = model.switches(layer_facts.LOCAL_LAYERS.get(name, "")) or rotating
    count = model.num_layers("num_hidden_layers") or (len(listed) if listed else None)
    if local is None or count is None:
        return None
    if listed and len(listed) != count:
        both = f"and a list of {len(listed)} layers are not the same"
        model.refuse("num_hidden_layers", count, both)
    if name in layer_facts.ALWAYS_LISTED:
        model.refuse("layer_types", None, "is missing", "add layer_types to the config")
    if local.needs_flag and said_window(model) is None:
        return [FULL] * count
    is_local = layer_facts.NO_ROPE_LAYERS.get(name, True)  # what the entries of a list mean
    number = _rule_number(model, local)
    are_local = listed or [local.rule(index, number) for index in range(count)]
    types = [local_type(model) or FULL if flag == is_local else FULL for flag in are_local]
    return [*types[:-1], FULL] if name in layer_facts.FULL_AT_END else types


def _rule_number(model: Keys, local: layer_facts.Local) -> int:
    """The period of a rule, or the index of a layer; that of the class if it is not given."""
    number = model.index(local.key)
    unknown = None if local.number is None else 0
    if number == unknown and said_window(model):
        why = "does not say which layers have the window"
        model.refuse(local.key, number, why, "add layer_types to the config")
    return number or local.number or 0


def refuse_temperature(model: Keys):
    """Refuses a scale of the queries by position in the layers that do not rotate."""
    if model.value("attn_temperature_tuning"):
        given = model.value("attn_temperature_tuning")
        why = "scales the queries of layers without position by their position, which is not read"
        scale = "1 + attn_scale * log(1 + floor((position + 1) / floor_scale))"
        remedy = f"set it to false, and multiply these queries by {scale}"
        model.refuse("attn_temperature_tuning", given, why, remedy)
