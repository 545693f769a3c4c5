"""Verdicts on claims, the published claims, and the stored study that they are judged by."""

import re

import pytest
from made_up import made_up

from experiments.analysis import stored
from experiments.analysis.claims import Score, at_least, better, compare, same, spread, untested
from experiments.analysis.published import PUBLISHED
from experiments.config.load import load


def verdict(test, results):
    return test(lambda name: results).verdict


A, B = Score("x", 2, "a"), Score("x", 2, "b")


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([0.9, 0.8, 0.7], [0.5, 0.6, 0.6], "agrees"),
        ([0.5, 0.6, 0.6], [0.9, 0.8, 0.7], "disagrees"),
        ([0.9, 0.5], [0.6, 0.6], "undecided"),  # one seed has the other sign
        ([0.61, 0.605], [0.6, 0.6], "undecided"),  # too small an effect
    ],
)
def test_a_comparison_is_made_seed_by_seed(a, b, expected):
    scores = {"a": {1: [1.0] * len(a), 2: a}, "b": {1: [1.0] * len(a), 2: b}}
    assert verdict(compare(A, B), made_up(scores)) == expected
    assert verdict(compare(A, B), made_up(scores, fitted=["a"])) == "not testable"


def test_of_losses_the_lower_is_better():
    scores = {"a": {1: [0.0, 0.0], 2: [0.5, 0.6]}, "b": {1: [0.0, 0.0], 2: [1.5, 1.6]}}
    results = made_up(scores, metric="loss")
    assert verdict(better("x", 2, "a", "b", "loss"), results) == "agrees"
    assert verdict(better("x", 2, "b", "a", "loss"), results) == "disagrees"


def test_a_comparison_of_two_configs_names_both_and_needs_values():
    results = made_up({"a": {1: [1.0], 2: [0.9]}, "b": {1: [1.0], 2: [None]}})
    finding = compare(A, Score("y", 2, "a"))(lambda name: results)
    assert finding.measured == "`x` at 2x: a 90.0 (90–90), `y` at 2x: a 90.0 (90–90)"
    assert compare(A, B)(lambda name: results) == (
        "`x` at 2x: a 90.0 (90–90), b has no value",
        "not testable",
    )


def test_other_comparisons():
    results = made_up({"a": {1: [1.0, 1.0], 2: [0.9, 0.5]}, "b": {1: [1.0, 1.0], 2: [0.91, 0.6]}})
    assert verdict(at_least(0.4, A), results) == "agrees"
    assert verdict(at_least(0.6, A), results) == "undecided"
    assert verdict(at_least(0.95, A), results) == "disagrees"
    assert verdict(same(A, A), results) == "agrees"
    assert verdict(same(A, B), results) == "undecided"
    assert verdict(spread(0.3, A), results) == "agrees"
    assert verdict(spread(0.5, A), results) == "disagrees"
    assert verdict(untested("no task"), results) == "not testable"


@pytest.fixture(scope="module")
def experiments():
    return {path.stem: load(path) for path in stored.CONFIGS.glob("*.toml")}


def test_comparisons_name_what_the_configs_have(experiments):
    assert len({claim.paper for claim in PUBLISHED}) >= 12
    scores = [score for claim in PUBLISHED for score in getattr(claim.test, "scores", ())]
    assert len(scores) > 40
    for score in scores:
        assert score.label in experiments[score.config].encodings, score
        assert score.multiple in experiments[score.config].evaluate.multiples, score


def test_every_config_has_a_stored_result_of_its_own(experiments):
    assert set(stored.names()) == set(experiments)
    for name, experiment in experiments.items():
        assert stored.stored(name).config == experiment.record(), name


def test_the_claims_page_is_what_the_stored_results_say():
    page = (stored.STUDY / "claims.md").read_text()
    assert page == stored.claims_page()
    verdicts = re.findall(r"\*\*(.*?)\*\* \|$", page, re.MULTILINE)
    assert len(verdicts) == len(PUBLISHED)


def test_at_least_nine_encodings_have_fitted_copying():
    results = stored.stored("copy")
    assert sum(entry.has_fitted for entry in results.trained) >= 9
    seeds = len(results.config["seeds"])
    assert seeds >= 5
    assert len(results.data["rows"]) == len(results.labels) * 4 * seeds


STORED = {"a": {1: [1.0, 1.0], 2: [0.8, 0.9]}, "b": {1: [1.0, 1.0], 2: [0.4, 0.5]}}


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([0.76, 0.94], [0.36, 0.54], []),  # inside the range, widened by half
        ([0.96, 0.98], [0.4, 0.5], ["a at 2x: 97.0 (96–98) now, 85.0 (80–90) stored"]),
        (
            [0.3, 0.3],
            [0.4, 0.5],
            [
                "a at 2x: 30.0 (30–30) now, 85.0 (80–90) stored",
                "a and b at 2x have swapped their order",
            ],
        ),
    ],
)
def test_a_new_run_matches_the_stored_one_or_the_differences_are_named(a, b, expected):
    new = made_up({"a": {1: [1.0, 1.0], 2: a}, "b": {1: [1.0, 1.0], 2: b}})
    assert list(stored.disagreements(made_up(STORED), new)) == expected


def test_a_model_that_no_longer_fits_is_named():
    found = list(stored.disagreements(made_up(STORED), made_up(STORED, fitted=["a"])))
    assert found == ["b: fitted in 2 of 2 seeds in the stored result, fitted in 0 of 2 seeds now"]
