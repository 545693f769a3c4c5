"""Scores of trained models at one length: token accuracy, exact match and loss.

Exact match is teacher-forced, which for greedy decoding is the same thing: all answers right means that decoding would have
fed the model those very tokens.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from experiments.tasks import Task
from experiments.train import cross_entropy
from jrope import transformer
from jrope.encoding import Encoding
from jrope.transformer import TransformerConfig

TOKENS = 4096  # evaluated at once, so that memory does not grow with the length


class Scores(NamedTuple):
    """For each seed [S]: the share of answers predicted right, the share of sequences with every answer right, and the mean
    loss in nats per answer."""

    accuracy: jax.Array
    exact_match: jax.Array
    loss: jax.Array


@partial(jax.jit, static_argnames=("model", "task", "length", "sequences"))
def evaluate(
    seeds, params, encoding: Encoding, *, model: TransformerConfig, task: Task, length: int, sequences: int
) -> Scores:
    """Evaluates the parameters of each seed, under `encoding`, on fresh sequences of this length.

    The encoding is data: all scalings of a trained RoPE run through one compiled program.
    """
    graphdef = transformer.abstract(model)
    positions = jnp.arange(task.context(length))

    def one_sequence(params, key):
        tokens, mask = task.sample(key, 1, length)
        logits = transformer.apply(graphdef, params, tokens[:, :-1], positions, encoding=encoding)
        losses, answers = cross_entropy(logits, tokens, mask)
        right = (logits.argmax(-1) == tokens[:, 1:]) & answers
        count = answers.sum()
        return Scores(right.sum() / count, (right.sum() == count).astype(jnp.float32), losses.sum() / count)

    def one_seed(seed, params):
        keys = jax.random.split(jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), 2), length), sequences)
        batch = max(1, min(sequences, TOKENS // positions.size))
        scores = jax.lax.map(partial(one_sequence, params), keys, batch_size=batch)
        return jax.tree.map(jnp.mean, scores)

    return jax.vmap(one_seed)(seeds, params)
