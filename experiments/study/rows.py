"""The rows that a job writes, in order, and how far rows that were read are those."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, takewhile
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from experiments.study.result import Row
from experiments.tasks import Scores
from experiments.training.job import Evaluation, TrainingJob

ACCURACY_BINS = 16  # equal parts of the answers, for scores by position
REPORTS_PER_CHECKPOINT = 10
_ROW = TypeAdapter(Row)


def is_checkpoint(job: TrainingJob, step: int) -> bool:
    """Whether the job's state is saved after this step."""
    is_due = step % (REPORTS_PER_CHECKPOINT * job.report_every) == 0
    return is_due or any(step == evaluation.step for evaluation in job.evaluations)


def report_steps(job: TrainingJob) -> Iterator[int]:
    """The steps after which the job reports its losses."""
    return chain(range(job.report_every, job.train.steps, job.report_every), [job.train.steps])


def report_row(job: TrainingJob, seed: int, step: int, loss: float) -> dict[str, Any]:
    """A row of metrics; JSON has no NaN, so there is None in its place."""
    return {
        "encoding": job.label,
        "seed": seed,
        "step": step,
        "loss": float(loss) if np.isfinite(loss) else None,
    }


def expected_reports(job: TrainingJob, rows: list[dict]) -> list[dict]:
    """The rows of metrics before the first that is not the expected one, for all seeds."""
    expected = (
        report_row(job, seed, step, np.nan) for step in report_steps(job) for seed in job.seeds
    )

    def is_expected(row, blank):
        loss = row.get("loss")
        return row == {**blank, "loss": loss} and (loss is None or isinstance(loss, float))

    return _before_mismatch(rows, expected, is_expected, len(job.seeds))


def blank_rows(job: TrainingJob, evaluation: Evaluation) -> list[Row]:
    """The rows of an evaluation, without scores."""
    tuned = {} if job.parent is None else {"finetuned": evaluation.step}
    place = {"multiple": evaluation.multiple, "length": evaluation.length, **tuned}
    facts: Any = {**place, "context": evaluation.context, "metrics": {}, "fitted": False}
    return [
        Row(encoding=encoding.label, seed=seed, **facts)
        for encoding in evaluation.encodings
        for seed in job.seeds
    ]


def with_scores(job: TrainingJob, row: Row, step: int, scores: Scores) -> Row:
    """The row with what the scores say."""
    task = job.train.task
    if not np.isfinite(scores.losses).all():
        # training diverged after its last report; a NaN has an argmax, but predicts nothing
        return {**row, "diverged": step}
    metrics = {metric.name: float(metric.of(scores)) for metric in task.metrics}
    metrics = {name: value for name, value in metrics.items() if np.isfinite(value)}
    bins = _bins(scores)
    by_position = {
        metric.name: np.round([metric.of(part) for part in bins], 4).tolist()
        for metric in task.metrics
        if metric.name in task.by_position
    }
    fitted = bool(task.fitted(metrics))
    return {**row, "metrics": metrics, "by_position": by_position, "fitted": fitted}


def _bins(scores: Scores) -> list[Scores]:
    """The scores of equal parts of the answers, first to last."""
    places = np.arange(len(scores.answers))
    return [
        scores._replace(right=scores.right[i], losses=scores.losses[i], answers=scores.answers[i])
        for i in np.array_split(places, min(ACCURACY_BINS, len(places)))
    ]


def rows_per_evaluation(job: TrainingJob) -> int:
    return len(job.evaluations[0].encodings) * len(job.seeds)


def expected_results(job: TrainingJob, rows: list[dict]) -> list[dict]:
    """The rows of results before the first that is not the expected one, of whole evaluations."""
    expected = (row for evaluation in job.evaluations for row in blank_rows(job, evaluation))

    def is_expected(row, blank):
        keys = ("encoding", "finetuned", "multiple", "seed")
        return _is_row(row) and all(row.get(key) == blank.get(key) for key in keys)

    return _before_mismatch(rows, expected, is_expected, rows_per_evaluation(job))


def _before_mismatch(
    rows: list[dict], expected: Iterable, is_expected: Callable, group: int
) -> list[dict]:
    """The rows before the first that is not as expected, in whole groups."""
    pairs = zip(rows, expected, strict=False)
    good = sum(1 for _ in takewhile(lambda pair: is_expected(*pair), pairs))
    return rows[: good - good % group]


def _is_row(row: dict) -> bool:
    try:
        return _ROW.validate_python(row, strict=True) == row
    except ValidationError:
        return False


def seeds_fitted(job: TrainingJob, rows: list[Row]) -> dict[int, bool]:
    """For each seed, whether the model has learned the task at the trained length."""
    own = (r for r in reversed(rows) if r["encoding"] == job.label and r["multiple"] == 1)
    return {row["seed"]: row["fitted"] for row in own}
