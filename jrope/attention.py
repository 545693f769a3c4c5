"""Dot-product attention with a bias."""

import jax


def attention(q, k, v, *, bias=None, causal: bool = True, scale: float | None = None) -> jax.Array:
    """`softmax(scale q k^T + bias) v` for each head.

    Args:
      q: [B, T, N, H]; k, v: [B, S, N, H].
      bias: [..., N, T, S], broadcast over the batch where it has no such axis; None for none.
      causal: whether a query sees only the keys up to its own index.
      scale: of the scores, such as `encoding.softmax_scale(H)`; None for H^-0.5.
    """
    if bias is not None:
        bias = bias.reshape((1,) * (4 - bias.ndim) + bias.shape)
    return jax.nn.dot_product_attention(q, k, v, bias=bias, is_causal=causal, scale=scale)
