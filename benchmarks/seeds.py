"""Several seeds and encodings: one after another, or side by side as a study trains them."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

import jrope
from benchmarks.models import train_config
from benchmarks.peers import check_close
from benchmarks.timing import Call, Case
from experiments.study.directory import cores
from experiments.training.train import (
    SeedShard,
    TrainConfig,
    init_state,
    split_seeds,
    train_shards,
)

ALL_CORES = True
SHAPES = [(16, 8, 16), (32, 16, 32), (64, 16, 26), (128, 32, 64)]  # features, batch, tokens
SEEDS, STEPS, BASES = 5, 10, (10_000.0, 100_000.0)


def cases(shapes: Sequence[tuple[int, int, int]] = SHAPES) -> Iterator[Case]:
    for features, batch, context in shapes:
        about = f"{features} features, {batch} sequences of {context} tokens"
        name = f"{STEPS} steps of {len(BASES)} encodings and {SEEDS} seeds, {about}"
        yield Case(name, _forms(train_config(features, batch, context)))


def _forms(config: TrainConfig) -> dict[str, Call]:
    head_dim = config.model.sizes["head_dim"]
    encodings = [jrope.Rope(base).bind(head_dim=head_dim) for base in BASES]
    seeds = np.arange(SEEDS, dtype=np.uint32)
    workers, threads = ThreadPoolExecutor(cores()), ThreadPoolExecutor(len(encodings))

    def one_program(seeds, state):
        return [SeedShard(seeds, state)]

    def runs(split: Callable, map_shards: Callable) -> list[Call]:
        """For each encoding a call that trains all seeds and returns their losses."""
        shards = [split(seeds, init_state(config, seeds)) for _ in encodings]

        def run(i):
            shards[i], losses = train_shards(
                config, encodings[i], (), shards[i], STEPS, map_shards=map_shards
            )
            return losses

        return [partial(run, i) for i in range(len(encodings))]

    check_close(runs(one_program, map)[0](), runs(split_seeds, map)[0](), 1e-4)
    busy = runs(split_seeds, workers.map)
    vmapped, separate = runs(one_program, map), runs(split_seeds, map)
    return {
        "as a study runs": lambda: list(threads.map(lambda run: run(), busy)),
        "an encoding after another": lambda: [run() for run in busy],
        "an encoding after another, seeds vmapped": lambda: [run() for run in vmapped],
        "an encoding and a seed after another": lambda: [run() for run in separate],
    }
