"""The rows that one stage of training will write, in order, and how far rows that were read are those."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from pydantic import TypeAdapter, ValidationError

from experiments.config.experiment import Experiment
from experiments.results import Row

REPORTS_A_CHECKPOINT = 10
_ROW = TypeAdapter(Row)


@dataclass(frozen=True)
class Plan:
    """What is reported, saved and evaluated of the stage `label`, whose weights all `members` are evaluated on."""

    experiment: Experiment
    label: str
    members: tuple[str, ...]
    steps: int

    @property
    def points(self) -> list[int]:
        """The steps at which it is evaluated."""
        return self.experiment.points(self.label)

    @property
    def places(self) -> list[tuple[int, float]]:
        """Steps and multiples of the trained length at which it is evaluated, in order."""
        # the trained length and the encoding itself come first: they tell whether the model has learned
        multiples = sorted(self.experiment.evaluate.multiples, key=lambda multiple: multiple != 1)
        return [(point, multiple) for point in self.points for multiple in multiples]

    @property
    def at_once(self) -> int:
        """Rows of one place."""
        return len(self.members) * len(self.experiment.seeds)

    def scheduled(self, step: int) -> bool:
        """Whether there is a checkpoint after this step."""
        every = REPORTS_A_CHECKPOINT * self.experiment.train_of(self.label).report_every
        return step % every == 0 or step in self.points

    def rows(self) -> list[tuple[str, int, float, int]]:
        """Encoding, steps, multiple and seed of every row of results."""
        seeds = self.experiment.seeds
        return [(member, *place, seed) for place in self.places for member in self.members for seed in seeds]

    def row(self, label: str, point: int, multiple: float, seed: int, *, scores: dict | None = None, fitted=False, **more):
        """One row of results; without scores where there is none."""
        context = self.experiment.context(multiple).length
        place = {"encoding": label, "seed": seed, "multiple": multiple, "length": self.experiment.length(multiple)}
        tuned = {"finetuned": point} if self.experiment.finetuning(label) else {}
        nothing = {"accuracy": None, "exact_match": None, "loss": None}
        return {**place, **tuned, "context": context, **(scores or nothing), "fitted": fitted, **more}

    def rows_as_planned(self, rows: list[dict]) -> list[dict]:
        """The rows as far as they are those of the plan, for all members and seeds."""
        wanted = [self.row(*key) for key in self.rows()]
        names = ("encoding", "finetuned", "multiple", "seed")
        pairs = enumerate(zip(rows, wanted, strict=False))
        strange = (i for i, (row, plan) in pairs if not _is_row(row) or any(row.get(n) != plan.get(n) for n in names))
        good = next(strange, len(rows))
        return rows[: good - good % self.at_once]

    def reports(self) -> Iterator[tuple[int, int]]:
        """Step and seed of every row of metrics."""
        every = self.experiment.train_of(self.label).report_every
        steps = chain(range(every, self.steps, every), [self.steps])
        return ((step, seed) for step in steps for seed in self.experiment.seeds)

    def reports_as_planned(self, rows: list[dict]) -> list[dict]:
        """The rows of metrics as far as they are those of the plan, for all seeds."""
        good = 0
        for row, (step, seed) in zip(rows, self.reports(), strict=False):
            if row != {"encoding": self.label, "seed": seed, "step": step, "loss": (loss := row.get("loss"))}:
                break
            if not isinstance(loss, float | None):
                break
            good += 1
        return rows[: good - good % len(self.experiment.seeds)]

    def fitted(self, rows: list[dict]) -> dict[int, bool]:
        """For each seed, whether the model fitted the trained length; its own rows at 1x come first."""
        own = (row for row in reversed(rows) if row["encoding"] == self.label and row["multiple"] == 1)
        return {row["seed"]: row["fitted"] for row in own}


def _is_row(row: dict) -> bool:
    try:
        return _ROW.validate_python(row, strict=True) == row
    except ValidationError:
        return False
