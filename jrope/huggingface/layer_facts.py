"""What a config.json leaves to the code of its model type: facts about layers.

Which layers see only nearby keys, and which do not rotate. Read from the modelling and masking code
of transformers 5.24.
"""

from collections.abc import Callable
from typing import NamedTuple

from jrope.huggingface.facts import each

FULL, SLIDING, CHUNKED = "full_attention", "sliding_attention", "chunked_attention"
NO_ATTENTION = ""  # such a layer has no positional encoding to ask for

# What the words of `layer_types` mean.
LAYER_TYPES = {
    **each(FULL, "full_attention attention hybrid indexed_attention"),
    **each(NO_ATTENTION, "linear_attention conv mamba recurrent"),
    SLIDING: SLIDING,
    CHUNKED: CHUNKED,
}

# Whether the layer of an index is local, by a number: a period, or the index of a layer.
Rule = Callable[[int, int], bool]


def every(index: int, number: int) -> bool:
    return True


def _none(index: int, number: int) -> bool:
    return False


def _full_ends(index: int, period: int) -> bool:
    return (index + 1) % period != 0


def _full_starts(index: int, period: int) -> bool:
    return index % period != 0


def _full_starts_once(index: int, period: int) -> bool:
    return index > 0 and _full_ends(index, period)


def _from(index: int, first: int) -> bool:
    return index >= first


def _even_before(index: int, end: int) -> bool:
    return index % 2 == 0 and index < end


# From the number in a config to `jrope.Window.size`; None where no window is the same.
Size = Callable[[int], int | None]


def _with_own(size: int) -> int:
    """The config counts a token's own position."""
    return size


def _without_own(size: int) -> int:
    """The config counts the positions on a side."""
    return size + 1


def _half(size: int) -> int:
    return size // 2


def _half_without_own(size: int) -> int:
    """The config counts the positions on both sides."""
    return size // 2 + 1


def _both_sides_uneven(size: int) -> int | None:
    """T5Gemma 2 sees one position more after a token than before it, if the size is even."""
    return (size + 1) // 2 if size % 2 else None


class Local(NamedTuple):
    """The local layers of a model type.

    Attributes:
      rule: which layers are local, where the config does not list them.
      key: of the number of the rule; "" for none.
      number: that of the class; None if the config must have it.
      sizes: the keys of the size of the window, and what they count. The first one there counts.
      needs_flag: whether the window acts only if `use_sliding_window` is true.
    """

    rule: Rule = every
    key: str = ""
    number: int | None = 1
    sizes: tuple[tuple[str, Size], ...] = (("sliding_window", _with_own),)
    needs_flag: bool = False


_PATTERN = "sliding_window_pattern"
_EACH = "global_attn_every_n_layers"
_FIRST = "max_window_layers"
# Mimi, Moshi and Kyutai's models have the window of their own code, which transformers drops for
# two of them.
_EVERY_LAYER = """
    doge kyutai_speech_to_text mimi ministral ministral3 mistral mixtral moshi phi3 phi4_multimodal
    phimoe starcoder2
"""
_MIMO_SIZES = (("sliding_window_size", _without_own), ("sliding_window", _with_own))
_QWEN = Local(_from, _FIRST, None, needs_flag=True)
_UNEVEN = (("sliding_window", _both_sides_uneven),)
LOCAL = {
    **each(Local(), _EVERY_LAYER),
    "openai_privacy_filter": Local(sizes=(("sliding_window", _without_own),)),
    "recurrent_gemma": Local(sizes=(("attention_window_size", _with_own),)),
    "qwen3_moe": Local(needs_flag=True),
    **each(_QWEN, "qwen2 qwen2_5_omni_text qwen2_5_vl_text qwen2_vl_text qwen3"),
    "qwen2_moe": Local(_even_before, _FIRST, None, needs_flag=True),
    "dots1": Local(_from, _FIRST, None),
    **each(Local(_full_ends, number=2), "gemma2 gpt_oss t5_gemma_module vaultgemma"),
    **each(Local(_full_ends, _PATTERN, 4), "cohere2 exaone4 exaone_moe"),
    "afmoe": Local(_full_ends, _EACH, 4),
    "olmo3": Local(_full_ends, number=4),
    "gemma3n_text": Local(_full_ends, number=5),
    **each(Local(_full_ends, _PATTERN, 6), "gemma3_text t5gemma2_decoder"),
    "t5gemma2_text": Local(_full_ends, _PATTERN, 6, _UNEVEN),
    **each(Local(_full_ends, number=6), "gemma4_text gemma4_unified_text"),
    "mimo_v2_flash": Local(_full_starts_once, number=6, sizes=_MIMO_SIZES),
    "cwm": Local(_full_starts, number=4),
    "modernbert": Local(_full_starts, _EACH, 3, (("local_attention", _half_without_own),)),
    "modernbert-decoder": Local(_full_starts, _EACH, 3, (("local_attention", _half),)),
    **each(Local(_none), "laguna lfm3 mellum"),
    "smollm3": Local(_none, needs_flag=True),
    "llama4_text": Local(_none, sizes=(("attention_chunk_size", _with_own),)),
}

# A key and its value that make attention bidirectional, and what the size of the window then means.
_BOTH = "use_bidirectional_attention"
BIDIRECTIONAL: dict[str, tuple[str, object, Size]] = {
    "gemma3_text": (_BOTH, True, _half_without_own),
    **each((_BOTH, "all", _half_without_own), "gemma4_text gemma4_unified_text"),
    "t5_gemma_module": ("is_decoder", False, _without_own),
}

# Models whose local layers are another type: they see the keys of their own chunk of positions.
CHUNKS = ("llama4_text",)

# Models whose last layer is full attention in any case.
FULL_AT_END = ("gemma4_text", "gemma4_unified_text")

# Models whose full attention has no position if there are also local layers, and the key that is
# null in a config without them; "" if there are always some.
NOPE = {
    "llama4_text": "attention_chunk_size",
    "afmoe": "",
    **each("sliding_window", "cohere2 exaone4 exaone_moe"),
}

# Models with a list of the layers that rotate, `no_rope_layers` (1 rotates), or else an interval of
# those that do not: whether the local layers are those that rotate.
NO_ROPE_LAYERS = {"llama4_text": True, "smollm3": False}

# Lists of local layers by another name: 1 is local.
LOCAL_LAYERS = {"mimo_v2_flash": "hybrid_layer_pattern"}

# Models whose class has a default list of layers that no published config relies on.
ALWAYS_LISTED = ("lfm3",)

# Keys about layers. Outside a text_config they count where it does not have them.
LAYER_KEYS = ("num_hidden_layers", "layer_types", "use_sliding_window", "sliding_window", _FIRST)

# Keys of numbers of layers.
NUMBERS = ("num_hidden_layers", "num_layers", "no_rope_layer_interval", _EACH)
INDICES = (_FIRST,)
PATTERNS = (_PATTERN,)

# Keys of a few values.
CHOICES = {
    _BOTH: (False, True, "all", "vision"),
    "is_decoder": (False, True),
}

# Keys of windows: refused where a model type does not have them, or only repeats another key.
WINDOW_KEYS = ("sliding_window", "sliding_window_size", "attention_chunk_size")
COPIES = {
    "mimo_v2_flash": ("attention_chunk_size",),
    **each(("sliding_window",), "modernbert modernbert-decoder recurrent_gemma"),
}
