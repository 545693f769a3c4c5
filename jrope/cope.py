"""Contextual position encoding: positions that count what the query finds worth counting."""

import jax
import jax.numpy as jnp

from jrope.distance import distance


def cope(table, q, k, q_positions, k_positions, *, visible=None, scale: float | None = None) -> jax.Array:
    """CoPE's bias, which depends on content: float32 [..., N, T, S].

        g_ij = sigmoid(scale * q_i . k_j) if k_position_j <= q_position_i and it is visible, else 0
        p_ij = min(sum of g_im over m >= j, max_positions - 1)
        bias_ij = q_i . e[p_ij],    linear between the rows of the table

    Keys are counted from the query backwards, those after it never: the gates are masked here, since an unmasked gate of a
    future key would move all positions before it. m runs over keys in their order, which is that of their positions; padding
    and, where documents are packed, the keys of other documents must be made invisible, or they would be counted.

    Golovneva et al. 2024, arXiv:2405.18719. As in the paper's listing the gates see the scaled scores, and `q . e` is added
    to the scaled scores without a scale of its own.

    Args:
      table: [max_positions, H], e, learned and shared by the heads.
      q: [..., T, N, H], k: [..., S, N, H].
      q_positions: [T] or [..., T], k_positions: [S] or [..., S], in order, position ids.
      visible: bool [..., T, S], whether a query sees a key; None where all keys that are not after it do.
      scale: of the scores; 1 / sqrt(H) if None.

    Raises:
      ValueError: if the table is not [max_positions, H], or q and k differ in heads.
    """
    if table.ndim != 2 or table.shape[-1] != q.shape[-1] or table.shape[0] < 1:
        raise ValueError(f"cope: table must be [max_positions, {q.shape[-1]}], got shape {table.shape}")
    if q.shape[-2:] != k.shape[-2:]:
        raise ValueError(f"cope: q and k must have the same heads and features, got shapes {q.shape} and {k.shape}")
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    table, q, k = (x.astype(jnp.float32) for x in (table, q, k))
    scores = jnp.einsum("...tnh,...snh->...nts", q, k) * scale

    def by_head(mask):
        return mask[..., None, :, :].reshape((1,) * (scores.ndim - mask.ndim - 1) + (*mask.shape[:-2], 1, *mask.shape[-2:]))

    counts = by_head(~distance(q_positions, k_positions)[1])
    counts = counts if visible is None else counts & by_head(visible)
    gates = jnp.where(counts, jax.nn.sigmoid(scores), 0.0)
    positions = jnp.minimum(jax.lax.cumsum(gates, axis=gates.ndim - 1, reverse=True), table.shape[0] - 1)
    floor = jnp.floor(positions)
    lower = floor.astype(jnp.int32)
    upper = jnp.minimum(lower + 1, table.shape[0] - 1)
    rows = jnp.einsum("...tnh,ph->...ntp", q, table)
    below, above = (jnp.take_along_axis(rows, index, axis=-1) for index in (lower, upper))
    return below + (positions - floor) * (above - below)
