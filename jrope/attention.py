"""Dot-product attention with a bias and a mask; and how the layers of a model attend under an encoding."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp

from jrope.bias import UNSEEN
from jrope.blocked import blocked_attention
from jrope.encoding import Encoding, Params, total

LONG = 512  # queries: with more, going through blocks of keys takes less time than one array of all scores, and little memory


def attention(q, k, v, *, bias=None, visible=None, scale: float | None = None) -> jax.Array:
    """`softmax(scale q k^T + bias) v` for each head, over the keys that are visible.

    Args:
      q: [B, T, N, H]; k, v: [B, S, K, H], where K divides N: each head of keys serves N / K heads of queries.
      bias: [..., N, T, S], broadcast over the batch where it has no such axis; None for none.
      visible: bool [..., T, S], whether a query sees a key, broadcast likewise; None where all do. The result of a query that
        sees none is finite, and means nothing.
      scale: of the scores, such as `encoding.softmax_scale(H)`; None for H^-0.5.

    Raises:
      ValueError: if the heads do not fit.
    """
    each, rest = divmod(q.shape[2], k.shape[2])
    if rest or not each or k.shape != v.shape:
        shapes = f"{q.shape}, {k.shape} and {v.shape}"
        raise ValueError(f"attention: q must be [B, T, N, H], k and v [B, S, K, H] with K dividing N, got {shapes}")
    if each > 1:
        k, v = (jnp.repeat(x, each, axis=2) for x in (k, v))
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    wide = jnp.promote_types(q.dtype, jnp.float32)
    scores = scale * jnp.einsum("btnh,bsnh->bnts", q, k, preferred_element_type=wide)
    if bias is not None:
        scores += jnp.maximum(_of_rank_four(bias), UNSEEN)  # no -inf: of a row that sees nothing it would make NaN
    if visible is not None:
        scores = jnp.where(_of_rank_four(visible[..., None, :, :]), scores, UNSEEN)
    weights = jnp.exp(scores - jax.lax.stop_gradient(scores.max(-1, keepdims=True)))
    mixed = jnp.einsum("bnts,bsnh->bnth", weights.astype(v.dtype), v, preferred_element_type=wide)
    # divided after the product, where there are H numbers to a query and not S; so is the gradient of the sum
    return (mixed / weights.sum(-1, keepdims=True)).astype(v.dtype).swapaxes(1, 2)


def _of_rank_four(x) -> jax.Array:
    return x.reshape((1,) * (4 - x.ndim) + x.shape)


def attending(
    encoding: Encoding, params: Params, q_positions, k_positions, *, shape: tuple[int, int, int], causal: bool, start, real
) -> Callable[[jax.Array, jax.Array, jax.Array], jax.Array]:
    """A function of rotated q [B, T, N, H], k and v [B, S, N, H] that all layers of one forward pass share.

    Up to `LONG` queries it is `attention`, with a bias that is made once; beyond, `blocked_attention`, with the bias made anew
    for each block and layer. A bias that depends on content (CoPE) needs all scores at once, at any length.

    Args:
      encoding, params: an encoding and its parameters.
      q_positions: [..., T] and k_positions: [..., S], position ids.
      shape: (B, N, H).
      causal: whether a query sees no key after itself.
      start: the key that the first query is.
      real: [B, S], false for keys that no query sees; None where there is none.
    """
    batch, count, dim = shape
    rows, columns = q_positions.shape[-1], k_positions.shape[-1]
    scale = encoding.softmax_scale(dim)

    def bias(encoding, params, q_positions, k_positions):
        return encoding.bias(params, q_positions, k_positions, num_heads=count)

    def content_bias(q, k, visible):
        return encoding.content_bias(params, q, k, q_positions, k_positions, visible=visible, scale=scale)

    def sees(start, real, rows, columns):
        """Whether the queries of these rows see the keys of these columns: bool [1 or B, T, S]."""
        order = columns[None, :] <= start + rows[:, None] if causal else jnp.ones((rows.size, columns.size), bool)
        return order[None] if real is None else order[None] & real[:, None, columns]

    def block_of_bias(operands, rows, columns):
        encoding, params, q_positions, k_positions, _, _ = operands
        return bias(encoding, params, q_positions[..., rows], k_positions[..., columns])

    def block_of_sees(operands, rows, columns):
        *_, start, real = operands
        return sees(start, real, rows, columns)

    if rows > LONG:
        q, k = (jax.ShapeDtypeStruct((batch, length, count, dim), jnp.float32) for length in (rows, columns))
        visible = jax.ShapeDtypeStruct((batch, rows, columns), bool)
        if jax.eval_shape(content_bias, q, k, visible) is None:
            acts = jax.eval_shape(bias, encoding, params, q_positions, k_positions) is not None
            return partial(
                blocked_attention,
                bias=block_of_bias if acts else None,
                visible=None if real is None else block_of_sees,
                operands=(encoding, params, q_positions, k_positions, start, real),
                start=start if causal else None,
                scale=scale,
            )
    made, visible = bias(encoding, params, q_positions, k_positions), sees(start, real, jnp.arange(rows), jnp.arange(columns))

    def attend(q, k, v):
        return attention(q, k, v, bias=total([made, content_bias(q, k, visible)]), visible=visible, scale=scale)

    return attend
