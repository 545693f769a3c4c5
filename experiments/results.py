"""What the rows of a result say: means and ranges over seeds, which models fitted, and the answer in words."""

import statistics
from collections.abc import Mapping
from typing import (
    Any,
    NamedTuple,
    NotRequired,  # pydantic reads those of typing only from Python 3.12 on
)

from typing_extensions import TypedDict

WORTH = 0.02  # of accuracy, or in nats: a difference that is worth a word


class Row(TypedDict):
    """The scores of one encoding at one length for one seed; None where there is none."""

    encoding: str
    seed: int
    multiple: float
    length: int
    context: int
    accuracy: float | None
    exact_match: float | None
    loss: float | None
    accuracy_along: NotRequired[list[float]]  # in equal parts of the answers, first to last
    loss_along: NotRequired[list[float]]
    fitted: bool  # whether the model that the encoding runs on has learned the task at the trained length
    finetuned: NotRequired[int]  # steps of further training before these scores
    limit: NotRequired[int]  # positions that the encoding has a value for, where this length goes past them
    diverged: NotRequired[int]  # the step at whose report training was found to have diverged


class TaskFacts(TypedDict):
    """What a reader of the scores must know about the task."""

    type: str
    trained_length: int
    trained_context: int
    chance: float
    chance_loss: float
    floor: float
    fitted_means: str
    parents: dict[str, str]  # each encoding's trained one: itself, or the one it extends


class Bands(TypedDict):
    """A RoPE spectrum at the longest evaluated length."""

    frequencies: list[float]  # radians per position, of each pair
    amplitude: float


class EvaluateFacts(TypedDict):
    sequences: int


class FineTuneFacts(TypedDict):
    multiple: float


class SweptFacts(TypedDict):
    of: str
    values: dict[str, bool | int | float | str]


class EncodingFacts(TypedDict):
    panel: NotRequired[str]
    swept: NotRequired[SweptFacts]


class ConfigFacts(TypedDict):
    """What a reader of the scores uses of the config."""

    title: str
    seeds: list[int]
    evaluate: EvaluateFacts
    finetune: NotRequired[FineTuneFacts]
    encodings: dict[str, EncodingFacts]


class Result(TypedDict):
    """All that a run leaves behind, and all that figures and reports read."""

    format: int
    command: str
    environment: dict[str, Any]
    config: dict[str, Any]
    task: TaskFacts
    bands: dict[str, Bands]
    rows: list[Row]


class Cell(NamedTuple):
    """One metric of one encoding at one length, over seeds."""

    mean: float
    low: float
    high: float

    def __str__(self):
        return f"{self.mean:.3f} ({self.low:.3f}–{self.high:.3f})"

    def percent(self) -> str:
        """A share, short enough for a terminal."""
        return f"{100 * self.mean:.1f} ({100 * self.low:.0f}–{100 * self.high:.0f})"


def labels(result: Result) -> list[str]:
    """The encodings, in the config's order."""
    return list(result["task"]["parents"])


def lengths(result: Result) -> dict[int, float]:
    """The evaluated lengths, ascending, each with its multiple of the trained length."""
    return dict(sorted({row["length"]: row["multiple"] for row in result["rows"]}.items()))


def multiples(result: Result) -> list[float]:
    """The evaluated lengths over the trained one, ascending."""
    return list(lengths(result).values())


def swept(result: Result, label: str) -> dict[str, Any] | None:
    """Of an encoding that a sweep made: the sweep it is `of`, and the `values` that it set."""
    return result["config"]["encodings"].get(label, {}).get("swept")


def points(result: Result, label: str) -> list[int]:
    """After how many steps of fine-tuning the encoding was evaluated, ascending; none if it was not fine-tuned."""
    return sorted({row["finetuned"] for row in result["rows"] if row["encoding"] == label and "finetuned" in row})


def rows(result: Result, label: str, multiple: float, finetuned: int | None = None) -> list[Row]:
    """The rows of all seeds; of an encoding that was fine-tuned, after that many steps, by default after all."""
    own = [row for row in result["rows"] if row["encoding"] == label and row["multiple"] == multiple]
    point = max((row.get("finetuned", 0) for row in own), default=0) if finetuned is None else finetuned
    return [row for row in own if row.get("finetuned", point) == point]


def values(result: Result, label: str, multiple: float, metric: str, finetuned: int | None = None) -> list[float]:
    """A metric of each seed, in their order; none if a seed has no value."""
    found = [row[metric] for row in rows(result, label, multiple, finetuned)]
    return [] if any(value is None for value in found) else found


