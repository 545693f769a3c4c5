"""Runs an experiment, or goes on with one: encodings and seeds side by side on the cores, each from its last good state."""

import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path

import numpy as np

from experiments import store
from experiments.bands import bands
from experiments.config.experiment import Experiment
from experiments.config.imported import digests
from experiments.files import telling, write_bytes, write_rows, write_table
from experiments.progress import Display
from experiments.results import Result, TaskFacts
from experiments.run.work import Stopped, Work
from experiments.train import vmapped

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

    Encodings, and on CPUs seeds, share nothing but the cores, so they run in threads: a step of models as small as these keeps
    about one core busy.

    Raises:
      Stopped: once `stop` is set, with everything saved.
      StoreError: if the directory is in use, or of another config, or has no checkpoint left that can be trusted.
      DiskError: if it cannot be written.
    """
    seeds = "vmapped" if vmapped(len(experiment.seeds)) else "one by one"  # which decides how sums are rounded
    with store.session(directory, experiment.record(), command, digests(experiment), seeds) as (manifest, warnings):
        for warning in warnings:
            warn(warning)
        if (directory / "result.json").exists():
            return store.read(directory)
        with display() as shown, ThreadPoolExecutor(store.cores()) as cores:
            works: dict[str, Work] = {}
            for i, (label, members) in enumerate(experiment.stages().items()):
                folder = directory / "encodings" / str(i)
                parent = works.get(experiment.parent(label))
                shared = (manifest["config_sha256"], shown, stop, warn, cores)
                works[label] = Work(experiment, label, members, folder, *shared, parent=parent)
            rows = _side_by_side(list(works.values()), stop)
        order = list(experiment.encodings)
        rows.sort(key=lambda row: (order.index(row["encoding"]), row.get("finetuned", 0), row["multiple"]))
        metrics = b"".join(_read(work.folder / "metrics.jsonl") for work in works.values())
        write_bytes(directory / "metrics.jsonl", metrics)
        write_rows(directory / "results.jsonl", rows)
        about = {key: manifest[key] for key in ("format", "command", "config", "environment")}
        result = {**about, "task": _task(experiment), "bands": bands(experiment), "rows": rows}
        write_table(directory / "result.json", result, "rows")
        return store.read(directory)


def _side_by_side(works: list[Work], stop: threading.Event) -> list[dict]:
    """The rows of all, done in threads, each once its parent is; after an error or a stop, once every one has saved what it
    has."""
    jobs: dict[Future, Work] = {}
    # as many at once as leave no core idle at the end, be it of one seed each: three go side by side on two cores, and not two
    # and then one
    at_once = -(-len(works) // max(1, len(works) // store.cores()))
    with ThreadPoolExecutor(at_once) as pool:

        def begin(parent: Work | None) -> set[Future]:
            ready = [work for work in works if work.parent is parent]
            # the last to start should not be the longest
            ready.sort(key=lambda work: (work.trainer.steps, len(work.members)), reverse=True)
            new = {pool.submit(work.rows): work for work in ready}
            jobs.update(new)
            return set(new)

        waiting = begin(None)
        while waiting:
            # now and then back in Python, which alone runs signal handlers: one that came to another thread, as those of a
            # process that was suspended may, does not end this wait
            done, waiting = wait(waiting, timeout=0.5, return_when=FIRST_COMPLETED)
            for job in done:
                if job.cancelled() or job.exception():
                    stop.set()
                    for other in waiting:
                        other.cancel()
                elif not stop.is_set():
                    waiting |= begin(jobs[job])
    errors = [error for job in jobs if not job.cancelled() and (error := job.exception())]
    for error in sorted(errors, key=lambda e: isinstance(e, Stopped)):
        raise error
    if len(jobs) < len(works):
        raise Stopped
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
        "parents": {label: experiment.parent(label) for label in experiment.encodings},
    }
