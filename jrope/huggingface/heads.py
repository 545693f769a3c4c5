"""The sizes of a published model's heads, and how much of a head rotates."""

import math

from jrope.encodings.rope import Rope
from jrope.huggingface import facts
from jrope.huggingface.keys import Keys

# The size of a head by its names (JetMoE's, T5's), the width, and the number of heads.
SIZES = (
    ("head_dim", "kv_channels", "d_kv"),
    ("hidden_size", "n_embd", "d_model"),
    ("num_attention_heads", "n_head", "n_heads", "num_heads"),
)


def rotating_head(model: Keys, layer_type: str | None) -> tuple[str, int | None]:
    """The key and the size of the head, or of its rotating part; None for an unknown size."""
    if model.model_type in facts.LATENT:
        return "qk_rope_head_dim", model.size("qk_rope_head_dim")
    if layer_type == "full_attention" and model.size("global_head_dim"):
        return "global_head_dim", model.size("global_head_dim")
    if layer_type == "sliding_attention" and model.size("swa_head_dim"):
        return "swa_head_dim", model.size("swa_head_dim")
    given, width, heads = (next(filter(None, map(model.size, keys)), None) for keys in SIZES)
    return "head_dim", given or (width // heads if width and heads else None)


def rotating_share(model: Keys, rope: Keys) -> float | None:
    """The share of a head that rotates, if the config has it. The rope parameters come first."""
    inside = rope.fraction("partial_rotary_factor")
    outside = model.either(model.fraction, "partial_rotary_factor", "rotary_pct")
    return outside if inside is None else inside


def rotary_fraction(model: Keys, rope: Keys, layer_type: str | None) -> float:
    """The share of a head that rotates, given as a share or as a number of features."""
    share, (key, size) = rotating_share(model, rope), rotating_head(model, layer_type)
    if model.model_type in facts.LATENT:  # the size is that of the rotating part
        rest = model.size("qk_nope_head_dim")
        # some configs have the share of this part in the whole head
        if share not in (None, 1.0) and not (size and rest and share == size / (size + rest)):
            rope.refuse("partial_rotary_factor", share, f"does not fit {key}={size!r}")
        return 1.0
    features = model.size("rotary_dim")
    if features is None:
        share = facts.ROTARY_FRACTION.get(model.model_type, 1.0) if share is None else share
        why = "is missing from the config"
        return share or model.refuse("rotary_dim", None, why, "add rotary_dim")
    if not size or not 0 < features <= size:
        model.refuse("rotary_dim", features, f"does not fit the head dim {size!r}")
    if share is not None and int(size * share) != features:
        both = f"and partial_rotary_factor={share!r} are not the same"
        model.refuse("rotary_dim", features, both)
    share = features / size
    # a quotient that is rounded down would lose a feature
    return share if int(size * share) == features else math.nextafter(share, 1.0)


def check_head(model: Keys, encoding: Rope, layer_type: str | None):
    """Refuses an odd number of rotary features, and lists that do not fit a head of known size."""
    key, size = rotating_head(model, layer_type)
    if not size:
        return
    features = int(size * encoding.rotary_fraction)
    if features % 2:
        model.refuse(key, size, f"has {features} rotary features, which is odd")
    try:
        encoding.spectrum(size)
    except ValueError as error:
        model.fail(f"{error}, by the head dim {size} of the config")
