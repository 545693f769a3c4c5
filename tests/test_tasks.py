"""Every sampler against its definition, sequence by sequence."""

import inspect
import re

import jax
import numpy as np
import pytest

from experiments.tasks import TASKS, Copy, Lag, Reverse, Sort, Transduction

RULES = {Copy: lambda x: x, Reverse: lambda x: x[::-1], Sort: sorted}


@pytest.mark.parametrize("shortest", [1, 5])
@pytest.mark.parametrize("unique", [True, False])
@pytest.mark.parametrize("cls", RULES)
def test_transductions(cls, unique, shortest, key):
    task = cls(symbols=9, unique=unique, shortest=shortest)
    tokens, mask = jax.tree.map(np.asarray, task.sample(key, 200, 5, training=True))
    assert tokens.shape == mask.shape == (200, task.context(5) + 1)
    assert tokens.max() < task.vocabulary
    lengths = set()
    for row, answers in zip(tokens.tolist(), mask, strict=True):
        n = row.index(10) - 1  # SEP
        x, y = row[1 : n + 1], row[n + 2 : 2 * n + 2]
        assert row == [9, *x, 10, *RULES[cls](x), 11] + [12] * (2 * (5 - n))
        assert all(0 <= s < 9 for s in x)
        assert len(set(x)) == n or not unique
        assert answers.tolist() == [n + 2 <= t <= 2 * n + 2 for t in range(len(row))]
        assert len(y) == n
        lengths.add(n)
    assert lengths == set(range(shortest, 6))
    exact, _ = task.sample(key, 20, 4)
    assert (exact[:, -1] == 11).all()  # EOS: every one has the length asked for


@pytest.mark.parametrize("length", [5, 6, 12, 500])
def test_lag(length, key):
    task = Lag(symbols=8, lag=6, noise=0.1)
    tokens, mask = jax.tree.map(np.asarray, task.sample(key, 64, length))
    assert tokens.shape == (64, length + 1)
    np.testing.assert_array_equal(mask, np.tile(np.arange(length + 1) >= 6, (64, 1)))
    if length == 500:
        again = (tokens[:, 6:] == tokens[:, :-6]).mean()
        assert abs(again - (0.9 + 0.1 / 8)) < 0.01
        assert np.bincount(tokens.ravel()).min() > 0


def test_lag_floor_is_the_entropy_of_a_token():
    probabilities = np.full(32, 0.1 / 32)
    probabilities[3] += 0.9
    assert Lag().floor == pytest.approx(-(probabilities * np.log(probabilities)).sum())
    assert Lag(noise=0.0).floor == 0


def test_docstring_examples_are_sequences_of_the_task():
    for cls, rule in RULES.items():
        x, y = re.search(r"BOS (.*) SEP (.*) EOS", inspect.getdoc(cls)).groups()
        assert [int(s) for s in y.split()] == list(rule([int(s) for s in x.split()]))
    stream = [int(s) for s in re.search(r"`(7 2 9[ \d]*)`", inspect.getdoc(Lag)).group(1).split()]
    assert sum(a != b for a, b in zip(stream[3:], stream, strict=False)) == 1


def test_the_same_key_gives_the_same_batch(key):
    for cls in TASKS.values():
        first, again = (cls().sample(key, 4, 8)[0] for _ in range(2))
        np.testing.assert_array_equal(first, again)
        assert not np.array_equal(first, cls().sample(jax.random.key(7), 4, 8)[0])


def test_what_fitted_means():
    assert Sort().fitted(0.99, 5.0)
    assert not Sort().fitted(0.98, 0.0)
    assert Lag().fitted(0.0, Lag().floor + 0.04)
    assert not Lag().fitted(1.0, Lag().floor + 0.06)
    assert isinstance(Sort(), Transduction)
