"""Published claims, each beside what the stored study measured on it.

A verdict is never typed: a claim says which comparison bears on it, and the comparison is made seed by seed. Seeds share
data and, where encodings run on the same trained weights, those too, so differences are paired. `agrees` needs the claimed
sign in every seed and, on average, at least `WORTH`; so many seeds of one sign have, by chance, a probability of 2^-seeds.
`disagrees` needs the same with the other sign. Anything else is `undecided`, and `not testable` where a model has not fitted
or nothing here bears on it.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from experiments import results
from experiments.results import WORTH, Result

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
class Comparison:
    """Scores that bear on a claim, and the verdict of what each seed got. Models that have not fitted bear on nothing."""

    def scores(self) -> list[Score]:
        return [score for score in vars(self).values() if isinstance(score, Score)]

    @property
    def asked(self) -> str:
        """The question, where it is another than whether one score is higher."""
        return ""

    def verdict(self, *values: list[float]) -> str:
        """Of the values of each score, seed by seed."""
        raise NotImplementedError

    def __call__(self, study: Study) -> Finding:
        scores = self.scores()
        places = [f"`{score.config}` at {score.multiple:g}x: " for score in scores]
        told = [score.told(study) for score in scores]
        # the place is said again where it is another
        measured = ", ".join((place if i == 0 or place != places[0] else "") + told[i] for i, place in enumerate(places))
        measured += f"; asked: {self.asked}" if self.asked else ""
        for score in scores:
            if not score.has_fitted(study):
                return Finding(f"{measured}; {score.label} has not fitted", "not testable")
        values = [score.values(study) for score in scores]
        return Finding(measured, self.verdict(*values) if all(values) else "not testable")


@dataclass(frozen=True)
class Higher(Comparison):
    """`a` scores higher than `b`; on losses, lower."""

    a: Score
    b: Score

    def verdict(self, *values):
        sign = -1 if self.a.metric == "loss" else 1
        differences = [sign * (a - b) for a, b in zip(*values, strict=True)]
        mean = statistics.fmean(differences)
        if min(differences) > 0 and mean >= WORTH:
            return "agrees"
        return "disagrees" if max(differences) < 0 and -mean >= WORTH else "undecided"


@dataclass(frozen=True)
class AtLeast(Comparison):
    """A score reaches a value in every seed."""

    score: Score
    value: float

    @property
    def asked(self):
        return f"at least {100 * self.value:g}"

    def verdict(self, *values):
        return _of_all([value >= self.value for value in values[0]])


@dataclass(frozen=True)
class Alike(Comparison):
    """Two scores are within `WORTH` of each other in every seed."""

    a: Score
    b: Score

    @property
    def asked(self):
        return f"within {100 * WORTH:g} points"

    def verdict(self, *values):
        return _of_all([abs(a - b) <= WORTH for a, b in zip(*values, strict=True)])


@dataclass(frozen=True)
class Spread(Comparison):
    """Seeds of one encoding differ by at least so much."""

    score: Score
    value: float

    @property
    def asked(self):
        return f"seeds {100 * self.value:g} points apart"

    def verdict(self, *values):
        return "agrees" if max(values[0]) - min(values[0]) >= self.value else "disagrees"


@dataclass(frozen=True)
class Untested:
    """Nothing here bears on it, and why."""

    why: str

    def __call__(self, study: Study) -> Finding:
        return Finding(self.why, "not testable")


def _of_all(seeds: list[bool]) -> str:
    return "agrees" if all(seeds) else "undecided" if any(seeds) else "disagrees"


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
