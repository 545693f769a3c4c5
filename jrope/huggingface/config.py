"""The encoding of a published model, from its config.json.

The steps: the part of the config about text and its model type (`model.py`), its layers
(`layers.py`), and the encoding of the layers of one type: a rotation (`rope.py`) with a window, or
what `unrotated.py` reads. Every key is either understood or refused, because a scaling or a window
that is silently dropped shows only beyond the trained length.
"""

from jrope.composition import Chain, Layers
from jrope.encoding import Encoding
from jrope.encodings.rope import Rope
from jrope.encodings.window import Window
from jrope.huggingface import facts
from jrope.huggingface.heads import rotating_head
from jrope.huggingface.keys import Keys
from jrope.huggingface.layer_facts import NO_ATTENTION
from jrope.huggingface.layers import (
    Layer,
    any_layer,
    differing_types,
    layer_of_type,
    read_layers,
    refuse_temperature,
)
from jrope.huggingface.model import read_model, refuse_foreign_keys
from jrope.huggingface.rope import nested_types, read_rope
from jrope.huggingface.unrotated import READERS, read_unrotated, unrotated_types
from jrope.huggingface.windows import window_size


def from_huggingface(config: dict, layer_type: str | None = None) -> Encoding:
    """The encoding of a model in the Hugging Face format, or of its layers of one type.

    Reads `rope_parameters` (transformers 5: one dict, or one for each layer type), `rope_scaling`
    with a top-level `rope_theta` (transformers 4), the keys of older model types, and `text_config`
    where there is one. The formulas are those of transformers 5.24, with three of its faults
    corrected: `truncate` also counts in nested parameters, Phi-3's "su" is LongRoPE, and a null
    `local_rope_theta` is the global base.

    A window is part of the encoding, as a `Window` in a `Chain`; whether attention is causal is
    not. A key that is missing says nothing: without `sliding_window` there is no window. What jrope
    has no encoding for raises an error that says what to do instead: the chunks of Llama 4 and its
    temperature by position, tables whose first row is not position 0 (OPT, RoBERTa), the ALiBi of
    Falcon.

    Two things are not read, and the model must add them: the temperature by position of Ministral 3
    and Mistral 4 (`llama_4_scaling_beta`); and a softmax scale that does not depend on positions
    (`attention_multiplier` of Granite, `query_pre_attn_scalar` of Gemma 2 and 3, the 1 of T5,
    Gemma 3n and Gemma 4).

    Args:
      config: the content of config.json.
      layer_type: "full_attention", "sliding_attention" or another key of nested parameters, for the
        layers of that type; "encoder" or "decoder" for T5, which needs one of them. None for all
        layers.

    Returns:
      Where all layers are the same, or for one layer type: a `Rope` with base, scaling, pair
      layout, rotary fraction, softmax multiplier and axes; `Chain((Rope(...), Window(size)))` where
      it has a window; `Encoding()` for layers without position; `Learned`, `Sinusoidal`, `Alibi`
      or `T5` for models that do not rotate. Where layers differ: `Layers` of these, with a pattern
      of num_hidden_layers entries (layers without attention have the member `Encoding()`); GPT-Neo
      has `Chain((Learned(...), Layers(...)))`.
      With multi-head latent attention, `spectrum` takes qk_rope_head_dim, and `softmax_scale`
      qk_nope_head_dim + qk_rope_head_dim.

    Raises:
      TypeError: if the config is not a dict, or layer_type is not a string.
      ValueError: with the key, its value and a remedy, if a model_type, rope_type, rope key, window
        or value is not known; if a needed key is missing (above all the base next to a rope dict,
        or the number of layers that differ); or if the number of rotary features is odd.
    """
    model = read_model(config)
    if not isinstance(layer_type, str | None):
        raise TypeError(f"from_huggingface: layer_type={layer_type!r} must be a string or None")
    if model.model_type in READERS:
        return read_unrotated(model, layer_type)
    if model.flag("alibi", False):
        _refuse_alibi(model)
    layers = read_layers(model)
    if layer_type is None:
        encoding = _of_all(model, layers or (any_layer(model),))
    else:
        encoding = _of_layer(model, layer_of_type(model, layers, layer_type))
    refuse_foreign_keys(model)
    return encoding


def layer_types(config: dict) -> tuple[str | None, ...]:
    """The layer types of this model that may have different encodings; (None,) if none may.

    Raises:
      TypeError, ValueError: as `from_huggingface`, where the model is not known.
    """
    model = read_model(config)
    if model.model_type in READERS:
        return unrotated_types(model)
    by_layer = tuple(facts.BY_LAYER.get(model.model_type, ()))
    return nested_types(model) or by_layer or differing_types(model) or (None,)


def head_dims(config: dict, layer_type: str | None = None) -> tuple[int | None, int | None]:
    """The head sizes that `spectrum` and `softmax_scale` take; None where the config has none.

    Raises:
      TypeError, ValueError: as `from_huggingface`, where the model or a size is not known.
    """
    model = read_model(config)
    _, rotating = rotating_head(model, layer_type)
    if model.model_type not in facts.LATENT:
        return rotating, rotating
    rest = model.size("qk_nope_head_dim")
    return rotating, rotating + rest if rotating and rest else None


def _of_layer(model: Keys, layer: Layer) -> Encoding:
    """The rotation of a layer with its window; either may be missing."""
    if not layer.rotates:
        refuse_temperature(model)
    rope = read_rope(model, layer.type) if layer.rotates else Encoding()
    size = window_size(model, layer.type)
    if size is None:
        return rope
    return Chain((rope, Window(size))) if isinstance(rope, Rope) else Window(size)


def _of_all(model: Keys, layers: tuple[Layer, ...]) -> Encoding:
    """The encoding that all layers with attention have, or `Layers`."""
    of_layer = {
        layer: _of_layer(model, layer) if layer.type != NO_ATTENTION else Encoding()
        for layer in dict.fromkeys(layers)
    }
    attending = {of_layer[layer] for layer in layers if layer.type != NO_ATTENTION}
    if len(attending) < 2:
        return next(iter(attending), Encoding())
    members = tuple(dict.fromkeys(of_layer.values()))
    return Layers(members, tuple(members.index(of_layer[layer]) for layer in layers))


def _refuse_alibi(model: Keys):
    why = "is another encoding than the rotation of this model type"
    remedy = "build jrope.Alibi() by hand"
    if model.model_type == "falcon":
        why = "is not jrope.Alibi: Falcon divides the biases by sqrt(head_dim)"
        remedy = "write an encoding with the bias jrope.alibi(...) / head_dim**0.5"
    model.refuse("alibi", True, why, remedy)
