"""The measurements that are committed with the docs, as tables and as numbers."""

import json
from pathlib import Path
from typing import Any

from benchmarks.timing import Ratio

STORED = Path(__file__).parents[1] / "docs" / "bench"


def read(name: str) -> dict[str, Any]:
    """What one benchmark wrote."""
    return json.loads((STORED / f"{name}.json").read_text("utf-8"))


def ratios(case: dict[str, Any]) -> list[Ratio]:
    """The forms of a stored case."""
    return [Ratio(**form) for form in case["forms"]]


def times(name: str, case: str, slow: str, fast: str) -> float:
    """How many times as long the form `slow` takes as the form `fast`."""
    (found,) = (stored for stored in read(name)["results"] if stored["case"] == case)
    ratio = {form.form: form.ratio for form in ratios(found)}
    return ratio[slow] / ratio[fast]


def markdown(name: str) -> str:
    """A table of the cases of a benchmark, without its curves."""
    lines = ["| | time | times the first | middle half |", "|---|---:|---:|---|"]
    for case in read(name)["results"]:
        if "at" in case:
            continue
        lines.append(f"| **{_escape(case['case'])}** | | | |")
        for form in ratios(case):
            spread = f"{form.low:.2f}–{form.high:.2f}" if form.low != form.high else ""
            cells = _escape(form.form), duration(form.seconds), f"{form.ratio:.2f}", spread
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def conditions(name: str) -> str:
    """The date, the machine and the versions of a measurement."""
    about = read(name)
    cores = "one core" if about["cores"] == 1 else f"{about['cores']} cores"
    known = ("date", "machine", "cores", "results")
    versions = [f"{key} {value}" for key, value in about.items() if key not in known]
    return f"{about['date']}, {cores} of {about['machine']}, {', '.join(versions)}."


def duration(seconds: float) -> str:
    """A time with three digits and a unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def _escape(text: str) -> str:
    return text.replace("*", r"\*").replace("[", r"\[")
