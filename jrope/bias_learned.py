"""Biases on the scores that are learned functions of distance: T5's buckets, KERPLE's kernels and FIRE's network.

As in `jrope.bias`, all take position ids [..., T] and [..., S] and return float32 [..., N, T, S]. The trained numbers come
first; `jrope.encoding_bias` makes and keeps them.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jrope.distance import distance, heads_of


def t5_thresholds(buckets: int, max_distance: int) -> tuple[int, ...]:
    """The least distance of each bucket in one direction: half of them exact, the rest evenly spaced in the logarithm.

    Bucket `e + j`, of e exact ones and m others, starts at the least n with `(n/e)^m >= (max_distance/e)^j`. That is decided
    in integers: the float32 logarithm of the usual code is a matter of rounding exactly at the thresholds.
    """
    exact = buckets // 2
    rest = buckets - exact

    def starts(j):
        wanted = max_distance**j * exact ** (rest - j)
        low, high = exact, max_distance  # the least n in (low, high] with n^rest >= wanted
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if middle**rest >= wanted else (middle, high)
        return high

    return (*range(exact + 1), *(starts(j) for j in range(1, rest)))


def check_t5(name: str, buckets: int, max_distance: int, bidirectional: bool):
    """Raises the ValueErrors of `t5_bucket`, in the name of the caller."""
    if buckets < (4 if bidirectional else 2) or (bidirectional and buckets % 2):
        least = "even and at least 4 if bidirectional" if bidirectional else "at least 2"
        raise ValueError(f"{name}: buckets must be {least}, got {buckets}")
    exact = (buckets // 2 if bidirectional else buckets) // 2
    if max_distance <= exact:
        raise ValueError(f"{name}: max_distance must be above {exact}, the buckets of one distance each, got {max_distance}")


def _bucket(distances, after, buckets, max_distance, bidirectional):
    if not jnp.issubdtype(distances.dtype, jnp.integer):
        raise TypeError(f"t5: positions must be integers, got {distances.dtype}")
    check_t5("t5", buckets, max_distance, bidirectional)
    if bidirectional:
        buckets //= 2
        offset = jnp.where(after, buckets, 0)
    else:
        distances, offset = jnp.where(after, 0, distances), 0
    thresholds = np.array(t5_thresholds(buckets, max_distance), np.uint32).reshape((1,) * distances.ndim + (-1,))
    return (distances.astype(jnp.uint32)[..., None] >= thresholds).sum(-1, dtype=jnp.int32) - 1 + offset


def t5_bucket(relative, *, buckets: int = 32, max_distance: int = 128, bidirectional: bool = False) -> jax.Array:
    """T5's bucket of a relative position, `key - query` as in transformers: int32 of the same shape.

    Causal: keys after the query fall in bucket 0, with distance 0. Bidirectional: half the buckets for each direction, the
    upper half for keys after the query. Within a direction the first half of the buckets hold one distance each, the others
    are spaced evenly in the logarithm up to max_distance, and the last holds all beyond. Thresholds are exact integers.

    Raises:
      ValueError: if there are too few buckets, or (bidirectional) an odd number, or max_distance is within the exact ones.
      TypeError: if `relative` is not of integers.
    """
    relative = jnp.asarray(relative)
    flat = relative.reshape(-1)
    distances, after = distance(jnp.zeros(1, jnp.int32), flat)
    return _bucket(distances[0], after[0], buckets, max_distance, bidirectional).reshape(relative.shape)


def t5(table, q_positions, k_positions, *, max_distance: int = 128, bidirectional: bool = False) -> jax.Array:
    """T5's bias: `table[t5_bucket(k_position - q_position), h]`, float32 [..., N, T, S].

    For self-attention: T5's cross-attention has no position at all, since a query and the keys of another sequence have no
    distance. T5 does not divide its scores by sqrt(H) either, which is left to the model.
    Raffel et al. 2019, arXiv:1910.10683; thresholds and signs as in Mesh TensorFlow and transformers.

    Args:
      table: [buckets, N], learned.
      q_positions: [..., T] and k_positions: [..., S], integers.
      max_distance, bidirectional: see `t5_bucket`.
    """
    distances, after = distance(q_positions, k_positions)
    bucket = _bucket(distances, after, table.shape[0], max_distance, bidirectional)
    return jnp.moveaxis(jnp.asarray(table, jnp.float32)[bucket], -1, -3)


def kerple_log(r1, r2, q_positions, k_positions) -> jax.Array:
    """KERPLE's logarithmic kernel: `-r1_h ln(1 + r2_h |q_position - k_position|)`, float32 [..., N, T, S].

    Chi et al. 2022, arXiv:2205.09921.

    Args:
      r1, r2: [N], positive.
      q_positions: [..., T] and k_positions: [..., S], position ids.
    """
    distances, r1 = heads_of(distance(q_positions, k_positions)[0], r1)
    return -r1 * jnp.log1p(jnp.asarray(r2, jnp.float32).reshape(r1.shape) * distances)


def kerple_power(r1, r2, q_positions, k_positions) -> jax.Array:
    """KERPLE's power kernel: `-r1_h |q_position - k_position|^r2_h`, float32 [..., N, T, S]; r2 = 1 is ALiBi.

    Chi et al. 2022, arXiv:2205.09921.

    Args:
      r1, r2: [N], positive, and r2 at most 2: beyond, the kernel is not conditionally positive definite.
      q_positions: [..., T] and k_positions: [..., S], position ids.
    """
    distances, r1 = heads_of(distance(q_positions, k_positions)[0], r1)
    return -r1 * distances ** jnp.asarray(r2, jnp.float32).reshape(r1.shape)


def fire(params, q_positions, k_positions, *, threshold: float = 512.0) -> jax.Array:
    """FIRE: a small network of the distance relative to the query's position, both in logarithm, float32 [..., N, T, S].

        bias = f(psi(|q_position - k_position|) / psi(max(q_position, L))),    psi(x) = ln(1 + |c| x)

    with f an MLP 1 -> hidden (ReLU) -> N, c learned and `L = |multiplier| * threshold`. Causal distances are thus mapped into
    [0, 1] at any length (progressive interpolation). Keys after the query take the bias of the same distance before it, which
    may exceed 1; a causal mask hides them. Not a function of the distance alone: where q_position is above L, a shift of all
    positions changes the bias, as intended. Positions count from 0; below 0 only L acts.

    The formula is that of Li et al. 2023, arXiv:2310.04418. In `|c|`, `|L|`, L's learned multiplier and the 1e-6 that is added
    to the denominator (needed only where c or L is 0) this follows public PyTorch re-implementations; it was not compared
    with the authors' own runs.

    Args:
      params: a dict of c [], multiplier [], hidden_kernel [hidden], hidden_bias [hidden], out_kernel [hidden, N] and
        out_bias [N].
      q_positions: [..., T] and k_positions: [..., S], position ids.
      threshold: L before the multiplier moves it.
    """
    params = jax.tree.map(lambda p: jnp.asarray(p, jnp.float32), params)
    distances = distance(q_positions, k_positions)[0].astype(jnp.float32)
    c, least = jnp.abs(params["c"]), jnp.abs(params["multiplier"] * threshold)
    furthest = jnp.maximum(jnp.asarray(q_positions, jnp.float32), least)[..., :, None]
    x = jnp.log1p(c * distances) / (jnp.log1p(c * furthest) + 1e-6)
    lifted = (1,) * x.ndim + (-1,)
    hidden = jax.nn.relu(x[..., None] * params["hidden_kernel"].reshape(lifted) + params["hidden_bias"].reshape(lifted))
    out = jnp.dot(hidden, params["out_kernel"], precision="highest") + params["out_bias"].reshape(lifted)
    return jnp.moveaxis(out, -1, -3)
