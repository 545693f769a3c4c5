"""Attention over blocks of keys: the softmax of long sequences without an array of all pairs.

A block of queries goes through the keys a block at a time. For each query it keeps the largest
score m so far, the sum of `exp(score - m)`, and the sum of values with these weights; a new largest
score rescales both sums. The result is the whole softmax, in memory that grows with the length and
not with its square. Milakov and Gimelshein 2018, arXiv:1805.02867; Rabe and Staats 2021,
arXiv:2112.05682. The gradient computes the blocks again, from the logarithm of the softmax's
denominator, as in FlashAttention: Dao et al. 2022, arXiv:2205.14135.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jrope.attention.dense import check_shapes
from jrope.attention.fused import fused_attention
from jrope.checks import MASK_VALUE, at_least, is_concrete, renamed

Block = Callable[[Any, jax.Array, jax.Array], Any]


class _Form(NamedTuple):
    """The static part of a program; `lengths` are T and S before padding to whole blocks."""

    bias: Block | None
    mask: Block | None
    causal: bool
    scale: float
    block: int
    lengths: tuple[int, int]


@renamed(visible="mask")
def blocked_attention(
    q,
    k,
    v,
    *,
    bias: Block | None = None,
    mask: Block | None = None,
    operands: Any = (),
    start=None,
    scale: float | None = None,
    block: int = 256,
) -> jax.Array:
    """`softmax(scale q k^T + bias) v` without an array of [N, T, S], for long sequences.

    Equal to `jrope.attention.attention` but for rounding, and differentiable in reverse mode. On
    NVIDIA GPUs and TPUs, without bias and mask, it is the fused kernel that JAX has, where that
    takes such arrays (see `jrope.attention.fused`). Biases and masks are functions of rows and
    columns, called for one block at a time:

        def bias(operands, rows, columns):
            slopes, positions = operands
            return -slopes[:, None, None] * abs(positions[rows][:, None] - positions[columns])

        blocked_attention(q, k, v, bias=bias, operands=(slopes, positions), start=0)

    Args:
      q: [B, T, N, H]; k, v: [B, S, K, H], where K divides N: a key head serves N / K query heads.
      bias: of operands, rows [T'] and columns [S'], the indices of queries and keys: the bias,
        float32 [..., N, T', S'].
      mask: likewise bool [..., T', S'], whether a query sees a key.
      operands: a pytree of arrays, everything that `bias` and `mask` depend on; gradients flow to
        those that are floating.
      start: the column of the first query, where no query sees a column after its own. Blocks that
        no query sees are skipped, which halves the time. None for no such limit.
      scale: of the scores; None for H^-0.5.
      block: rows and columns of a block.

    Returns:
      [B, T, N, H], in v's dtype; computed in float32.

    Raises:
      ValueError: if the shapes do not fit, or block is below 1.
    """
    check_shapes("blocked_attention", q, k, v)
    at_least("blocked_attention", "block", block, 1)
    (batch, length, heads, dim), (_, count, groups, _) = q.shape, k.shape
    scale = dim**-0.5 if scale is None else scale
    if bias is None and mask is None and (start is None or (is_concrete(start) and start == 0)):
        fused = fused_attention(q, k, v, causal=start is not None, scale=scale)
        if fused is not None:
            return fused
    block = min(block, max(length, count))
    form = _Form(bias, mask, start is not None, scale, block, (length, count))
    q = q.reshape(batch, length, groups, heads // groups, dim).transpose(1, 0, 2, 3, 4)
    q = _blocks(q, block)
    k, v = (_blocks(x.transpose(1, 0, 2, 3), block) for x in (k, v))
    out: jax.Array = _attend(form, q, k, v, jnp.int32(0 if start is None else start), operands)
    out = out.transpose(0, 4, 1, 2, 3, 5).reshape(-1, batch, heads, dim)
    return out[:length].transpose(1, 0, 2, 3)


def _blocks(x, block: int) -> jax.Array:
    """[T, B, K, ...., H] -> [blocks, B, K, ..., block, H], zeros at the end."""
    count = -(-x.shape[0] // block)
    x = jnp.pad(x, [(0, count * block - x.shape[0])] + [(0, 0)] * (x.ndim - 1))
    return jnp.moveaxis(x.reshape(count, block, *x.shape[1:]), 1, -2)


def _scores(form: _Form, operands, q, k, i, j, start) -> jax.Array:
    """Scores [B, K, G, block, block] of queries [B, K, G, block, H] and keys [B, K, block, H]."""
    scores = form.scale * jnp.einsum("bkgth,bksh->bkgts", q, k, preferred_element_type=jnp.float32)
    rows, columns = (n * form.block + jnp.arange(form.block) for n in (i, j))
    last = (
        jnp.minimum(start + rows, form.lengths[1] - 1)
        if form.causal
        else jnp.full_like(rows, form.lengths[1] - 1)
    )
    seen = (columns[None, :] <= last[:, None])[None, None, None]
    rows, columns = (
        jnp.minimum(x, most - 1) for x, most in zip((rows, columns), form.lengths, strict=True)
    )
    if form.bias is not None:
        bias = _lifted(form.bias(operands, rows, columns), scores.shape)
        scores += jnp.maximum(bias, MASK_VALUE)  # -inf would make NaN in a row that sees nothing
    if form.mask is not None:
        seen = seen & _lifted(form.mask(operands, rows, columns)[..., None, :, :], scores.shape)
    return jnp.where(seen, scores, MASK_VALUE)


def _lifted(x, shape) -> jax.Array:
    """[..., N or 1, T, S], broadcast against scores [B, K, G, T, S]."""
    _, groups, each, *_ = shape
    heads = (groups, each) if x.shape[-3] > 1 else (1, 1)
    return x.reshape(*(1,) * (4 - x.ndim), *x.shape[:-3], *heads, *x.shape[-2:])


def _last(form: _Form, i, blocks: int, start):
    """How many blocks of keys the block i of queries sees."""
    return (
        jnp.minimum(blocks, (start + (i + 1) * form.block - 1) // form.block + 1)
        if form.causal
        else blocks
    )


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attend(form, q, k, v, start, operands):
    return _forward(form, q, k, v, start, operands)[0]


def _forward(form: _Form, q, k, v, start, operands):
    """The result [blocks, B, K, G, block, H], and what the gradient needs."""

    def rows(own):
        i, q_i = own

        def step(j, carry):
            most, total, mixed = carry
            scores = _scores(form, operands, q_i, k[j], i, j, start)
            new = jnp.maximum(most, scores.max(-1))
            weights, shrink = jnp.exp(scores - new[..., None]), jnp.exp(most - new)
            values = jnp.einsum(
                "bkgts,bksh->bkgth",
                weights.astype(v.dtype),
                v[j],
                preferred_element_type=jnp.float32,
            )
            return new, total * shrink + weights.sum(-1), mixed * shrink[..., None] + values

        lowest = jnp.full(q_i.shape[:-1], MASK_VALUE, jnp.float32)
        empty = lowest, jnp.zeros_like(lowest), jnp.zeros(q_i.shape, jnp.float32)
        most, total, mixed = jax.lax.fori_loop(0, _last(form, i, len(k), start), step, empty)
        return (mixed / total[..., None]).astype(v.dtype), most + jnp.log(total)

    out, log_total = jax.lax.map(rows, (jnp.arange(len(q)), q))
    return out, (q, k, v, start, operands, out, log_total)


def _backward(form: _Form, kept, d_out):
    q, k, v, start, operands, out, log_total = kept
    leaves, structure = jax.tree.flatten(operands)
    floating = [jnp.issubdtype(jnp.result_type(leaf), jnp.inexact) for leaf in leaves]
    learned = [leaf for leaf, yes in zip(leaves, floating, strict=True) if yes]

    def merged(learned):
        given = iter(learned)
        return jax.tree.unflatten(
            structure, [next(given) if yes else x for x, yes in zip(leaves, floating, strict=True)]
        )

    def rows(carry, own):
        i, q_i, d_i, out_i, log_i = own
        d_i = d_i.astype(jnp.float32)
        inner = (d_i * out_i.astype(jnp.float32)).sum(-1)

        def step(j, carry):
            d_q, d_k, d_v, d_learned = carry

            def of(learned, q_i, k_j):
                return _scores(form, merged(learned), q_i, k_j, i, j, start)

            scores, pull = jax.vjp(of, learned, q_i, k[j])
            weights = jnp.exp(scores - log_i[..., None])
            d_weights = jnp.einsum("bkgth,bksh->bkgts", d_i, v[j].astype(jnp.float32))
            more_learned, more_q, more_k = pull(weights * (d_weights - inner[..., None]))
            more_v = jnp.einsum("bkgts,bkgth->bksh", weights, d_i)
            d_k, d_v = d_k.at[j].add(more_k.astype(jnp.float32)), d_v.at[j].add(more_v)
            return (
                d_q + more_q.astype(jnp.float32),
                d_k,
                d_v,
                jax.tree.map(jnp.add, d_learned, more_learned),
            )

        begin = jnp.zeros(q_i.shape, jnp.float32), *carry
        d_q, *carry = jax.lax.fori_loop(0, _last(form, i, len(k), start), step, begin)
        return tuple(carry), d_q

    zeros = (
        jnp.zeros(k.shape, jnp.float32),
        jnp.zeros(v.shape, jnp.float32),
        jax.tree.map(jnp.zeros_like, learned),
    )
    (d_k, d_v, d_learned), d_q = jax.lax.scan(
        rows, zeros, (jnp.arange(len(q)), q, d_out, out, log_total)
    )
    given = iter(d_learned)
    d_operands = jax.tree.unflatten(structure, [next(given) if yes else None for yes in floating])
    return d_q.astype(q.dtype), d_k.astype(k.dtype), d_v.astype(v.dtype), None, d_operands


_attend.defvjp(_forward, _backward)
