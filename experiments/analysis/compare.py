"""Several runs as one, for a report that compares them."""

from collections.abc import Mapping
from itertools import chain

from experiments.analysis.table import Results
from experiments.study.directory import flat
from experiments.text import shown


class Incomparable(Exception):
    """Runs that do not belong in one figure, and why."""


def merged(runs: Mapping[str, Results]) -> Results:
    """The results of several runs together; the encodings are called `run: encoding`.

    Raises:
      Incomparable: if the runs differ in task or trained length.
    """
    (_, first), *others = runs.items()
    for name, results in others:
        for key in ("type", "metrics", "trained_length", "trained_context", "chance_loss", "floor"):
            own, other = results.task[key], first.task[key]
            if own != other:
                raise Incomparable(
                    f"{name}: cannot be compared with the first run:"
                    f" its {key} is {own!r}, that of the first {other!r}"
                )

    parents, encodings, bands, rows = {}, {}, {}, []
    for name, results in runs.items():
        parents |= {f"{name}: {e.label}": f"{name}: {e.parent}" for e in results}
        encodings |= {f"{name}: {k}": v for k, v in results.config["encodings"].items()}
        bands |= {f"{name}: {label}": band for label, band in results.data["bands"].items()}
        rows += [row | {"encoding": f"{name}: {row['encoding']}"} for row in results.data["rows"]]
    # runs may differ in their fine-tuning
    config = {key: value for key, value in first.config.items() if key != "finetune"}
    config |= {"title": " against ".join(runs), "encodings": encodings}
    task = first.task | {"parents": parents}
    return Results(first.data | {"config": config, "task": task, "bands": bands, "rows": rows})  # pyright: ignore[reportArgumentType]


def differences(runs: Mapping[str, Results]) -> dict[str, list[str]]:
    """The config keys that differ between runs, each with its value in every run."""
    configs = [flat(results.config) for results in runs.values()]
    keys = [
        key
        for key in dict.fromkeys(chain(*configs))
        if any(config.get(key) != configs[0].get(key) for config in configs)
    ]
    return {key: [shown(c[key]) if key in c else "–" for c in configs] for key in keys}
