"""Position ids are data. These functions make them.

They serve padding, packed documents, context parallelism, images and training for longer contexts.
All are pure, return int32 and run under jit; whatever sets a shape is a static argument. Every
encoding takes any of them.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

from jrope import arguments, checks


@arguments.checked(mask="mask [..., T]")
def from_mask(mask) -> jax.Array:
    """Position ids from an attention mask [..., T] (true for tokens): the number of tokens before.

        0 0 1 1 1  ->  0 0 0 1 2

    Padding on the left has position 0, padding elsewhere that of the last token before it. Any id
    would do, since no token sees padding, but all of these are in the range of a learned table. The
    position of the next token to decode is that of a mask with one more 1, wherever the padding is.
    """
    return jnp.maximum(jnp.cumsum(jnp.asarray(mask) != 0, axis=-1, dtype=jnp.int32) - 1, 0)


@arguments.checked(segment_ids="integers [..., T]")
def from_segments(segment_ids) -> jax.Array:
    """Position ids that restart wherever the document changes: segment_ids [..., T], any integers.

    1 1 1 2 2 3  ->  0 1 2 0 1 0
    """
    # compared as they are: JAX would cut an int64 of NumPy
    ids = segment_ids if isinstance(segment_ids, jax.Array) else np.asarray(segment_ids)
    before = ids.__array_namespace__().concatenate([ids[..., :1], ids[..., :-1]], axis=-1)
    index = jnp.broadcast_to(jnp.arange(ids.shape[-1], dtype=jnp.int32), ids.shape)
    starts = jnp.where(ids != before, index, 0)
    return index - jax.lax.cummax(starts, axis=ids.ndim - 1)


@arguments.checked(cumulative_lengths="integers [D]")
def from_lengths(cumulative_lengths, total: int) -> jax.Array:
    """Position ids [total] of packed documents, from cumulative lengths (cu_seqlens).

        0 3 5 6, total 8  ->  0 1 2 0 1 0 0 1

    Args:
      cumulative_lengths: [documents + 1], 0 first, not decreasing; empty documents are allowed.
      total: how many ids to make. After the last document, as for padding, they start from 0 again.

    Raises:
      ValueError: if cumulative lengths are no vector or empty; or concrete ones do not start at 0,
        decrease, or exceed the total.
    """
    wanted = f"cumulative_lengths must rise from 0 to at most total, {total}"
    shape = np.shape(cumulative_lengths)
    if len(shape) != 1 or shape[0] == 0:
        raise ValueError(f"from_lengths: {wanted}, got shape {shape}")
    if checks.is_concrete(cumulative_lengths):
        ends = np.asarray(cumulative_lengths)
        if ends[0] != 0 or np.any(np.diff(ends) < 0) or ends[-1] > total:
            raise ValueError(f"from_lengths: {wanted}, got {ends.tolist()}")
    starts = jnp.asarray(cumulative_lengths, jnp.int32)
    index = jnp.arange(total, dtype=jnp.int32)
    started = jnp.zeros_like(index).at[starts].max(starts, mode="drop")
    return index - jax.lax.cummax(started)


@arguments.checked()
def zigzag(length: int, shards: int) -> jax.Array:
    """Position ids [length] in the zigzag order of context parallelism.

        length 8, shards 2  ->  0 1 6 7 | 2 3 4 5

    Shard i holds chunks i and 2 shards - 1 - i, so that all shards do the same work under a causal
    mask. The ids are also the permutation: `x[:, zigzag(T, n)]` orders a sequence, and
    `jnp.argsort` of the ids restores it.

    Raises:
      ValueError: if shards is below 1 or the length is not a multiple of 2 * shards.
    """
    if shards < 1 or length < 0 or length % (2 * shards):
        wanted = "length must be a multiple of 2 * shards with shards at least 1"
        raise ValueError(f"zigzag: {wanted}, got {length} and {shards}")
    xp = np if checks.is_concrete(length) else jnp  # NumPy's stay concrete inside jit
    chunks = xp.arange(length, dtype=np.int32).reshape(2 * shards, length // (2 * shards))
    return jnp.asarray(xp.concatenate([chunks[:shards], chunks[::-1][:shards]], axis=1).ravel())


def grid(*shape: int) -> jax.Array:
    """Position ids [A, T] of the T cells of a grid with A axes, in row-major order.

    Axis 0 is the row, from the top, and the last axis changes fastest: grid(2, 3) is
    [[0 0 0 1 1 1], [0 1 2 0 1 2]].

    Raises:
      ValueError: if there are no axes or one is negative.
    """
    shape = tuple(arguments.conform("grid", "shape", size, int) for size in shape)
    if not shape or any(size < 0 for size in shape):
        wanted = "the shape must have at least one axis and no negative one"
        raise ValueError(f"grid: {wanted}, got {shape}")
    xp = np if all(map(checks.is_concrete, shape)) else jnp
    ids = xp.meshgrid(*(xp.arange(size, dtype=np.int32) for size in shape), indexing="ij")
    return jnp.asarray(xp.stack(ids).reshape(len(shape), math.prod(shape)))


@arguments.checked(key="key")
def randomized(key, length: int, max_length: int) -> jax.Array:
    """Randomised position ids [length]: a sorted sample, without repeats, of 0 .. max_length - 1.

    Training on them shows a model all positions of a longer context. Ruoss et al. 2023,
    arXiv:2305.16843. In the authors' code one sample serves a whole batch; vmap over keys for more.

    Raises:
      ValueError: if length is negative or above max_length.
    """
    if not 0 <= length <= max_length:
        raise ValueError(
            f"randomized: length must be within 0..max_length, {max_length}, got {length}"
        )
    ids = jnp.arange(max_length, dtype=jnp.int32)
    return jnp.sort(jax.random.choice(key, ids, (length,), replace=False))


@arguments.checked(segment_ids="integers [..., T]", starts="integers [S]", steps="integers")
def coupled(segment_ids, starts, steps=1) -> jax.Array:
    """Position coupling: corresponding tokens of different segments share an id.

        position = starts[segment] + steps[segment] * (index of the token in its segment)

    Equal starts couple the operands of an addition digit by digit. A step of -1 couples a number
    with one that is written backwards:

        "12+34=64", segments 0 0 1 2 2 3 4 4, starts 1 0 1 0 2, steps 1 1 1 1 -1
        ->  1 2 0 1 2 0 2 1

    Cho et al. 2024, arXiv:2405.20671, who also draw one random start for all (add it to `starts`)
    and give separators separate ids.

    Args:
      segment_ids: [..., T], each an index into starts; every run of one id is a segment.
      starts: [segments], the id of each segment's first token.
      steps: [segments] or one number.
    """
    starts = jnp.asarray(starts, jnp.int32)
    steps = jnp.broadcast_to(jnp.asarray(steps, jnp.int32), starts.shape)
    segment_ids = jnp.asarray(segment_ids)
    return starts[segment_ids] + steps[segment_ids] * from_segments(segment_ids)
