"""Runs an experiment, or continues it: its jobs, then the files that readers of results need."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.config.plan import training_jobs
from experiments.config.schema import Experiment
from experiments.config.user_class import digests
from experiments.study.bands import bands
from experiments.study.directory import session
from experiments.study.files import read_bytes, write_bytes, write_rows, write_table
from experiments.study.hooks import Display, Hooks
from experiments.study.result import MetricFacts, Result, TaskFacts, read
from experiments.study.scheduler import run_jobs
from experiments.training.job import TrainingJob
from experiments.training.train import trains_vmapped


def run_study(
    experiment: Experiment,
    directory: Path,
    display: Callable[[], Display],
    command: str,
    stop: threading.Event,
    warn: Callable[[str], None],
) -> Result:
    """The result of the whole run, of which it does what is left.

    Args:
      display: makes the display once the directory is held.

    Raises:
      Stopped: after `stop` is set, with everything saved.
      DirectoryError: if the directory is in use, or of another config, or has lost its checkpoints.
      DiskError: if it cannot be written.
      OutOfMemory: if a job needs more than there is.
    """
    config, sources = experiment.record(), digests(experiment)
    seeds = "vmapped" if trains_vmapped(len(experiment.seeds)) else "one by one"
    with session(directory, config, command, sources, seeds) as (manifest, warnings):
        for warning in warnings:
            warn(warning)
        if (directory / "result.json").exists():
            return read(directory)
        owner = manifest["config_sha256"]
        jobs = [replace(job, config_sha256=owner) for job in training_jobs(experiment)]
        with display() as shown:
            rows = run_jobs(jobs, directory, Hooks(shown, stop, warn))
        labels = list(config["encodings"])
        rows.sort(key=lambda r: (labels.index(r["encoding"]), r.get("finetuned", 0), r["multiple"]))
        folders = [job.folder_in(directory) for job in sorted(jobs, key=lambda job: job.index)]
        metrics = (read_bytes(folder / "metrics.jsonl") for folder in folders)
        write_bytes(directory / "metrics.jsonl", b"".join(metrics))
        write_rows(directory / "results.jsonl", rows)
        spectra = bands(jobs)
        result = {
            **{key: manifest[key] for key in ("format", "command", "config", "environment")},
            "task": task_facts(config, jobs),
            "bands": {label: spectra[label] for label in labels if label in spectra},
            "rows": rows,
        }
        write_table(directory / "result.json", result, "rows")
        return read(directory)


def task_facts(config: Mapping[str, Any], jobs: Sequence[TrainingJob]) -> TaskFacts:
    """What a reader of the scores must know about the task."""
    train = jobs[0].train
    task, sections = train.task, config["encodings"]
    keys = MetricFacts.__annotations__
    metrics: Any = [{key: getattr(metric, key) for key in keys} for metric in task.metrics]
    return {
        "type": config["task"]["type"],
        "trained_length": train.length,
        "trained_context": task.context(train.length),
        "chance": task.chance,
        "chance_loss": task.chance_loss,
        "floor": task.floor,
        "fitted_means": task.fitted_means(),
        "metrics": metrics,
        "parents": {label: section.get("extends", label) for label, section in sections.items()},
    }
