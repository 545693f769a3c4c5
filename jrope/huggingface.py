"""The encoding of a published model, from its config.json.

Every key is either understood or refused: a scaling that is dropped without a word costs more than any error, and does not
show before the trained length is passed.
"""

import math

from jrope import huggingface_models as models
from jrope.axes import Sections
from jrope.encoding import Encoding
from jrope.encoding_rotary import Rope
from jrope.scaling import DynamicNTK, Linear, LongRope
from jrope.scaling_bands import Llama3, Proportional, Yarn, temperature

LAYER_TYPES = ("full_attention", "sliding_attention", "chunked_attention")


def from_huggingface(config: dict, layer_type: str | None = None) -> Encoding:
    """The encoding of a model in the Hugging Face format.

    Reads `rope_parameters` (transformers 5; one for all layers, or one for each layer type), `rope_scaling` with a top-level
    `rope_theta` (transformers 4), the keys of older model types, and `text_config` where there is one. The formulas are those of
    transformers 5.24, without its faults: `truncate` counts in nested parameters too, and Phi-3's "su" is LongRoPE.

    Args:
      config: what config.json holds.
      layer_type: "full_attention", "sliding_attention" or another key of nested parameters; needed where layer types differ.

    Returns:
      A `Rope` with base, scaling, pair layout, rotary fraction, softmax multiplier and axes, or `Encoding()` for layers without
      position. For multi-head latent attention its `spectrum` takes head_dim = qk_rope_head_dim, of that part of the head, and
      its `softmax_scale` the whole qk_nope_head_dim + qk_rope_head_dim. Two things are not part of an encoding and are left to
      the model: the temperature by position of Llama 4, Ministral 3 and Mistral 4, and which layer indices rotate
      (no_rope_layers).

    Raises:
      ValueError: naming the key and its value, where the config has a model_type, rope_type, rope key or value that is not
        known, leaves out one that is needed (the base beside a rope dict above all), or has an odd number of rotary features.
    """
    config = _text(config)
    model = _model(config)
    given, base = _of_layer(config, model, layer_type)
    if given is None:
        return Encoding()
    keys = _Keys(model, given)
    kind = _kind(keys)
    scaling, multiplier = _SCALINGS[kind](keys, config)
    # the width of p-RoPE is the whole head, and its own fraction is in the scaling
    fraction = 1.0 if kind == "proportional" else _rotary_fraction(keys, config)
    _even(model, config, fraction)
    base = keys.number("rope_theta", base)
    if base is None:
        raise ValueError(f"from_huggingface: {model}: rope_theta is missing, and is not defaulted; add it to the config")
    axes = _axes(keys)
    keys.close()
    return Rope(base, scaling, _layout(config, model), fraction, multiplier, axes)


class _Keys:
    """The rope dict of a model, whose keys are taken one by one: those left at the end are not known. A null is no value."""

    def __init__(self, model: str, given: dict):
        self.model = model
        self.left = {key: value for key, value in given.items() if value is not None}

    def number(self, key: str, *default):
        """The number of that key, or the default; without a default the key is required."""
        if key not in self.left:
            if default:
                return default[0]
            raise ValueError(f"from_huggingface: {self.model}: {key} is missing from the rope parameters {self.left}")
        return _number(self.model, key, self.left.pop(key))

    def flag(self, key: str, default: bool) -> bool:
        value = self.left.pop(key, default)
        return value if isinstance(value, bool) else self.refuse(key, value, "must be true or false")

    def numbers(self, key: str) -> tuple:
        value = self.left.pop(key, None)
        if not isinstance(value, list | tuple) or not value:
            self.refuse(key, value, "must be a list of numbers")
        return tuple(_number(self.model, key, item) for item in value)

    def refuse(self, key, value, why):
        raise ValueError(f"from_huggingface: {self.model}: {key}={value!r} {why}")

    def close(self):
        for key, value in self.left.items():
            self.refuse(key, value, "is not a known rope key here")


def _number(model, key, value):
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"from_huggingface: {model}: {key}={value!r} must be a finite number")
    return value


def _text(config: dict) -> dict:
    """The part of a config that describes the language model; rope keys may stand outside it."""
    text = config.get("text_config")
    if text is None:
        return config
    rope = {key: value for key, value in config.items() if key in models.OUTER_KEYS}
    inside = any(text.get(key) is not None for key in models.OUTER_KEYS)
    return {"model_type": config.get("model_type"), **({} if inside else rope), **text}


