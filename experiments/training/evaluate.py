"""Evaluation: the scores of trained parameters on fresh sequences of one length."""

from collections.abc import Callable, Sequence
from functools import partial, reduce
from operator import add
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.tasks import Positions, Scores, Task
from experiments.training.compilation import UNOPTIMISED
from experiments.training.model import Model
from experiments.training.train import cross_entropy
from jrope import Encoding

TOKENS_PER_BATCH = 4096  # over encodings and seeds; larger batches do not fit the CPU's caches
TOKENS_PER_CALL = 2**16  # of one encoding: half a second, then the run may be stopped


def evaluate(
    seeds: jax.Array,
    params: Any,
    encodings: Sequence[Encoding],
    *,
    model: Model,
    task: Task,
    positions: Positions,
    length: int,
    sequences: int,
    data: Any = (),
    between: Callable[[], None] = lambda: None,
) -> list[list[Scores]]:
    """The scores of each encoding, with the parameters of each seed.

    Each seed draws other sequences, and all encodings see the same ones.

    Args:
      seeds: [S].
      params: with a leading axis [S].
      encodings: the same but for their arrays, such as all scalings of one RoPE: they share one
        compiled program.
      length: of every sequence, in the task's own measure.
      sequences: how many, for each seed.
      data: what `task.data()` returns, on the device.
      between: is called between parts of the work, and may raise.

    Returns:
      `Scores` by encoding, then by seed.
    """
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *encodings)
    count = sequences_per_call(sequences, len(seeds) * task.context(length))
    calls = []
    for first in range(0, sequences, count):
        between()
        drawn = draw_sequences(
            seeds, first, data, task=task, positions=positions, length=length, count=count
        )
        used = first + np.arange(count) < sequences
        sums = sum_scores(params, stacked, drawn, used, encodings=len(encodings), model=model)
        calls.append(jax.device_get(sums))
    totals = reduce(partial(jax.tree.map, add), calls)
    return [
        [_scores(totals, (e, s), sequences) for s in range(len(seeds))]
        for e in range(len(encodings))
    ]


class Sums(NamedTuple):
    """Over sequences, at each of the T tokens of the context."""

    right: jax.Array  # [..., T]
    losses: jax.Array  # [..., T]
    answers: jax.Array  # [..., T]
    exact: jax.Array  # [...] sequences with all answers right


def _scores(totals: Sums, index: tuple[int, int], sequences: int) -> Scores:
    """The scores of one encoding and seed, at the places that have answers."""
    right, losses, answers, exact = (np.asarray(total[index], np.float64) for total in totals)
    places = answers > 0
    return Scores(right[places], losses[places], answers[places], float(exact), sequences)


class Sequences(NamedTuple):
    """C sequences of each seed."""

    tokens: jax.Array  # [S, C, T + 1]
    mask: jax.Array  # [S, C, T + 1], true for answers
    positions: jax.Array  # [S, C, T]


# its own program, since all encodings share the sequences
@partial(
    jax.jit,
    static_argnames=("task", "positions", "length", "count"),
    compiler_options=UNOPTIMISED,
)
def draw_sequences(
    seeds: jax.Array,
    first: int | jax.Array,
    data: Any,
    *,
    task: Task,
    positions: Positions,
    length: int,
    count: int,
) -> Sequences:
    """`count` sequences of each seed, from the one with index `first`."""

    def draw(seed, index):
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), 2), length)
        key = jax.random.fold_in(key, index)
        tokens, mask = task.sample(key, 1, length, data=data)
        ids = positions.sample(jax.random.fold_in(key, 0), task.context(length))
        return Sequences(tokens[0], mask[0], ids)

    def draw_for_seeds(index):
        return jax.vmap(draw, (0, None))(seeds, index)

    batch = batch_size(count, len(seeds) * task.context(length))
    drawn = jax.lax.map(draw_for_seeds, first + jnp.arange(count), batch_size=batch)
    return jax.tree.map(lambda x: x.swapaxes(0, 1), drawn)


@partial(jax.jit, static_argnames=("encodings", "model"))
def sum_scores(
    params: Any,
    stacked: Encoding,
    drawn: Sequences,
    used: jax.Array | np.ndarray,
    *,
    encodings: int,
    model: Model,
) -> Sums:
    """Sums over those of the C sequences that are used [C], for each encoding and seed [E, S, ...].

    `stacked` is all encodings in one, with a leading axis [E] in every array.
    """
    seeds, count, context = drawn.positions.shape

    def one_sequence(params, encoding, sequence, used):
        tokens, mask, ids = sequence
        logits = model.apply(params, tokens[None, :-1], ids, encoding=encoding)
        losses, answers = cross_entropy(logits, tokens[None], mask[None])
        right = (logits.argmax(-1) == tokens[None, 1:]) & answers
        sums = Sums(right[0], losses[0], answers[0], right.sum() == answers.sum())
        return jax.tree.map(lambda x: jnp.where(used, x, 0).astype(jnp.float32), sums)

    def one_seed(encoding, params, drawn):
        batch = batch_size(count, encodings * seeds * context)
        each = jax.lax.map(
            lambda own: one_sequence(params, encoding, *own), (drawn, used), batch_size=batch
        )
        return jax.tree.map(lambda x: x.sum(0), each)

    def one_encoding(encoding):
        batch = batch_size(seeds, context)
        return jax.lax.map(lambda own: one_seed(encoding, *own), (params, drawn), batch_size=batch)

    batch = batch_size(encodings, seeds * context)
    indices = jnp.arange(encodings)  # something to map over where encodings have no arrays
    return jax.lax.map(lambda own: one_encoding(own[0]), (stacked, indices), batch_size=batch)


def batch_size(count: int, tokens: int) -> int:
    """How many of `count` items of this many tokens to evaluate together.

    It divides `count`: a smaller last batch would be compiled separately.
    """
    most = max(1, min(count, TOKENS_PER_BATCH // tokens))
    return next(n for n in range(most, 0, -1) if count % n == 0)


def sequences_per_call(sequences: int, tokens: int) -> int:
    """How many sequences of this many tokens to evaluate in a call: about the same in each.

    It is a multiple of a power of two, so that `batch_size` is near its limit for any number of
    encodings.
    """
    most = max(1, min(sequences, TOKENS_PER_BATCH // tokens, TOKENS_PER_CALL // tokens))
    power = 1 << (most.bit_length() - 1)
    calls = -(-sequences // (power * max(1, TOKENS_PER_CALL // (tokens * power))))
    return -(-sequences // (calls * power)) * power
