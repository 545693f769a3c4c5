"""Results that no training produced."""

from experiments.analysis.table import Results
from experiments.tasks import TASKS


def made_up(
    scores,
    *,
    fitted=(),
    metric="accuracy",
    encodings=None,
    bands=None,
    title="A title",
    task="copy",
):
    """Results from {label: {multiple: scores of each seed}}.

    A key (multiple, steps) is of a fine-tune. A score of None is no value.
    """
    encodings = {label: {} for label in scores} | (encodings or {})
    rows = [
        _row(label, place, seed, value, metric) | {"fitted": not fitted or label in fitted}
        for label, places in scores.items()
        for place, values in places.items()
        for seed, value in enumerate(values)
    ]
    facts = ("name", "title", "unit", "higher_is_better")
    return Results(
        {
            "format": 2,
            "command": "python -m experiments run it.toml",
            "environment": {"jax": "0.0"},
            "task": {
                "type": task,
                "trained_length": 10,
                "trained_context": 10,
                "chance": 0.1,
                "chance_loss": 2.3,
                "floor": 0.65 if task == "lag" else 0.0,
                "fitted_means": "exact match of at least 99 %",
                "metrics": [{f: getattr(m, f) for f in facts} for m in TASKS[task].metrics],
                "parents": {label: encodings[label].get("extends", label) for label in scores},
            },
            "config": {
                "title": title,
                "seeds": sorted({row["seed"] for row in rows}),
                "evaluate": {"sequences": 4},
                "finetune": {"multiple": 2},
                "encodings": encodings,
            },
            "bands": bands or {},
            "rows": rows,
        }
    )


def _row(label, place, seed, value, metric):
    multiple, *steps = place if isinstance(place, tuple) else (place,)
    return {
        "encoding": label,
        "seed": seed,
        "multiple": multiple,
        "length": 10 * multiple,
        "context": 10 * multiple,
        "metrics": {} if value is None else {metric: value},
        "by_position": {"accuracy": [value or 0.0, (value or 0.0) / 2], "loss": [1.0, 2.0]},
        **({"finetuned": steps[0]} if steps else {}),
    }
