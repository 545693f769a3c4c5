"""Published claims, each beside what the stored study measured on it.

A verdict is never typed: a claim says which comparison bears on it, and the comparison is made seed by seed. Seeds share
data and, where encodings run on the same trained weights, those too, so differences are paired. `agrees` needs the claimed
sign in every seed and, on average, at least `BY`; so many seeds of one sign have, by chance, a probability of 2^-seeds.
`disagrees` needs the same with the other sign. Anything else is `undecided`, and `not testable` where a model has not fitted
or nothing here bears on it.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from experiments import results
from experiments.results import Result

BY = 0.02  # a difference in accuracy, or in nats, that is worth a word
Study = Callable[[str], Result]


class Finding(NamedTuple):
    """What was measured, in a sentence, and the verdict on the claim."""

    measured: str
    verdict: str


@dataclass(frozen=True)
class Score:
    """One encoding's scores: of which config, at which multiple of the trained length, after all or some fine-tuning."""

    config: str
    label: str
    multiple: float
    metric: str = "accuracy"
    finetuned: int | None = None

    def values(self, study: Study) -> list[float]:
        return results.values(study(self.config), self.label, self.multiple, self.metric, self.finetuned)

    def has_fitted(self, study: Study) -> bool:
        return results.has_fitted(study(self.config), self.label)

    def told(self, study: Study) -> str:
        cell = results.cell(study(self.config), self.label, self.multiple, self.metric, self.finetuned)
        return f"{self.label} {cell.percent() if self.metric == 'accuracy' else cell}" if cell else f"{self.label}: none"


@dataclass(frozen=True)
class Higher:
    """`a` scores higher than `b`; on losses, lower."""

    a: Score
    b: Score

    def __call__(self, study: Study) -> Finding:
        where = f"`{self.a.config}` at {self.a.multiple:g}x"
        measured = f"{where}: {self.a.told(study)}, {self.b.told(study)}"
        for score in (self.a, self.b):
            if not score.has_fitted(study):
                return Finding(f"{measured}; {score.label} has not fitted", "not testable")
        sign = -1 if self.a.metric == "loss" else 1
        pairs = zip(self.a.values(study), self.b.values(study), strict=True)
        return Finding(measured, _verdict([sign * (a - b) for a, b in pairs]))


@dataclass(frozen=True)
class AtLeast:
    """A score reaches a value in every seed."""

    score: Score
    value: float

    def __call__(self, study: Study) -> Finding:
        measured = f"`{self.score.config}` at {self.score.multiple:g}x: {self.score.told(study)}"
        if not self.score.has_fitted(study):
            return Finding(f"{measured}; it has not fitted", "not testable")
        values = self.score.values(study)
        reached = [value >= self.value for value in values]
        return Finding(measured, "agrees" if all(reached) else "disagrees" if not any(reached) else "undecided")


@dataclass(frozen=True)
class Alike:
    """Two scores are within `BY` of each other in every seed."""

    a: Score
    b: Score

    def __call__(self, study: Study) -> Finding:
        measured = f"`{self.a.config}` at {self.a.multiple:g}x: {self.a.told(study)}, {self.b.told(study)}"
        if not (self.a.has_fitted(study) and self.b.has_fitted(study)):
            return Finding(f"{measured}; not fitted", "not testable")
        near = [abs(a - b) <= BY for a, b in zip(self.a.values(study), self.b.values(study), strict=True)]
        return Finding(measured, "agrees" if all(near) else "disagrees" if not any(near) else "undecided")


@dataclass(frozen=True)
class Spread:
    """Seeds of one encoding differ by at least so much."""

    score: Score
    value: float

    def __call__(self, study: Study) -> Finding:
        measured = f"`{self.score.config}` at {self.score.multiple:g}x: {self.score.told(study)}"
        if not self.score.has_fitted(study):
            return Finding(f"{measured}; it has not fitted", "not testable")
        values = self.score.values(study)
        return Finding(measured, "agrees" if max(values) - min(values) >= self.value else "disagrees")


@dataclass(frozen=True)
class Untested:
    """Nothing here bears on it, and why."""

    why: str

    def __call__(self, study: Study) -> Finding:
        return Finding(self.why, "not testable")


def _verdict(differences: list[float]) -> str:
    """Of paired differences, of which positive ones are as claimed."""
    mean = statistics.fmean(differences)
    if min(differences) > 0 and mean >= BY:
        return "agrees"
    if max(differences) < 0 and -mean >= BY:
        return "disagrees"
    return "undecided"


@dataclass(frozen=True)
class Claim:
    """A paper, what it says, and what here bears on it."""

    paper: str
    url: str
    says: str
    test: Callable[[Study], Finding]


def markdown(claims: list[Claim], study: Study) -> str:
    """A table of all claims."""
    lines = ["| paper | says | measured here | verdict |", "| --- | --- | --- | --- |"]
    for claim in claims:
        finding = claim.test(study)
        lines.append(f"| [{claim.paper}]({claim.url}) | {claim.says} | {finding.measured} | **{finding.verdict}** |")
    return "\n".join(lines)
