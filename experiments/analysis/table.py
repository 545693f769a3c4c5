"""Results as a table: one row for each encoding, length, seed and number of fine-tuning steps."""

import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Self

from experiments.study.result import Result, Row, SweptFacts, read

MIN_EFFECT = 0.02  # the smallest difference to report: a share, or nats


class Metric(NamedTuple):
    """What a task says of one number of its rows."""

    name: str
    title: str
    unit: str  # "share", "nats" or "perplexity"
    higher_is_better: bool

    @property
    def heading(self) -> str:
        """The title, with the unit where readers need it."""
        return f"{self.title} (nats per answer)" if self.unit == "nats" else self.title

    def gain(self, value: float, baseline: float) -> float:
        """How much better a value is than the baseline: as a share, or in nats."""
        if self.unit == "perplexity" and min(value, baseline) > 0:
            value, baseline = math.log(value), math.log(baseline)
        return value - baseline if self.higher_is_better else baseline - value

    def text(self, value: float) -> str:
        """A value for a sentence: `35 %`, or `1.23`."""
        return f"{100 * value:.0f} %" if self.unit == "share" else f"{value:.2f}"


class Cell(NamedTuple):
    """One metric of one encoding at one length: its mean and range over seeds."""

    mean: float
    low: float
    high: float
    unit: str = "share"

    def __str__(self) -> str:
        return f"{self.mean:.3f} ({self.low:.3f}–{self.high:.3f})"

    def short(self) -> str:
        """A share in percent, which fits a narrow table; another metric as it is."""
        if self.unit != "share":
            return str(self)
        return f"{100 * self.mean:.1f} ({100 * self.low:.0f}–{100 * self.high:.0f})"


@dataclass(frozen=True, eq=False)
class Results:
    """The content of a result.json, with the questions that figures, tables and reports ask."""

    data: Result

    @classmethod
    def read(cls, directory: str | Path) -> Self:
        """The results of a complete run; raises what `experiments.study.result.read` raises."""
        return cls(read(directory))

    @property
    def task(self):
        return self.data["task"]

    @property
    def config(self):
        return self.data["config"]

    @property
    def labels(self) -> list[str]:
        """The encodings, in the order of the config."""
        return list(self.task["parents"])

    def __getitem__(self, label: str) -> "Entry":
        return Entry(self, label)

    def __iter__(self) -> Iterator["Entry"]:
        return map(self.__getitem__, self.labels)

    @property
    def trained(self) -> list["Entry"]:
        """The encodings with separate weights; each of the others extends one of these."""
        return [entry for entry in self if entry.parent == entry.label]

    @property
    def diverged(self) -> list[str]:
        """The trained encodings that diverged in a seed."""
        return [entry.label for entry in self.trained if entry.diverged_at is not None]

    @cached_property
    def lengths(self) -> dict[int, float]:
        """The evaluated lengths, ascending; each with its multiple of the trained length."""
        return dict(sorted({row["length"]: row["multiple"] for row in self.data["rows"]}.items()))

    @property
    def multiples(self) -> list[float]:
        return list(self.lengths.values())

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """Those of the task. The main figure shows the first and the last of them."""
        return tuple(Metric(**facts) for facts in self.task["metrics"])

    @property
    def main_metric(self) -> Metric:
        """The metric that tables show, and that ranks the encodings."""
        return self.metrics[0]

    def metric(self, name: str | None = None) -> Metric:
        """By its name; without one the main metric."""
        return next(metric for metric in self.metrics if name in (None, metric.name))

    def fit_sentence(self) -> str:
        """Which models learned the task at the trained length."""
        criterion = f"in every seed (criterion at 1x: {self.task['fitted_means']})"
        unfitted = [entry for entry in self.trained if not entry.has_fitted]
        if not unfitted:
            listed = ", ".join(entry.label for entry in self.trained)
            return f"All fitted to the trained length {criterion}: {listed}."
        listed = ", ".join(f"{entry.label} ({entry.outcome})" for entry in unfitted)
        return (
            f"Not fitted to the trained length {criterion}: {listed}."
            " Their scores at longer lengths say nothing about their encodings."
        )

    def answer(self) -> str:
        """The ranking of the fitted encodings at the greatest length."""
        multiple, metric = self.multiples[-1], self.main_metric
        fitted = [entry for entry in self if entry.has_fitted]
        scored = [(entry.label, cell) for entry in fitted if (cell := entry.cell(multiple))]
        if not scored:
            return f"No fitted model has a value at {multiple:g}x the trained length."
        scored.sort(key=lambda pair: pair[1].mean, reverse=metric.higher_is_better)
        listed = ", ".join(f"{label} {cell.short()}" for label, cell in scored)
        unit = ", in %" if metric.unit == "share" else ""
        ended = ", ".join(entry.label for entry in fitted if entry.limit)
        return (
            f"{metric.title} at {multiple:g}x the trained length{unit}, mean (range) over seeds:"
            f" {listed}." + (f" No value there: {ended}." if ended else "")
        )

    @cached_property
    def rows(self) -> dict[str, list[Row]]:
        """The rows of each encoding."""
        rows = {label: [] for label in self.labels}
        for row in self.data["rows"]:
            rows.setdefault(row["encoding"], []).append(row)
        return rows


