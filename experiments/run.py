"""Runs an experiment, or goes on with one: its encodings side by side on the cores, each from its last good state."""

import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path

import numpy as np

from experiments import store
from experiments.config import Experiment
from experiments.files import telling, write_json, write_rows
from experiments.progress import Display
from experiments.results import Result, TaskFacts
from experiments.work import Stopped, Work

__all__ = ["Stopped", "run"]


def run(
    experiment: Experiment,
    directory: Path,
    display: Callable[[], Display],
    command: str,
    stop: threading.Event,
    warn: Callable[[str], None],
) -> Result:
    """The whole run, or what is left of it; returns what `result.json` holds.

    Encodings share nothing but the cores, so they run in threads: XLA keeps models as small as these on about one core each.

    Raises:
      Stopped: once `stop` is set, with everything saved.
      StoreError: if the directory is in use, or of another config, or has no checkpoint left that can be trusted.
      DiskError: if it cannot be written.
    """
    with store.session(directory, experiment.model_dump(), command) as (manifest, warnings):
        for warning in warnings:
            warn(warning)
        if (directory / "result.json").exists():
            return store.read(directory)
        with display() as shown:
            works = [
                Work(
                    experiment, label, members, directory / "encodings" / str(i), manifest["config_sha256"], shown, stop, warn
                )
                for i, (label, members) in enumerate(experiment.trained().items())
            ]
            rows = _side_by_side(works, stop)
        order = list(experiment.encodings)
        rows.sort(key=lambda row: (order.index(row["encoding"]), row["multiple"]))
        metrics = b"".join(_read(work.folder / "metrics.jsonl") for work in works)
        with telling(directory):
            (directory / "metrics.jsonl").write_bytes(metrics)
        write_rows(directory / "results.jsonl", rows)
        about = {key: manifest[key] for key in ("format", "command", "config", "environment")}
        result = {**about, "task": _task(experiment), "rows": rows}
        write_json(directory / "result.json", result)
        return store.read(directory)


def _side_by_side(works: list[Work], stop: threading.Event) -> list[dict]:
    """The rows of all, done in threads; after an error or a stop, once every one has saved what it has."""
    with ThreadPoolExecutor(min(len(works), store.cores())) as pool:
        by_work = sorted(works, key=lambda work: -len(work.members))  # the last to start should not be the longest
        jobs = [pool.submit(work.rows) for work in by_work]
        _, rest = wait(jobs, return_when=FIRST_EXCEPTION)
        if rest:
            stop.set()
            for job in rest:
                job.cancel()
    errors = [error for job in jobs if not job.cancelled() and (error := job.exception())]
    for error in sorted(errors, key=lambda e: isinstance(e, Stopped)):
        raise error
    return [row for job in jobs for row in job.result()]


def _read(path: Path) -> bytes:
    with telling(path):
        return path.read_bytes()


def _task(experiment: Experiment) -> TaskFacts:
    task = experiment.task_value()
    return {
        "type": experiment.task.type,
        "trained_length": experiment.task.length,
        "trained_context": experiment.context(1).trained,
        "chance": task.chance,
        "chance_loss": float(np.log(task.symbols)),
        "floor": task.floor,
        "fitted_means": task.fitted_means(),
        "parents": {label: parent for parent, members in experiment.trained().items() for label in members},
    }
