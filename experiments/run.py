"""Runs an experiment: trains its encodings, two or more side by side, evaluates them, and keeps what comes out."""

import os
import threading
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from experiments import store
from experiments.config import Experiment
from experiments.evaluate import evaluate
from experiments.progress import Display
from experiments.train import advance, start


class Stopped(Exception):
    """The user asked to stop."""


def run(experiment: Experiment, directory: Path, display: Display, command: str) -> dict[str, Any]:
    """The whole run; returns what `result.json` holds.

    Encodings share nothing but the cores, so they run in threads: XLA keeps small models on about one core each.
    """
    manifest = store.create(directory, experiment.model_dump(), command)
    groups = experiment.trained()
    stop, lock = threading.Event(), threading.Lock()
    with ThreadPoolExecutor(max(1, min(len(groups), os.cpu_count() or 1))) as pool:
        jobs = [
            pool.submit(_one, experiment, label, members, directory, display, stop, lock) for label, members in groups.items()
        ]
        try:
            wait(jobs, return_when=FIRST_EXCEPTION)
        finally:  # after an error or Ctrl-C the other encodings end at their next report
            stop.set()
            for job in jobs:
                job.cancel()
    errors = [error for job in jobs if not job.cancelled() and (error := job.exception())]
    for error in sorted(errors, key=lambda e: isinstance(e, Stopped)):
        raise error
    order = list(experiment.encodings)
    rows = sorted((row for job in jobs for row in job.result()), key=lambda row: order.index(row["encoding"]))
    result = {**manifest, "ended": store.now(), "task": _task(experiment), "rows": rows}
    store.write(directory / "result.json", result)
    return result


def _one(experiment: Experiment, label: str, members: list[str], directory: Path, display: Display, stop, lock) -> list[dict]:
    """Trains one encoding and evaluates all that use its weights; returns the rows of results."""
    trainer, seeds = experiment.trainer(label), jnp.asarray(experiment.seeds, jnp.uint32)
    display.begin(label, trainer.steps)
    state = start(trainer, seeds)
    done = 0
    while done < trainer.steps:
        steps = min(experiment.train.report_every, trainer.steps - done)
        state, losses = advance(trainer, seeds, state, steps)
        losses, done = np.asarray(losses), done + steps
        rows = [
            {"encoding": label, "seed": seed, "step": done, "loss": store.finite(loss)}
            for seed, loss in zip(experiment.seeds, losses, strict=True)
        ]
        with lock:
            store.append(directory / "metrics.jsonl", rows)
        display.step(label, done, float(losses.mean()))
        if stop.is_set():
            raise Stopped(label)
    rows = []
    for multiple in experiment.evaluate.multiples:
        for member in members:
            display.evaluating(label, f"{member} at {multiple:g}x")
            rows += _scores(experiment, trainer, seeds, state.params, member, multiple)
            if stop.is_set():
                raise Stopped(label)
    at_1x = (row for row in rows if row["encoding"] == label and row["multiple"] == 1)
    fits = {row["seed"]: _fitted(trainer.task, row) for row in at_1x}
    rows = [{**row, "fitted": fits[row["seed"]]} for row in rows]
    with lock:
        store.append(directory / "results.jsonl", rows)
    display.end(label)
    return rows


def _scores(experiment: Experiment, trainer, seeds, params, label: str, multiple: float) -> list[dict]:
    """One row a seed. Where the encoding has no value, past the end of a learned table, there is no score either."""
    length, context = experiment.length(multiple), experiment.context(multiple)
    encoding = experiment.encoding(label, multiple)
    place = {"encoding": label, "multiple": multiple, "length": length, "context": context.length}
    if encoding.limit is not None and context.length > encoding.limit:
        nothing = {"accuracy": None, "exact_match": None, "loss": None, "limit": encoding.limit}
        return [{**place, "seed": seed, **nothing} for seed in experiment.seeds]
    scores = evaluate(
        seeds,
        params,
        encoding.at(head_dim=trainer.model.head_dim, length=context.length),
        model=trainer.model,
        task=trainer.task,
        length=length,
        sequences=experiment.evaluate.sequences,
    )
    columns = {name: [store.finite(v) for v in np.asarray(values)] for name, values in scores._asdict().items()}
    return [
        {**place, "seed": seed, **{name: values[i] for name, values in columns.items()}}
        for i, seed in enumerate(experiment.seeds)
    ]


def _fitted(task, row: dict) -> bool:
    """A model that diverged has no scores, and has not learned."""
    return row["loss"] is not None and task.fitted(row["exact_match"], row["loss"])


def _task(experiment: Experiment) -> dict[str, Any]:
    """What a reader of the scores must know about the task."""
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
