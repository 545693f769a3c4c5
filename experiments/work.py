"""One trained encoding's part of a run: trained and evaluated from wherever its folder says it was left."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain, islice
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import TypeAdapter, ValidationError

from experiments import checkpoint, store
from experiments.chunk import Chunk
from experiments.config import Experiment
from experiments.evaluate import Scores, evaluate
from experiments.files import append_rows, read_rows, telling
from experiments.progress import Display
from experiments.results import Row
from experiments.size import telling_of_memory
from experiments.text import plain
from experiments.train import Trainer, advance, start, start_from

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
    """The work on one stage of training, `label`, and on all that are evaluated on its weights, `members`.

    `parent` is the finished work whose weights this one goes on from, None for training from scratch.
    """

    experiment: Experiment
    label: str
    members: list[str]
    folder: Path
    config_sha256: str
    display: Display
    stop: threading.Event
    warn: Callable[[str], None]
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
        # the trained length and the encoding itself come first: they tell whether the model has learned
        multiples = sorted(self.experiment.evaluate.multiples, key=lambda multiple: multiple != 1)
        places = [(point, multiple) for point in self.points for multiple in multiples]
        rows = read_rows(self.folder / "results.jsonl", lambda rows: self._as_planned(rows, places))
        self.display.begin(self.label, self.trainer.steps)
        at_once = len(self.members) * len(self.experiment.seeds)
        state, done = None, 0
        try:
            for point, multiple in places[len(rows) // at_once :]:
                self._may_go_on()
                if state is None or done < point:
                    state, done = self._trained(point, state, done)
                self.display.evaluating(self.label, f"at {multiple:g}x")
                new = self._evaluate(state.params, point, multiple)
                fitted = self.parent.fitted if self.parent else _fitted(self.label, rows or new)
                new = [{**row, "fitted": fitted[row["seed"]]} for row in new]
                append_rows(self.folder / "results.jsonl", new)
                rows += new
        except Diverged as end:
            new = [self._row(*key, diverged=end.step) for key in self._plan(places)[len(rows) :]]
            append_rows(self.folder / "results.jsonl", new)
            rows += new
        self.display.end(self.label)
        self.fitted = _fitted(self.label, rows)
        self.diverged = min((row["diverged"] for row in rows if "diverged" in row), default=None)
        return rows

    @cached_property
    def trainer(self) -> Trainer:
        return self.experiment.trainer(self.label)

    @property
    def points(self) -> list[int]:
        return self.experiment.points(self.label)

    @property
    def seeds(self) -> jax.Array:
        return jnp.asarray(self.experiment.seeds, jnp.uint32)

    def _plan(self, places) -> list[tuple[str, int, float, int]]:
        """Encoding, point, multiple and seed of every row, in order."""
        return [(member, *place, seed) for place in places for member in self.members for seed in self.experiment.seeds]

    def _as_planned(self, rows: list[dict], places) -> list[dict]:
        """The rows as far as they are those of the plan, in its order, for all members and seeds."""
        wanted = [self._row(*key) for key in self._plan(places)]
        names = ("encoding", "finetuned", "multiple", "seed")
        pairs = enumerate(zip(rows, wanted, strict=False))
        strange = (i for i, (row, plan) in pairs if not _is_row(row) or any(row.get(n) != plan.get(n) for n in names))
        good = next(strange, len(rows))
        return rows[: good - good % (len(self.members) * len(self.experiment.seeds))]

    def _may_go_on(self):
        if self.stop.is_set():
            raise Stopped(self.label)

    def _trained(self, point: int, state, done: int):
        """The state after `point` steps, and that number; from the given state, or the last saved one."""
        every, steps = self.experiment.train_of(self.label).report_every, self.trainer.steps
        metrics = self.folder / "metrics.jsonl"
        if state is None:
            state, done = self._last_state(point, read_rows(metrics, self._reports_as_planned))
            read_rows(metrics, lambda rows: [row for row in rows if row["step"] <= done])
        encoding = self.experiment.acting(self.label, self.experiment.trained_multiple(self.label))
        chunk = Chunk()
        while done < point:
            self._may_go_on()
            count = min(chunk.steps, every - done % every, point - done)
            with chunk.timed(count):
                state, losses = advance(self.trainer, encoding, self.seeds, state, count)
                losses, done = np.asarray(losses), done + count
            self.display.step(self.label, done, float(losses.mean()))
            if done % every == 0 or done == steps:
                rows = [
                    {"encoding": self.label, "seed": seed, "step": done, "loss": store.finite(loss)}
                    for seed, loss in zip(self.experiment.seeds, losses, strict=True)
                ]
                append_rows(metrics, rows)
                state = state.reported()
                if not np.isfinite(losses).all():
                    self._keep_only(self._scheduled)
                    raise Diverged(done)
            if self.stop.is_set() or self._scheduled(done):
                self._save(done, state)
        return state, done

    def _scheduled(self, step: int) -> bool:
        every = REPORTS_A_CHECKPOINT * self.experiment.train_of(self.label).report_every
        return step % every == 0 or step in self.points

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

    def _last_state(self, point: int, reported: list[dict]):
        """The newest state of at most that many steps that can be trusted and whose reports are all there, and its step.

        Raises:
          StoreError: if there has been one, and none is left.
        """
        steps = [step for step in checkpoint.steps(self.folder) if step <= point]
        following, _ = next(islice(self._plan_of_reports(), len(reported), None), (self.trainer.steps + 1, None))
        like = jax.eval_shape(partial(start, self.trainer), self.seeds)
        for step in reversed(steps):
            if step >= following:
                path = checkpoint.path_of(self.folder, step)
                self.warn(f"{path} is not used, since metrics.jsonl beside it ends before step {following}.")
            elif (state := self._loaded(step, like)) is not None:
                return state, step
        reached = min(reported[-1]["step"], point) if reported else 0
        if steps or any(self._scheduled(row["step"]) for row in reported if row["step"] < reached):
            raise store.StoreError(
                f"{self.folder}: no checkpoint of {self.label!r} is left that can be trusted, though it had come to step"
                f" {max(reached, *steps, 0)}; remove that folder to train it again"
            )
        return self._start(), 0

    def _plan_of_reports(self) -> Iterator[tuple[int, int]]:
        """Step and seed of every row of metrics, in order."""
        every, last = self.experiment.train_of(self.label).report_every, self.trainer.steps
        return ((step, seed) for step in chain(range(every, last, every), [last]) for seed in self.experiment.seeds)

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

    def _loaded(self, step: int, like):
        """The saved state, or None, with a warning, if it is damaged."""
        try:
            return checkpoint.load(self.folder, step, like, self._owner)
        except checkpoint.Damaged as damage:
            self.warn(f"{checkpoint.path_of(self.folder, step)} is damaged ({damage}); looking for the one before it.")
            return None

    def _start(self):
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
        like = jax.eval_shape(partial(start, self.trainer), self.seeds)
        state = self._loaded(self.trainer.steps, like)
        if state is None:
            raise store.StoreError(
                f"{self.folder}: the last checkpoint of {self.label!r}, which others go on from, cannot be trusted; remove"
                " that folder to train it again"
            )
        return state.params

    def _row(self, label: str, point: int, multiple: float, seed: int, *, scores: dict | None = None, fitted=False, **more):
        """One row of results; without scores where there is none."""
        context = self.experiment.context(multiple).length
        place = {"encoding": label, "seed": seed, "multiple": multiple, "length": self.experiment.length(multiple)}
        tuned = {"finetuned": point} if self.experiment.finetuning(label) else {}
        nothing = {"accuracy": None, "exact_match": None, "loss": None}
        return {**place, **tuned, "context": context, **(scores or nothing), "fitted": fitted, **more}

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
                rows.append(self._row(label, point, multiple, seed, **facts))
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


def _fitted(label: str, rows: list[dict]) -> dict[int, bool]:
    """For each seed, whether the model of that label fitted the trained length; its own rows at 1x come first."""
    return {row["seed"]: row["fitted"] for row in reversed(rows) if row["encoding"] == label and row["multiple"] == 1}


_ROW = TypeAdapter(Row)


def _is_row(row: dict) -> bool:
    try:
        return _ROW.validate_python(row, strict=True) == row
    except ValidationError:
        return False
