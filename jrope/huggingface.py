"""The encoding of a published model, from its config.json.

Every key is either understood or refused: a scaling that is dropped without a word costs more than any error, and does not
show before the trained length is passed.
"""

import math

from jrope import huggingface_models as models
from jrope.axes import Sections
from jrope.encoding import Encoding
from jrope.encoding_rotary import Rope
from jrope.huggingface_scalings import SCALINGS, Keys, kind_of, number, outer

LAYER_TYPES = ("full_attention", "sliding_attention", "chunked_attention")


def from_huggingface(config: dict, layer_type: str | None = None) -> Encoding:
    """The encoding of a model in the Hugging Face format.

    Reads `rope_parameters` (transformers 5; one for all layers, or one for each layer type), `rope_scaling` with a top-level
    `rope_theta` (transformers 4), the keys of older model types, and `text_config` where there is one. The formulas are those
    of transformers 5.24, without its faults: `truncate` counts in nested parameters too, and Phi-3's "su" is LongRoPE.

    Args:
      config: what config.json holds.
      layer_type: "full_attention", "sliding_attention" or another key of nested parameters; needed where layer types differ.

    Returns:
      A `Rope` with base, scaling, pair layout, rotary fraction, softmax multiplier and axes, or `Encoding()` for layers
      without position. For multi-head latent attention `spectrum` takes head_dim = qk_rope_head_dim, of the part that rotates,
      and `softmax_scale` takes qk_nope_head_dim + qk_rope_head_dim. Three things are not part of an encoding and are left to
      the model: the temperature by position of Llama 4, Ministral 3 and Mistral 4; which layer indices rotate
      (no_rope_layers); and a softmax scale that has nothing to do with positions (attention_multiplier of Granite,
      query_pre_attn_scalar of Gemma 2 and 3, the 1 of Gemma 3n and 4).

    Raises:
      TypeError: if the config is not a dict, or layer_type not a string.
      ValueError: naming the key and its value, where the config has a model_type, rope_type, rope key or value that is not
        known, leaves out one that is needed (the base beside a rope dict above all), or has an odd number of rotary features.
    """
    config = _text(config)
    model = _model(config)
    given, base = _of_layer(config, model, layer_type)
    if given is None or not _rotates(config, model):
        return Encoding()
    keys = Keys(model, given)
    kind = kind_of(keys)
    scaling, multiplier = SCALINGS[kind](keys, config)
    # the width of p-RoPE is the whole head, and its own fraction is in the scaling
    fraction = 1.0 if kind == "proportional" else _rotary_fraction(keys, config)
    if not 0 < fraction <= 1:
        name = "rotary_pct" if config.get("rotary_pct") == fraction else "partial_rotary_factor"
        keys.refuse(name, fraction, "must be above 0 and at most 1")
    _even(model, config, fraction)
    base = keys.number("rope_theta", base)
    if base is None or base <= 0:
        keys.refuse("rope_theta", base, "must be a positive number in the config: it is not defaulted")
    axes = _axes(keys)
    keys.close()
    encoding = Rope(base, scaling, _layout(config, model), fraction, multiplier, axes)
    _fits(encoding, model, config)
    return encoding


def layer_types(config: dict) -> tuple[str | None, ...]:
    """The layer types whose encodings may differ in this model, each to be asked for: (None,) where all layers are alike.

    Raises:
      TypeError, ValueError: as `from_huggingface`, where the model is not known.
    """
    config = _text(config)
    model = _model(config)
    for given in (config.get("rope_parameters"), config.get("rope_scaling")):
        nested = [key for key, value in given.items() if isinstance(value, dict)] if isinstance(given, dict) else []
        if nested:
            return tuple(nested)
    if models.BY_LAYER.get(model):
        return tuple(models.BY_LAYER[model])
    if model in models.NOPE and config.get(models.NOPE[model], 1) is not None:
        return ("full_attention", "chunked_attention" if model.startswith("llama4") else "sliding_attention")
    return (None,)


def head_dims(config: dict, layer_type: str | None = None) -> tuple[int | None, int | None]:
    """The head dim that `spectrum` takes and the one that `softmax_scale` takes; None for what the config does not tell.

    Raises:
      TypeError, ValueError: as `from_huggingface`, where the model or a size is not known.
    """
    config = _text(config)
    model = _model(config)
    plain = _head_dim(config, model)
    if model in models.LATENT:
        rotating, still = config.get("qk_rope_head_dim"), config.get("qk_nope_head_dim")
        return rotating, rotating + still if rotating and still else None
    if layer_type == "full_attention" and config.get("global_head_dim"):
        plain = config["global_head_dim"]
    return plain, plain


