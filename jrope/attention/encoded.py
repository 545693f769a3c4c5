"""How the layers of a model attend under an encoding."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
from jax import export

from jrope.attention.blocked import blocked_attention
from jrope.attention.dense import attention
from jrope.composition import sum_biases
from jrope.encoding import Encoding, Params

MIN_BLOCKED_QUERIES = 512  # above this many, blocks are faster and use less memory


def make_attention_fn(
    encoding: Encoding,
    params: Params,
    q_positions,
    k_positions,
    *,
    shape: tuple[int, int, int],
    causal: bool,
    start,
    token_mask,
) -> Callable[..., jax.Array]:
    """A function `attend(q, k, v, q_state, k_state, layer=)` that layers of a forward pass share.

    It takes rotated q [B, T, N, H], k and v [B, S, N, H], and what the encoding keeps of their
    tokens in that layer. Up to `MIN_BLOCKED_QUERIES` queries, and for a symbolic number of them
    (`jax.export`), it is `attention`, with the bias of positions made once. Above, it is
    `blocked_attention`, with biases made again for each block. A bias that depends on content
    (CoPE) needs all scores at once, at any length.

    Args:
      encoding, params: of these layers: what `Encoding.layer` returns.
      q_positions: [..., T] and k_positions: [..., S], position ids.
      shape: (B, N, H).
      causal: whether a query sees no key after itself.
      start: the column of the first query among the keys.
      token_mask: [B, S], false for keys that no query sees; None where there is none.
    """
    batch, num_heads, head_dim = shape
    rows, columns = q_positions.shape[-1], k_positions.shape[-1]
    scale = encoding.softmax_scale(head_dim)
    query_scale = encoding.query_scale(params, q_positions)
    _check_rank(encoding, "query_scale", query_scale, 2)

    def bias(encoding, params, q_positions, k_positions):
        made = encoding.bias(params, q_positions, k_positions, num_heads=num_heads)
        return _check_rank(encoding, "bias", made, 4)

    def content_bias(q, k, mask, *, layer):
        options = {"layer": layer, "mask": mask, "scale": scale}
        made = encoding.content_bias(params, q, k, q_positions, k_positions, **options)
        return _check_rank(encoding, "content_bias", made, 4)

    def mask(start, token_mask, rows, columns):
        """Whether the queries of these rows see the keys of these columns: bool [1 or B, T, S]."""
        if causal:
            order = columns[None, :] <= start + rows[:, None]
        else:
            order = jnp.ones((rows.size, columns.size), bool)
        return order[None] if token_mask is None else order[None] & token_mask[:, None, columns]

    def mask_block(operands, rows, columns):
        return mask(operands["start"], operands["token_mask"], rows, columns)

    def bias_block(operands, rows, columns):
        encoding, params = operands["encoding"], operands["params"]
        at = [p[..., i] for p, i in zip(operands["positions"], (rows, columns), strict=True)]
        states = [
            jax.tree.map(lambda leaf, i=i: leaf[..., i], state)
            for state, i in zip(operands["states"], (rows, columns), strict=True)
        ]
        return sum_biases([bias(encoding, params, *at), encoding.state_bias(params, *states)])

    def attend_blocked(q, k, v, q_state=None, k_state=None, *, layer=0):
        _check_states((q_state, rows), (k_state, columns))
        has_bias = has_position_bias or q_state is not None
        return blocked_attention(
            _scaled(q, query_scale),
            k,
            v,
            bias=bias_block if has_bias else None,
            mask=None if token_mask is None else mask_block,
            operands={
                "encoding": encoding,
                "params": params,
                "positions": (q_positions, k_positions),
                "states": (q_state, k_state),
                "start": start,
                "token_mask": token_mask,
            },
            start=start if causal else None,
            scale=scale,
        )

    if not export.is_symbolic_dim(rows) and rows > MIN_BLOCKED_QUERIES:
        q, k = (
            jax.ShapeDtypeStruct((batch, n, num_heads, head_dim), jnp.float32)
            for n in (rows, columns)
        )
        whole = jax.ShapeDtypeStruct((batch, rows, columns), bool)
        if jax.eval_shape(partial(content_bias, layer=0), q, k, whole) is None:
            position_bias = jax.eval_shape(bias, encoding, params, q_positions, k_positions)
            has_position_bias = position_bias is not None
            return attend_blocked
    shared_bias = bias(encoding, params, q_positions, k_positions)
    shared_mask = mask(start, token_mask, jnp.arange(rows), jnp.arange(columns))

    def attend(q, k, v, q_state=None, k_state=None, *, layer=0):
        _check_states((q_state, rows), (k_state, columns))
        q = _scaled(q, query_scale)
        own = [
            encoding.state_bias(params, q_state, k_state),
            content_bias(q, k, shared_mask, layer=layer),
        ]
        return attention(
            q, k, v, bias=sum_biases([shared_bias, *own]), mask=shared_mask, scale=scale
        )

    return attend


def _check_rank(encoding, name: str, array, most: int):
    """The array; raises ValueError if it has more axes than scores: position ids have several."""
    if array is not None and array.ndim > most:
        wanted = "position ids must be [T] or [B, T]: those of several axes are for Rope(axes=...)"
        raise ValueError(f"{encoding}: {wanted}; its {name} has shape {array.shape}")
    return array


def _check_states(*states):
    """Raises ValueError unless tokens are last: a cache and blocks would mix up other axes."""
    for state, tokens in states:
        for leaf in jax.tree.leaves(state):
            if leaf.shape[-1:] != (tokens,):
                wanted = f"[B, ..., {tokens}], tokens last"
                raise ValueError(f"state: its arrays must be {wanted}, got shape {leaf.shape}")


def _scaled(q, query_scale) -> jax.Array:
    """q [B, T, N, H] times a number for each query [..., T], rounded once; None for nothing."""
    if query_scale is None:
        return q
    lifted = query_scale[..., None, None]
    return (q * lifted.reshape((1,) * (q.ndim - lifted.ndim) + lifted.shape)).astype(q.dtype)
