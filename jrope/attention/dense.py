"""Dot-product attention with a bias and a mask, over one array of all scores."""

import jax
import jax.numpy as jnp

from jrope import arguments
from jrope.checks import MASK_VALUE, renamed


@renamed(visible="mask")
@arguments.checked(q="floating", k="floating", v="floating", bias="floating", mask="bool")
def attention(q, k, v, *, bias=None, mask=None, scale: float | None = None) -> jax.Array:
    """`softmax(scale q k^T + bias) v` for each head, over the keys that the mask leaves.

    Args:
      q: [B, T, N, H]; k, v: [B, S, K, H], where K divides N: a key head serves N / K query heads.
      bias: [..., N, T, S], broadcast over the batch where it has no such axis; None for none.
      mask: bool [..., T, S], whether a query sees a key, broadcast likewise; None where all do. The
        result of a query that sees no key is finite and has no meaning. Without keys (S = 0) it is
        zeros.
      scale: of the scores, such as `encoding.softmax_scale(H)`; None for H^-0.5.

    Raises:
      ValueError: if the shapes do not fit.
    """
    check_shapes("attention", q, k, v)
    if 0 in q.shape + k.shape:
        return jnp.zeros(q.shape, v.dtype)
    if (repeats := q.shape[2] // k.shape[2]) > 1:
        k, v = (jnp.repeat(x, repeats, axis=2) for x in (k, v))
    for name, given, rank in (("bias", bias, 4), ("mask", mask, 3)):
        if given is not None and not 2 <= given.ndim <= rank:
            wanted = "[..., N, T, S]" if name == "bias" else "[..., T, S]"
            raise ValueError(f"attention: {name} must be {wanted}, got shape {given.shape}")
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    wide = jnp.promote_types(q.dtype, jnp.float32)
    scores = scale * jnp.einsum("btnh,bsnh->bnts", q, k, preferred_element_type=wide)
    if bias is not None:
        scores += jnp.maximum(
            _of_rank_four(bias), MASK_VALUE
        )  # -inf would make NaN in an empty row
    if mask is not None:
        scores = jnp.where(_of_rank_four(mask[..., None, :, :]), scores, MASK_VALUE)
    weights = jnp.exp(scores - jax.lax.stop_gradient(scores.max(-1, keepdims=True)))
    mixed = jnp.einsum("bnts,bsnh->bnth", weights.astype(v.dtype), v, preferred_element_type=wide)
    # divided after the product, where a query has H numbers and not S; the gradient gains too
    return (mixed / weights.sum(-1, keepdims=True)).astype(v.dtype).swapaxes(1, 2)


def _of_rank_four(x) -> jax.Array:
    return x.reshape((1,) * (4 - x.ndim) + x.shape)


def check_shapes(owner: str, q, k, v):
    """Raises ValueError unless q is [B, T, N, H], k and v are [B, S, K, H] and K divides N."""
    fit = q.ndim == k.ndim == 4 and k.shape == v.shape and q.shape[3] == k.shape[3]
    if not fit or k.shape[0] != q.shape[0] or not k.shape[2] or q.shape[2] % k.shape[2]:
        shapes = f"{q.shape}, {k.shape} and {v.shape}"
        wanted = "q must be [B, T, N, H], k and v [B, S, K, H] with K dividing N"
        raise ValueError(f"{owner}: {wanted}, got {shapes}")
