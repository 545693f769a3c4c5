"""How published claims are compared with what the stored study measured.

A claim names a comparison, and the verdict is computed from it, seed by seed. Seeds share data and,
where encodings use the same trained weights, those too: their differences are paired.

agrees        the claimed sign in every seed, and on average a difference of at least `MIN_EFFECT`.
              By chance n seeds have the same sign with a probability of 2^-n.
disagrees     the same with the other sign.
undecided     neither.
not testable  a model has not fitted in every seed, or no experiment here tests the claim.
"""

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from experiments.analysis.table import MIN_EFFECT, Metric, Results

Study = Callable[[str], Results]  # from the name of a config


class Finding(NamedTuple):
    """What was measured, in a sentence, and the verdict on the claim."""

    measured: str
    verdict: str


class Score(NamedTuple):
    """The scores of an encoding in a config, at a multiple of the trained length."""

    config: str
    multiple: float
    label: str
    metric: str = "accuracy"


@dataclass(frozen=True)
class Comparison:
    """Scores that test a claim.

    Attributes:
      judge: the verdict, from the metric and the values of each score, seed by seed.
      question: what is asked, if not whether one score is better.
    """

    scores: tuple[Score, ...]
    judge: Callable[..., str]
    question: str = ""

    def __call__(self, study: Study) -> Finding:
        measured, places, values, reason = [], [], [], ""
        for config, multiple, label, metric in self.scores:
            entry = study(config)[label]
            place = f"`{config}` at {multiple:g}x: "
            cell = entry.cell(multiple, metric)
            text = f"{label} {cell.short() if cell else 'has no value'}"
            measured.append(text if places[-1:] == [place] else place + text)
            places.append(place)
            values.append(entry.values(multiple, metric))
            reason = reason or ("" if entry.has_fitted else f"; {label} {entry.outcome}")
        question = f"; question: {self.question}" if self.question else ""
        sentence = ", ".join(measured) + question + reason
        if reason or not all(values):
            return Finding(sentence, "not testable")
        config, _, _, metric = self.scores[0]
        return Finding(sentence, self.judge(study(config).metric(metric), *values))


def better(config: str, multiple: float, a: str, b: str, metric: str = "accuracy") -> Comparison:
    """Encoding `a` is better than `b`, at the same length."""
    return compare(*(Score(config, multiple, label, metric) for label in (a, b)))


def compare(a: Score, b: Score) -> Comparison:
    """Score `a` is better than `b`."""

    def judge(metric: Metric, own: list[float], baseline: list[float]) -> str:
        gains = list(map(metric.gain, own, baseline))
        mean = statistics.fmean(gains)
        if min(gains) > 0 and mean >= MIN_EFFECT:
            return "agrees"
        return "disagrees" if max(gains) < 0 and mean <= -MIN_EFFECT else "undecided"

    return Comparison((a, b), judge)


def at_least(value: float, score: Score) -> Comparison:
    """The score reaches the value in every seed."""
    question = f"at least {100 * value:g}?"
    return Comparison((score,), lambda _, own: _of_seeds(x >= value for x in own), question)


def same(a: Score, b: Score) -> Comparison:
    """The scores are within `MIN_EFFECT` of each other in every seed."""

    def judge(metric: Metric, *values: list[float]) -> str:
        return _of_seeds(abs(x - y) <= MIN_EFFECT for x, y in zip(*values, strict=True))

    return Comparison((a, b), judge, f"within {100 * MIN_EFFECT:g} points?")


def spread(value: float, score: Score) -> Comparison:
    """The seeds differ by at least this value."""

    def judge(metric: Metric, own: list[float]) -> str:
        return "agrees" if max(own) - min(own) >= value else "disagrees"

    return Comparison((score,), judge, f"seeds {100 * value:g} points apart?")


def untested(why: str) -> Callable[[Study], Finding]:
    """No experiment here tests the claim."""
    return lambda study: Finding(why, "not testable")


def _of_seeds(answers: Iterable[bool]) -> str:
    answers = list(answers)
    return "agrees" if all(answers) else "undecided" if any(answers) else "disagrees"


class Claim(NamedTuple):
    """A paper, what it says, and the test of it here."""

    paper: str
    url: str
    says: str
    test: Callable[[Study], Finding]


def markdown(claims: list[Claim], study: Study) -> str:
    """A table of all claims."""
    lines = ["| paper | claim | measured here | verdict |", "| --- | --- | --- | --- |"]
    for paper, url, says, test in claims:
        measured, verdict = test(study)
        lines.append(f"| [{paper}]({url}) | {says} | {measured} | **{verdict}** |")
    return "\n".join(lines)
