"""Figures, remarks and report of results that are made up."""

import json
import re

import pytest
from made_up import made_up

from experiments import figures, report, results
from experiments.remarks import remarks

ZERO_SHOT = {
    "rope": {1: [1.0, 1.0], 2: [0.5, 0.6]},
    "pi": {1: [1.0, 1.0], 2: [0.3, 0.4]},
    "yarn": {1: [0.9, 0.9], 2: [0.8, 0.9]},
}
SECTIONS = {
    "rope": {"type": "rope"},
    "pi": {"extends": "rope", "scaling": {"type": "linear", "factor": 2.0}},
    "yarn": {"extends": "rope", "scaling": {"type": "yarn", "factor": 2.0, "beta_fast": 32.0}},
}
BANDS = {
    label: {"frequencies": [1.0, 0.1 / slower], "amplitude": 1.0} for label, slower in {"rope": 1, "pi": 2, "yarn": 2}.items()
}


@pytest.fixture(scope="module")
def zero_shot():
    return made_up(ZERO_SHOT, encodings=SECTIONS, bands=BANDS)


def marks(chart):
    """All data that a chart draws."""
    found = []

    def walk(part):
        if isinstance(part, dict):
            found.extend(part.get("data", {}).get("values", []) if isinstance(part.get("data"), dict) else [])
        for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
            walk(inner)

    walk(chart.to_dict())
    return found


def test_what_does_not_help_or_costs_is_told_in_words(zero_shot):
    told = remarks(zero_shot)
    assert told[0] == "pi is worse than rope as it was trained, in every seed: 35 % against 55 % at 2x."
    assert told[1] == "Points of accuracy lost at the trained length itself: yarn 10."
    assert told[2].startswith(
        "yarn leaves alone what turns 32 times within the trained context (beta_fast), but the fastest pair"
    )
    assert "turns 2 times" in told[2]  # 10 tokens at 1 radian each
    assert len(told) == 3


def test_nothing_is_told_of_what_has_not_fitted():
    unfitted = made_up(ZERO_SHOT, encodings=SECTIONS, fitted=["nothing"])
    assert remarks(unfitted) == []


def test_the_figure_of_bands_has_wavelengths_and_what_is_left_of_each_frequency(zero_shot):
    drawn = {(m["encoding"], m["pair"]): m for m in marks(figures.bands(zero_shot)) if "pair" in m}
    assert drawn["rope", 0]["wavelength"] == pytest.approx(0.6283, abs=1e-3)
    assert drawn["pi, yarn", 1]["kept"] == pytest.approx(0.5)  # of one spectrum here
    assert drawn["rope", 1]["kept"] == 1
    assert figures.bands(made_up({"alibi": {1: [1.0]}})) is None


def test_scores_along_the_answer(zero_shot):
    drawn = [m for m in marks(figures.along(zero_shot)) if m.get("encoding") == "pi"]
    assert {(m["part"], round(m["mean"], 3)) for m in drawn} >= {(0.25, 1.0), (0.75, 0.5), (0.25, 0.35), (0.75, 0.175)}


def test_a_sweep_is_drawn_by_value_and_not_among_the_lines():
    swept = {
        f"yarn beta_fast={b}": {"extends": "rope", "swept": {"of": "yarn", "values": {"scaling.beta_fast": b}}} for b in (2, 8)
    }
    scores = {"rope": {1: [1.0], 2: [0.5]}, **{label: {1: [1.0], 2: [0.7]} for label in swept}}
    result = made_up(scores, encodings={"rope": {}, **swept})
    assert {m["value"] for m in marks(figures.sweeps(result)) if "value" in m} == {2, 8}
    assert {m["encoding"] for m in marks(figures.extrapolation(result)) if "encoding" in m} == {"rope"}
    assert figures.sweeps(made_up(ZERO_SHOT)) is None


def test_finetuning_is_drawn_by_steps_and_scores_are_those_after_all():
    tuned = {"rope": {1: [1.0], 2: [0.5]}, "pi": {(1, 0): [0.8], (1, 9): [1.0], (2, 0): [0.1], (2, 9): [0.9]}}
    result = made_up(tuned, encodings=SECTIONS)
    assert {(m["step"], m["mean"]) for m in marks(figures.steps(result)) if "step" in m} == {
        (0, 0.8),
        (9, 1.0),
        (0, 0.1),
        (9, 0.9),
    }
    assert results.cell(result, "pi", 2, "accuracy").mean == 0.9
    assert results.cell(result, "pi", 2, "accuracy", 0).mean == 0.1
    assert figures.steps(made_up(ZERO_SHOT)) is None