def _model(config: dict) -> str:
    name = config.get("model_type")
    for model in (name, f"{name}_text"):
        if model in models.LAYOUT:
            break
    else:
        raise ValueError(f"from_huggingface: model_type={name!r} is not known, and so neither is its pair layout")
    for key, value in config.items():
        if ("rope" in key or "rotary" in key) and key not in models.OUTER_KEYS and value is not None:
            raise ValueError(f"from_huggingface: {model}: {key}={value!r} is not a known rope key")
    if config.get("alibi"):
        raise ValueError(f"from_huggingface: {model}: alibi={config['alibi']!r} is another encoding, jrope.Alibi")
    return model


def _of_layer(config: dict, model: str, layer_type: str | None) -> tuple[dict | None, float | None]:
    """The rope dict of one layer type, None for one without position; and the base to take if the dict has none."""
    new, old = config.get("rope_parameters"), config.get("rope_scaling")
    for key, value in (("rope_parameters", new), ("rope_scaling", old)):
        if not isinstance(value, dict | None):
            raise ValueError(f"from_huggingface: {model}: {key}={value!r} must be a dict")
    if new and old and new != old:
        raise ValueError(f"from_huggingface: {model}: rope_parameters={new!r} and rope_scaling={old!r} are not the same")
    given = new or old or {}
    by_layer = models.BY_LAYER.get(model)
    key, default, scaled = (by_layer or {}).get(layer_type, ("rope_theta", models.BASE.get(model), True))
    if given:
        default = None
    base = _outer(config, model, (key, "rotary_emb_base"), default)
    if layer_type in given or any(isinstance(value, dict) for value in given.values()):
        inside = given.get(layer_type, False)
        if not isinstance(inside, dict | None):
            types = sorted(key for key, value in given.items() if isinstance(value, dict | None))
            raise ValueError(f"from_huggingface: {model}: layer_type={layer_type!r} must be one of {types}")
        return inside, base
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


def _outer(config, model, names, default):
    """The number under the first of these top-level keys that has one."""
    return next((_number(model, key, config[key]) for key in names if config.get(key) is not None), default)


_OLD_KINDS = {"mrope": "default", "su": "longrope", "deepseek_yarn": "yarn"}


def _kind(keys: _Keys) -> str:
    """The rope_type in its present name."""
    given = {key: keys.left.pop(key) for key in ("rope_type", "type") if key in keys.left} or {"rope_type": "default"}
    kinds = set()
    for key, value in given.items():
        kind = _OLD_KINDS.get(value, value) if isinstance(value, str) else None
        if kind == "yarn" and "short_factor" in keys.left:  # as the first long Phi-3 files say
            kind = "longrope"
        if kind not in _SCALINGS or (value == "mrope" and keys.model not in models.MROPE):
            keys.refuse(key, value, f"is not known, expected one of {sorted(_SCALINGS)}")
        kinds.add(kind)
    if len(kinds) > 1:
        keys.refuse("rope_type", given["rope_type"], f"and type={given['type']!r} are not the same")
    return kinds.pop()


def _trained(keys: _Keys, config: dict):
    """The trained length; Phi-3 has it at the top level, which wins."""
    inside = keys.number("original_max_position_embeddings", None)
    outer = _outer(config, keys.model, ["original_max_position_embeddings"], inside)
    if outer is None:
        keys.number("original_max_position_embeddings")
    return outer


def _longest(keys: _Keys, config: dict):
    longest = _outer(config, keys.model, ["max_position_embeddings", "n_positions"], None)
    return keys.refuse("max_position_embeddings", None, "is missing from the config") if longest is None else longest


def _factor(keys: _Keys, config: dict, trained):
    """The factor, or what the config's two lengths make it."""
    factor = keys.number("factor", None)
    return _longest(keys, config) / trained if factor is None else factor


def _default(keys, config):
    return None, 1.0


def _linear(keys, config):
    return Linear(keys.number("factor")), 1.0


def _dynamic(keys, config):
    longest = _longest(keys, config)
    trained = keys.number("original_max_position_embeddings", longest)
    if trained != longest:  # transformers has taken either, in different versions
        keys.refuse("original_max_position_embeddings", trained, f"and max_position_embeddings={longest!r} are not the same")
    return DynamicNTK(keys.number("factor"), longest), 1.0


