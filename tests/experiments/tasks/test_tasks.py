"""What holds for every task."""

from functools import partial

import jax
import numpy as np
import pytest

from experiments.tasks import TASKS, Scores

SCORES = Scores(
    right=np.array([4.0, 1.0]),
    losses=np.array([1.0, 4.0]),
    answers=np.array([4.0, 4.0]),
    exact=1.0,
    sequences=4,
)
EXPECTED = {
    "accuracy": 5 / 8,
    "exact_match": 1 / 4,
    "loss": 5 / 8,
    "perplexity": np.exp(5 / 8),
}


@pytest.mark.parametrize("cls", TASKS.values())
def test_the_same_key_gives_the_same_batch(cls, key):
    sample = jax.jit(partial(cls().sample, batch=4, length=8))
    first, again = (sample(key)[0] for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, sample(jax.random.key(7))[0])


@pytest.mark.parametrize("cls", TASKS.values())
def test_metrics_are_computed_from_scores(cls):
    metrics = {metric.name: metric.of(SCORES) for metric in cls.metrics}
    assert metrics == {name: pytest.approx(EXPECTED[name]) for name in metrics}
    assert {metric.unit for metric in cls.metrics} <= {"share", "nats", "perplexity"}
    assert set(cls.by_position) <= set(metrics)
    assert cls().fitted({"accuracy": 1.0, "exact_match": 1.0, "loss": cls().floor})
    assert not cls().fitted({"accuracy": 0.0, "exact_match": 0.0, "loss": cls().chance_loss})


def test_each_task_has_the_metrics_of_its_kind():
    names = {name: [metric.name for metric in cls.metrics] for name, cls in TASKS.items()}
    strings = ["accuracy", "exact_match", "loss"]
    streams = ["accuracy", "loss", "perplexity"]
    assert names == {"copy": strings, "reverse": strings, "sort": strings, "lag": streams}
