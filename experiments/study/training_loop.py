"""Trains the seeds of a job to a given step, with reports, checkpoints and stops on the way."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.study.checkpoints import CheckpointManager
from experiments.study.files import append_rows, read_rows
from experiments.study.hooks import Hooks
from experiments.study.result import DirectoryError
from experiments.study.rows import expected_reports, is_checkpoint, report_row, report_steps
from experiments.training.job import TrainingJob
from experiments.training.train import (
    SeedShard,
    TrainState,
    init_state,
    merge_seeds,
    split_seeds,
    train_shards,
)

SECONDS_PER_CALL = 1.0


class Diverged(Exception):
    """The loss is not a number any more, since `step` or a little earlier."""

    def __init__(self, step: int):
        super().__init__(step)
        self.step = step


class ChunkSize:
    """Chooses the number of steps so that a call takes about one second. It changes no result."""

    def __init__(self):
        self.steps = 1

    @contextmanager
    def timed(self, steps: int) -> Iterator[None]:
        """Times a call of this many steps, and chooses for the next: at most ten times as many."""
        start = time.monotonic()
        yield
        fitting = int(steps * SECONDS_PER_CALL / max(time.monotonic() - start, 1e-9))
        self.steps = min(max(fitting, 1), 10 * self.steps)


def checkpoint_manager(
    job: TrainingJob, directory: Path, warn: Callable[[str], None]
) -> CheckpointManager:
    """The checkpoints of a job in its run's directory."""
    seeds = jnp.asarray(job.seeds, jnp.uint32)
    template = init_state.eval_shape(job.train, seeds)
    owner, is_scheduled = f"{job.config_sha256}/{job.index}", partial(is_checkpoint, job)
    return CheckpointManager(job.folder_in(directory), owner, template, is_scheduled, warn)


def final_params(job: TrainingJob, directory: Path, hooks: Hooks) -> Any:
    """The parameters at the end of a finished job, from its last checkpoint.

    Raises:
      DirectoryError: if the checkpoint cannot be trusted.
    """
    state = checkpoint_manager(job, directory, hooks.warn).load(job.train.steps)
    if state is None:
        lost = f"the last checkpoint of {job.label!r}, which others continue from"
        remedy = "remove that folder to train it again"
        raise DirectoryError(f"{job.folder_in(directory)}: {lost}, cannot be trusted; {remedy}")
    return state.params


class TrainingLoop:
    """The training of one job: it continues from the last checkpoint that can be trusted."""

    def __init__(
        self, job: TrainingJob, directory: Path, hooks: Hooks, first_state: Callable[[], TrainState]
    ):
        self.job, self.directory, self.hooks, self.first_state = job, directory, hooks, first_state
        self.metrics = job.folder_in(directory) / "metrics.jsonl"
        self.shards: list[SeedShard] = []
        self.step = 0

    @cached_property
    def data(self) -> Any:
        """What the job's task draws sequences from, on the device."""
        return jax.device_put(self.job.train.task.data())

    @cached_property
    def checkpoints(self) -> CheckpointManager:
        return checkpoint_manager(self.job, self.directory, self.hooks.warn)

    def params_at(self, target: int) -> Any:
        """The parameters of all seeds [S] after this many steps.

        Raises:
          Diverged: with all that was reported before saved.
          Stopped: with the state saved.
          DirectoryError: if there were checkpoints, and none can be trusted.
        """
        if not self.shards:
            state, self.step = self._restore(target)
            self.shards = split_seeds(jnp.asarray(self.job.seeds, jnp.uint32), state)
        every, chunk = self.job.report_every, ChunkSize()
        map_shards = map  # the first call in turn: otherwise each seed compiles the same program
        while self.step < target:
            self.hooks.raise_if_stopped()
            count = min(chunk.steps, every - self.step % every, target - self.step)
            with chunk.timed(count):
                self._train(count, map_shards)
            map_shards = self.hooks.cores.map if self.hooks.cores else map
        return merge_seeds([shard.state.params for shard in self.shards])

    def _train(self, count: int, map_shards: Callable):
        """Trains for this many steps, then reports and saves where that is due."""
        job = self.job
        self.shards, losses = train_shards(
            job.train, job.encoding, self.data, self.shards, count, map_shards=map_shards
        )
        self.step += count
        self.hooks.display.step(job.label, self.step, float(losses.mean()))
        if self.step % job.report_every == 0 or self.step == job.train.steps:
            rows = [
                report_row(job, seed, self.step, loss)
                for seed, loss in zip(job.seeds, losses, strict=True)
            ]
            append_rows(self.metrics, rows)
            self.shards = [shard._replace(state=shard.state.reported()) for shard in self.shards]
            if not np.isfinite(losses).all():
                self.checkpoints.remove_unscheduled()
                raise Diverged(self.step)
        if self.hooks.stop.is_set() or is_checkpoint(job, self.step):
            self.checkpoints.save(self.step, merge_seeds([shard.state for shard in self.shards]))

    def _restore(self, target: int) -> tuple[TrainState, int]:
        """The newest trusted state of at most `target` steps whose reports are complete; its step.

        Cuts the reports back to that step.
        """
        job = self.job
        reported = read_rows(self.metrics, partial(expected_reports, job))
        reports = len(reported) // len(job.seeds)
        next_report = next(islice(report_steps(job), reports, None), job.train.steps + 1)
        steps = [step for step in self.checkpoints.steps() if step <= target]
        for step in reversed(steps):
            if step >= next_report:
                reason = f"since metrics.jsonl next to it ends before step {next_report}"
                self.hooks.warn(f"{self.checkpoints.path(step)} is not used, {reason}.")
            elif (state := self.checkpoints.load(step)) is not None:
                break
        else:
            reached = min(reported[-1]["step"], target) if reported else 0
            was_saved = (is_checkpoint(job, r["step"]) for r in reported if r["step"] < reached)
            if steps or any(was_saved):
                lost = f"no checkpoint of {job.label!r} is left that can be trusted"
                remedy = "remove that folder to train it again"
                where = f"it had reached step {max(reached, *steps, 0)}"
                raise DirectoryError(f"{self.metrics.parent}: {lost}, though {where}; {remedy}")
            state, step = self.first_state(), 0
        read_rows(self.metrics, lambda rows: [row for row in rows if row["step"] <= step])
        return state, step
