"""The scaling of a published model, from the rope dict of its config.json: every key is taken, or refused.

`SCALINGS` has a function for each rope_type: the dict and the config in, the scaling and the softmax multiplier out.
"""

import math
from typing import Any, NoReturn

from jrope import huggingface_models as models
from jrope.scaling import NTK, DynamicNTK, Linear, LongRope
from jrope.scaling_bands import Llama3, Proportional, Yarn, temperature


class Keys:
    """The rope dict of a model, whose keys are taken one by one: those left at the end are not known. A null is no value."""

    def __init__(self, model: str, given: dict):
        self.model, self.given = model, given
        self.left = {key: value for key, value in given.items() if value is not None}

    def number(self, key: str, *default) -> Any:
        """The number of that key, or the default; without a default the key is required."""
        if key not in self.left:
            if default:
                return default[0]
            raise ValueError(f"from_huggingface: {self.model}: {key} is missing from the rope parameters {self.left}")
        return number(self.model, key, self.left.pop(key))

    def flag(self, key: str, default: bool) -> bool:
        value = self.left.pop(key, default)
        return value if isinstance(value, bool) else self.refuse(key, value, "must be true or false")

    def numbers(self, key: str) -> tuple:
        value = self.left.pop(key, None)
        if not isinstance(value, list | tuple) or not value:
            self.refuse(key, value, "must be a list of numbers")
        return tuple(number(self.model, key, item) for item in value)

    def refuse(self, key: str, value, why: str) -> NoReturn:
        raise ValueError(f"from_huggingface: {self.model}: {key}={value!r} {why}")

    def close(self):
        if self.left:
            unknown = ", ".join(f"{key}={value!r}" for key, value in self.left.items())
            raise ValueError(f"from_huggingface: {self.model}: {unknown} is not a known rope key here")


def number(model: str, key: str, value) -> Any:
    """The value, which must be a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"from_huggingface: {model}: {key}={value!r} must be a finite number")
    return value


def outer(config: dict, model: str, names, default) -> Any:
    """The number under these top-level keys, which are names of one thing."""
    given = {key: number(model, key, config[key]) for key in names if config.get(key) is not None}
    if len(set(given.values())) > 1:
        told = " and ".join(f"{key}={value!r}" for key, value in given.items())
        raise ValueError(f"from_huggingface: {model}: {told} are not the same")
    return next(iter(given.values()), default)


_OLD_KINDS = {"mrope": "default", "su": "longrope", "deepseek_yarn": "yarn"}


def kind_of(keys: Keys) -> str:
    """The rope_type in its present name."""
    given = {key: keys.left.pop(key) for key in ("rope_type", "type") if key in keys.left} or {"rope_type": "default"}
    kinds = set()
    for key, value in given.items():
        kind = _OLD_KINDS.get(value, value) if isinstance(value, str) else None
        if kind == "yarn" and "short_factor" in keys.left:  # as the first long Phi-3 files say
            kind = "longrope"
        if kind not in SCALINGS or (value == "mrope" and keys.model not in models.MROPE):
            keys.refuse(key, value, f"is not known, expected one of {sorted(SCALINGS)}")
        kinds.add(kind)
    if len(kinds) > 1:
        keys.refuse("rope_type", given["rope_type"], f"and type={given['type']!r} are not the same")
    return kinds.pop()


def _trained(keys: Keys, config: dict):
    """The trained length; Phi-3 has it at the top level, which wins."""
    inside = keys.number("original_max_position_embeddings", None)
    trained = outer(config, keys.model, ["original_max_position_embeddings"], inside)
    if trained is None:
        keys.refuse("original_max_position_embeddings", None, "is missing")
    return trained if trained >= 1 else keys.refuse("original_max_position_embeddings", trained, "must be at least 1")


def _longest(keys: Keys, config: dict):
    longest = outer(config, keys.model, ["max_position_embeddings", "n_positions"], None)
    if longest is None:
        keys.refuse("max_position_embeddings", None, "is missing from the config")
    return longest if longest >= 1 else keys.refuse("max_position_embeddings", longest, "must be at least 1")


def _factor(keys: Keys, config: dict, trained):
    """The factor, or what the config's two lengths make it."""
    factor = keys.number("factor", None)
    if factor is not None:
        return factor
    longest = _longest(keys, config)
    if not trained < longest:
        keys.refuse("factor", None, f"is missing, and {longest!r} over original_max_position_embeddings={trained!r} is none")
    return longest / trained


def _default(keys, config):
    return None, 1.0


def _linear(keys, config):
    return Linear(keys.number("factor")), 1.0


def _dynamic(keys, config):
    alpha = keys.number("alpha", 0) if keys.model in models.NTK_ALPHA else 0
    if alpha:
        for unread in ("factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"):
            keys.number(unread, 0)
        return NTK(alpha if alpha >= 1 else keys.refuse("alpha", alpha, "must be at least 1")), 1.0
    longest = _longest(keys, config)
    trained = keys.number("original_max_position_embeddings", longest)
    if trained != longest:  # transformers has taken either, in different versions
        keys.refuse("original_max_position_embeddings", trained, f"and max_position_embeddings={longest!r} are not the same")
    return DynamicNTK(keys.number("factor"), longest), 1.0


def _yarn(keys, config):
    trained = _trained(keys, config)
    if "factor" not in keys.given:  # a null is the ratio of the lengths; a key that is lost is more often a mistake
        keys.refuse("factor", None, "is missing from the rope parameters")
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
    fraction = keys.number("partial_rotary_factor", outer(config, keys.model, ["partial_rotary_factor"], 1.0))
    if not 0 < fraction <= 1:
        keys.refuse("partial_rotary_factor", fraction, "must be above 0 and at most 1")
    return Proportional(fraction, keys.number("factor", 1.0)), 1.0


SCALINGS = {
    "default": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": _llama3,
    "proportional": _proportional,
}
