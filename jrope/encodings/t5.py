"""T5's relative bias: a learned number for each head and bucket of distances."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from jrope import arguments, checks, exact
from jrope.encoding import Encoding

__all__ = ["T5", "t5", "t5_bucket"]


def thresholds(buckets: int, max_distance: int) -> tuple[int, ...]:
    """The least distance of each bucket in one direction.

    Half of the buckets hold one distance each; the others are evenly spaced in the logarithm.
    Bucket `e + j`, after e of the first kind and with m of the second, starts at the least n with
    `(n/e)^m >= (max_distance/e)^j`. Integers decide that: the float32 logarithm of the usual code
    rounds exactly at the thresholds.
    """
    single = buckets // 2
    rest = buckets - single

    def start(j):
        wanted = max_distance**j * single ** (rest - j)
        low, high = single, max_distance  # the least n in (low, high] with n^rest >= wanted
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if middle**rest >= wanted else (middle, high)
        return high

    return (*range(single + 1), *(start(j) for j in range(1, rest)))


@arguments.checked(relative="ids")
def t5_bucket(
    relative: ArrayLike, *, buckets: int = 32, max_distance: int = 128, bidirectional: bool = False
) -> jax.Array:
    """T5's bucket of a relative position `key - query`, as in transformers: int32 [...].

    Causal: keys after the query are in bucket 0, with distance 0. Bidirectional: half of the
    buckets are for each direction, the upper half for keys after the query. In a direction the
    first half of the buckets hold one distance each, the others are evenly spaced in the logarithm
    up to max_distance, and the last holds all beyond. Thresholds are exact integers.

    Raises:
      ValueError: if there are too few buckets, or (bidirectional) an odd number, or max_distance is
        not above the distances that have a bucket each.
      TypeError: if `relative` is not of integers.
    """
    _check_integers("t5_bucket: relative", relative)
    shape = np.shape(relative)
    distances, after = exact.distance(np.zeros(1, np.int32), jnp.reshape(relative, -1))
    return _bucket(distances[0], after[0], buckets, max_distance, bidirectional).reshape(shape)


@arguments.checked(table="floating [B, N]", q_positions="ids [..., T]", k_positions="ids [..., S]")
def t5(
    table: jax.Array,
    q_positions: ArrayLike,
    k_positions: ArrayLike,
    *,
    max_distance: int = 128,
    bidirectional: bool = False,
) -> jax.Array:
    """T5's bias: `table[t5_bucket(k_position - q_position), h]`, float32 [..., N, T, S].

    For self-attention: T5's cross-attention has no position, since a query and the keys of another
    sequence have no distance. T5 does not divide its scores by sqrt(H) either; that is the model's.
    Raffel et al. 2019, arXiv:1910.10683; thresholds and signs are those of Mesh TensorFlow.

    Args:
      table: [buckets, N], learned.
      q_positions: [..., T] and k_positions: [..., S], integers.
      max_distance, bidirectional: see `t5_bucket`.

    Raises:
      ValueError, TypeError: as `t5_bucket`.
    """
    distances, after = exact.distance(q_positions, k_positions)
    _check_integers("t5: q_positions and k_positions", distances)
    bucket = _bucket(distances, after, table.shape[0], max_distance, bidirectional)
    return jnp.moveaxis(jnp.asarray(table, jnp.float32)[bucket], -1, -3)


def _check_integers(what: str, ids):
    if not jnp.issubdtype(ids.dtype, jnp.integer):
        raise TypeError(f"{what} must be integers, got {ids.dtype}")


def _bucket(distances, after, buckets, max_distance, bidirectional):
    buckets, max_distance, bidirectional = checks.number((buckets, max_distance, bidirectional))
    _check("t5", buckets, max_distance, bidirectional)
    if bidirectional:
        buckets //= 2
        offset = jnp.where(after, buckets, 0)
    else:
        distances, offset = jnp.where(after, 0, distances), 0
    starts = np.array(thresholds(buckets, max_distance), np.uint32)
    starts = starts.reshape((1,) * distances.ndim + (-1,))
    reached = distances.astype(jnp.uint32)[..., None] >= starts
    return reached.sum(-1, dtype=jnp.int32) - 1 + offset


def _check(owner: str, buckets: int, max_distance: int, bidirectional: bool):
    if buckets < (4 if bidirectional else 2) or (bidirectional and buckets % 2):
        least = "even and at least 4 if bidirectional" if bidirectional else "at least 2"
        raise ValueError(f"{owner}: buckets must be {least}, got {buckets}")
    single = (buckets // 2 if bidirectional else buckets) // 2
    if max_distance <= single:
        least = f"above {single}, the buckets of one distance each"
        raise ValueError(f"{owner}: max_distance must be {least}, got {max_distance}")


@dataclass(frozen=True)
class T5(Encoding):
    """A learned number for each head and bucket of distances (`jrope.t5`), shared by all layers.

    The table starts normal with variance 1 / features, as in transformers.

    Attributes:
      buckets: rows of the table; if bidirectional, half of them for each direction.
      max_distance: the distance from which all share a bucket.
      bidirectional: whether keys after the query have separate buckets.
    """

    name: ClassVar[str] = "t5"

    buckets: int = 32
    max_distance: int = 128
    bidirectional: bool = False

    def __post_init__(self):
        arguments.check_fields(self)
        _check("T5", self.buckets, self.max_distance, self.bidirectional)

    def init(self, key, *, features, num_heads, head_dim, num_layers):
        return {"table": features**-0.5 * jax.random.normal(key, (self.buckets, num_heads))}

    def bias(self, params, q_positions, k_positions, *, num_heads):
        options = {"max_distance": self.max_distance, "bidirectional": self.bidirectional}
        return t5(params["table"], q_positions, k_positions, **options)
