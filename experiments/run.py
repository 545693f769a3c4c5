"""Runs an experiment: trains its encodings, side by side on the cores, evaluates them, and keeps what comes out."""

import threading
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import jax.numpy as jnp
import numpy as np

from experiments import store
from experiments.config import Experiment
from experiments.evaluate import evaluate
from experiments.progress import Display
from experiments.results import Result, TaskFacts
from experiments.train import Trainer, advance, start


class Stopped(Exception):
    """The run was asked to stop."""


def run(experiment: Experiment, directory: Path, display: Display, command: str, stop: threading.Event) -> Result:
    """The whole run; returns what `result.json` holds.

    Encodings share nothing but the cores, so they run in threads: XLA keeps models as small as these on about one core each.

    Raises:
      Stopped: once `stop` is set; what was measured stays in `metrics.jsonl` and `results.jsonl`.
      StoreError: if the directory cannot be written.
    """
    manifest = store.create(directory, experiment.model_dump(), command)
    runner, groups = Runner(experiment, directory, display, stop), experiment.trained()
    with ThreadPoolExecutor(min(len(groups), store.cores())) as pool:
        by_work = sorted(groups.items(), key=lambda group: -len(group[1]))  # the last to start should not be the longest
        jobs = [pool.submit(runner.train_and_evaluate, label, members) for label, members in by_work]
        _, rest = wait(jobs, return_when=FIRST_EXCEPTION)
        if rest:  # after an error the other encodings end at their next report
            stop.set()
            for job in rest:
                job.cancel()
    errors = [error for job in jobs if not job.cancelled() and (error := job.exception())]
    for error in sorted(errors, key=lambda e: isinstance(e, Stopped)):
        raise error
    order = list(experiment.encodings)
    rows = [row for job in jobs for row in job.result()]
    rows.sort(key=lambda row: (order.index(row["encoding"]), row["multiple"]))
    result = cast(Result, {**manifest, "ended": store.now(), "task": _task(experiment), "rows": rows})
    store.write(directory / "result.json", result)
    return result


@dataclass
class Runner:
    """What the threads of a run share."""

    experiment: Experiment
    directory: Path
    display: Display
    stop: threading.Event
    files: threading.Lock = field(default_factory=threading.Lock)

    def train_and_evaluate(self, label: str, members: list[str]) -> list[dict]:
        """Trains one encoding and evaluates all that use its weights; returns their rows."""
        experiment, trainer = self.experiment, self.experiment.trainer(label)
        seeds = jnp.asarray(experiment.seeds, jnp.uint32)
        self.display.begin(label, trainer.steps)
        params = self._train(trainer, label, seeds)
        rows, fitted = [], {}
        # the trained length and the encoding itself come first: they tell whether the model has learned
        for multiple in sorted(experiment.evaluate.multiples, key=lambda multiple: multiple != 1):
            for member in members:
                self._may_go_on(label)
                self.display.evaluating(label, f"{member} at {multiple:g}x")
                new = self._evaluate(trainer, seeds, params, member, multiple)
                fitted = fitted or {row["seed"]: _fitted(trainer, row) for row in new}
                new = [{**row, "fitted": fitted[row["seed"]]} for row in new]
                self._append("results.jsonl", new)
                rows += new
        self.display.end(label)
        return rows

    def _may_go_on(self, label: str):
        if self.stop.is_set():
            raise Stopped(label)

    def _append(self, name: str, rows: list[dict]):
        with self.files:
            store.append(self.directory / name, rows)

    def _train(self, trainer: Trainer, label: str, seeds):
        """The trained parameters of all seeds; losses go to `metrics.jsonl` as they come."""
        self._may_go_on(label)
        state, done = start(trainer, seeds), 0
        while done < trainer.steps:
            steps = min(self.experiment.train.report_every, trainer.steps - done)
            state, losses = advance(trainer, seeds, state, steps)
            losses, done = np.asarray(losses), done + steps
            rows = [
                {"encoding": label, "seed": seed, "step": done, "loss": store.finite(loss)}
                for seed, loss in zip(self.experiment.seeds, losses, strict=True)
            ]
            self._append("metrics.jsonl", rows)
            self.display.step(label, done, float(losses.mean()))
            self._may_go_on(label)
        return state.params

    def _evaluate(self, trainer: Trainer, seeds, params, label: str, multiple: float) -> list[dict]:
        """One row a seed. Where the encoding has no value, past the end of a learned table, there is no score either."""
        experiment = self.experiment
        length, context = experiment.length(multiple), experiment.context(multiple).length
        encoding = experiment.encoding(label, multiple)
        place = {"encoding": label, "multiple": multiple, "length": length, "context": context}
        if encoding.limit is not None and context > encoding.limit:
            nothing = {"accuracy": None, "exact_match": None, "loss": None, "limit": encoding.limit}
            return [{**place, "seed": seed, **nothing} for seed in experiment.seeds]
        scores = evaluate(
            seeds,
            params,
            encoding.at(head_dim=trainer.model.head_dim, length=context),
            model=trainer.model,
            task=trainer.task,
            length=length,
            sequences=experiment.evaluate.sequences,
        )
        rows = [dict(zip(scores._fields, map(store.finite, own), strict=True)) for own in np.stack(scores, axis=-1)]
        # a model that diverged predicts nothing, whatever the argmax of NaN is
        rows = [row if row["loss"] is not None else dict.fromkeys(row) for row in rows]
        return [{**place, "seed": seed, **row} for seed, row in zip(experiment.seeds, rows, strict=True)]


def _fitted(trainer: Trainer, row: dict) -> bool:
    """A model that diverged has no loss, and has not learned."""
    return row["loss"] is not None and trainer.task.fitted(row["exact_match"], row["loss"])


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
