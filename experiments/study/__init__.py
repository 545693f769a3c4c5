"""The stored study: the results of all configs that come with jrope, and whether a new run agrees with them.

`docs/study/NAME/result.json` is what `configs/NAME.toml` gave. Figures, tables and claims are made from these files alone.
"""

from collections.abc import Iterator
from functools import cache
from itertools import combinations
from pathlib import Path

from experiments import results, store
from experiments.files import telling
from experiments.results import Cell, Result
from experiments.study import claims
from experiments.study.published import PUBLISHED

ROOT = Path(__file__).parents[2]
CONFIGS, STUDY = ROOT / "configs", ROOT / "docs" / "study"
HEADING = """# Published claims, and what was measured here

<!-- claims -->

Written by `python -m experiments report --all` from the stored results, never by hand. Models here have two layers of 64
features and read strings of a dozen symbols, or streams of 64; the papers' have up to billions of parameters. A verdict is
about this scale.

Of two encodings, *agrees*: the claimed sign in every seed, paired, and at least 2 points of accuracy (or 0.02 nats) on
average; five seeds of one sign have a chance of 1 in 32. *disagrees*: the same with the other sign. *undecided*: neither.
Where another question is asked, the row says what: it is judged in each seed, and *undecided* if they differ. *not
testable*: a model has not fitted the trained length, or no experiment bears on it. Numbers: token accuracy in %, or nats;
mean (range) over seeds.
"""
RESOLUTION = 0.005  # of an accuracy: seeds that all agree have no range, though a new one may differ by so much


def names() -> list[str]:
    """The configs that have a stored result."""
    return sorted(path.parent.name for path in STUDY.glob("*/result.json"))


def stored(name: str) -> Result:
    """The stored result of a config.

    Raises:
      StoreError: if there is none, or it cannot be read.
    """
    return store.read(STUDY / name)


def write_claims() -> Path:
    """Judges the published claims by the stored results, into `claims.md` beside them.

    Raises:
      StoreError: if a result that one of them rests on is not stored.
    """
    path = STUDY / "claims.md"
    with telling(path):
        path.write_text(f"{HEADING}\n{claims.markdown(PUBLISHED, cache(stored))}\n", encoding="utf-8")
    return path


def disagreements(old: Result, new: Result) -> Iterator[str]:
    """Where a new run of the same config, with any seeds, does not bear out the stored one: in words, one for each.

    A mean should lie in the stored range of seeds, widened by half of it on either side; encodings whose stored ranges at the
    longest length are apart should come in the same order; and the same models should have fitted. What did not fit in both
    is left out: its scores past the trained length say nothing.
    """
    labels = [label for label in results.labels(old) if label in results.labels(new)]
    for label in labels:
        then, now = results.has_fitted(old, label), results.has_fitted(new, label)
        if then != now:
            yield f"{label}: {_fit(then)} in the stored result, {_fit(now)} now"
    fitted = [label for label in labels if results.has_fitted(old, label) and results.has_fitted(new, label)]
    for label in fitted:
        for multiple in results.multiples(old):
            then, now = (results.cell(result, label, multiple, "accuracy") for result in (old, new))
            if then and now and not _widened(then).low <= now.mean <= _widened(then).high:
                yield f"{label} at {multiple:g}x: {now.percent()} now, {then.percent()} stored"
    longest = results.multiples(old)[-1]
    for a, b in combinations(fitted, 2):
        then = [results.cell(old, label, longest, "accuracy") for label in (a, b)]
        now = [results.cell(new, label, longest, "accuracy") for label in (a, b)]
        if all(then) and all(now):
            low, high = sorted(zip(then, now, strict=True), key=lambda pair: pair[0].mean)  # type: ignore
            if low[0].high < high[0].low and low[1].mean > high[1].mean:  # type: ignore
                yield f"{a} and {b} at {longest:g}x have changed places"


def _widened(cell: Cell) -> Cell:
    more = max((cell.high - cell.low) / 2, RESOLUTION)
    return Cell(cell.mean, cell.low - more, cell.high + more)


def _fit(fitted: bool) -> str:
    return "fitted" if fitted else "not fitted"
