"""Tasks on streams: every sequence against the task's definition."""

import inspect
import re
from functools import partial

import jax
import numpy as np
import pytest

from experiments.tasks import Lag


@pytest.mark.parametrize("length", [5, 6, 12, 500])
def test_a_token_is_the_one_at_the_lag_or_fresh(length, key):
    task = Lag(symbols=8, lag=6, noise=0.1)
    sample = jax.jit(partial(task.sample, batch=64, length=length))
    tokens, mask = jax.tree.map(np.asarray, sample(key))
    assert tokens.shape == (64, length + 1)
    np.testing.assert_array_equal(mask, np.tile(np.arange(length + 1) >= 6, (64, 1)))
    if length == 500:
        again = (tokens[:, 6:] == tokens[:, :-6]).mean()
        assert abs(again - (0.9 + 0.1 / 8)) < 0.01
        assert np.bincount(tokens.ravel()).min() > 0


def test_the_floor_is_the_entropy_of_a_token():
    probabilities = np.full(32, 0.1 / 32)
    probabilities[3] += 0.9
    assert Lag().floor == pytest.approx(-(probabilities * np.log(probabilities)).sum())
    assert Lag(noise=0.0).floor == 0


def test_the_example_in_the_docstring_is_a_stream_of_lag_3():
    example = re.search(r"`(7 2 9[ \d]*)`", inspect.getdoc(Lag)).group(1)
    stream = [int(s) for s in example.split()]
    assert sum(a != b for a, b in zip(stream[3:], stream, strict=False)) == 1


def test_fitted_is_a_loss_near_the_floor():
    assert Lag().fitted({"accuracy": 0.0, "loss": Lag().floor + 0.04})
    assert not Lag().fitted({"accuracy": 1.0, "loss": Lag().floor + 0.06})
