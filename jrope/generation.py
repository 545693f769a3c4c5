"""Tokens that follow a prompt: a prefill and one loop with a cache."""

import jax
import jax.numpy as jnp
from flax import nnx

from jrope.positions import from_mask
from jrope.transformer import decode, empty_cache


def greedy(logits, key) -> jax.Array:
    """The likeliest token of logits [..., vocabulary]."""
    return logits.argmax(-1)


def generate(
    graphdef: nnx.GraphDef, params: nnx.State, tokens, count: int, *, real=None, encoding=None, choose=greedy, key=None
) -> jax.Array:
    """The `count` tokens that follow a prompt, int32 [B, count]: a prefill and one loop with a cache, all of it to be jitted.

        jax.jit(generate, static_argnames=("graphdef", "count", "choose"))(graphdef, params, tokens, count=100)

    Args:
      tokens: [B, T], the prompts.
      count: how many tokens to make, at least 1.
      real: [B, T], false for padding, on either side of a prompt.
      encoding: used in place of the config's, as in `Transformer.decode`.
      choose: the next tokens [B] from logits [B, vocabulary] and a key of their own: `greedy`, or such as
        `lambda logits, key: jax.random.categorical(key, logits / 0.8)`.
      key: of random choices; None where `choose` needs none.

    Raises:
      ValueError: if nothing is to be made, or from nothing.
    """
    (batch, length), config = tokens.shape, nnx.merge(graphdef, params).config
    if count < 1 or length < 1:
        raise ValueError(f"generate: needs a prompt and a count of at least 1, got {length} tokens and {count}")
    real = jnp.ones(tokens.shape, bool) if real is None else real
    positions, following = from_mask(real), real.sum(1)
    cache = empty_cache(config, batch, length + count - 1)
    logits, cache = decode(graphdef, params, tokens, positions, cache, real=real, encoding=encoding)
    last = jnp.where(real, jnp.arange(length), 0).max(1)
    keys = [None] * count if key is None else jax.random.split(key, count)
    first = choose(logits[jnp.arange(batch), last], keys[0]).astype(jnp.int32)

    def step(carry, key):
        token, position, cache = carry
        logits, cache = decode(graphdef, params, token[:, None], position[:, None], cache, encoding=encoding)
        token = choose(logits[:, 0], key).astype(jnp.int32)
        return (token, position + 1, cache), token

    rest = None if key is None else keys[1:]
    _, others = jax.lax.scan(step, (first, following, cache), rest, length=count - 1)
    return jnp.concatenate([first[:, None], others.T], axis=1)
