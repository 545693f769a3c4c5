"""Tasks on strings: every sequence against the task's definition."""

import inspect
import re
from functools import partial

import jax
import numpy as np
import pytest

from experiments.tasks import Copy, Reverse, Sort, Transduction

RULES = {Copy: lambda x: x, Reverse: lambda x: x[::-1], Sort: sorted}


@pytest.mark.parametrize("shortest", [1, 5])
@pytest.mark.parametrize("unique", [True, False])
@pytest.mark.parametrize("cls", RULES)
def test_every_sequence_is_as_defined(cls, unique, shortest, key):
    task = cls(symbols=9, unique=unique, shortest=shortest)
    sample = jax.jit(partial(task.sample, batch=200, length=5, training=True))
    tokens, mask = jax.tree.map(np.asarray, sample(key))
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
    exact, _ = jax.jit(partial(task.sample, batch=20, length=4))(key)
    assert (exact[:, -1] == 11).all()  # EOS: in evaluation all strings have the length asked for


@pytest.mark.parametrize("cls", RULES)
def test_the_example_in_the_docstring_is_a_sequence_of_the_task(cls):
    x, y = re.search(r"BOS (.*) SEP (.*) EOS", inspect.getdoc(cls)).groups()
    assert [int(s) for s in y.split()] == list(RULES[cls]([int(s) for s in x.split()]))


def test_fitted_is_exact_match():
    assert isinstance(Sort(), Transduction)
    assert Sort().fitted({"accuracy": 0.0, "exact_match": 0.99, "loss": 5.0})
    assert not Sort().fitted({"accuracy": 1.0, "exact_match": 0.98, "loss": 0.0})
