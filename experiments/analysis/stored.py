"""The stored study: the results of all configs of jrope, and whether a new run matches them.

`docs/study/NAME/result.json` is the result of `configs/NAME.toml`. `short_run.json` next to it has
the numbers of a short run of the same code (`experiments.analysis.short_run`).
"""

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import combinations
from pathlib import Path

from experiments.analysis import claims
from experiments.analysis.published import PUBLISHED
from experiments.analysis.table import Cell, Results
from experiments.study.files import read_bytes, write_bytes, write_json

ROOT = Path(__file__).parents[2]
CONFIGS, STUDY = ROOT / "configs", ROOT / "docs" / "study"
HEADING = """# Published claims, and what was measured here

<!-- claims -->

`python -m experiments report --all` writes this table from the stored results. Models here have two
layers of 64 features. They read strings of a dozen symbols, or streams of 64; the papers' models
have up to billions of parameters. A verdict holds for this scale only.

- *agrees*: one encoding is better than the other, as claimed, in every seed, and by at least 2
  points of accuracy (or 0.02 nats) on average. By chance, five seeds would do so once in 32 times.
- *disagrees*: the same, but the other encoding is better.
- *undecided*: neither.
- *not testable*: a model has not fitted the trained length in every seed, or no experiment here
  tests the claim.

Some rows ask another question, which they state. It is answered for each seed, and *undecided* if
the answers differ. Numbers are token accuracy in %, or nats: mean (range) over seeds.
"""
RESOLUTION = 0.005  # of an accuracy: a new seed may differ by this even if all stored ones agree


def names() -> list[str]:
    """The configs that have a stored result."""
    return sorted(path.parent.name for path in STUDY.glob("*/result.json"))


def stored(name: str) -> Results:
    """The stored results of a config.

    Raises:
      DirectoryError: if there are none, or they cannot be read.
    """
    return Results.read(STUDY / name)


def store(name: str, directory: Path, numbers: Mapping[str, float]):
    """Replaces the stored result of a config.

    Args:
      directory: of a complete run.
      numbers: of a short run of the same code.

    Raises:
      DiskError: if they cannot be written.
    """
    path = STUDY / name / "result.json"
    write_bytes(path, read_bytes(directory / path.name))
    write_json(path.with_name("short_run.json"), numbers)


def claims_page() -> str:
    """The published claims, with the verdicts that follow from the stored results."""
    return f"{HEADING}\n{claims.markdown(PUBLISHED, cache(stored))}\n"


def write_claims() -> Path:
    """Writes `claims_page` next to the stored results.

    Raises:
      DirectoryError: if a result that a claim needs is not stored.
      DiskError: if the page cannot be written.
    """
    path = STUDY / "claims.md"
    write_bytes(path, claims_page().encode())
    return path


def disagreements(old: Results, new: Results) -> Iterator[str]:
    """Where a new run of the same config, with any seeds, does not match the stored one.

    - The same models should have fitted. What follows is about those that fitted in both.
    - A new mean should lie in the stored range, widened by half of it on either side.
    - Encodings whose stored ranges do not overlap at the longest length should keep their order.
    """
    labels = [label for label in old.labels if label in new.labels]
    for label in labels:
        then, now = (results[label] for results in (old, new))
        if then.has_fitted != now.has_fitted:
            yield f"{label}: {then.outcome} in the stored result, {now.outcome} now"
    fitted = [label for label in labels if old[label].has_fitted and new[label].has_fitted]
    for label in fitted:
        for multiple in old.multiples:
            then, now = (results[label].cell(multiple) for results in (old, new))
            if then and now and not _is_near(now, then):
                yield f"{label} at {multiple:g}x: {now.short()} now, {then.short()} stored"
    longest = old.multiples[-1]
    for pair in combinations(fitted, 2):
        then, now = ([results[label].cell(longest) for label in pair] for results in (old, new))
        if None not in (*then, *now) and _have_swapped(then, now):  # pyright: ignore[reportArgumentType]
            yield f"{pair[0]} and {pair[1]} at {longest:g}x have swapped their order"


def _is_near(now: Cell, then: Cell) -> bool:
    margin = max((then.high - then.low) / 2, RESOLUTION)
    return then.low - margin <= now.mean <= then.high + margin


def _have_swapped(then: list[Cell], now: list[Cell]) -> bool:
    """Whether the ranges of two encodings were apart, and the means are in the other order now."""
    (low, new_low), (high, new_high) = sorted(zip(then, now, strict=True), key=lambda c: c[0].mean)
    return low.high < high.low and new_low.mean > new_high.mean
