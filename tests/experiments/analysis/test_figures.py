"""Figures of made-up results: what they draw, and when there is nothing to draw."""

import json
import math

import pytest
from made_up import made_up

from experiments.analysis import figures
from experiments.analysis.compare import merged
from experiments.analysis.figures import style

ZERO_SHOT = {
    "rope": {1: [1.0, 1.0], 2: [0.5, 0.6]},
    "pi": {1: [1.0, 1.0], 2: [0.3, 0.4]},
    "yarn": {1: [0.9, 0.9], 2: [0.8, 0.9]},
}
SECTIONS = {"rope": {"type": "rope"}, "pi": {"extends": "rope"}, "yarn": {"extends": "rope"}}
BANDS = {
    label: {"frequencies": [1.0, 0.1 / slower], "amplitude": 1.0}
    for label, slower in {"rope": 1, "pi": 2, "yarn": 2}.items()
}
TUNED = {
    "rope": {1: [1.0], 2: [0.5]},
    "pi": {(1, 0): [0.8], (1, 9): [1.0], (2, 0): [0.1], (2, 9): [0.9]},
}


@pytest.fixture(scope="module")
def zero_shot():
    return made_up(ZERO_SHOT, encodings=SECTIONS, bands=BANDS)


def marks(chart):
    """All data that a chart draws."""
    found = []

    def walk(part):
        if isinstance(part, dict):
            data = part.get("data")
            found.extend(data.get("values", []) if isinstance(data, dict) else [])
        for inner in part.values() if isinstance(part, dict) else part:
            if isinstance(inner, dict | list):
                walk(inner)

    walk(chart.to_dict())
    return found


def test_bands_have_wavelengths_and_what_is_left_of_each_frequency(zero_shot):
    drawn = {(m["encoding"], m["pair"]): m for m in marks(figures.bands(zero_shot)) if "pair" in m}
    assert drawn["rope", 0]["wavelength"] == pytest.approx(0.6283, abs=1e-3)
    assert drawn["pi, yarn", 1]["kept"] == pytest.approx(0.5)  # these two have one spectrum
    assert drawn["rope", 1]["kept"] == 1
    assert figures.bands(made_up({"alibi": {1: [1.0]}})) is None


def test_scores_by_position(zero_shot):
    drawn = [m for m in marks(figures.by_position(zero_shot)) if m.get("encoding") == "pi"]
    expected = {(0.25, 1.0), (0.75, 0.5), (0.25, 0.35), (0.75, 0.175)}
    assert {(m["part"], round(m["mean"], 3)) for m in drawn} >= expected


def test_seeds_with_different_parts_have_no_line_by_position():
    results = made_up(ZERO_SHOT)
    for row in results.data["rows"]:
        if row["encoding"] == "rope" and row["seed"] == 1:
            row["by_position"]["accuracy"].append(0.5)
        if row["encoding"] == "yarn":
            del row["by_position"]
    assert {m["encoding"] for m in marks(figures.by_position(results))} == {"pi"}


def test_a_sweep_is_drawn_by_value_and_not_among_the_lines():
    swept = {
        f"yarn beta_fast={b}": {
            "extends": "rope",
            "swept": {"of": "yarn", "values": {"scaling.beta_fast": b}},
        }
        for b in (2, 8)
    }
    scores = {"rope": {1: [1.0], 2: [0.5]}, **{label: {1: [1.0], 2: [0.7]} for label in swept}}
    results = made_up(scores, encodings={"rope": {}, **swept})
    assert {m["value"] for m in marks(figures.sweeps(results)) if "value" in m} == {2, 8}
    lines = marks(figures.extrapolation(results))
    assert {m["encoding"] for m in lines if "encoding" in m} == {"rope"}
    assert figures.sweeps(made_up(ZERO_SHOT)) is None


def test_finetuning_is_drawn_by_steps():
    drawn = marks(figures.steps(made_up(TUNED, encodings=SECTIONS)))
    expected = {(0, 0.8), (9, 1.0), (0, 0.1), (9, 0.9)}
    assert {(m["step"], m["mean"]) for m in drawn if "step" in m} == expected
    assert figures.steps(made_up(ZERO_SHOT)) is None


