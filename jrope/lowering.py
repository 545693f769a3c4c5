"""What compilers need so that the formulas elsewhere stay formulas.

XLA on CPUs makes one loop of a rotation only if that loop goes over pairs of features, and makes
tables once only if a separate loop makes them. Other backends get the plain form. The facts are
tested on compiled programs (`tests/jrope/test_compiled.py`).
"""

import math
from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax import export
from jax.experimental.xla_metadata import set_xla_metadata

_CHUNK = 128  # positions
_ROW = 4  # features: LLVM unrolls a row of sixteen before it looks for vectors, and finds few


def over_positions(function: Callable, arrays: Sequence[jax.Array], *, axes: int = 0):
    """`function(*arrays)`, for tables that are used many times: by each sequence, head and layer.

    XLA on CPUs fuses the making of a table into the loops that use it, and makes it again for each
    use, several times the work of a rotation. A barrier does not prevent that, a loop over chunks
    does. On an accelerator the loop would cost more than it saves.

    Args:
      function: of arrays [(A,) ...], elementwise in all but the first `axes` axes; returns arrays
        [..., P].
      arrays: of one shape.
      axes: how many axes in front are not positions, 0 or 1.
    """
    shape = arrays[0].shape[axes:]
    count = math.prod(shape)
    is_symbolic = export.is_symbolic_dim(count)  # of a program that is exported for all sizes
    if not is_symbolic and count <= 1:
        return function(*arrays)

    def in_chunks(*arrays):
        lead = arrays[0].shape[:axes]
        # a loop of one turn would be no loop; a symbolic count may be small
        chunk = _CHUNK if is_symbolic else min(_CHUNK, -(-count // 2))
        chunks = -(-count // chunk) + is_symbolic

        def rows(x):
            flat = jnp.moveaxis(x.reshape(*lead, count), -1, 0)
            padded = jnp.pad(flat, [(0, chunks * chunk - count)] + [(0, 0)] * axes)
            return padded.reshape(chunks, chunk, *lead)

        def one(own):
            return function(*(jnp.moveaxis(x, 0, -1) for x in own))

        made = jax.lax.map(one, [rows(x) for x in arrays])
        return jax.tree.map(
            lambda t: t.reshape(chunks * chunk, -1)[:count].reshape(*shape, -1), made
        )

    return jax.lax.platform_dependent(*arrays, cpu=in_chunks, default=function)


def over_pairs(function: Callable, x, cos, sin, *, interleaved: bool) -> jax.Array:
    """`function(pairs, cos, sin, axis)` of the pairs in x [..., 2P], as an array like x.

    The function receives x with an axis of 2 for the two features of a pair, in cos's dtype, and
    tables [..., 1, P] that broadcast against it. Pairs are (2i, 2i+1) if interleaved, else
    (i, i+P).
    """
    pairs = cos.shape[-1]
    # numbers that are converted are best left in whole rows
    row = _ROW if pairs % _ROW == 0 and x.dtype == cos.dtype else max(pairs, 1)
    form = partial(_apply, function, interleaved=interleaved)
    on_cpu = partial(form, row=row, split=_split, join=_join)
    elsewhere = partial(form, row=max(pairs, 1), split=jax.lax.reshape, join=jax.lax.reshape)
    return jax.lax.platform_dependent(x, cos, sin, cpu=on_cpu, default=elsewhere)


def _apply(function, x, cos, sin, *, interleaved, row, split, join):
    if interleaved:
        axis, before, after = -1, cos.shape[-1:], ()
    else:
        axis, before, after = -3, (), (cos.shape[-1] // row, row)
    cos, sin = (table.reshape((*table.shape[:-1], *before, 1, *after)) for table in (cos, sin))
    pairs = split(x, (*x.shape[:-1], *before, 2, *after)).astype(cos.dtype)
    return join(function(pairs, cos, sin, axis).astype(x.dtype), x.shape)


def _join(pairs, shape) -> jax.Array:
    """`pairs.reshape(shape)`, kept out of the loop before it, which goes over its result's axes.

    Over pairs that loop is unrolled and vectorised. Over all features of a head, with indices
    divided, it takes up to four times as long, or ten in bfloat16.
    """
    with set_xla_metadata(inlineable="false"):
        return _reshape(pairs, shape)


@partial(jax.jit, static_argnums=1)
def _reshape(x, shape):
    return jax.lax.reshape(x, shape)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _split(x, shape) -> jax.Array:
    """`x.reshape(shape)`, whose transpose is `_join`: it ends the loop that makes a gradient."""
    return x.reshape(shape)


@_split.defjvp
def _split_jvp(shape, primals, tangents):
    return primals[0].reshape(shape), _join(tangents[0], shape)
