"""Scores of trained models at one length: token accuracy, exact match and loss, and how they go along the sequence.

Exact match is teacher-forced, which for greedy decoding is the same thing: all answers right means that decoding would have
fed the model those very tokens.
"""

from collections.abc import Callable
from functools import partial, reduce
from operator import add
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.positions import Positions
from experiments.tasks import Task
from experiments.train import cross_entropy
from jrope import transformer
from jrope.encoding import Encoding
from jrope.transformer import TransformerConfig

TOGETHER = 4096  # tokens evaluated at once, over encodings and seeds: more of long sequences do not fit the caches
A_CALL = 2**17  # tokens of one call: about a second, after which the run may be stopped
PARTS = 16  # of a sequence's answers, by which the scores along it are kept


class Scores(NamedTuple):
    """Of each encoding and seed [E, S]: the share of answers predicted right, the share of sequences with every answer right,
    and the mean loss in nats per answer; and accuracy and loss in each of the parts of a sequence [E, S, parts]."""

    accuracy: np.ndarray
    exact_match: np.ndarray
    loss: np.ndarray
    accuracy_along: np.ndarray
    loss_along: np.ndarray


class Sums(NamedTuple):
    """Over sequences: right answers and losses at each place of the context [.., T], sequences all right [..], and where the
    answers are [.., T]."""

    right: jax.Array
    losses: jax.Array
    exact: jax.Array
    answers: jax.Array


def evaluate(
    seeds,
    params,
    encodings: list[Encoding],
    *,
    model: TransformerConfig,
    task: Task,
    positions: Positions,
    length: int,
    sequences: int,
    between: Callable[[], None] = lambda: None,
) -> Scores:
    """Evaluates the parameters of each seed, under each of the encodings, on fresh sequences of this length.

    The encodings are data, alike but for their arrays: all scalings of a trained RoPE run side by side in one compiled
    program. `between` is called between parts of the work, and may raise.
    """
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *encodings)
    tokens = len(encodings) * len(seeds) * task.context(length)
    count = min(sequences, max(1, A_CALL // tokens))
    options = {"model": model, "task": task, "positions": positions, "length": length, "count": count}
    calls = []
    for first in range(0, sequences, count):
        between()
        calls.append(jax.device_get(sums(seeds, params, stacked, first, sequences, encodings=len(encodings), **options)))
    right, losses, exact, answers = (part.astype(np.float64) for part in reduce(partial(jax.tree.map, add), calls))
    places = answers.reshape(-1, answers.shape[-1])[0] > 0  # the same in all sequences of one length
    parts = np.array_split(np.flatnonzero(places), min(PARTS, places.sum()))

    def along(values):
        return np.stack([values[..., part].sum(-1) / answers[..., part].sum(-1) for part in parts], -1)

    total = answers.sum(-1)
    return Scores(right.sum(-1) / total, exact / sequences, losses.sum(-1) / total, along(right), along(losses))


@partial(jax.jit, static_argnames=("encodings", "model", "task", "positions", "length", "count"))
def sums(seeds, params, stacked, first, sequences, *, encodings: int, model, task, positions, length, count) -> Sums:
    """Sums over `count` sequences from the one of index `first`, as far as there are so many."""
    graphdef = transformer.abstract(model)
    context = task.context(length)

    def one_sequence(params, key, encoding):
        tokens, mask = task.sample(key, 1, length)
        ids = positions.sample(jax.random.fold_in(key, 0), context)
        logits = transformer.apply(graphdef, params, tokens[:, :-1], ids, encoding=encoding)
        losses, answers = cross_entropy(logits, tokens, mask)
        right = (logits.argmax(-1) == tokens[:, 1:]) & answers
        return Sums(right[0], losses[0], right.sum() == answers.sum(), answers[0])

    def one_seed(encoding, seed, params):
        def of_index(index):
            key = jax.random.fold_in(jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), 2), length), index)
            own = one_sequence(params, key, encoding)
            return jax.tree.map(lambda x: jnp.where(index < sequences, x, 0).astype(jnp.float32), own)

        batch = at_once(count, encodings * len(seeds) * context)
        return jax.tree.map(lambda x: x.sum(0), jax.lax.map(of_index, first + jnp.arange(count), batch_size=batch))

    def one_encoding(encoding):
        batch = at_once(len(seeds), context)
        return jax.lax.map(lambda own: one_seed(encoding, *own), (seeds, params), batch_size=batch)

    indices = jnp.arange(encodings)  # to have something to map over where encodings have no arrays
    batch = at_once(encodings, len(seeds) * context)
    return jax.lax.map(lambda own: one_encoding(own[0]), (stacked, indices), batch_size=batch)


def at_once(count: int, tokens: int) -> int:
    """How many of `count` to evaluate at once, if each is of so many tokens."""
    return max(1, min(count, TOGETHER // tokens))