def test_a_finetune_next_to_a_run_without_one():
    tuned, plain = made_up(TUNED), made_up({"alibi": {1: [1.0], 2: [0.95]}})
    del plain.config["finetune"]
    for runs in ({"tuned": tuned, "plain": plain}, {"plain": plain, "tuned": tuned}):
        drawn = marks(figures.steps(merged(runs)))
        assert {m["encoding"] for m in drawn if "step" in m} == {"tuned: pi"}


def test_panels_divide_the_figure():
    sections = {"rope": {"panel": "one"}, "pi": {"panel": "two"}, "yarn": {"panel": "two"}}
    spec = figures.extrapolation(made_up(ZERO_SHOT, encodings=sections)).to_dict()
    assert [row["hconcat"][0]["title"]["text"] for row in spec["vconcat"]] == ["one", "two"]


def test_a_line_ends_where_its_encoding_does():
    results = made_up({"learned": {1: [1.0], 2: [None]}, "rope": {1: [1.0], 2: [0.5]}})
    for row in results.data["rows"]:
        if not row["metrics"]:
            row["limit"] = 12
    chart = figures.extrapolation(results)
    drawn = [m for m in marks(chart) if m.get("encoding") == "learned"]
    assert {(m["length"], m["end"]) for m in drawn} == {(10, "learned: no value beyond")}
    assert "learned has a value for 12 positions only: its line ends there." in json.dumps(
        chart.to_dict()
    )


def test_colour_and_shape_together_never_repeat():
    labels = [str(i) for i in range(40)]
    encoded = style.encodings(labels)
    ranges = [encoded[name].to_dict()["scale"]["range"] for name in ("color", "shape")]
    assert len(set(zip(*ranges, strict=True))) == 40


def test_a_stream_is_drawn_as_perplexity():
    scores = {"rope": {1: [math.exp(0.7)], 2: [math.e]}}
    chart = figures.extrapolation(made_up(scores, metric="perplexity", task="lag"))
    left, right = chart.to_dict()["hconcat"]
    assert '"perplexity"' in json.dumps(right)
    assert '"perplexity"' not in json.dumps(left)
    means = {m.get("mean") for m in marks(chart)}
    assert math.e in means
    lines = {m["text"]: m["at"] for m in marks(chart.hconcat[1]) if "text" in m}
    assert lines == {
        "trained length": 10,
        "chance": math.exp(2.3),
        "best": math.exp(0.65),
    }


def test_a_task_says_what_is_drawn(zero_shot):
    results = made_up({"rope": {1: [0.7], 2: [1.0]}}, metric="loss")
    results.task["metrics"] = results.task["metrics"][-1:]
    spec = figures.extrapolation(results).to_dict()
    assert len(spec["hconcat"]) == 1
    assert figures.captions(results)["figure"] == "Loss against length."
    assert figures.captions(zero_shot)["figure"] == "Token accuracy and loss against length."


def test_training_losses_are_drawn_if_there_are_any(zero_shot):
    metrics = [
        {"encoding": "rope", "seed": s, "step": t, "loss": 1 / t}
        for s in range(2)
        for t in range(1, 1000)
    ]
    drawn = marks(figures.training(zero_shot, metrics))
    assert {m["encoding"] for m in drawn} == {"rope"}
    assert len(drawn) <= 130
    assert max(m["step"] for m in drawn) == 999
    assert figures.training(zero_shot, []) is None


@pytest.mark.parametrize(
    "bad",
    [
        {"encoding": {}},
        {"encoding": None},
        {"step": 10**4999},
        {"step": "x"},
        {"loss": "x"},
        {"loss": None},
    ],
)
def test_a_damaged_row_of_metrics_is_left_out(zero_shot, bad):
    good = [{"encoding": "rope", "seed": 0, "step": step, "loss": 1.5} for step in (10, 20)]
    drawn = figures.training(zero_shot, [*good, good[0] | bad]).to_dict()
    assert drawn == figures.training(zero_shot, good).to_dict()
    assert figures.training(zero_shot, [good[0] | bad]) is None
