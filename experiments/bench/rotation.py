"""Rotating queries and keys, against multiplying them by a constant (the same traffic), and against other packages."""

from collections.abc import Iterator
from functools import partial

import jax
import jax.numpy as jnp

import jrope
from experiments.bench.peers import as_torch, nearly, peer
from experiments.bench.timing import Call, Case

ALL_CORES = False
SHAPES = [(64, 64, 4, 32), (8, 2048, 16, 64), (1, 8192, 32, 128)]  # [B, T, N, H]
LIMIT = "q * 1.5, k * 1.5"


def cases() -> Iterator[Case]:
    """Those of angles, and of each shape, the first of whose forms is the limit."""
    yield Case("cosines and sines of 8192 positions and 64 frequencies", _angles())
    for shape in SHAPES:
        for dtype in (jnp.float32, jnp.bfloat16):
            about = f"{list(shape)} {jnp.dtype(dtype).name}"
            yield Case(f"forward, {about}", _forward(shape, dtype))
            if dtype is jnp.float32:
                yield Case(f"forward and backward, {about}", _backward(shape, dtype))


def _angles() -> dict[str, Call]:
    """Exact angles against the float32 product, at positions where both are right."""
    positions, spectrum = jnp.arange(8192), jrope.spectrum(128)

    @jax.jit
    def product(positions, spectrum):
        angles = positions[:, None] * spectrum.frequencies.astype(jnp.float32)
        return jnp.cos(angles), jnp.sin(angles)

    exact = jax.jit(jrope.rotation_tables)
    for one, other in zip(exact(positions, spectrum), product(positions, spectrum), strict=True):
        nearly(one, other, 1e-3)
    return {"float32 product": _call(product, positions, spectrum), "jrope, exact": _call(exact, positions, spectrum)}


def _inputs(shape, dtype):
    q, k, d_q, d_k = (jax.random.normal(jax.random.key(i), shape, dtype) for i in range(4))
    positions, spectrum = jnp.arange(shape[1]), jrope.spectrum(shape[-1])
    return (q, k), (d_q, d_k), positions, spectrum, jrope.rotation_tables(positions, spectrum)


def _both(rotate):
    return lambda q, k, *rest: (rotate(q, *rest), rotate(k, *rest))


def _call(function, *arguments) -> Call:
    return lambda: jax.block_until_ready(function(*arguments))


def _forward(shape, dtype) -> dict[str, Call]:
    pair, _, positions, spectrum, tables = _inputs(shape, dtype)
    forms: dict[str, Call] = {LIMIT: _call(jax.jit(_both(lambda x: x * dtype(1.5))), *pair)}
    for layout in ("half", "interleaved"):
        given = jax.jit(_both(partial(jrope.apply_rotary, layout=layout)))
        plain = jax.jit(_both(partial(jrope.rotate, layout=layout)))
        forms[f"jrope, {layout}, tables given"] = _call(given, *pair, *tables)
        forms[f"jrope, {layout}, plain call"] = _call(plain, *pair, positions, spectrum)
    tolerance = 2e-2 if dtype is jnp.bfloat16 else 1e-5
    for name, call in _peers(pair, tables).items():
        layout = "interleaved" if name.startswith("rotary-embedding-torch") else "half"
        for one, other in zip(forms[f"jrope, {layout}, tables given"](), call(), strict=True):
            # theirs has the heads first, and its angles are float32 products
            nearly(one, other.float().transpose(1, 2).numpy(), tolerance + 1e-7 * shape[1])
        forms[name] = call
    return forms


def _backward(shape, dtype) -> dict[str, Call]:
    pair, out, _, _, tables = _inputs(shape, dtype)

    def gradient(rotate):
        def both(pair, out, *rest):
            result, pull = jax.vjp(lambda pair: tuple(rotate(x, *rest) for x in pair), pair)
            return result, pull(out)

        return jax.jit(both)

    forms: dict[str, Call] = {LIMIT: _call(gradient(lambda x: x * dtype(1.5)), pair, out)}
    for layout in ("half", "interleaved"):
        given = gradient(partial(jrope.apply_rotary, layout=layout))
        forms[f"jrope, {layout}, tables given"] = _call(given, pair, out, *tables)
    return forms | _peers(pair, tables, out)


def _peers(pair, tables, out=None) -> dict[str, Call]:
    """Other packages, forward, or with `out` forward and backward from those gradients."""
    torch = peer("torch")
    torch._dynamo.reset()  # which else counts the cases as recompilations, and compiles no more after eight
    llama = peer("transformers.models.llama.modeling_llama")
    package = peer("rotary_embedding_torch")
    q, k = (as_torch(x).transpose(1, 2).contiguous().requires_grad_(out is not None) for x in pair)
    cos, sin = (as_torch(jnp.concatenate([table, table], -1).astype(pair[0].dtype))[None] for table in tables)
    turning = package.RotaryEmbedding(dim=q.shape[-1], cache_if_possible=True)

    def separate(q, k):
        return turning.rotate_queries_or_keys(q), turning.rotate_queries_or_keys(k)

    def transformers(rotate):
        return lambda q, k: rotate(q, k, cos, sin)

    forms = {
        "transformers": transformers(llama.apply_rotary_pos_emb),
        "transformers, torch.compile": torch.compile(transformers(llama.apply_rotary_pos_emb)),
    }
    if pair[0].dtype != jnp.bfloat16 or pair[0].shape[1] <= 256:
        # it counts positions in the dtype of q, and from 256 on bfloat16 cannot: results that are wrong are not timed
        forms["rotary-embedding-torch"] = separate
    if out is None:
        return {name: _without_gradient(torch, form, q, k) for name, form in forms.items()}
    d_out = [as_torch(x).transpose(1, 2).contiguous() for x in out]
    return {name: lambda form=form: torch.autograd.grad(form(q, k), (q, k), d_out) for name, form in forms.items()}


def _without_gradient(torch, form, q, k) -> Call:
    def call():
        with torch.no_grad():
            return form(q, k)

    return call
