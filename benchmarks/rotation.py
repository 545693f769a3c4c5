"""Rotating queries and keys: against a multiplication by a constant, and other packages."""

from collections.abc import Iterator, Sequence
from functools import partial

import jax
import jax.numpy as jnp

import jrope
from benchmarks.peers import as_torch, check_close, forms_of_peers, peer
from benchmarks.timing import Call, Case

ALL_CORES = False
SHAPES = [(64, 64, 4, 32), (8, 2048, 16, 64), (1, 8192, 32, 128)]  # [B, T, N, H]
LIMIT = "q * 1.5, k * 1.5"  # reads and writes the same memory


def cases(shapes: Sequence[tuple] = SHAPES) -> Iterator[Case]:
    yield Case("cosines and sines of 8192 positions and 64 frequencies", _tables())
    for shape in shapes:
        for dtype in (jnp.float32, jnp.bfloat16):
            about = f"{list(shape)} {jnp.dtype(dtype).name}"
            yield Case(f"forward, {about}", _forward(shape, dtype))
            if dtype is jnp.float32:
                yield Case(f"forward and backward, {about}", _backward(shape, dtype))


def _tables() -> dict[str, Call]:
    """Exact angles against float32 products, at positions where both are right."""
    positions, spectrum = jnp.arange(8192), jrope.spectrum(128)
    frequencies = jnp.asarray(spectrum.frequencies, jnp.float32)

    @jax.jit
    def product(positions, frequencies):
        angles = positions[:, None] * frequencies[None]
        return jnp.cos(angles), jnp.sin(angles)

    exact = _call(jax.jit(jrope.rotation_tables), positions, spectrum)
    inexact = _call(product, positions, frequencies)
    for one, other in zip(exact(), inexact(), strict=True):
        check_close(one, other, 1e-3)
    return {"float32 product": inexact, "jrope, exact": exact}


def _forward(shape, dtype) -> dict[str, Call]:
    pair, _, positions, spectrum, tables = _inputs(shape, dtype)
    forms: dict[str, Call] = {LIMIT: _call(jax.jit(_both(lambda x: x * dtype(1.5))), *pair)}
    for layout in ("half", "interleaved"):
        given = jax.jit(_both(partial(jrope.apply_rotary, layout=layout)))
        plain = jax.jit(_both(partial(jrope.rotate, layout=layout)))
        forms[f"jrope, {layout}, tables given"] = _call(given, *pair, *tables)
        forms[f"jrope, {layout}, plain call"] = _call(plain, *pair, positions, spectrum)
    peers = forms_of_peers(_peers, pair, tables)
    tolerance = (2e-2 if dtype is jnp.bfloat16 else 1e-5) + 1e-7 * shape[1]
    for name, call in peers.items():
        layout = "interleaved" if name.startswith("rotary-embedding-torch") else "half"
        for ours, theirs in zip(forms[f"jrope, {layout}, tables given"](), call(), strict=True):
            # in other packages the heads come first, and angles are float32 products
            check_close(ours, theirs.float().transpose(1, 2).numpy(), tolerance)
    return forms | peers


def _backward(shape, dtype) -> dict[str, Call]:
    pair, gradients, _, _, tables = _inputs(shape, dtype)

    def backward(rotate):
        def both(pair, gradients, *tables):
            result, pull = jax.vjp(lambda pair: tuple(rotate(x, *tables) for x in pair), pair)
            return result, pull(gradients)

        return jax.jit(both)

    multiply = backward(lambda x: x * dtype(1.5))
    forms: dict[str, Call] = {LIMIT: _call(multiply, pair, gradients)}
    for layout in ("half", "interleaved"):
        given = backward(partial(jrope.apply_rotary, layout=layout))
        forms[f"jrope, {layout}, tables given"] = _call(given, pair, gradients, *tables)
    return forms | forms_of_peers(_peers, pair, tables, gradients)


def _peers(pair, tables, gradients=None) -> dict[str, Call]:
    """Other packages: forward, or with `gradients` of the results forward and backward."""
    torch = peer("torch")
    torch._dynamo.reset()  # it stops compiling after eight cases of one function
    llama = peer("transformers.models.llama.modeling_llama").apply_rotary_pos_emb
    package = peer("rotary_embedding_torch")
    q, k = (_heads_first(x).requires_grad_(gradients is not None) for x in pair)
    dtype = pair[0].dtype
    cos, sin = (as_torch(jnp.concatenate([table] * 2, -1).astype(dtype))[None] for table in tables)
    embedding = package.RotaryEmbedding(dim=q.shape[-1], cache_if_possible=True)

    def transformers(q, k):
        return llama(q, k, cos, sin)

    def rotary_embedding_torch(q, k):
        return embedding.rotate_queries_or_keys(q), embedding.rotate_queries_or_keys(k)

    functions = {
        "transformers": transformers,
        "transformers, torch.compile": torch.compile(transformers),
    }
    if dtype != jnp.bfloat16 or pair[0].shape[1] <= 256:
        # it counts positions in the dtype of q: in bfloat16 they are wrong from 256 on
        functions["rotary-embedding-torch"] = rotary_embedding_torch

    def forward(function):
        with torch.no_grad():
            return function(q, k)

    def backward(function, out):
        return torch.autograd.grad(function(q, k), (q, k), out)

    if gradients is None:
        return {name: partial(forward, function) for name, function in functions.items()}
    out = [_heads_first(x) for x in gradients]
    return {name: partial(backward, function, out) for name, function in functions.items()}


def _inputs(shape, dtype):
    """q and k, gradients for their rotations, positions, spectrum and tables."""
    q, k, d_q, d_k = (jax.random.normal(jax.random.key(i), shape, dtype) for i in range(4))
    positions, spectrum = jnp.arange(shape[1]), jrope.spectrum(shape[-1])
    return (q, k), (d_q, d_k), positions, spectrum, jrope.rotation_tables(positions, spectrum)


def _both(rotate):
    return lambda q, k, *rest: (rotate(q, *rest), rotate(k, *rest))


def _call(function, *arguments) -> Call:
    return lambda: jax.block_until_ready(function(*arguments))


def _heads_first(x):
    return as_torch(x).transpose(1, 2).contiguous()
