"""Claims and comparisons, on results that are made up."""

import re
from pathlib import Path

import pytest
from made_up import made_up

from experiments import results, study
from experiments.study import claims
from experiments.study.claims import Alike, AtLeast, Higher, Score, Spread, Untested
from experiments.study.published import PUBLISHED

ROOT = Path(__file__).parent.parent


def verdict(test, result):
    return test(lambda name: result).verdict


A, B = Score("x", "a", 2), Score("x", "b", 2)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ([0.9, 0.8, 0.7], [0.5, 0.6, 0.6], "agrees"),
        ([0.5, 0.6, 0.6], [0.9, 0.8, 0.7], "disagrees"),
        ([0.9, 0.5], [0.6, 0.6], "undecided"),  # one seed the other way
        ([0.61, 0.605], [0.6, 0.6], "undecided"),  # too little to be worth a word
    ],
)
def test_a_comparison_is_made_seed_by_seed(a, b, expected):
    scores = {"a": {1: [1.0] * len(a), 2: a}, "b": {1: [1.0] * len(a), 2: b}}
    assert verdict(Higher(A, B), made_up(scores)) == expected
    assert verdict(Higher(A, B), made_up(scores, fitted=["a"])) == "not testable"


def test_of_losses_the_lower_is_better():
    result = made_up({"a": {1: [0.0, 0.0], 2: [0.5, 0.6]}, "b": {1: [0.0, 0.0], 2: [1.5, 1.6]}}, metric="loss")
    a, b = Score("x", "a", 2, "loss"), Score("x", "b", 2, "loss")
    assert verdict(Higher(a, b), result) == "agrees"
    assert verdict(Higher(b, a), result) == "disagrees"


def test_a_comparison_across_configs_names_both_and_one_without_a_value_is_no_verdict():
    result = made_up({"a": {1: [1.0], 2: [0.9]}, "b": {1: [1.0], 2: [None]}})
    finding = Higher(A, Score("y", "a", 2))(lambda name: result)
    assert finding.measured == "`x` at 2x: a 90.0 (90–90), `y` at 2x: a 90.0 (90–90)"
    assert verdict(Higher(A, B), result) == "not testable"


def test_other_comparisons():
    result = made_up({"a": {1: [1.0, 1.0], 2: [0.9, 0.5]}, "b": {1: [1.0, 1.0], 2: [0.91, 0.6]}})
    assert verdict(AtLeast(A, 0.4), result) == "agrees"
    assert verdict(AtLeast(A, 0.6), result) == "undecided"
    assert verdict(AtLeast(A, 0.95), result) == "disagrees"
    assert verdict(Alike(A, A), result) == "agrees"
    assert verdict(Alike(A, B), result) == "undecided"
    assert verdict(Spread(A, 0.3), result) == "agrees"
    assert verdict(Spread(A, 0.5), result) == "disagrees"
    assert verdict(Untested("no task"), result) == "not testable"


def test_there_are_claims_of_many_papers_and_their_comparisons_name_what_the_configs_have():
    from experiments.config.load import load

    experiments = {path.stem: load(path) for path in (ROOT / "configs").glob("*.toml")}
    assert len({claim.paper for claim in PUBLISHED}) >= 12
    scores = [score for claim in PUBLISHED for score in vars(claim.test).values() if isinstance(score, Score)]
    assert len(scores) > 40
    for score in scores:
        assert score.label in experiments[score.config].encodings, score
        assert score.multiple in experiments[score.config].evaluate.multiples, score


RESULT = {"a": {1: [1.0, 1.0], 2: [0.8, 0.9]}, "b": {1: [1.0, 1.0], 2: [0.4, 0.5]}}


@pytest.mark.parametrize(
    ("a", "b", "told"),
    [
        ([0.76, 0.94], [0.36, 0.54], []),  # inside the range, widened by half
        ([0.96, 0.98], [0.4, 0.5], ["a at 2x: 97.0 (96–98) now, 85.0 (80–90) stored"]),
        ([0.3, 0.3], [0.4, 0.5], ["a at 2x: 30.0 (30–30) now, 85.0 (80–90) stored", "a and b at 2x have changed places"]),
    ],
)
def test_a_new_run_bears_out_the_stored_one_or_it_is_said_where_not(a, b, told):
    new = made_up({"a": {1: [1.0, 1.0], 2: a}, "b": {1: [1.0, 1.0], 2: b}})
    assert list(study.disagreements(made_up(RESULT), new)) == told


def test_a_model_that_no_longer_fits_is_told():
    found = list(study.disagreements(made_up(RESULT), made_up(RESULT, fitted=["a"])))
    assert found == ["b: fitted in the stored result, not fitted now"]


def test_every_config_has_a_stored_result_of_its_own():
    from experiments.config.load import load

    assert set(study.names()) == {path.stem for path in (ROOT / "configs").glob("*.toml")}
    for name in study.names():
        assert study.stored(name)["config"] == load(ROOT / "configs" / f"{name}.toml").record(), name


def test_the_claims_page_is_what_the_stored_results_say():
    page = (study.STUDY / "claims.md").read_text()
    assert page == f"{study.HEADING}\n{claims.markdown(PUBLISHED, study.stored)}\n"
    verdicts = re.findall(r"\*\*(.*?)\*\* \|$", page, re.MULTILINE)
    assert len(verdicts) == len(PUBLISHED)


def test_at_least_nine_encodings_have_fitted_copying():
    result = study.stored("copy")
    parents = result["task"]["parents"]
    assert sum(results.has_fitted(result, label) for label in parents if parents[label] == label) >= 9
    assert len(result["config"]["seeds"]) >= 5
    assert len(result["rows"]) == len(parents) * 4 * len(result["config"]["seeds"])
