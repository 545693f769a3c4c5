"""The measurements that are committed with the docs, as tables and as numbers."""

import json
from pathlib import Path
from typing import Any

from experiments.bench.timing import Ratio

STORED = Path(__file__).parents[2] / "docs" / "bench"


def read(name: str) -> dict[str, Any]:
    """What one benchmark wrote."""
    return json.loads((STORED / f"{name}.json").read_text())


def forms(case: dict[str, Any]) -> list[Ratio]:
    return [Ratio(**form) for form in case["forms"]]


def times(name: str, case: str, slow: str, fast: str) -> float:
    """How many times as long the one form took as the other, from their ratios to the first."""
    (found,) = (own for own in read(name)["results"] if own["case"] == case)
    ratio = {form.form: form.ratio for form in forms(found)}
    return ratio[slow] / ratio[fast]


def markdown(name: str) -> str:
    """Every case of a benchmark that is no curve: each form's time, and how many times the first form's that is."""
    lines = ["| | time | times the first | middle half |", "|---|---:|---:|---|"]
    for case in read(name)["results"]:
        if "at" not in case:
            lines.append(f"| **{_literal(case['case'])}** | | | |")
            for form in forms(case):
                spread = f"{form.low:.2f}–{form.high:.2f}" if form.low != form.high else ""
                lines.append(f"| {_literal(form.form)} | {duration(form.seconds)} | {form.ratio:.2f} | {spread} |")
    return "\n".join(lines)


def conditions(name: str) -> str:
    """When, and with what, it was measured."""
    about = read(name)
    versions = [f"{key} {value}" for key, value in about.items() if key not in ("date", "machine", "cores", "results")]
    cores = "one core" if about["cores"] == 1 else f"{about['cores']} cores"
    return f"{about['date']}, {cores} of {about['machine']}, {', '.join(versions)}."


def duration(seconds: float) -> str:
    """To three digits, in the unit that suits."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def _literal(text: str) -> str:
    return text.replace("*", r"\*").replace("[", r"\[")
