"""How ratios are measured, on a clock that the forms move, and how measurements are stored."""

import json
import random

import pytest

from benchmarks import peers, stored, timing
from benchmarks.__main__ import NAMES


def test_ratios_are_paired_and_slow_moments_cancel(monkeypatch):
    clock, slowness = [0.0], [1.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock[0])

    def taking(seconds):
        def call():
            clock[0] += seconds * slowness[0]

        return call

    class Order(random.Random):
        def sample(self, *arguments):
            slowness[0] *= 1.5  # in each round the machine is slower, for all forms
            return super().sample(*arguments)

    monkeypatch.setattr(timing.random, "Random", Order)
    base, other = timing.Case("", {"base": taking(0.02), "other": taking(0.05)}).ratios()
    assert (base.form, base.ratio, other.form) == ("base", 1.0, "other")
    assert (other.low, other.ratio, other.high) == pytest.approx((2.5, 2.5, 2.5))
    assert other.seconds > 0.05
    base, other = timing.Case("", {"base": 2.0, "other": 5.0}).ratios()
    assert other == ("other", 5.0, 2.5, 2.5, 2.5)


def test_a_package_that_is_missing_is_left_out_and_named_with_what_to_do(capsys):
    message = "no_such_package is not installed"
    with pytest.raises(peers.Missing, match=rf"^{message} .*; uv run --group bench python -m "):
        peers.peer("no_such_package")
    assert peers.forms_of_peers(peers.peer, "no_such_package") == {}
    assert capsys.readouterr().err.startswith(f"Left out: {message}")


def test_results_that_differ_are_not_timed():
    peers.check_close([1.0, 2.0], [1.0, 2.0001], 1e-3)
    with pytest.raises(AssertionError, match=r"differ by 2\.4e-01 of the largest value, more than"):
        peers.check_close([1.0, 2.0], [1.0, 1.61], 1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_every_measurement_is_committed_and_becomes_a_table(name):
    results = stored.read(name)["results"]
    assert results
    table = stored.markdown(name)
    for case in results:
        ratios = stored.ratios(case)
        assert ratios[0].ratio == 1.0
        assert "at" in case or all(ratio.form.replace("*", r"\*") in table for ratio in ratios)


def test_a_ratio_between_any_two_forms(tmp_path, monkeypatch):
    forms = [
        timing.Ratio("a", 1.0, 1.0, 1.0, 1.0),
        timing.Ratio("b", 0.003, 3.0, 2.0, 4.0),
        timing.Ratio("c", 2e-6, 2.0, 2.0, 2.0),
    ]
    results = [{"case": "case", "forms": [form._asdict() for form in forms]}]
    about = {"date": "today", "machine": "m", "cores": 2, "jax": "1", "results": results}
    (tmp_path / "some.json").write_text(json.dumps(about))
    monkeypatch.setattr(stored, "STORED", tmp_path)
    assert stored.times("some", "case", slow="b", fast="c") == 1.5
    assert stored.markdown("some").splitlines()[2:] == [
        "| **case** | | | |",
        "| a | 1 s | 1.00 |  |",
        "| b | 3 ms | 3.00 | 2.00–4.00 |",
        "| c | 2 µs | 2.00 |  |",
    ]
    assert stored.conditions("some") == "today, 2 cores of m, jax 1."
