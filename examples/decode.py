"""Decoding with a cache: prompts of different lengths in one batch, continued in one program.

The shorter prompt is padded on the left. Its positions come from the mask, so it is continued as if
it were the only one. Reading the cache takes less time than a full pass over the sequence.

    python examples/decode.py
"""

import time

import jax
import jax.numpy as jnp

import jrope
from jrope import transformer
from jrope.generation import generate
from jrope.transformer import TransformerConfig

COUNT = 64
CONFIG = TransformerConfig(vocabulary=32, encoding=jrope.Rope(), features=64)


@jax.jit
def next_token(params, tokens, length):
    """The token after the first `length`, by a full pass."""
    logits = CONFIG.apply(params, tokens, jnp.arange(tokens.shape[1]))
    return logits[:, length - 1].argmax(-1)


def main():
    params = jax.jit(CONFIG.init)(jax.random.key(0))  # untrained: the tokens mean nothing
    graphdef = transformer.abstract(CONFIG)
    program = jax.jit(generate, static_argnames=("graphdef", "count"))

    prompts = jnp.array([[0, 0, 0, 7, 2, 9], [3, 1, 4, 1, 5, 9]])
    mask = jnp.array([[False] * 3 + [True] * 3, [True] * 6])
    batch = program(graphdef, params, prompts, count=COUNT, token_mask=mask)
    alone = program(graphdef, params, prompts[:1, 3:], count=COUNT)
    print("continuation of 7 2 9:", *batch[0, :12], "...")
    print("the same without padding:", bool((batch[0] == alone[0]).all()))

    tokens = jnp.zeros((1, 3 + COUNT), int).at[:, :3].set(prompts[:1, 3:])
    for _ in range(2):  # the first time compiles
        began = time.perf_counter()
        full = tokens
        for length in range(3, 3 + COUNT):
            full = full.at[:, length].set(next_token(params, full, length))
        full.block_until_ready()
        middle = time.perf_counter()
        program(graphdef, params, prompts[:1, 3:], count=COUNT).block_until_ready()
        ratio = (middle - began) / (time.perf_counter() - middle)
    print("the same by full passes:", bool((full[0, 3:] == alone[0]).all()))
    print(f"full passes take {ratio:.0f} times as long")


if __name__ == "__main__":
    main()