def _text(config: dict) -> dict:
    """The part of a config that describes the language model; rope keys may stand outside it, but not say something else."""
    if not isinstance(config, dict):
        raise TypeError(f"from_huggingface: config must be a dict, got {config!r}")
    text = config.get("text_config")
    if text is None:
        return config
    if not isinstance(text, dict):
        raise ValueError(f"from_huggingface: text_config={text!r} must be a dict")
    outside = {key: config[key] for key in models.OUTER_KEYS if config.get(key) is not None}
    for key, value in outside.items():
        if text.get(key) not in (None, value):
            raise ValueError(f"from_huggingface: {key}={value!r} and text_config.{key}={text[key]!r} are not the same")
    return {"model_type": config.get("model_type"), **text, **outside}


def _model(config: dict) -> str:
    name = config.get("model_type")
    for model in (name, f"{name}_text"):
        if isinstance(name, str) and model in models.LAYOUT:
            break
    else:
        raise ValueError(f"from_huggingface: model_type={name!r} is not known, and so neither is its pair layout")
    for key, value in config.items():
        if ("rope" in str(key) or "rotary" in str(key)) and key not in models.OUTER_KEYS and value is not None:
            raise ValueError(f"from_huggingface: {model}: {key}={value!r} is not a known rope key")
    if config.get("alibi"):
        raise ValueError(f"from_huggingface: {model}: alibi={config['alibi']!r} is another encoding, jrope.Alibi")
    return model


def _rotates(config: dict, model: str) -> bool:
    """Whether a model that rotates by choice does; its other choice is no position at all."""
    wanted, given = models.OPT_IN.get(model), config.get("position_embedding_type")
    if wanted not in (None, given) and (model == "esm" or given not in (None, "nope")):
        raise ValueError(f"from_huggingface: {model}: position_embedding_type={given!r} is not {wanted!r}")
    return wanted in (None, given)


def _of_layer(config: dict, model: str, layer_type: str | None) -> tuple[dict | None, float | None]:
    """The rope dict of one layer type, None for one without position; and the base to take if the dict has none."""
    new, old = config.get("rope_parameters"), config.get("rope_scaling")
    for key, value in (("rope_parameters", new), ("rope_scaling", old)):
        if not isinstance(value, dict | None):
            raise ValueError(f"from_huggingface: {model}: {key}={value!r} must be a dict")
    if new and old and new != old:
        raise ValueError(f"from_huggingface: {model}: rope_parameters={new!r} and rope_scaling={old!r} are not the same")
    if not isinstance(layer_type, str | None):
        raise TypeError(f"from_huggingface: layer_type={layer_type!r} must be a string or None")
    given = new or old or {}
    if not given and model in models.SCALED:
        raise ValueError(f"from_huggingface: {model}: rope_parameters={new!r} is missing, and its class scales by default")
    by_layer = models.BY_LAYER.get(model)
    key, default, scaled = (by_layer or {}).get(layer_type, ("rope_theta", models.BASE.get(model), True))
    if new or (given and by_layer is None):
        default = None
    base = outer(config, model, (key, "rotary_emb_base"), default)
    if base is not None and base <= 0:
        key = key if config.get(key) is not None else "rotary_emb_base"
        raise ValueError(f"from_huggingface: {model}: {key}={base!r} must be a positive number")
    if layer_type in given or any(isinstance(value, dict) for value in given.values()):
        stray = {key: value for key, value in given.items() if not isinstance(value, dict | None)}
        if stray:
            layers = {key: value for key, value in given.items() if key not in stray}
            raise ValueError(f"from_huggingface: {model}: {stray!r} cannot stand beside {layers!r}, one for each layer type")
        if layer_type not in given:
            raise ValueError(f"from_huggingface: {model}: layer_type={layer_type!r} must be one of {sorted(given)}")
        return given[layer_type], base
    if by_layer is not None and (new or layer_type not in by_layer):
        types = sorted(by_layer or LAYER_TYPES[:2])
        raise ValueError(
            f"from_huggingface: {model}: layer_type={layer_type!r} must be one of {types}, and any rope_parameters={new!r} "
            "must be nested under these, since its layer types rotate differently"
        )
    if layer_type not in (None, *LAYER_TYPES):
        raise ValueError(f"from_huggingface: {model}: layer_type={layer_type!r} must be one of {LAYER_TYPES}")
    if layer_type == "full_attention" and model in models.NOPE and config.get(models.NOPE[model], 1) is not None:
        return None, None
    return (given if scaled else {}), base


