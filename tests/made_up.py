"""Results that nothing was trained for."""


def made_up(scores, *, fitted=(), metric="accuracy", encodings=None, bands=None, title="A title"):
    """A result from {label: {multiple: scores of each seed}}; a key (multiple, steps) is of a fine-tune."""
    labels = list(scores)
    encodings = {label: {} for label in labels} | (encodings or {})
    rows = []
    for label, places in scores.items():
        for place, values in places.items():
            multiple, *tuned = place if isinstance(place, tuple) else (place,)
            for seed, value in enumerate(values):
                row = {
                    "encoding": label,
                    "seed": seed,
                    "multiple": multiple,
                    "length": 10 * multiple,
                    "context": 10 * multiple,
                    "accuracy": None,
                    "exact_match": None,
                    "loss": None,
                    metric: value,
                    "accuracy_along": [value or 0.0, (value or 0.0) / 2],
                    "loss_along": [1.0, 2.0],
                    "fitted": not fitted or label in fitted,
                }
                rows.append(row | ({"finetuned": tuned[0]} if tuned else {}))
    seeds = sorted({row["seed"] for row in rows})
    return {
        "format": 1,
        "command": "python -m experiments run it.toml",
        "environment": {"jax": "0.0"},
        "task": {
            "type": "copy",
            "trained_length": 10,
            "trained_context": 10,
            "chance": 0.1,
            "chance_loss": 2.3,
            "floor": 0.0,
            "fitted_means": "exact match of at least 99 %",
            "parents": {label: encodings[label].get("extends", label) for label in labels},
        },
        "config": {
            "title": title,
            "seeds": seeds,
            "evaluate": {"sequences": 4},
            "finetune": {"multiple": 2},
            "encodings": encodings,
        },
        "bands": bands or {},
        "rows": rows,
    }
