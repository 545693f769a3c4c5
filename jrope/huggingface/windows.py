"""The window of a published model's local layers."""

from jrope.huggingface import layer_facts
from jrope.huggingface.keys import Keys
from jrope.huggingface.layer_facts import CHUNKED, SLIDING


def local_type(model: Keys) -> str | None:
    """The type of the local layers of this model type; None if it can have none."""
    if model.model_type not in layer_facts.LOCAL:
        return None
    return CHUNKED if model.model_type in layer_facts.CHUNKS else SLIDING


def window_size(model: Keys, layer_type: str | None) -> int | None:
    """The size of `jrope.Window` in the layers of a type; None without a window."""
    if layer_type is None or layer_type != local_type(model):
        return None
    said = said_window(model)
    if said is None:
        return None
    key, given = said
    size = _meaning(model, key)(given)
    if layer_type == CHUNKED:
        why = "masks the keys of other chunks of positions, which no encoding of jrope does"
        mask = f"mask where query // {given} != key // {given} in the attention"
        model.refuse(key, given, why, f"remove {key} from the config, and {mask}")
    if size is None:
        why = "is a window that is longer after a token than before it, which jrope.Window is not"
        mask = f"mask all but {given // 2 - 1} keys before and {given // 2} after a token"
        model.refuse(key, given, why, f"remove {key} from the config, and {mask} in the attention")
    return size


def said_window(model: Keys) -> tuple[str, int] | None:
    """The key and the number of a window that acts in the local layers; None if there is none."""
    local = layer_facts.LOCAL[model.model_type]
    is_on = model.flag("use_sliding_window", not local.needs_flag)
    for key, _ in local.sizes:
        size = model.count(key, "positions", least=1 if is_on else 0)
        if size is not None:
            return (key, size) if is_on else None
    return None


def refuse_unknown_windows(model: Keys):
    """Refuses a window that is not known for the model type."""
    local = layer_facts.LOCAL.get(model.model_type)
    known = dict(local.sizes) if local else {}
    copies = layer_facts.COPIES.get(model.model_type, ())
    is_on = model.flag("use_sliding_window", True)
    for key in {**known, **dict.fromkeys(layer_facts.WINDOW_KEYS)}:
        size = model.count(key, "positions")
        if size and is_on and key not in (*known, *copies):
            remedy = f"set {key} to null, or chain the encoding with jrope.Window({size})"
            model.refuse(key, size, "is not known for this model type", remedy)


def _meaning(model: Keys, key: str) -> layer_facts.Size:
    """From the number of a key to the size of `jrope.Window`."""
    flag, value, meaning = layer_facts.BIDIRECTIONAL.get(model.model_type, ("", None, None))
    given = model.value(flag)
    if meaning is not None and value == (False if given is None else given):
        return meaning
    return dict(layer_facts.LOCAL[model.model_type].sizes)[key]
