"""Tokens that follow a prompt: a prefill and one loop with a cache."""

import jax
import jax.numpy as jnp
from flax import nnx

from jrope.checks import renamed
from jrope.models.transformer import decode, empty_cache
from jrope.positions import from_mask

__all__ = ["generate", "greedy"]


def greedy(logits, key) -> jax.Array:
    """The likeliest token of logits [..., vocabulary]."""
    return logits.argmax(-1)


@renamed(real="token_mask")
def generate(
    graphdef: nnx.GraphDef,
    params: nnx.State,
    tokens,
    count: int,
    *,
    token_mask=None,
    encoding=None,
    choose=greedy,
    key=None,
) -> jax.Array:
    """The `count` tokens that follow each prompt, int32 [B, count]: a prefill and one loop; jit it.

        static = ("graphdef", "count", "choose")
        jax.jit(generate, static_argnames=static)(graphdef, params, tokens, count=100)

    Args:
      tokens: [B, T], the prompts.
      count: how many tokens to make, at least 1.
      token_mask: [B, T], false for padding, on either side of a prompt.
      encoding: used instead of the config's, as in `Transformer.decode`.
      choose: the next tokens [B] from logits [B, vocabulary] and a separate key: `greedy`, or
        for example `lambda logits, key: jax.random.categorical(key, logits / 0.8)`.
      key: of random choices; None where `choose` needs none.

    Raises:
      ValueError: if the prompt is empty, or count is below 1.
    """
    (batch, length), config = tokens.shape, nnx.merge(graphdef, params).config
    if count < 1 or length < 1:
        given = f"{length} tokens and {count}"
        raise ValueError(f"generate: needs a prompt and a count of at least 1, got {given}")
    token_mask = jnp.ones(tokens.shape, bool) if token_mask is None else token_mask
    positions, next_position = from_mask(token_mask), token_mask.sum(1)
    cache = empty_cache(config, batch, length + count - 1)
    options = {"encoding": encoding}
    logits, cache = decode(
        graphdef, params, tokens, positions, cache, token_mask=token_mask, **options
    )
    last = jnp.where(token_mask, jnp.arange(length), 0).max(1)
    keys = [None] * count if key is None else jax.random.split(key, count)
    first = choose(logits[jnp.arange(batch), last], keys[0]).astype(jnp.int32)

    def step(carry, key):
        token, position, cache = carry
        logits, cache = decode(
            graphdef, params, token[:, None], position[:, None], cache, **options
        )
        token = choose(logits[:, 0], key).astype(jnp.int32)
        return (token, position + 1, cache), token

    rest = None if key is None else keys[1:]
    _, others = jax.lax.scan(step, (first, next_position, cache), rest, length=count - 1)
    return jnp.concatenate([first[:, None], others.T], axis=1)
