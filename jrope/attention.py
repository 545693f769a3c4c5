"""Dot-product attention with a bias and a mask."""

import jax


def attention(q, k, v, *, bias=None, visible=None, scale: float | None = None) -> jax.Array:
    """`softmax(scale q k^T + bias) v` for each head, over the keys that are visible.

    Args:
      q: [B, T, N, H]; k, v: [B, S, N, H].
      bias: [..., N, T, S], broadcast over the batch where it has no such axis; None for none.
      visible: bool [..., T, S], whether a query sees a key, broadcast likewise; None where all do. The result of a query that
        sees none is finite, and means nothing.
      scale: of the scores, such as `encoding.softmax_scale(H)`; None for H^-0.5.
    """
    if bias is not None:
        bias = bias.reshape((1,) * (4 - bias.ndim) + bias.shape)
    if visible is not None:
        visible = visible[..., None, :, :]
        visible = visible.reshape((1,) * (4 - visible.ndim) + visible.shape)
    return jax.nn.dot_product_attention(q, k, v, bias=bias, mask=visible, scale=scale)
