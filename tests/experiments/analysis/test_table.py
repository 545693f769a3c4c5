"""Questions to a table of results, its sentences, and several runs as one."""

import math

import pytest
from made_up import made_up

from experiments.analysis.compare import Incomparable, differences, merged
from experiments.analysis.observations import observations

SCORES = {"rope": {1: [1.0, 1.0], 2: [0.5, 0.6]}, "pi": {1: [1.0, 1.0], 2: [0.3, 0.4]}}
TUNED = {
    "rope": {1: [1.0], 2: [0.5]},
    "pi": {(1, 0): [0.8], (1, 9): [1.0], (2, 0): [0.1], (2, 9): [0.9]},
}
EXTENDS = {"rope": {"type": "rope"}, "pi": {"extends": "rope"}}


def test_a_table_answers_by_encoding_length_and_steps():
    results = made_up(SCORES, encodings=EXTENDS)
    assert results.labels == ["rope", "pi"]
    assert [entry.label for entry in results.trained] == ["rope"]
    assert results.lengths == {10: 1, 20: 2}
    assert results.multiples == [1, 2]
    assert [metric.name for metric in results.metrics] == ["accuracy", "exact_match", "loss"]
    assert results["pi"].parent == "rope"
    assert results["pi"].fitted == (2, 2)
    assert results["pi"].values(2) == [0.3, 0.4]
    assert results["pi"].cell(2)[:3] == (pytest.approx(0.35), 0.3, 0.4)
    assert results["pi"].cell(2, "loss") is None
    assert results["pi"].points == []


def test_scores_are_those_after_all_steps_unless_it_is_said_after_how_many():
    pi = made_up(TUNED, encodings=EXTENDS)["pi"]
    assert pi.points == [0, 9]
    assert pi.cell(2).mean == 0.9
    assert pi.cell(2, step=0).mean == 0.1
    assert pi.cell(2, step=5) is None


def test_one_seed_without_a_value_leaves_none():
    results = made_up({"rope": {1: [1.0, 1.0], 2: [0.9, None]}})
    assert results["rope"].values(2) == []
    assert results["rope"].cell(2) is None
    assert results["rope"].absence(2) == "–"


def test_the_mean_of_perplexities_is_that_of_the_mean_loss():
    results = made_up({"rope": {1: [2.0, 8.0]}}, metric="perplexity", task="lag")
    assert results["rope"].cell(1, "perplexity").mean == pytest.approx(4.0)
    accuracy, loss, perplexity = results.metrics
    assert accuracy.gain(0.75, 0.5) == 0.25
    assert loss.gain(0.75, 0.5) == -0.25
    assert perplexity.gain(2.0, 2.0 * math.e) == pytest.approx(1.0)


def test_the_answer_ranks_those_that_fitted_and_names_those_that_end():
    scores = {label: {1: [1.0], 2: [value]} for label, value in {"a": 0.5, "b": 0.9}.items()}
    scores |= {"c": {1: [1.0], 2: [None]}, "d": {1: [0.5], 2: [1.0]}}
    results = made_up(scores, fitted=["a", "b", "c"])
    for row in results.data["rows"]:
        if row["encoding"] == "c" and row["multiple"] == 2:
            row["limit"] = 10
    assert results["c"].limit == 10
    assert results.answer() == (
        "Token accuracy at 2x the trained length, in %, mean (range) over seeds:"
        " b 90.0 (90–90), a 50.0 (50–50). No value there: c."
    )


def test_the_fit_is_told_seed_by_seed():
    results = made_up({"rope": {1: [1.0, 1.0]}, "nope": {1: [1.0, 0.5]}, "learned": {1: [None]}})
    assert results.fit_sentence().startswith("All fitted to the trained length in every seed (")
    for row in results.data["rows"]:
        row["fitted"] = row["metrics"].get("accuracy") == 1.0
    results.data["rows"][-1]["diverged"] = 40
    assert results.diverged == ["learned"]
    assert results["learned"].absence(1) == "diverged"
    assert results.fit_sentence() == (
        "Not fitted to the trained length in every seed (criterion at 1x: exact match of at least"
        " 99 %): nope (fitted in 1 of 2 seeds), learned (diverged by step 40)."
        " Their scores at longer lengths say nothing about their encodings."
    )


SCALED = SCORES | {"yarn": {1: [0.9, 0.9], 2: [0.8, 0.9]}}
SECTIONS = EXTENDS | {
    "yarn": {"extends": "rope", "scaling": {"type": "yarn", "factor": 2.0, "beta_fast": 32.0}}
}


def test_observations_say_what_does_not_help_what_it_costs_and_why():
    bands = {"rope": {"frequencies": [1.0, 0.1], "amplitude": 1.0}}
    assert observations(made_up(SCALED, encodings=SECTIONS, bands=bands)) == [
        "pi is worse than rope in every seed: 35 % against 55 % at 2x.",
        "Cost at the trained length, in points of token accuracy: yarn 10.",
        "yarn keeps pairs that make at least 32 turns within the trained context (beta_fast), but"
        " the fastest pair makes only 2: it slows all pairs after that one.",
    ]
    assert observations(made_up(SCALED, encodings=SECTIONS, fitted=["nothing"])) == []


def test_several_runs_are_one_table():
    first = made_up(SCORES, encodings=EXTENDS)
    second = made_up({"alibi": {1: [1.0], 2: [0.95]}})
    runs = {"first": first, "second": second}
    results = merged(runs)
    assert results.labels == ["first: rope", "first: pi", "second: alibi"]
    assert results["first: pi"].parent == "first: rope"
    assert results["second: alibi"].values(2) == [0.95]
    assert differences(runs)["encodings.rope.type"] == ["'rope'", "–"]
    assert "title" not in differences(runs)
    second.task["trained_length"] = 11
    words = "second: cannot be compared with the first run: its trained_length is 11"
    with pytest.raises(Incomparable, match=words):
        merged(runs)
