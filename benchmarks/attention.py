"""Causal attention over long sequences: blocks of keys, one array of scores, PyTorch's kernel."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import jax
import jax.numpy as jnp

import jrope
from benchmarks.peers import as_torch, check_close, forms_of_peers, peer
from benchmarks.timing import Call, Case
from jrope.attention import attention

ALL_CORES = False
LENGTHS = [512, 2048, 8192]
HEADS, HEAD_DIM = 4, 32
MAX_DENSE_GRADIENT = 4096  # tokens; beyond it, the gradient of the dense form takes gigabytes

blocked = partial(jrope.blocked_attention, start=0)


def dense(q, k, v, bias=None):
    positions = jnp.arange(q.shape[1])
    return attention(q, k, v, bias=bias, mask=positions[None, :] <= positions[:, None])


def cases(lengths: Sequence[int] = LENGTHS) -> Iterator[Case]:
    for length in lengths:
        yield Case(f"forward, {length} tokens", _forms(length, gradient=False))
        yield Case(f"forward and backward, {length} tokens", _forms(length, gradient=True))
        yield Case(f"forward with ALiBi, {length} tokens", _with_alibi(length))


def inputs(length: int) -> list[jax.Array]:
    """q, k and v [1, T, N, H]."""
    shape = (1, length, HEADS, HEAD_DIM)
    return [jax.random.normal(jax.random.key(i), shape) for i in range(3)]


def call(function: Callable, *arguments) -> Call:
    compiled = jax.jit(function)
    return lambda: jax.block_until_ready(compiled(*arguments))


def _forms(length: int, *, gradient: bool) -> dict[str, Call]:
    qkv = inputs(length)

    def form(function):
        summed = jax.grad(lambda q, k, v: function(q, k, v).sum(), (0, 1, 2))
        return call(summed if gradient else function, *qkv)

    forms: dict[str, Call] = {"jrope, blocks": form(blocked)}
    peers = forms_of_peers(_torch, qkv, gradient)
    for theirs in peers.values():
        ours = forms["jrope, blocks"]()
        for one, other in zip(ours if gradient else [ours], theirs(), strict=True):
            check_close(one, other.transpose(1, 2).numpy(), 1e-4)
    forms |= peers
    if length <= MAX_DENSE_GRADIENT or not gradient:
        forms["jrope, dense"] = form(dense)
    return forms


def _torch(qkv: Sequence[jax.Array], gradient: bool) -> dict[str, Call]:
    torch = peer("torch")
    attend = partial(torch.nn.functional.scaled_dot_product_attention, is_causal=True)
    heads_first = (as_torch(x).transpose(1, 2).contiguous() for x in qkv)
    tensors = [x.requires_grad_(gradient) for x in heads_first]

    def fused():
        with torch.set_grad_enabled(gradient):
            out = attend(*tensors)
            return torch.autograd.grad(out.sum(), tensors) if gradient else [out]

    return {"torch, scaled_dot_product_attention": fused}


def _with_alibi(length: int) -> dict[str, Call]:
    qkv, positions = inputs(length), jnp.arange(length)

    def bias(positions, rows, columns):
        return jrope.alibi(positions[rows], positions[columns], num_heads=HEADS)

    def whole(q, k, v):
        return dense(q, k, v, jrope.alibi(positions, positions, num_heads=HEADS))

    forms = {
        "jrope, blocks": call(partial(blocked, bias=bias, operands=positions), *qkv),
        "jrope, dense": call(whole, *qkv),
    }
    check_close(forms["jrope, blocks"](), forms["jrope, dense"](), 1e-4)
    return forms
