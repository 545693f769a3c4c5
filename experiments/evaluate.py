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

from experiments import compilation
from experiments.positions import Positions
from experiments.tasks import Task
from experiments.train import cross_entropy
from jrope import transformer
from jrope.encoding import Encoding
from jrope.transformer import TransformerConfig

TOGETHER = 4096  # tokens evaluated at once, over encodings and seeds: more of long sequences do not fit the caches
A_CALL = 2**16  # tokens of one call: half a second for each encoding, after which the run may be stopped
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
    count = of_a_call(sequences, len(seeds) * task.context(length))
    calls = []
    for first in range(0, sequences, count):
        between()
        drawn = draw(seeds, first, task=task, positions=positions, length=length, count=count)
        used = first + np.arange(count) < sequences
        calls.append(jax.device_get(sums(params, stacked, drawn, used, encodings=len(encodings), model=model)))
    right, losses, exact, answers = (part.astype(np.float64) for part in reduce(partial(jax.tree.map, add), calls))
    places = answers.reshape(-1, answers.shape[-1])[0] > 0  # the same in all sequences of one length
    parts = np.array_split(np.flatnonzero(places), min(PARTS, places.sum()))

    def along(values):
        return np.stack([values[..., part].sum(-1) / answers[..., part].sum(-1) for part in parts], -1)

    total = answers.sum(-1)
    return Scores(right.sum(-1) / total, exact / sequences, losses.sum(-1) / total, along(right), along(losses))


class Drawn(NamedTuple):
    """Sequences of each seed: tokens and whether they are answers [S, C, T+1], and position ids [S, C, T]."""

    tokens: jax.Array
    mask: jax.Array
    ids: jax.Array


@partial(jax.jit, static_argnames=("task", "positions", "length", "count"), compiler_options=compilation.QUICKLY)
def draw(seeds, first, *, task, positions, length, count) -> Drawn:
    """`count` sequences of each seed, from that of index `first`: a program of its own, which all encodings share."""

    def one(seed, index):
        key = jax.random.fold_in(jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), 2), length), index)
        tokens, mask = task.sample(key, 1, length)
        return Drawn(tokens[0], mask[0], positions.sample(jax.random.fold_in(key, 0), task.context(length)))

    def of_index(index):
        return jax.vmap(one, (0, None))(seeds, index)

    batch = at_once(count, len(seeds) * task.context(length))
    drawn = jax.lax.map(of_index, first + jnp.arange(count), batch_size=batch)
    return jax.tree.map(lambda x: x.swapaxes(0, 1), drawn)


@partial(jax.jit, static_argnames=("encodings", "model"))
def sums(params, stacked, drawn: Drawn, used, *, encodings: int, model) -> Sums:
    """Sums over those of the sequences of each seed that are used [C]."""
    graphdef = transformer.abstract(model)
    seeds, count, context = drawn.ids.shape

    def one_sequence(params, encoding, own, used):
        tokens, mask, ids = own
        logits = transformer.apply(graphdef, params, tokens[None, :-1], ids, encoding=encoding)
        losses, answers = cross_entropy(logits, tokens[None], mask[None])
        right = (logits.argmax(-1) == tokens[None, 1:]) & answers
        found = Sums(right[0], losses[0], right.sum() == answers.sum(), answers[0])
        return jax.tree.map(lambda x: jnp.where(used, x, 0).astype(jnp.float32), found)

    def one_seed(encoding, params, drawn):
        batch = at_once(count, encodings * seeds * context)
        each = jax.lax.map(lambda own: one_sequence(params, encoding, *own), (drawn, used), batch_size=batch)
        return jax.tree.map(lambda x: x.sum(0), each)

    def one_encoding(encoding):
        batch = at_once(seeds, context)
        return jax.lax.map(lambda own: one_seed(encoding, *own), (params, drawn), batch_size=batch)

    indices = jnp.arange(encodings)  # to have something to map over where encodings have no arrays
    batch = at_once(encodings, seeds * context)
    return jax.lax.map(lambda own: one_encoding(own[0]), (stacked, indices), batch_size=batch)


def at_once(count: int, tokens: int) -> int:
    """How many of `count` to evaluate at once, if each is of so many tokens: without a rest, which would be compiled anew."""
    return next(n for n in range(max(1, min(count, TOGETHER // tokens)), 0, -1) if count % n == 0)


def of_a_call(sequences: int, tokens: int) -> int:
    """How many sequences, each of so many tokens, go into a call: about as many in each, and a multiple of a power of two, so
    that there is one to go `at_once` with any number of encodings."""
    together = 1 << (max(1, min(sequences, TOGETHER // tokens, A_CALL // tokens)).bit_length() - 1)
    calls = -(-sequences // (together * max(1, A_CALL // (tokens * together))))
    return -(-sequences // (calls * together)) * together