@dataclass(frozen=True, eq=False)
class Entry:
    """One encoding in the results. Without a `step`, scores are those after all fine-tuning."""

    results: Results
    label: str

    @property
    def parent(self) -> str:
        """The encoding whose weights this one uses: itself, or the one it extends."""
        return self.results.task["parents"].get(self.label, self.label)

    @property
    def section(self) -> dict:
        """Its section of the config."""
        return self.results.config["encodings"].get(self.label, {})

    @property
    def swept(self) -> SweptFacts | None:
        """If a sweep made it: the sweep it is `of`, and the `values` that the sweep set."""
        return self.section.get("swept")

    @property
    def frequencies(self) -> list[float]:
        """Of its RoPE spectrum at the longest length; empty if it does not rotate."""
        band = self.results.data["bands"].get(self.label)
        return band["frequencies"] if band else []

    @property
    def limit(self) -> int | None:
        """How many positions it has a value for, if an evaluated length exceeds that."""
        return next((row["limit"] for row in self._rows if "limit" in row), None)

    @property
    def points(self) -> list[int]:
        """The steps of fine-tuning after which it was evaluated; empty without fine-tuning."""
        return sorted({row["finetuned"] for row in self._rows if "finetuned" in row})

    @property
    def fitted(self) -> tuple[int, int]:
        """How many seeds of its model learned the task at the trained length, and of how many."""
        rows = self.rows(1)
        return sum(row["fitted"] for row in rows), len(rows)

    @property
    def has_fitted(self) -> bool:
        """Whether it fitted in every seed: only then does its extrapolation say anything."""
        fitted, seeds = self.fitted
        return fitted == seeds

    @property
    def diverged_at(self) -> int | None:
        """The first step at which training was found to have diverged in a seed."""
        return min((row["diverged"] for row in self.rows(1) if "diverged" in row), default=None)

    @property
    def outcome(self) -> str:
        """Whether it fitted, in words that say of how many seeds."""
        if self.diverged_at is not None:
            return f"diverged by step {self.diverged_at}"
        return "fitted in {} of {} seeds".format(*self.fitted)

    def rows(self, multiple: float, step: int | None = None) -> list[Row]:
        """The rows of all seeds."""
        rows = [row for row in self._rows if row["multiple"] == multiple]
        if step is None:
            step = max((row.get("finetuned", 0) for row in rows), default=0)
        return [row for row in rows if row.get("finetuned", step) == step]

    def values(
        self, multiple: float, metric: str | None = None, step: int | None = None
    ) -> list[float]:
        """A metric of each seed, by default the main one; empty if a seed has no value."""
        name = self.results.metric(metric).name
        values = [row["metrics"].get(name) for row in self.rows(multiple, step)]
        return [] if None in values else values  # pyright: ignore[reportReturnType]

    def cell(
        self, multiple: float, metric: str | None = None, step: int | None = None
    ) -> Cell | None:
        """Mean and range of `values`, of perplexities the geometric mean; None without values."""
        values = self.values(multiple, metric, step)
        if not values:
            return None
        unit = self.results.metric(metric).unit
        is_log = unit == "perplexity" and min(values) > 0  # a damaged file may have any number
        mean = statistics.geometric_mean if is_log else statistics.fmean
        return Cell(mean(values), min(values), max(values), unit)

    def absence(self, multiple: float) -> str:
        """What a table shows instead of a cell: a dash for no value, or that training diverged."""
        return "diverged" if any("diverged" in row for row in self.rows(multiple)) else "–"

    @property
    def _rows(self) -> list[Row]:
        return self.results.rows.get(self.label, [])