def test_panels_divide_the_figure():
    sections = {"rope": {"panel": "one"}, "pi": {"panel": "two"}, "yarn": {"panel": "two"}}
    spec = figures.extrapolation(made_up(ZERO_SHOT, encodings=sections)).to_dict()
    assert [row["hconcat"][0]["title"]["text"] for row in spec["vconcat"]] == ["one", "two"]


def test_colour_and_shape_together_never_repeat():
    from experiments.figures import style

    labels = [str(i) for i in range(40)]
    pairs = list(zip(style.cycle(style.COLOURS, labels), style.cycle(style.SHAPES, labels, shift=True), strict=True))
    assert len(set(pairs)) == 40


def test_a_stream_is_drawn_as_perplexity():
    result = made_up({"rope": {1: [0.7], 2: [1.0]}}, metric="loss")
    result["task"]["floor"] = 0.65
    text = json.dumps(figures.extrapolation(result).to_dict())
    assert '"perplexity"' in text
    assert 2.718281828459045 in {m.get("mean") for m in marks(figures.extrapolation(result))}


def test_several_runs_in_one_report(zero_shot, tmp_path):
    other = made_up({"alibi": {1: [1.0], 2: [0.95]}})
    runs = {"first": zero_shot, "second": other}
    result = results.merged(runs)
    assert results.labels(result) == ["first: rope", "first: pi", "first: yarn", "second: alibi"]
    assert result["task"]["parents"]["first: pi"] == "first: rope"
    path = report.write_comparison(result, runs, tmp_path / "both")
    html = path.read_text()
    assert "second: alibi" in html
    assert "mean of 1 to 2 seeds" in html
    (differing,) = re.findall("<caption>What differs between the configs</caption>.*?</table>", html, re.DOTALL)
    assert re.findall('<th scope="row">(.*?)</th>', differing) == list(report._differences(runs))
    assert "encodings.rope" in " ".join(report._differences(runs))
    assert html.count("python -m experiments run it.toml") == 2
    other["task"]["trained_length"] = 11
    with pytest.raises(
        results.Incomparable, match="second: cannot be compared with the first: its trained_length is 11, that of the first 10"
    ):
        results.merged(runs)


def test_a_finetune_beside_a_run_without_one():
    tuned = made_up({"rope": {1: [1.0], 2: [0.5]}, "pi": {(1, 0): [0.8], (1, 9): [1.0], (2, 0): [0.1], (2, 9): [0.9]}})
    plain = made_up({"alibi": {1: [1.0], 2: [0.95]}})
    del plain["config"]["finetune"]
    for runs in ({"tuned": tuned, "plain": plain}, {"plain": plain, "tuned": tuned}):
        drawn = {m["encoding"] for m in marks(figures.steps(results.merged(runs))) if "step" in m}
        assert drawn == {"tuned: pi"}


def test_training_losses_are_drawn_if_there_are_any(zero_shot):
    metrics = [{"encoding": "rope", "seed": s, "step": t, "loss": 1 / t} for s in range(2) for t in range(1, 1000)]
    drawn = marks(figures.training(zero_shot, metrics))
    assert {m["encoding"] for m in drawn} == {"rope"}
    assert len(drawn) <= 130
    assert max(m["step"] for m in drawn) == 999
    assert figures.training(zero_shot, []) is None


def test_each_figure_has_a_text_alternative_and_each_table_its_numbers(zero_shot):
    html = report.render(zero_shot, {"run": zero_shot}, figures.figures(zero_shot), [])
    charts = re.findall(r'<div class="chart[^>]*role="img" aria-label="([^"]+)"', html)
    assert len(charts) == 1 + len(figures.figures(zero_shot))
    assert all(len(text) > 30 for text in charts)
    assert "0.550 (0.500–0.600)" in html
    assert 'data-value="0.55"' in html


@pytest.mark.parametrize(
    "bad", [{"encoding": {}}, {"encoding": None}, {"step": 10**4999}, {"step": "x"}, {"loss": "x"}, {"loss": None}]
)
def test_a_damaged_row_of_metrics_is_left_out_of_the_figure(zero_shot, bad):
    good = [{"encoding": "rope", "seed": 0, "step": step, "loss": 1.5} for step in (10, 20)]
    drawn = figures.training(zero_shot, [*good, good[0] | bad]).to_dict()
    assert drawn == figures.training(zero_shot, good).to_dict()
    assert figures.training(zero_shot, [good[0] | bad]) is None