def cell(result: Result, label: str, multiple: float, metric: str, finetuned: int | None = None) -> Cell | None:
    """Mean and range over seeds of accuracy, exact_match or loss; None where a seed has no value."""
    found = values(result, label, multiple, metric, finetuned)
    return Cell(statistics.fmean(found), min(found), max(found)) if found else None


def absent(result: Result, label: str, multiple: float) -> str:
    """What stands in place of a cell: a dash where the encoding has no value, or that training diverged."""
    return "diverged" if any("diverged" in row for row in rows(result, label, multiple)) else "–"


def diverged(result: Result) -> list[str]:
    """The trained encodings of which a seed diverged."""
    parents = result["task"]["parents"]
    return [label for label in labels(result) if parents[label] == label and absent(result, label, 1) == "diverged"]


def fitted(result: Result, label: str) -> tuple[int, int]:
    """How many seeds of the model that this encoding runs on learned the task at the trained length, and of how many."""
    seeds = rows(result, label, 1)
    return sum(row["fitted"] for row in seeds), len(seeds)


def has_fitted(result: Result, label: str) -> bool:
    """Whether every seed did: only then does the encoding's extrapolation say anything."""
    count, seeds = fitted(result, label)
    return count == seeds


def limit(result: Result, label: str) -> int | None:
    """The number of positions that the encoding has a value for, where an evaluated length went past it."""
    return next((row["limit"] for row in result["rows"] if row["encoding"] == label and "limit" in row), None)


def fit_sentence(result: Result) -> str:
    """Which of the trained models fitted the trained length."""
    trained = [label for label in labels(result) if result["task"]["parents"][label] == label]
    unfitted = [label for label in trained if not has_fitted(result, label)]
    means = f"({result['task']['fitted_means']} at 1x in every seed)"
    if not unfitted:
        return f"{', '.join(trained)}: fitted to the trained length {means}."
    told = ", ".join(f"{label} ({_unfitted(result, label)})" for label in unfitted)
    return f"Not fitted {means}: {told}. What these do past the trained length says nothing about their encoding."


def _unfitted(result: Result, label: str) -> str:
    steps = [row["diverged"] for row in rows(result, label, 1) if "diverged" in row]
    return f"diverged by step {min(steps)}" if steps else "{} of {} seeds".format(*fitted(result, label))


def answer(result: Result) -> str:
    """The order of the encodings at the greatest length, in a sentence made from the numbers."""
    multiple = multiples(result)[-1]
    fits = [label for label in labels(result) if has_fitted(result, label)]
    scored = [(label, c) for label in fits if (c := cell(result, label, multiple, "accuracy"))]
    ranked = sorted(scored, key=lambda pair: -pair[1].mean)
    if not ranked:
        return f"No fitted model has a value at {multiple:g}x the trained length."
    listed = ", ".join(f"{label} {c.percent()}" for label, c in ranked)
    ended = [label for label in fits if limit(result, label)]
    none = f" No value there: {', '.join(ended)}." if ended else ""
    return f"Token accuracy at {multiple:g}x the trained length, in % as mean (range) over seeds: {listed}.{none}"


class Incomparable(Exception):
    """Runs that do not belong in one figure, and why."""


def merged(runs: Mapping[str, Result]) -> Result:
    """Several results as one, in which the encodings are called `run: encoding`.

    Raises:
      Incomparable: if they are not of one task and trained length.
    """
    first = next(iter(runs.values()))
    for name, result in runs.items():
        for key in ("type", "trained_length", "trained_context", "chance_loss", "floor"):
            own, other = result["task"][key], first["task"][key]
            if own != other:
                raise Incomparable(
                    f"{name}: cannot be compared with the first: its {key} is {own!r}, that of the first {other!r}"
                )

    parents, encodings, bands = {}, {}, {}
    for name, run in runs.items():
        parents |= {f"{name}: {label}": f"{name}: {parent}" for label, parent in run["task"]["parents"].items()}
        encodings |= {f"{name}: {label}": section for label, section in run["config"]["encodings"].items()}
        bands |= {f"{name}: {label}": own for label, own in run["bands"].items()}
    return {
        **first,
        "config": {
            **{key: value for key, value in first["config"].items() if key != "finetune"},
            "title": " against ".join(runs),
            "encodings": encodings,
        },
        "task": {**first["task"], "parents": parents},
        "bands": bands,
        "rows": [{**row, "encoding": f"{name}: {row['encoding']}"} for name, run in runs.items() for row in run["rows"]],
    }
