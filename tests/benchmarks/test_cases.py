"""Each benchmark runs at its smallest setting, and checks that its forms have the same results.

That plain JAX is the transformer, for example: `training` compares their losses.
"""

import dataclasses

import pytest

from benchmarks import attention, decoding, models, rotation, scaling_cost, seeds, timing, training
from benchmarks.models import NOPE

SMALLEST = {
    "rotation": lambda: rotation.cases([(1, 8, 2, 8)]),
    "attention": lambda: attention.cases([8]),
    "decoding": lambda: decoding.cases([(32, 1)]),
    "training": lambda: training.cases([(16, 2, 8)]),
    "seeds": lambda: seeds.cases([(16, 2, 8)]),
    "scaling_cost": lambda: scaling_cost.cases([8], [], [], {"none": NOPE}),
}


def one_layer(features, batch, context, encoding=NOPE):
    config = models.train_config(features, batch, context, encoding)
    return dataclasses.replace(config, model=dataclasses.replace(config.model, layers=1))


@pytest.mark.parametrize("name", SMALLEST)
def test_every_case_runs(name, monkeypatch):
    monkeypatch.setattr(timing, "TURN_SECONDS", 0)
    for module in (seeds, scaling_cost):  # they compare jrope with itself
        monkeypatch.setattr(module, "train_config", one_layer)
    for case in SMALLEST[name]():
        ratios = case._replace(rounds=2).ratios()
        assert [ratio.form for ratio in ratios] == list(case.forms)
        assert all(ratio.ratio > 0 for ratio in ratios)
