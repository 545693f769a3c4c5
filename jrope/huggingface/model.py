"""The part of a config that is about one language model, and its model type."""

import re
from collections.abc import Iterator
from functools import partial

from jrope.huggingface import facts, layer_facts, unrotated
from jrope.huggingface.keys import Keys
from jrope.huggingface.windows import refuse_unknown_windows

KNOWN = {*facts.LAYOUT, *unrotated.READERS}


def read_model(config: dict) -> Keys:
    """The keys of a known model type, without rope keys and windows that its class does not have.

    Raises:
      TypeError: if the config is not a dict.
      ValueError: if the model type or a rope key is not known, or a size or a base is wrong.
    """
    if not isinstance(config, dict):
        raise TypeError(f"from_huggingface: config must be a dict, got {config!r}")
    text = _text_part(config)
    name = _known_type(text)
    if name is None:
        raise ValueError(f"from_huggingface: {_unknown(text)}")
    model = Keys(name, text)
    for key in model.unread:
        is_known = name in facts.LAYOUT and key in facts.ROPE_KEYS
        if re.search("rope|rotary", str(key)) and not is_known:
            remedy = f"remove {key} if the model does not use it, or build the encoding by hand"
            model.refuse(key, text[key], "is not a known rope key", remedy)
    _check_values(model)
    refuse_unknown_windows(model)
    return model


def _check_values(model: Keys):
    """Refuses wrong values, also those of keys that another key makes unimportant."""
    readers = {
        model.size: facts.SIZES,
        model.positive: facts.BASES,
        model.fraction: facts.FRACTIONS,
        model.length: facts.LENGTHS,
        model.switch: facts.SWITCHES,
        model.num_layers: layer_facts.NUMBERS,
        model.index: layer_facts.INDICES,
        partial(_choice, model): layer_facts.CHOICES,
        partial(_pattern, model): layer_facts.PATTERNS,
    }
    for read, keys in readers.items():
        for key in keys:
            read(key)
    for key in facts.ROTATES:
        if not model.flag(key, True):
            model.refuse(key, False, "is not what this model type does: it rotates")


def _choice(model: Keys, key: str):
    allowed, value = layer_facts.CHOICES[key], model.value(key)
    if not any(value is choice or value == choice for choice in (None, *allowed)):
        model.refuse(key, value, f"must be one of {allowed}")


def _pattern(model: Keys, key: str):
    """A period, or a word of L (local) and G, which only means something next to layer_types."""
    if not (isinstance(model.value(key), str) and {*model.value(key)} <= {*"LG"}):
        model.index(key)


def refuse_foreign_keys(model: Keys):
    """Refuses rope keys that only other model types read."""
    for key, names in facts.ONLY_READ_BY.items():
        if model.given.get(key) and model.model_type not in names:
            remedy = f"remove {key} if the model does not use it, or build the encoding by hand"
            model.refuse(key, model.given[key], "is not read for this model type", remedy)


def _text_part(config: dict) -> dict:
    """The part about the language model. Rope keys outside it count too, but must not differ."""
    text = config.get("text_config")
    if text is None:
        return config
    if not isinstance(text, dict):
        what = f"text_config={text!r} must be a dict"
        raise ValueError(f"from_huggingface: {what}: pass the part about the language model")
    outside = {key: config[key] for key in facts.ROPE_KEYS if config.get(key) is not None}
    for key, value in outside.items():
        if text.get(key) not in (None, value):
            both = f"{key}={value!r} and text_config.{key}={text[key]!r} are not the same"
            raise ValueError(
                f"from_huggingface: {both}: remove the one that the model does not use"
            )
    layers = {key: config[key] for key in layer_facts.LAYER_KEYS if key in config}
    return {"model_type": config.get("model_type"), **layers, **text, **outside}


def _known_type(text: dict) -> str | None:
    """The known model type; of a model with other parts, that of its text."""
    name = text.get("model_type")
    if not isinstance(name, str):
        return None
    if name in KNOWN:
        return name
    has_parts = any(_known_parts(text))  # then the keys are in these, not here
    return f"{name}_text" if f"{name}_text" in KNOWN and not has_parts else None


def _unknown(text: dict) -> str:
    what = f"model_type={text.get('model_type')!r} is not known"
    if parts := list(_known_parts(text)):
        return f"{what}, but parts of its config are: pass {' or '.join(parts)}"
    by_hand = 'build the encoding by hand, for example jrope.Rope(base, layout="half")'
    return f"{what}, so its pair layout is not known either: {by_hand}"


def _known_parts(config: dict, path: str = "config") -> Iterator[str]:
    """The dicts inside the config that can be read."""
    for key, part in config.items():
        if isinstance(part, dict):
            text = part.get("text_config")
            names = [d.get("model_type") for d in (part, text) if isinstance(d, dict)]
            if any(isinstance(name, str) and name in KNOWN for name in names):
                yield f"{path}[{key!r}]"
            else:
                yield from _known_parts(part, f"{path}[{key!r}]")
