"""How ratios are taken, on a clock that the forms move; and what is compared with what."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

import jrope
from experiments.bench import bare, peers, stored, timing
from experiments.bench.__main__ import NAMES
from jrope import transformer


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
    with pytest.raises(peers.Missing, match=r"^no_such_package is not installed .*: uv run --group bench "):
        peers.peer("no_such_package")


def test_results_that_differ_are_not_timed():
    peers.nearly([1.0, 2.0], [1.0, 2.0001], 1e-3)
    with pytest.raises(AssertionError, match=r"results differ by 2\.4e-01 of the largest, more than 1e-03"):
        peers.nearly([1.0, 2.0], [1.0, 1.61], 1e-3)


def test_bare_jax_is_the_transformer():
    config = transformer.TransformerConfig(vocabulary=11, encoding=jrope.Rope(), features=16, heads=2)
    params, tokens = transformer.init(config, jax.random.key(0)), jax.random.randint(jax.random.key(1), (2, 9), 0, 11)
    want = transformer.apply(transformer.abstract(config), params, tokens, jnp.arange(9))
    np.testing.assert_allclose(bare.logits(nnx.to_pure_dict(params), tokens, heads=2), want, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_every_measurement_is_committed_and_becomes_a_table(name):
    results = stored.read(name)["results"]
    assert results
    table = stored.markdown(name)
    for case in results:
        assert stored.forms(case)[0].ratio == 1.0
        assert "at" in case or all(
            timing_of in table for timing_of in (form["form"].replace("*", r"\*") for form in case["forms"])
        )


def test_a_ratio_between_any_two_forms(tmp_path, monkeypatch):
    forms = [
        timing.Ratio("a", 1.0, 1.0, 1.0, 1.0),
        timing.Ratio("b", 0.003, 3.0, 2.0, 4.0),
        timing.Ratio("c", 2e-6, 2.0, 2.0, 2.0),
    ]
    results = [{"case": "case", "forms": [form._asdict() for form in forms]}]
    (tmp_path / "some.json").write_text(
        json.dumps({"date": "today", "machine": "m", "cores": 2, "jax": "1", "results": results})
    )
    monkeypatch.setattr(stored, "STORED", tmp_path)
    assert stored.times("some", "case", slow="b", fast="c") == 1.5
    assert stored.markdown("some").splitlines()[2:] == [
        "| **case** | | | |",
        "| a | 1 s | 1.00 |  |",
        "| b | 3 ms | 3.00 | 2.00–4.00 |",
        "| c | 2 µs | 2.00 |  |",
    ]
    assert stored.conditions("some") == "today, 2 cores of m, jax 1."
