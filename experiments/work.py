"""One trained encoding's part of a run: trained and evaluated from wherever its folder says it was left."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import TypeAdapter, ValidationError

from experiments import checkpoint, store
from experiments.chunk import Chunk
from experiments.config import Experiment
from experiments.evaluate import evaluate
from experiments.files import append_rows, read_rows, telling
from experiments.progress import Display
from experiments.results import Row
from experiments.train import Trainer, advance, start

REPORTS_A_CHECKPOINT = 10


class Stopped(Exception):
    """The run was asked to stop."""


class Diverged(Exception):
    """The loss is no number any more."""

    def __init__(self, step: int):
        super().__init__(step)
        self.step = step


@dataclass
class Work:
    """The work on one encoding, `label`, and on all that are evaluated on its weights, `members`."""

    experiment: Experiment
    label: str
    members: list[str]
    folder: Path
    config_sha256: str
    display: Display
    stop: threading.Event
    warn: Callable[[str], None]

    def rows(self) -> list[dict]:
        """Trains and evaluates as far as that has not been done; returns the rows of results."""
        with telling(self.folder):
            # not its parents: a run's directory that has gone is not made again by those still at work
            self.folder.mkdir(exist_ok=True)
        trainer, seeds = self.experiment.trainer(self.label), jnp.asarray(self.experiment.seeds, jnp.uint32)
        # the trained length and the encoding itself come first: they tell whether the model has learned
        multiples = sorted(self.experiment.evaluate.multiples, key=lambda multiple: multiple != 1)
        places = [(member, multiple) for multiple in multiples for member in self.members]
        rows = read_rows(self.folder / "results.jsonl", lambda rows: self._as_planned(rows, places))
        self.display.begin(self.label, trainer.steps)
        if len(rows) < len(places) * len(self.experiment.seeds):
            try:
                params = self._train(trainer, seeds)
            except Diverged as end:
                rows = [self._row(*place, seed, diverged=end.step) for place in places for seed in self.experiment.seeds]
                append_rows(self.folder / "results.jsonl", rows)
            else:
                for member, multiple in places[len(rows) // len(self.experiment.seeds) :]:
                    self._may_go_on()
                    self.display.evaluating(self.label, f"{member} at {multiple:g}x")
                    new = self._evaluate(trainer, seeds, params, member, multiple)
                    fitted = {row["seed"]: row["fitted"] for row in rows[: len(new)] or new}
                    new = [{**row, "fitted": fitted[row["seed"]]} for row in new]
                    append_rows(self.folder / "results.jsonl", new)
                    rows += new
        self.display.end(self.label)
        return rows

    def _as_planned(self, rows: list[dict], places) -> list[dict]:
        """The rows as far as they are those of the plan, in its order, for all seeds."""
        plan = [(*place, seed) for place in places for seed in self.experiment.seeds]
        keys = [(row.get("encoding"), row.get("multiple"), row.get("seed")) if _is_row(row) else None for row in rows]
        good = next((i for i, (key, wanted) in enumerate(zip(keys, plan, strict=False)) if key != wanted), len(keys))
        return rows[: good - good % len(self.experiment.seeds)]

    def _may_go_on(self):
        if self.stop.is_set():
            raise Stopped(self.label)

    def _train(self, trainer: Trainer, seeds):
        """The trained parameters of all seeds."""
        self._may_go_on()
        every = self.experiment.train.report_every
        metrics = self.folder / "metrics.jsonl"
        state, done = self._last_state(trainer, seeds, read_rows(metrics, self._reports_as_planned))
        read_rows(metrics, lambda rows: [row for row in rows if row["step"] <= done])
        chunk = Chunk()
        while done < trainer.steps:
            steps = min(chunk.steps, every - done % every, trainer.steps - done)
            with chunk.timed(steps):
                state, losses = advance(trainer, seeds, state, steps)
                losses, done = np.asarray(losses), done + steps
            self.display.step(self.label, done, float(losses.mean()))
            if done % every == 0 or done == trainer.steps:
                rows = [
                    {"encoding": self.label, "seed": seed, "step": done, "loss": store.finite(loss)}
                    for seed, loss in zip(self.experiment.seeds, losses, strict=True)
                ]
                append_rows(metrics, rows)
                state = state.reported()
                if not np.isfinite(losses).all():
                    self._keep_only(self._scheduled)
                    raise Diverged(done)
            if self.stop.is_set() or done == trainer.steps or self._scheduled(done):
                self._save(done, state)
            if done < trainer.steps:
                self._may_go_on()
        return state.params

    def _scheduled(self, step: int) -> bool:
        return step % (REPORTS_A_CHECKPOINT * self.experiment.train.report_every) == 0

    def _save(self, step: int, state):
        """Keeps this state and the last scheduled one before it, so that what is left in the end does not tell of stops."""
        checkpoint.save(self.folder, step, state, self._owner)
        before = max((s for s in checkpoint.steps(self.folder) if s < step and self._scheduled(s)), default=None)
        self._keep_only(lambda s: s in (step, before))

    def _keep_only(self, wanted: Callable[[int], bool]):
        """Removes the checkpoints of all other steps."""
        with telling(self.folder):
            for step in checkpoint.steps(self.folder):
                if not wanted(step):
                    checkpoint.path_of(self.folder, step).unlink()

    @property
    def _owner(self) -> str:
        return f"{self.config_sha256}/{self.folder.name}"

    def _last_state(self, trainer: Trainer, seeds, reported: list[dict]):
        """The newest state that can be trusted and whose reports are all there, and its step.

        Raises:
          StoreError: if there has been one, and none is left.
        """
        steps = checkpoint.steps(self.folder)
        following, _ = next(islice(self._plan_of_reports(), len(reported), None), (trainer.steps + 1, None))
        like = jax.eval_shape(lambda seeds: start(trainer, seeds), seeds)
        for step in reversed(steps):
            path = checkpoint.path_of(self.folder, step)
            if step >= following:
                self.warn(f"{path} is not used, since metrics.jsonl beside it ends before step {following}.")
                continue
            try:
                return checkpoint.load(self.folder, step, like, self._owner), step
            except checkpoint.Damaged as damage:
                self.warn(f"{path} is damaged ({damage}); looking for the one before it.")
        reached = reported[-1]["step"] if reported else 0
        if steps or any(self._scheduled(row["step"]) for row in reported if row["step"] < reached):
            raise store.StoreError(
                f"{self.folder}: no checkpoint of {self.label!r} is left that can be trusted, though it had come to step"
                f" {max(reached, *steps, 0)}; remove that folder to train it again"
            )
        return start(trainer, seeds), 0

    def _plan_of_reports(self) -> Iterator[tuple[int, int]]:
        """Step and seed of every row of metrics, in order."""
        train = self.experiment.train
        steps = chain(range(train.report_every, train.steps, train.report_every), [train.steps])
        return ((step, seed) for step in steps for seed in self.experiment.seeds)

    def _reports_as_planned(self, rows: list[dict]) -> list[dict]:
        """The rows of metrics as far as they are those of the plan, for all seeds."""
        good = 0
        for row, (step, seed) in zip(rows, self._plan_of_reports(), strict=False):
            if row != {"encoding": self.label, "seed": seed, "step": step, "loss": (loss := row.get("loss"))}:
                break
            if not isinstance(loss, float | None):
                break
            good += 1
        return rows[: good - good % len(self.experiment.seeds)]

    def _row(self, label: str, multiple: float, seed: int, *, scores: dict | None = None, fitted=False, **more) -> dict:
        """One row of results; without scores where there is none."""
        context = self.experiment.context(multiple).length
        place = {"encoding": label, "seed": seed, "multiple": multiple, "length": self.experiment.length(multiple)}
        nothing = {"accuracy": None, "exact_match": None, "loss": None}
        return {**place, "context": context, **(scores or nothing), "fitted": fitted, **more}

    def _evaluate(self, trainer: Trainer, seeds, params, label: str, multiple: float) -> list[dict]:
        """A row for each seed. Where the encoding has no value, past the end of a learned table, there is no score either."""
        experiment, task = self.experiment, trainer.task
        context, encoding = experiment.context(multiple).length, experiment.encoding(label, multiple)
        if encoding.limit is not None and context > encoding.limit:
            return [self._row(label, multiple, seed, limit=encoding.limit) for seed in experiment.seeds]
        scores = evaluate(
            seeds,
            params,
            encoding.at(head_dim=trainer.model.head_dim, length=context),
            model=trainer.model,
            task=task,
            length=experiment.length(multiple),
            sequences=experiment.evaluate.sequences,
        )
        rows = []
        for seed, own in zip(experiment.seeds, np.stack(scores, axis=-1), strict=True):
            if np.isfinite(own).all():
                named = dict(zip(scores._fields, own.tolist(), strict=True))
                fitted = task.fitted(named["exact_match"], named["loss"])
                rows.append(self._row(label, multiple, seed, scores=named, fitted=fitted))
            else:  # the last steps diverged after the last report: a NaN has an argmax, but predicts nothing
                rows.append(self._row(label, multiple, seed, diverged=trainer.steps))
        return rows


_ROW = TypeAdapter(Row)


def _is_row(row: dict) -> bool:
    try:
        return _ROW.validate_python(row, strict=True) == row
    except ValidationError:
        return False
