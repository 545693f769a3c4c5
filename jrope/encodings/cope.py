"""CoPE: the query decides which keys to count."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jrope import arguments, checks, exact
from jrope.encoding import Encoding

__all__ = ["Cope", "cope"]


@checks.renamed(visible="mask")
@arguments.checked(
    table="floating [P, D]",
    q="floating [..., T, N, H]",
    k="floating [..., S, K, H]",
    q_positions="ids [..., T]",
    k_positions="ids [..., S]",
    mask="bool [..., T, S]",
)
def cope(
    table: jax.Array,
    q: jax.Array,
    k: jax.Array,
    q_positions: ArrayLike,
    k_positions: ArrayLike,
    *,
    mask: jax.Array | None = None,
    scale: float | None = None,
) -> jax.Array:
    """CoPE's bias, which depends on content: float32 [..., N, T, S].

        g_ij = sigmoid(scale * q_i . k_j) if k_position_j <= q_position_i and mask_ij, else 0
        p_ij = min(sum of g_im over m >= j, max_positions - 1)
        bias_ij = q_i . e[p_ij],    linear between the rows of the table

    Keys are counted from the query backwards, and never those after it: the gate of a future key
    would move all positions before it. m runs over keys in their order, which must be that of their
    positions. The mask must hide padding, and the keys of other packed documents: else they count.

    Golovneva et al. 2024, arXiv:2405.18719. As in the paper's listing the gates see the scaled
    scores, and `q . e` is added to the scaled scores without a scale.

    Args:
      table: [max_positions, H], e, learned and shared by the heads.
      q: [..., T, N, H], k: [..., S, N, H].
      q_positions: [T] or [..., T], k_positions: [S] or [..., S], in order, position ids.
      mask: bool [..., T, S], whether a query sees a key; None if it sees all keys that are not
        after it. Its former name `visible` works too.
      scale: of the scores; 1 / sqrt(H) if None.

    Raises:
      ValueError: if the table is not [max_positions, H], or q and k differ in heads.
    """
    if table.ndim != 2 or table.shape[-1] != q.shape[-1] or table.shape[0] < 1:
        wanted = f"[max_positions, {q.shape[-1]}]"
        raise ValueError(f"cope: table must be {wanted}, got shape {table.shape}")
    if q.shape[-2:] != k.shape[-2:]:
        shapes = f"{q.shape} and {k.shape}"
        raise ValueError(
            f"cope: q and k must have the same heads and features, got shapes {shapes}"
        )
    table, q, k = (x.astype(jnp.float32) for x in (table, q, k))
    ids = (jnp.shape(ids)[:-1] for ids in (q_positions, k_positions))
    lead = jnp.broadcast_shapes(q.shape[:-3], k.shape[:-3], *ids)
    q, k = (jnp.broadcast_to(x, (*lead, *x.shape[-3:])) for x in (q, k))
    scores = jnp.einsum("...tnh,...snh->...nts", q, k)
    scores *= q.shape[-1] ** -0.5 if scale is None else scale

    def by_head(mask):
        shape = (*mask.shape[:-2], 1, *mask.shape[-2:])
        return mask.reshape((1,) * (scores.ndim - len(shape)) + shape)

    counts = by_head(~exact.distance(q_positions, k_positions)[1])
    counts = counts if mask is None else counts & by_head(mask)
    gates = jnp.where(counts, jax.nn.sigmoid(scores), 0.0)
    summed = jax.lax.cumsum(gates, axis=gates.ndim - 1, reverse=True)
    positions = jnp.minimum(summed, table.shape[0] - 1)
    floor = jnp.floor(positions)
    lower = floor.astype(jnp.int32)
    upper = jnp.minimum(lower + 1, table.shape[0] - 1)
    rows = jnp.einsum("...tnh,ph->...ntp", q, table)
    below, above = (jnp.take_along_axis(rows, index, axis=-1) for index in (lower, upper))
    return below + (positions - floor) * (above - below)


@dataclass(frozen=True)
class Cope(Encoding):
    """Contextual position encoding: positions that the query counts (`jrope.cope`).

    The table starts at zero, as in the paper's listing: an untrained model has no position. One
    table serves all layers.

    Attributes:
      max_positions: rows of the table; the count stops at the last.
    """

    name: ClassVar[str] = "cope"

    max_positions: int = 64

    def __post_init__(self):
        arguments.check_fields(self)
        checks.at_least("Cope", "max_positions", self.max_positions, 1)

    def init(self, key, *, features, num_heads, head_dim, num_layers):
        return {"table": jnp.zeros((self.max_positions, head_dim))}

    def content_bias(self, params, q, k, q_positions, k_positions, *, layer, mask, scale):
        return cope(params["table"], q, k, q_positions, k_positions, mask=mask, scale=scale)
