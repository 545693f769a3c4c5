"""Tasks: pure samplers of token sequences, with their metrics; and samplers of position ids."""

from experiments.tasks.metrics import (
    ACCURACY,
    EXACT_MATCH,
    LOSS,
    PERPLEXITY,
    Metric,
    Scores,
)
from experiments.tasks.positions import POSITIONS, Consecutive, Positions, Randomized
from experiments.tasks.streams import Lag
from experiments.tasks.strings import Copy, Reverse, Sort, Transduction
from experiments.tasks.task import Task

__all__ = [
    "ACCURACY",
    "EXACT_MATCH",
    "LOSS",
    "PERPLEXITY",
    "POSITIONS",
    "TASKS",
    "Consecutive",
    "Copy",
    "Lag",
    "Metric",
    "Positions",
    "Randomized",
    "Reverse",
    "Scores",
    "Sort",
    "Task",
    "Transduction",
]

# what a config's `task.type` may be
TASKS: dict[str, type[Task]] = {"copy": Copy, "reverse": Reverse, "sort": Sort, "lag": Lag}
