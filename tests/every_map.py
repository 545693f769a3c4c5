"""The maps of every encoding, as one function of arrays that `every_function` makes."""

import jax.numpy as jnp
from every_encoding import EVERY, VARIANTS

ENCODINGS = EVERY + VARIANTS + [encoding.bind(head_dim=8, length=8) for encoding in VARIANTS]
MODEL = {"features": 8, "num_heads": 2, "head_dim": 8, "num_layers": 2}  # of their parameters


def maps(encoding, params, arrays):
    """What the maps of an encoding return, in its first layer; every query sees every key."""
    x, q, q_ids, k, k_ids = (arrays[name] for name in ("x", "q", "q_ids", "k", "k_ids"))
    out = [encoding.embed(params, x, q_ids)]
    encoding, params = encoding.layer(params, 0)
    out += encoding.rotation(params, q_ids, k_ids, head_dim=8, length=8)(q, k)
    out += [encoding.query_scale(params, q_ids)]
    out += [encoding.bias(params, q_ids, k_ids, num_heads=2)]
    if (state := encoding.state(params, x, layer=0)) is not None:
        out += [encoding.state_bias(params, state, state)]
    mask = jnp.ones((q.shape[1], k.shape[1]), bool)
    options = {"layer": 0, "mask": mask, "scale": encoding.softmax_scale(8)}
    return [*out, encoding.content_bias(params, q, k, q_ids, k_ids, **options)]


ARRAYS = {
    "x": "float32: B T 8",
    "q": "float32: B T 2 8",
    "k": "float32: B S 2 8",
    "q_ids": "int32: B T",
    "k_ids": "int32: B S",
}


def all_maps(encodings, params, arrays):
    return [maps(e, p, arrays) for e, p in zip(encodings, params, strict=True)]
