"""Metrics: numbers that say how well a model does, computed from its scores."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Scores(NamedTuple):
    """How well one encoding does with the parameters of one seed: sums over sequences, in float64.

    A is the number of places in a sequence that have an answer.
    """

    right: np.ndarray  # [A] right answers at each place
    losses: np.ndarray  # [A] losses at each place, in nats
    answers: np.ndarray  # [A] sequences that have an answer at each place
    exact: float  # sequences with all answers right
    sequences: int


@dataclass(frozen=True)
class Metric:
    """One number of a row of results.

    Attributes:
      name: its key in a row.
      title: what axes and table heads show.
      unit: "share", "nats" or "perplexity".
      of: computes it from scores.
    """

    name: str
    title: str
    unit: str
    higher_is_better: bool
    of: Callable[[Scores], float]


def accuracy(scores: Scores) -> float:
    """The share of answers that are right."""
    return float(scores.right.sum() / scores.answers.sum())


def exact_match(scores: Scores) -> float:
    """The share of sequences with all answers right.

    The model reads the right answers, not its own. For greedy decoding this makes no difference: if
    all answers are right, decoding gives the model these very tokens.
    """
    return float(scores.exact / scores.sequences)


def loss(scores: Scores) -> float:
    """Nats per answer."""
    return float(scores.losses.sum() / scores.answers.sum())


def perplexity(scores: Scores) -> float:
    """exp(loss); infinite where float64 has no such number."""
    with np.errstate(over="ignore"):
        return float(np.exp(loss(scores)))


ACCURACY = Metric("accuracy", "Token accuracy", "share", True, accuracy)
EXACT_MATCH = Metric("exact_match", "Exact match", "share", True, exact_match)
LOSS = Metric("loss", "Loss", "nats", False, loss)
PERPLEXITY = Metric("perplexity", "Perplexity", "perplexity", False, perplexity)
