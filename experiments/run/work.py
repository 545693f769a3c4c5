"""One trained encoding's part of a run: trained and evaluated from wherever its folder says it was left."""

import threading
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from experiments import store
from experiments.config.experiment import Experiment
from experiments.config.size import telling_of_memory
from experiments.evaluate import Scores, evaluate
from experiments.files import append_rows, read_rows, telling
from experiments.progress import Display
from experiments.run.chunk import Chunk
from experiments.run.plan import Plan
from experiments.run.states import States
from experiments.text import plain
from experiments.train import Part, State, Trainer, advance_each, apart, joined, start, start_from


class Stopped(Exception):
    """The run was asked to stop."""


class Diverged(Exception):
    """The loss is no number any more."""

    def __init__(self, step: int):
        super().__init__(step)
        self.step = step


@dataclass
class Work:
    """The work on one stage of training, `label`, and on all that are evaluated on its weights, `members`.

    `cores` has a thread for each core, which all works share. `parent` is the finished work whose weights this one goes on
    from, None for training from scratch.
    """

    experiment: Experiment
    label: str
    members: list[str]
    folder: Path
    config_sha256: str
    display: Display
    stop: threading.Event
    warn: Callable[[str], None]
    cores: Executor
    parent: "Work | None" = None
    fitted: dict[int, bool] = field(default_factory=dict)  # of each seed, once `rows` has come to its end
    diverged: int | None = None  # the step, likewise

    def rows(self) -> list[dict]:
        """Trains and evaluates as far as that has not been done; returns the rows of results.

        Raises:
          DiskError, OutOfMemory: with what was saved before left whole.
        """
        with telling_of_memory(f"encodings.{plain(self.label)}"):
            return self._rows()

    def _rows(self) -> list[dict]:
        with telling(self.folder):
            # not its parents: a run's directory that has gone is not made again by those still at work
            self.folder.mkdir(exist_ok=True)
        plan = self.plan
        rows = read_rows(self.folder / "results.jsonl", plan.rows_as_planned)
        self.display.begin(self.label, self.trainer.steps)
        parts, params, done = None, None, 0
        try:
            for point, multiple in plan.places[len(rows) // plan.at_once :]:
                self._may_go_on()
                if parts is None or done < point:
                    parts, done = self._trained(point, parts, done)
                    params = joined([state.params for _, state in parts])
                self.display.evaluating(self.label, f"at {multiple:g}x")
                new = self._evaluate(params, point, multiple)
                fitted = self.parent.fitted if self.parent else plan.fitted(rows or new)
                new = [{**row, "fitted": fitted[row["seed"]]} for row in new]
                append_rows(self.folder / "results.jsonl", new)
                rows += new
        except Diverged as end:
            new = [plan.row(*key, diverged=end.step) for key in plan.rows()[len(rows) :]]
            append_rows(self.folder / "results.jsonl", new)
            rows += new
        self.display.end(self.label)
        self.fitted = plan.fitted(rows)
        self.diverged = min((row["diverged"] for row in rows if "diverged" in row), default=None)
        return rows

    @cached_property
    def trainer(self) -> Trainer:
        return self.experiment.trainer(self.label)

    @cached_property
    def plan(self) -> Plan:
        return Plan(self.experiment, self.label, tuple(self.members), self.trainer.steps)

    @cached_property
    def states(self) -> States:
        like = start.eval_shape(self.trainer, self.seeds)
        return States(self.folder, f"{self.config_sha256}/{self.folder.name}", self.plan.scheduled, like, self.warn)

    @property
    def seeds(self) -> jax.Array:
        return jnp.asarray(self.experiment.seeds, jnp.uint32)

    def _may_go_on(self):
        if self.stop.is_set():
            raise Stopped(self.label)

    def _trained(self, point: int, parts: list[Part] | None, done: int) -> tuple[list[Part], int]:
        """All seeds after `point` steps, and that number; from the given parts, or the last saved state."""
        every, steps = self.experiment.train_of(self.label).report_every, self.trainer.steps
        metrics = self.folder / "metrics.jsonl"
        if parts is None:
            state, done = self._last_state(point, read_rows(metrics, self.plan.reports_as_planned))
            parts = apart(self.seeds, state)
            read_rows(metrics, lambda rows: [row for row in rows if row["step"] <= done])
        encoding = self.experiment.acting(self.label, self.experiment.trained_multiple(self.label))
        chunk, side_by_side = Chunk(), map  # at first one after another, so that they do not all compile the same program
        while done < point:
            self._may_go_on()
            count = min(chunk.steps, every - done % every, point - done)
            with chunk.timed(count):
                parts, losses = advance_each(self.trainer, encoding, parts, count, side_by_side=side_by_side)
            done, side_by_side = done + count, self.cores.map
            self.display.step(self.label, done, float(losses.mean()))
            if done % every == 0 or done == steps:
                rows = [
                    {"encoding": self.label, "seed": seed, "step": done, "loss": store.finite(loss)}
                    for seed, loss in zip(self.experiment.seeds, losses, strict=True)
                ]
                append_rows(metrics, rows)
                parts = [(seeds, state.reported()) for seeds, state in parts]
                if not np.isfinite(losses).all():
                    self.states.forget_stops()
                    raise Diverged(done)
            if self.stop.is_set() or self.plan.scheduled(done):
                self.states.save(done, joined([state for _, state in parts]))
        return parts, done

    def _last_state(self, point: int, reported: list[dict]):
        """The newest state of at most that many steps that can be trusted and whose reports are all there, and its step.

        Raises:
          StoreError: if there has been one, and none is left.
        """
        steps = [step for step in self.states.steps() if step <= point]
        following, _ = next(islice(self.plan.reports(), len(reported), None), (self.trainer.steps + 1, None))
        for step in reversed(steps):
            if step >= following:
                path = self.states.path(step)
                self.warn(f"{path} is not used, since metrics.jsonl beside it ends before step {following}.")
            elif (state := self.states.load(step)) is not None:
                return state, step
        reached = min(reported[-1]["step"], point) if reported else 0
        if steps or any(self.plan.scheduled(row["step"]) for row in reported if row["step"] < reached):
            raise store.StoreError(
                f"{self.folder}: no checkpoint of {self.label!r} is left that can be trusted, though it had come to step"
                f" {max(reached, *steps, 0)}; remove that folder to train it again"
            )
        return self._start(), 0

    def _start(self) -> State:
        """The state before the first step."""
        if self.parent is None:
            return start(self.trainer, self.seeds)
        return start_from(self.trainer, self.parent.result())

    def result(self):
        """The parameters at the end of training, once `rows` has come there: from the last checkpoint.

        Raises:
          Diverged: if training did.
          StoreError: if the checkpoint cannot be trusted.
        """
        if self.diverged is not None:
            raise Diverged(self.diverged)
        state = self.states.load(self.trainer.steps)
        if state is None:
            raise store.StoreError(
                f"{self.folder}: the last checkpoint of {self.label!r}, which others go on from, cannot be trusted; remove"
                " that folder to train it again"
            )
        return state.params

    def _evaluate(self, params, point: int, multiple: float) -> list[dict]:
        """A row for each member and seed. Where an encoding has no value, past the end of a learned table, there is no score
        either. Members that differ in arrays alone are evaluated side by side."""
        reach = self.experiment.reach(self.label, multiple)
        ends, alike = {}, defaultdict(list)
        for label in self.members:
            limit = self.experiment.encoding(label, multiple).limit
            if limit is not None and reach > limit:
                ends[label] = limit
            else:
                acting = self.experiment.acting(label, multiple)
                leaves, structure = jax.tree.flatten(acting)
                alike[structure, tuple(map(np.shape, leaves))].append((label, acting))
        scores = {}
        for group in alike.values():
            labels, encodings = zip(*group, strict=True)
            together = self._scores(params, list(encodings), multiple)
            scores |= {label: [part[i] for part in together] for i, label in enumerate(labels)}
        rows = []
        for label in self.members:
            for i, seed in enumerate(self.experiment.seeds):
                facts = {"limit": ends[label]} if label in ends else self._facts(point, [part[i] for part in scores[label]])
                rows.append(self.plan.row(label, point, multiple, seed, **facts))
        return rows

    def _scores(self, params, encodings, multiple: float):
        return evaluate(
            self.seeds,
            params,
            encodings,
            model=self.trainer.model,
            task=self.trainer.task,
            positions=self.trainer.positions,
            length=self.experiment.length(multiple),
            sequences=self.experiment.sequences(multiple),
            between=self._may_go_on,
        )

    def _facts(self, point: int, scores) -> dict:
        """What a row says of one seed's scores."""
        own = Scores(*scores)
        if not (np.isfinite(own.loss) and np.isfinite(own.accuracy)):
            # the last steps diverged after the last report: a NaN has an argmax, but predicts nothing
            return {"diverged": point}
        along = {"accuracy_along": own.accuracy_along.round(4).tolist(), "loss_along": own.loss_along.round(4).tolist()}
        whole = {"accuracy": float(own.accuracy), "exact_match": float(own.exact_match), "loss": float(own.loss)}
        return {"scores": whole | along, "fitted": self.trainer.task.fitted(whole["exact_match"], whole["loss"])}
