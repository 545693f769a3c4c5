"""How ratios are taken, on a clock that the forms move."""

import pytest

from experiments.bench import peers, timing


def test_ratios_are_paired_and_slow_moments_cancel(monkeypatch):
    clock, moment = [0.0], [1.0]
    monkeypatch.setattr(timing.time, "perf_counter", lambda: clock[0])

    def taking(seconds):
        def call():
            clock[0] += seconds * moment[0]

        return call

    def turns(*arguments, original=timing._turns):
        moment[0] *= 1.5  # the machine is slower in each round, for all alike
        return list(original(*arguments))

    monkeypatch.setattr(timing, "_turns", turns)
    base, other = timing.compare({"base": taking(0.02), "other": taking(0.05)})
    assert (base.form, base.ratio, other.form) == ("base", 1.0, "other")
    assert (other.low, other.ratio, other.high) == pytest.approx((2.5, 2.5, 2.5))
    assert other.seconds > 0.05


def test_a_package_that_is_missing_is_named_with_what_to_do():
    with pytest.raises(peers.Missing, match=r"^no_such_package is not installed .*: pip install"):
        peers.peer("no_such_package")


def test_results_that_differ_are_not_timed():
    peers.nearly([1.0, 2.0], [1.0, 2.0001], 1e-3)
    with pytest.raises(AssertionError, match=r"results differ by 2\.4e-01 of the largest, more than 1e-03"):
        peers.nearly([1.0, 2.0], [1.0, 1.61], 1e-3)
