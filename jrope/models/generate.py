"""Tokens that follow a prompt: a prefill and one loop with a cache."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from jrope import arguments
from jrope.checks import host, is_concrete, renamed
from jrope.models.cache import empty_cache
from jrope.models.transformer import decode
from jrope.positions import from_mask

__all__ = ["generate", "greedy"]


def greedy(logits, key) -> jax.Array:
    """The likeliest token of logits [..., vocabulary]."""
    return logits.argmax(-1)


@renamed(real="token_mask")
@arguments.checked(tokens="integers [B, T]", token_mask="mask [B, T]", params="any", key="key")
def generate(
    graphdef: nnx.GraphDef,
    params: nnx.State,
    tokens,
    count: int,
    *,
    token_mask=None,
    encoding=None,
    choose: Callable = greedy,
    key=None,
) -> jax.Array:
    """The `count` tokens that follow each prompt, int32 [B, count]: a prefill and one loop; jit it.

    Where the logits of a row are NaN, no token follows: inside jit it and all after it are -1.

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
      ValueError: if the prompt is empty, count is below 1, or the sequence is known to end after
        the last position that the encoding has; outside jit, if logits are NaN.
    """
    (batch, length), config = tokens.shape, nnx.merge(graphdef, params).config
    if count < 1 or length < 1:
        given = f"{length} tokens and {count}"
        raise ValueError(f"generate: needs a prompt and a count of at least 1, got {given}")
    _check_limit(encoding or config.encoding, length if token_mask is None else token_mask, count)
    token_mask = jnp.ones(tokens.shape, bool) if token_mask is None else token_mask != 0
    positions, next_position = from_mask(token_mask), token_mask.sum(1)
    cache = empty_cache(config, batch, length + count - 1)
    options = {"encoding": encoding}
    logits, cache = decode(
        graphdef, params, tokens, positions, cache, token_mask=token_mask, **options
    )
    last = jnp.where(token_mask, jnp.arange(length), 0).max(1)
    keys = [None] * count if key is None else jax.random.split(key, count)

    def next_token(logits, key, is_over):
        is_over |= jnp.isnan(logits).any(-1)
        return jnp.where(is_over, -1, choose(logits, key).astype(jnp.int32)), is_over

    first = next_token(logits[jnp.arange(batch), last], keys[0], jnp.zeros(batch, bool))

    def step(carry, key):
        (token, is_over), position, cache = carry
        token = jnp.maximum(token, 0)[:, None]
        logits, cache = decode(graphdef, params, token, position[:, None], cache, **options)
        chosen = next_token(logits[:, 0], key, is_over)
        return (chosen, position + 1, cache), chosen[0]

    rest = None if key is None else keys[1:]
    _, others = jax.lax.scan(step, (first, next_position, cache), rest, length=count - 1)
    made = jnp.concatenate([first[0][:, None], others.T], axis=1)
    if is_concrete(made) and (made == -1).any():
        row, column = np.argwhere(made == -1)[0]
        raise ValueError(f"generate: the logits of token {column} of row {row} are NaN")
    return made


def _check_limit(encoding, prompt, count: int):
    """Raises ValueError if a prompt, of a length or a mask [B, T], is known to be too long."""
    if not is_concrete(prompt):
        return
    length = prompt if isinstance(prompt, int) else int((host(prompt) != 0).sum(1).max())
    limit, needed = encoding.position_limit, length + count - 1  # nothing follows the last token
    if limit is not None and needed > limit:
        given = f"a prompt of {length} tokens and {count} more need {needed}"
        raise ValueError(f"generate: {encoding} has {limit} positions, but {given}")