def _head_dim(config: dict, model: str) -> int | None:
    for key in ("head_dim", "hidden_size", "n_embd", "num_attention_heads", "n_head", *_SIZES):
        size = config.get(key)
        if size is not None and (isinstance(size, bool) or not isinstance(size, int) or size < 0):
            raise ValueError(f"from_huggingface: {model}: {key}={size!r} must be a number of features or heads")
    width, heads = (config.get(a) or config.get(b) for a, b in (("hidden_size", "n_embd"), ("num_attention_heads", "n_head")))
    given = config.get("head_dim") or config.get("kv_channels")  # JetMoE's word for it
    return given or (width // heads if width and heads else None)


_SIZES = ("kv_channels", "global_head_dim", "qk_rope_head_dim", "qk_nope_head_dim", "rotary_dim")


def _rotary_fraction(keys: Keys, config: dict) -> float:
    """How much of a head rotates: one rule for every rope_type."""
    inside = keys.number("partial_rotary_factor", None)
    fraction = outer(config, keys.model, ("partial_rotary_factor", "rotary_pct"), None) if inside is None else inside
    if keys.model in models.LATENT:  # the rotating part is a head of its own, and some configs give its share of both parts
        rotating, still = config.get("qk_rope_head_dim"), config.get("qk_nope_head_dim")
        if fraction not in (None, 1.0) and not (rotating and still and fraction == rotating / (rotating + still)):
            keys.refuse("partial_rotary_factor", fraction, f"does not fit qk_rope_head_dim={rotating!r}")
        return 1.0
    rotary_dim, head_dim = outer(config, keys.model, ["rotary_dim"], None), _head_dim(config, keys.model)
    if rotary_dim is not None:
        if not head_dim or not 0 < rotary_dim <= head_dim:
            keys.refuse("rotary_dim", rotary_dim, f"does not fit the head dim {head_dim!r}")
        if fraction is not None and int(head_dim * fraction) != rotary_dim:
            keys.refuse("rotary_dim", rotary_dim, f"and partial_rotary_factor={fraction!r} are not the same")
        share = rotary_dim / head_dim
        return share if int(head_dim * share) == rotary_dim else math.nextafter(share, 1.0)
    if fraction is None and keys.model in ("gptj", "codegen"):
        keys.refuse("rotary_dim", None, "is missing from the config")
    return models.ROTARY_FRACTION.get(keys.model, 1.0) if fraction is None else fraction


def _even(model: str, config: dict, fraction: float):
    """Refuses an odd number of rotary features, as far as the config tells it."""
    latent = model in models.LATENT
    plain = {"head_dim": _head_dim(config, model), "global_head_dim": config.get("global_head_dim")}
    sizes = {"qk_rope_head_dim": config.get("qk_rope_head_dim")} if latent else plain
    for key, size in sizes.items():
        if size and int(number(model, key, size) * fraction) % 2:
            rotary = int(size * fraction)
            raise ValueError(f"from_huggingface: {model}: {key}={size} has {rotary} rotary features, which is odd")


def _layout(config: dict, model: str):
    interleave = config.get("rope_interleave")
    if model not in models.LATENT or interleave is None:
        return models.LAYOUT[model]
    if not isinstance(interleave, bool):
        raise ValueError(f"from_huggingface: {model}: rope_interleave={interleave!r} must be true or false")
    return "interleaved" if interleave else "half"


def _fits(encoding: Rope, model: str, config: dict):
    """Refuses lists of factors or sections that are not as long as the heads ask, as far as the config tells it."""
    size = config.get("qk_rope_head_dim") if model in models.LATENT else _head_dim(config, model)
    try:
        if size:
            encoding.spectrum(size)
    except ValueError as error:
        raise ValueError(f"from_huggingface: {model}: {error}, by the head dim {size} of the config") from error


def _axes(keys: Keys) -> Sections | None:
    if keys.model not in models.MROPE:
        return None
    interleaved = models.MROPE[keys.model]
    if keys.flag("mrope_interleaved", interleaved) != interleaved:
        keys.refuse("mrope_interleaved", not interleaved, f"is not what {keys.model} does")
    sections = keys.numbers("mrope_section")
    if not all(isinstance(count, int) and count >= 0 for count in sections):
        keys.refuse("mrope_section", sections, "must be numbers of pairs")
    return Sections(sections, interleaved)
