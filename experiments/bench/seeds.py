"""Several seeds, and several encodings: one after another, or side by side as a study trains them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import jax.numpy as jnp

import jrope
from experiments import store, train
from experiments.bench.peers import nearly
from experiments.bench.timing import Call, Case
from experiments.positions import Consecutive
from experiments.tasks import Copy
from experiments.train import Trainer
from jrope.transformer import TransformerConfig

ALL_CORES = True
SHAPES = [(16, 8, 16), (32, 16, 32), (64, 16, 26), (128, 32, 64)]  # features, batch, tokens
SEEDS, STEPS, BASES = 5, 10, (10_000.0, 100_000.0)
TASK = Copy(symbols=96)


def cases() -> Iterator[Case]:
    for features, batch, context in SHAPES:
        config = TransformerConfig(TASK.vocabulary, features=features, layers=2, heads=max(1, features // 32))
        rates: dict = {"learning_rate": 1e-3, "warmup": 10, "weight_decay": 0.1}
        trainer = Trainer(TASK, config, Consecutive(), (context - 2) // 2, batch, 1000, **rates)
        about = f"{features} features, {batch} sequences of {context} tokens"
        yield Case(f"{STEPS} steps of {len(BASES)} encodings and {SEEDS} seeds, {about}", _forms(trainer))


def _forms(trainer: Trainer) -> dict[str, Call]:
    encodings = [jrope.Rope(base).at(head_dim=trainer.model.head_dim) for base in BASES]
    seeds = jnp.arange(SEEDS, dtype=jnp.uint32)
    cores, threads = ThreadPoolExecutor(store.cores()), ThreadPoolExecutor(len(encodings))

    def vmapped(seeds, state):
        return [(seeds, state)]

    def losses(divided):
        return train.advance_each(trainer, encodings[0], divided(seeds, train.start(trainer, seeds)), STEPS)[1]

    nearly(losses(vmapped), losses(train.apart), 1e-4)

    def runs(divided, side_by_side):
        """A call for each encoding, which trains all seeds, `divided` into parts that go `side_by_side`."""
        held = [divided(seeds, train.start(trainer, seeds)) for _ in encodings]

        def one(i):
            held[i], _ = train.advance_each(trainer, encodings[i], held[i], STEPS, side_by_side=side_by_side)

        return [partial(one, i) for i in range(len(encodings))]

    ours, alone = runs(train.apart, cores.map), runs(train.apart, map)
    together = runs(vmapped, map)
    return {
        "as a study runs": lambda: list(threads.map(lambda one: one(), ours)),
        "an encoding after another": lambda: [one() for one in ours],
        "an encoding after another, seeds vmapped": lambda: [one() for one in together],
        "an encoding and a seed after another": lambda: [one() for one in alone],
    }
