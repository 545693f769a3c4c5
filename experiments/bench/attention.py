"""Causal attention over long sequences: blocks of keys against an array of all scores, and against PyTorch's fused one."""

from collections.abc import Iterator
from functools import partial

import jax
import jax.numpy as jnp

import jrope
from experiments.bench.peers import as_torch, nearly, peer
from experiments.bench.timing import Call, Case
from jrope.attention import attention

ALL_CORES = False
LENGTHS = [512, 2048, 8192]
HEADS, DIM = 4, 32
DENSEST = 4096  # beyond, the gradient of the dense form takes gigabytes


def cases() -> Iterator[Case]:
    for length in LENGTHS:
        yield Case(f"forward, {length} tokens", _forms(length, lambda form: form, gradient=False))
        yield Case(f"forward and backward, {length} tokens", _forms(length, _gradient, gradient=True))
        yield Case(f"forward with ALiBi, {length} tokens", _alibi(length))


def _inputs(length):
    return [jax.random.normal(jax.random.key(i), (1, length, HEADS, DIM)) for i in range(3)]


def dense(q, k, v, bias=None):
    at = jnp.arange(q.shape[1])
    return attention(q, k, v, bias=bias, visible=at[None, :] <= at[:, None])


def _gradient(form):
    return jax.grad(lambda q, k, v: form(q, k, v).sum(), (0, 1, 2))


def _forms(length: int, of, *, gradient: bool) -> dict[str, Call]:
    torch = peer("torch")
    inputs = _inputs(length)
    tensors = [as_torch(x).transpose(1, 2).contiguous().requires_grad_(gradient) for x in inputs]

    def fused():
        with torch.set_grad_enabled(gradient):
            out = torch.nn.functional.scaled_dot_product_attention(*tensors, is_causal=True)
            return torch.autograd.grad(out.sum(), tensors) if gradient else [out]

    blocked = jax.jit(of(partial(jrope.blocked_attention, start=0)))
    forms: dict[str, Call] = {
        "jrope, blocks": lambda: jax.block_until_ready(blocked(*inputs)),
        "torch, scaled_dot_product_attention": fused,
    }
    results = forms["jrope, blocks"]()
    for one, other in zip(results if gradient else [results], fused(), strict=True):
        nearly(one, other.transpose(1, 2).numpy(), 1e-4)
    if length <= DENSEST or not gradient:
        whole = jax.jit(of(dense))
        forms["jrope, dense"] = lambda: jax.block_until_ready(whole(*inputs))
    return forms


def _alibi(length: int) -> dict[str, Call]:
    inputs, positions = _inputs(length), jnp.arange(length)

    def bias(positions, rows, columns):
        return jrope.alibi(positions[rows], positions[columns], num_heads=HEADS)

    blocked = jax.jit(partial(jrope.blocked_attention, bias=bias, operands=positions, start=0))
    whole = jax.jit(lambda q, k, v: dense(q, k, v, jrope.alibi(positions, positions, num_heads=HEADS)))
    nearly(blocked(*inputs), whole(*inputs), 1e-4)
    return {
        "jrope, blocks": lambda: jax.block_until_ready(blocked(*inputs)),
        "jrope, dense": lambda: jax.block_until_ready(whole(*inputs)),
    }
