"""A short run of a config: numbers that show in seconds whether models still train the same.

A stored result is that of the code that is shipped only if nothing that decides it has changed
since. So the numbers of a short run are stored next to it, and a test makes them again. They pass
through everything that a whole run does: initialisation, sampling, the schedule, the optimiser, the
loss, the scalings and the evaluation.

Another processor, or another version of XLA, rounds differently. In so few steps that changes a
loss by less than 1e-6 of itself. A change of the code changes it by more than 1e-5 as a rule.
"""

import math
import tempfile
import threading
import warnings
from pathlib import Path
from typing import Any

from experiments.config.load import load
from experiments.study.files import read_lines
from experiments.study.hooks import Display
from experiments.study.run_study import run_study

OVERRIDES = (
    "seeds=[0]",
    "train.steps=8",
    "train.warmup=2",
    "train.batch=8",
    "train.report_every=1",
    "evaluate.sequences=16",
    "evaluate.multiples=[1, 2]",
)
TOLERANCE = 1e-5  # of a loss, relative
SHARE = 0.01  # of answers: rounding may decide between two symbols

Numbers = dict[str, float]  # by what they are of


def short_run(config: Path) -> Numbers:
    """The loss of every step, and the scores of every encoding at two lengths."""
    experiment = load(config, OVERRIDES)
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "run"
        done: Any = (threading.Event(), warnings.warn)
        result = run_study(experiment, directory, Display, "a short run", *done)
        reports = read_lines(directory / "metrics.jsonl")
    losses = {f"{r['encoding']}, loss of step {r['step']}": r["loss"] for r in reports}
    scores = {
        f"{row['encoding']}, {metric} at {row['multiple']:g}x": value
        for row in result["rows"]
        for metric, value in row["metrics"].items()
    }
    return losses | scores


def changes(then: Numbers, now: Numbers) -> list[str]:
    """The numbers that are not the same up to rounding, in words."""
    return [
        f"{key}: {now.get(key)} now, {then.get(key)} stored"
        for key in then | now
        if not _is_near(key, then.get(key, math.nan), now.get(key, math.nan))
    ]


def _is_near(key: str, a: float, b: float) -> bool:
    is_share = "accuracy" in key or "exact_match" in key
    return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=SHARE * is_share)