def _yarn(keys, config):
    trained = _trained(keys, config)
    factor = _factor(keys, config, trained)
    mscale, mscale_all_dim = keys.number("mscale", 0.0), keys.number("mscale_all_dim", 0.0)
    scaling = Yarn(
        factor,
        trained,
        keys.number("beta_fast", 0) or 32.0,  # a 0 counts as missing
        keys.number("beta_slow", 0) or 1.0,
        keys.flag("truncate", True),
        keys.number("attention_factor", None),
        mscale,
        mscale_all_dim,
    )
    keys.flag("finetuned", True)  # what the first YaRN models say of their training
    if keys.model in models.SCALED_QUERIES:
        keys.number("llama_4_scaling_beta", 0.0)
        keys.number("max_position_embeddings", 0)
    return scaling, float(temperature(factor, mscale_all_dim) ** 2) if keys.model in models.LATENT else 1.0


def _longrope(keys, config):
    trained = _trained(keys, config)
    attention_factor = keys.number("attention_factor", None)
    branches = {keys.number(key, attention_factor) for key in ("short_mscale", "long_mscale")}  # PhiMoE's own
    if len(branches) > 1:
        keys.refuse("short_mscale, long_mscale", branches, "must be one amplitude for both lists")
    short, long = keys.numbers("short_factor"), keys.numbers("long_factor")
    return LongRope(short, long, trained, _factor(keys, config, trained), branches.pop()), 1.0


def _llama3(keys, config):
    low, high = keys.number("low_freq_factor"), keys.number("high_freq_factor")
    return Llama3(keys.number("factor"), _trained(keys, config), low, high), 1.0


def _proportional(keys, config):
    fraction = keys.number("partial_rotary_factor", _outer(config, keys.model, ["partial_rotary_factor"], 1.0))
    return Proportional(fraction, keys.number("factor", 1.0)), 1.0


_SCALINGS = {
    "default": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": _llama3,
    "proportional": _proportional,
}


def _head_dim(config: dict):
    if config.get("head_dim"):
        return config["head_dim"]
    width, heads = (next((config[k] for k in names if config.get(k)), None) for names in _SIZES)
    return width // heads if width and heads else None


_SIZES = (("hidden_size", "n_embd"), ("num_attention_heads", "n_head"))


def _rotary_fraction(keys: _Keys, config: dict) -> float:
    """How much of a head rotates: one rule for every rope_type."""
    inside = keys.number("partial_rotary_factor", None)
    fraction = _outer(config, keys.model, ("partial_rotary_factor", "rotary_pct"), None) if inside is None else inside
    if keys.model in models.LATENT:  # the rotating part is a head of its own, and some configs give its share of both parts
        rotating, still = config.get("qk_rope_head_dim"), config.get("qk_nope_head_dim")
        if fraction not in (None, 1.0) and not (rotating and still and fraction == rotating / (rotating + still)):
            keys.refuse("partial_rotary_factor", fraction, f"does not fit qk_rope_head_dim={rotating!r}")
        return 1.0
    rotary_dim, head_dim = _outer(config, keys.model, ["rotary_dim"], None), _head_dim(config)
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
    sizes = {key: config.get(key) for key in (["qk_rope_head_dim"] if latent else ["head_dim", "global_head_dim"])}
    sizes.setdefault("head_dim", None if latent else _head_dim(config))
    if not latent and not sizes["head_dim"]:
        sizes["head_dim"] = _head_dim(config)
    for key, size in sizes.items():
        if size and int(_number(model, key, size) * fraction) % 2:
            rotary = int(size * fraction)
            raise ValueError(f"from_huggingface: {model}: {key}={size} has {rotary} rotary features, which is odd")


def _layout(config: dict, model: str):
    half = model in models.LATENT and config.get("rope_interleave") is False
    return "half" if half else models.LAYOUT[model]


def _axes(keys: _Keys) -> Sections | None:
    if keys.model not in models.MROPE:
        return None
    interleaved = models.MROPE[keys.model]
    if keys.flag("mrope_interleaved", interleaved) != interleaved:
        keys.refuse("mrope_interleaved", not interleaved, f"is not what {keys.model} does")
    return Sections(keys.numbers("mrope_section"), interleaved)
