"""The scaling of a published model, from its config and the rope parameters of a layer."""

import math

from jrope.huggingface import facts
from jrope.huggingface.heads import rotating_share
from jrope.huggingface.keys import Keys
from jrope.scalings.linear import Linear
from jrope.scalings.llama3 import Llama3
from jrope.scalings.longrope import LongRope
from jrope.scalings.ntk import NTK, DynamicNTK
from jrope.scalings.proportional import Proportional
from jrope.scalings.yarn import Yarn, temperature
from jrope.spectrum import Scaling


def read_scaling(model: Keys, rope: Keys) -> Scaling | None:
    """The scaling that the rope_type names, with its fields; None for plain RoPE."""
    return SCALINGS[_rope_type(rope)](model, rope)


def softmax_multiplier(model: Keys, scaling: Scaling | None) -> float:
    """The square of YaRN's temperature where the model has it in the softmax scale; otherwise 1."""
    if isinstance(scaling, Yarn) and model.model_type in facts.LATENT:
        return float(temperature(scaling.factor, scaling.mscale_all_dim) ** 2)
    return 1.0


_OLD_NAMES = {"mrope": "default", "su": "longrope", "deepseek_yarn": "yarn"}


def _rope_type(rope: Keys) -> str:
    """The rope_type by its present name. Older configs have it under `type`."""
    names = {}
    for key in ("rope_type", "type"):
        if (value := rope.value(key)) is None:
            continue
        name = _OLD_NAMES.get(value, value) if isinstance(value, str) else None
        if name == "yarn" and rope.given.get("short_factor") is not None:
            name = "longrope"  # the first long Phi-3 configs say yarn
        if name not in SCALINGS or (value == "mrope" and rope.model_type not in facts.MROPE):
            rope.refuse(key, value, f"is not known, expected one of {sorted(SCALINGS)}")
        names[key] = name
    if len(set(names.values())) > 1:
        both = f"and type={rope.given['type']!r} are not the same"
        rope.refuse("rope_type", rope.given["rope_type"], both)
    return next(iter(names.values()), "default")


def _original_length(model: Keys, rope: Keys):
    """The trained length. Phi-3 has it at the top level, which comes first."""
    key = "original_max_position_embeddings"
    inside, outside = rope.length(key), model.length(key)
    length = inside if outside is None else outside
    return rope.refuse(key, None, "is missing", f"add {key}") if length is None else length


def _longest(model: Keys):
    """The longest sequence that the model is meant for."""
    length = model.either(model.length, "max_position_embeddings", "n_positions")
    if length is None:
        add = "add max_position_embeddings"
        model.refuse("max_position_embeddings", None, "is missing from the config", add)
    return length


def _factor(model: Keys, rope: Keys, original_length, above: float):
    """The factor, or the ratio of the config's two lengths if that is above a number."""
    factor = rope.number("factor")
    if factor is not None:
        return factor
    longest = _longest(model)
    if not longest / original_length > above:
        ratio = f"{longest!r} over original_max_position_embeddings={original_length!r} is none"
        rope.refuse("factor", None, f"is missing, and {ratio}", "add factor")
    return longest / original_length


def _dynamic(model: Keys, rope: Keys) -> DynamicNTK | NTK:
    if model.model_type in facts.NTK_ALPHA and rope.number("alpha"):
        for unused in ("factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"):
            rope.number(unused)
        return NTK(rope.length("alpha"))
    longest = _longest(model)
    key = "original_max_position_embeddings"
    if (inside := rope.number(key, longest)) != longest:  # transformers has used either
        rope.refuse(key, inside, f"and max_position_embeddings={longest!r} are not the same")
    return DynamicNTK(rope.required("factor"), longest)


def _yarn(model: Keys, rope: Keys) -> Yarn:
    original_length = _original_length(model, rope)
    if "factor" not in rope.given:  # null means the ratio of the lengths; no key is a mistake
        rope.refuse("factor", None, "is missing from the rope parameters", "add factor")
    rope.flag("finetuned", True)  # in the first YaRN configs; it does not change the scaling
    if model.model_type in facts.SCALED_QUERIES:
        for unused in ("llama_4_scaling_beta", "max_position_embeddings"):
            rope.number(unused)
    return Yarn(
        _factor(model, rope, original_length, above=1),
        original_length,
        beta_fast=rope.number("beta_fast") or 32.0,  # 0 counts as missing
        beta_slow=rope.number("beta_slow") or 1.0,
        truncate=rope.flag("truncate", True),
        attention_factor=rope.number("attention_factor"),
        mscale=rope.number("mscale", 0.0),
        mscale_all_dim=rope.number("mscale_all_dim", 0.0),
    )


def _longrope(model: Keys, rope: Keys) -> LongRope:
    original_length = _original_length(model, rope)
    attention_factor = rope.number("attention_factor")
    # PhiMoE has the amplitude under two other names, one for each list
    amplitudes = {rope.number(key, attention_factor) for key in ("short_mscale", "long_mscale")}
    if len(amplitudes) > 1:
        one = "must be one amplitude for both lists"
        rope.refuse("short_mscale, long_mscale", amplitudes, one)
    short, long = rope.numbers("short_factor"), rope.numbers("long_factor")
    # MiniCPM3 has lists for its trained length: a ratio of 1
    factor = _factor(model, rope, original_length, above=math.nextafter(1, 0))
    return LongRope(short, long, original_length, factor, amplitudes.pop())


def _llama3(model: Keys, rope: Keys) -> Llama3:
    low, high = rope.required("low_freq_factor"), rope.required("high_freq_factor")
    return Llama3(rope.required("factor"), _original_length(model, rope), low, high)


def _proportional(model: Keys, rope: Keys) -> Proportional:
    return Proportional(rotating_share(model, rope) or 1.0, rope.number("factor", 1.0))


SCALINGS = {
    "default": lambda model, rope: None,
    "linear": lambda model, rope: Linear(rope.required("factor")),
    "dynamic": _dynamic,
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": _llama3,
    "proportional": _proportional,
}
