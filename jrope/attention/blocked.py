"""Attention over blocks of keys: the softmax of long sequences without an array of all pairs.

A block of queries goes through the keys a block at a time. For each query it keeps the largest
score m so far, the sum of `exp(score - m)`, and the sum of values with these weights; a new largest
score rescales both sums. The result is the whole softmax, in memory that grows with the length and
not with its square. Milakov and Gimelshein 2018, arXiv:1805.02867; Rabe and Staats 2021,
arXiv:2112.05682. Derivatives compute the blocks again, from the logarithm of the softmax's
denominator, as in FlashAttention: Dao et al. 2022, arXiv:2205.14135.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import export

from jrope import arguments
from jrope.attention.dense import check_shapes
from jrope.attention.fused import fused_attention
from jrope.checks import MASK_VALUE, at_least, host, is_concrete, number, renamed

Block = Callable[[Any, jax.Array, jax.Array], Any]


class _Form(NamedTuple):
    """The static part of a program.

    `start` is None where it is traced, `lengths` are T and S before padding to whole blocks, and
    `dtype` is that of the computation.
    """

    bias: Block | None
    mask: Block | None
    causal: bool
    start: int | None
    scale: float
    block: int
    lengths: tuple[int, int]
    dtype: Any


@renamed(visible="mask")
@arguments.checked(q="floating", k="floating", v="floating", operands="any", start="any")
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

    Equal to `jrope.attention.attention` but for rounding, with derivatives of any order in forward
    and reverse mode. On NVIDIA GPUs and TPUs, without bias and mask, it is the fused kernel that
    JAX has, where that takes such arrays (see `jrope.attention.fused`). That kernel has a first
    derivative in reverse mode only: for others, pass a bias of zeros. Biases and masks are
    functions of rows and columns, called for one block at a time:

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
      [B, T, N, H], in v's dtype; computed in float32, or in float64 where an argument is. Without
      keys (S = 0) it is zeros. The result of a query that sees no key is finite and has no meaning.

    Raises:
      ValueError: if the shapes do not fit, or block is below 1.
      TypeError: if start is not an integer.
    """
    check_shapes("blocked_attention", q, k, v)
    at_least("blocked_attention", "block", block, 1)
    _check_start(start)
    (batch, length, heads, dim), (_, count, groups, _) = q.shape, k.shape
    if 0 in q.shape + k.shape:
        return jnp.zeros(q.shape, v.dtype)
    factor = number(dim**-0.5 if scale is None else scale)
    if not is_concrete(factor):  # a form is static, and has no gradient
        q, factor = (factor * q).astype(q.dtype), 1.0
    causal = start is not None
    known = number(start) if causal and is_concrete(start) else None
    if bias is None and mask is None and (not causal or known == 0):
        fused = fused_attention(q, k, v, causal=causal, scale=factor)
        if fused is not None:
            return fused
    dtype, out_dtype = jnp.result_type(q, k, v, jnp.float32), v.dtype
    is_known = not any(map(export.is_symbolic_dim, (length, count)))
    block = min(number(block), max(length, count)) if is_known else number(block)
    form = _Form(bias, mask, causal, known, factor, block, (length, count), dtype)
    q = q.reshape(batch, length, groups, heads // groups, dim).transpose(1, 0, 2, 3, 4)
    q = _blocks(q, block)
    k, v = (_blocks(x.transpose(1, 0, 2, 3), block) for x in (k, v))
    out, _ = _attend(form, q, k, v, jnp.int32(start if causal else 0), operands)
    out = out.transpose(0, 4, 1, 2, 3, 5).reshape(-1, batch, heads, dim)
    return out[:length].transpose(1, 0, 2, 3).astype(out_dtype)


def _check_start(start):
    if start is None:
        return
    is_array = isinstance(start, jax.Array | np.ndarray | np.generic)
    dtype = start.dtype if is_array else np.dtype(type(start))
    if not jnp.issubdtype(dtype, jnp.integer) or np.ndim(start):
        wanted = "one integer, the column of the first query, or None for no order"
        given = f"{dtype} of shape {start.shape}" if is_array else repr(start)
        raise TypeError(f"blocked_attention: start must be {wanted}, got {given}")


def _blocks(x, block: int) -> jax.Array:
    """[T, B, K, ...., H] -> [blocks, B, K, ..., block, H], zeros at the end."""
    count = -(-x.shape[0] // block)
    x = jnp.pad(x, [(0, count * block - x.shape[0])] + [(0, 0)] * (x.ndim - 1))
    return jnp.moveaxis(x.reshape(count, block, *x.shape[1:]), 1, -2)


def _scores(form: _Form, operands, q, k, i, j, start) -> jax.Array:
    """Scores [B, K, G, block, block] of queries [B, K, G, block, H] and keys [B, K, block, H]."""
    scores = form.scale * jnp.einsum("bkgth,bksh->bkgts", q, k, preferred_element_type=form.dtype)
    rows, columns = (n * form.block + jnp.arange(form.block) for n in (i, j))
    ends = [host(length) - 1 for length in form.lengths]
    last = jnp.minimum(start + rows, ends[1]) if form.causal else jnp.full_like(rows, ends[1])
    seen = (columns[None, :] <= last[:, None])[None, None, None]
    rows, columns = (jnp.minimum(x, end) for x, end in zip((rows, columns), ends, strict=True))
    if form.bias is not None:
        bias = _lifted(form.bias(operands, rows, columns), scores.shape)
        # -inf would make NaN in a row that sees nothing
        scores += jnp.maximum(bias, MASK_VALUE).astype(form.dtype)
    if form.mask is not None:
        seen = seen & _lifted(form.mask(operands, rows, columns)[..., None, :, :], scores.shape)
    return jnp.where(seen, scores, MASK_VALUE)


def _lifted(x, shape) -> jax.Array:
    """[..., N or 1, T, S], broadcast against scores [B, K, G, T, S]."""
    _, groups, each, *_ = shape
    heads = (groups, each) if x.shape[-3] > 1 else (1, 1)
    return x.reshape(*(1,) * (4 - x.ndim), *x.shape[:-3], *heads, *x.shape[-2:])


def _meet(form: _Form, i, j, start):
    """Whether the block i of queries may see the block j of keys; the first always, for a sum."""
    return (j == 0) | (j * form.block < start + (i + 1) * form.block)


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def _attend(form: _Form, q, k, v, start, operands) -> tuple[jax.Array, jax.Array]:
    """The result [blocks, B, K, G, block, H], and the logarithm of each softmax's denominator."""

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
                preferred_element_type=form.dtype,
            )
            return new, total * shrink + weights.sum(-1), mixed * shrink[..., None] + values

        lowest = jnp.full(q_i.shape[:-1], MASK_VALUE, form.dtype)
        empty = lowest, jnp.zeros_like(lowest), jnp.zeros(q_i.shape, form.dtype)
        blocks = k.shape[0]
        seen = _meet(form, i, jnp.arange(blocks), start).sum() if form.causal else host(blocks)
        most, total, mixed = jax.lax.fori_loop(0, seen, step, empty)
        return mixed / total[..., None], most + jnp.log(total)

    return jax.lax.map(rows, (jnp.arange(q.shape[0]), q))


@_attend.defjvp
def _attend_jvp(form: _Form, primals, tangents):
    """For scores s, with z_i the logarithm of the denominator of query i, and result o_i:

        dz_i = sum_j w_ij ds_ij,    do_i = sum_j w_ij (ds_ij v_j + dv_j) - dz_i o_i
        w_ij = exp(s_ij - z_i)

    A loop over blocks that is linear in the tangents, so JAX transposes it into the gradient. The
    checkpoint keeps no block of scores for that, but computes each again.
    """
    out, log_total = _attend(form, *primals)
    q, k, v, start, operands = primals
    d_q, d_k, d_v, _, d_operands = tangents
    # the transposed loop adds up gradients in these dtypes
    q, k, v, d_q, d_k, d_v = (x.astype(form.dtype) for x in (q, k, v, d_q, d_k, d_v))
    rows, columns = q.shape[0], k.shape[0]
    is_known = form.start is not None and is_concrete(rows) and is_concrete(columns)
    if is_known:
        pairs = np.indices((rows, columns), np.int32).reshape(2, -1)
        pairs = pairs[:, _meet(form, *pairs, form.start)]
    else:
        pairs = jnp.divmod(jnp.arange(rows * columns), host(columns))

    def terms(i, j):
        """What the block j of keys adds to dz and to the sum in do, of the block i of queries."""

        def scores(operands, q_i, k_j):
            return _scores(form, operands, q_i, k_j, i, j, start)

        s, d_s = jax.jvp(scores, (operands, q[i], k[j]), (d_operands, d_q[i], d_k[j]))
        weights = jnp.exp(s - log_total[i][..., None])
        d_weights = weights * d_s
        d_mixed = jnp.einsum("bkgts,bksh->bkgth", d_weights, v[j])
        d_mixed += jnp.einsum("bkgts,bksh->bkgth", weights, d_v[j])
        return d_weights.sum(-1), d_mixed

    @partial(jax.checkpoint, prevent_cse=False)
    def terms_seen(i, j):
        if is_known or not form.causal:
            return terms(i, j)
        zeros = jnp.zeros_like(log_total[i]), jnp.zeros_like(out[i])
        return jax.lax.cond(_meet(form, i, j, start), lambda: terms(i, j), lambda: zeros)

    def step(sums, pair):
        added = zip(sums, terms_seen(*pair), strict=True)
        return tuple(total.at[pair[0]].add(term) for total, term in added), None

    zeros = jnp.zeros_like(log_total), jnp.zeros_like(out)
    (d_log_total, d_mixed), _ = jax.lax.scan(step, zeros, tuple(pairs))
    return (out, log_total), (d_mixed - d_log_total[..., None] * out, d_log_total)
