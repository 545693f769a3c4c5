"""Does one job: trains and evaluates it, and continues from what its folder holds."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.study.files import append_rows, as_disk_error, read_lines, read_rows
from experiments.study.hooks import Hooks
from experiments.study.result import Row
from experiments.study.rows import (
    blank_rows,
    expected_results,
    rows_per_evaluation,
    seeds_fitted,
    with_scores,
)
from experiments.study.training_loop import Diverged, TrainingLoop, final_params
from experiments.text import plain
from experiments.training.evaluate import evaluate
from experiments.training.job import EvaluatedEncoding, Evaluation, TrainingJob
from experiments.training.train import TrainState, init_state, init_state_from


class OutOfMemory(Exception):
    """More memory was needed than there is, and by what."""


@contextmanager
def as_memory_error(what: str) -> Iterator[None]:
    """Turns the allocation errors of JAX and Python into OutOfMemory."""
    try:
        yield
    except MemoryError:
        raise OutOfMemory(f"{what}: out of memory") from None
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise OutOfMemory(f"{what}: {str(error).splitlines()[0].rstrip('.')}") from None


def run_job(
    job: TrainingJob,
    directory: Path,
    hooks: Hooks | None = None,
    parent: TrainingJob | None = None,
) -> list[Row]:
    """Trains and evaluates as far as that is not done yet; returns the rows of results.

    Reads and writes only its own folder in the run's `encodings/`, and reads that of its parent.

    Args:
      directory: of the run.
      parent: the finished job whose final parameters this one starts from.

    Raises:
      Stopped: with everything saved.
      DiskError, OutOfMemory: what was saved before stays whole.
      DirectoryError: if there were checkpoints, and none can be trusted.
      ValueError: if this is not the parent that the job names.
    """
    given = (parent.label, parent.seeds) if parent else (None, job.seeds)
    if given != (job.parent, job.seeds):
        wanted = f"{job.label!r} starts from {job.parent!r} with seeds {job.seeds}"
        raise ValueError(f"{wanted}, got {given[0]!r} with seeds {given[1]}")
    with as_memory_error(f"encodings.{plain(job.label)}"):
        return _run_job(job, directory, hooks or Hooks(), parent)


def _run_job(
    job: TrainingJob, directory: Path, hooks: Hooks, parent: TrainingJob | None
) -> list[Row]:
    folder = job.folder_in(directory)
    with as_disk_error(folder):
        folder.mkdir(exist_ok=True)  # not its parents: a vanished run is not made again
    rows: list[Any] = read_rows(folder / "results.jsonl", partial(expected_results, job))
    trained = _rows_of(parent, directory) if parent else rows

    def first_state() -> TrainState:
        if parent is None:
            return init_state(job.train, jnp.asarray(job.seeds, jnp.uint32))
        if diverged := [row["diverged"] for row in trained if "diverged" in row]:
            raise Diverged(min(diverged))
        return init_state_from(job.train, final_params(parent, directory, hooks))

    def remaining() -> tuple[Evaluation, ...]:
        return job.evaluations[len(rows) // rows_per_evaluation(job) :]

    def save(new: list[Row]):
        append_rows(folder / "results.jsonl", new)
        rows.extend(new)

    hooks.display.begin(job.label, job.train.steps)
    loop = TrainingLoop(job, directory, hooks, first_state)
    try:
        for evaluation in remaining():
            hooks.raise_if_stopped()
            params = loop.params_at(evaluation.step)
            hooks.display.evaluating(job.label, f"at {evaluation.multiple:g}x")
            new = _evaluate(job, evaluation, params, loop.data, hooks)
            fitted = seeds_fitted(parent or job, trained or new)
            save([{**row, "fitted": fitted[row["seed"]]} for row in new])
    except Diverged as end:
        blank = [row for evaluation in remaining() for row in blank_rows(job, evaluation)]
        save([{**row, "diverged": end.step} for row in blank])
    hooks.display.end(job.label)
    return rows


def _rows_of(job: TrainingJob, directory: Path) -> list[Any]:
    return expected_results(job, read_lines(job.folder_in(directory) / "results.jsonl"))


def _evaluate(
    job: TrainingJob, evaluation: Evaluation, params: Any, data: Any, hooks: Hooks
) -> list[Row]:
    """A row for each encoding and seed.

    Encodings that differ only in arrays are evaluated side by side, by one compiled program.
    """
    groups: dict[Any, list[EvaluatedEncoding]] = defaultdict(list)
    for own in evaluation.encodings:
        if own.limit is None:
            leaves, structure = jax.tree.flatten(own.encoding)
            groups[structure, tuple(map(np.shape, leaves))].append(own)
    scores = {}
    for group in groups.values():
        found = evaluate(
            jnp.asarray(job.seeds, jnp.uint32),
            params,
            [own.encoding for own in group],
            model=job.train.model,
            task=job.train.task,
            positions=job.train.positions,
            length=evaluation.length,
            sequences=evaluation.sequences,
            data=data,
            between=hooks.raise_if_stopped,
        )
        for own, by_seed in zip(group, found, strict=True):
            scores |= {(own.label, s): score for s, score in zip(job.seeds, by_seed, strict=True)}
    limits = {own.label: own.limit for own in evaluation.encodings if own.limit is not None}
    rows = []
    for row in blank_rows(job, evaluation):
        label = row["encoding"]
        if label in limits:
            rows.append({**row, "limit": limits[label]})
        else:
            rows.append(with_scores(job, row, evaluation.step, scores[label, row["seed"]]))
    return rows
