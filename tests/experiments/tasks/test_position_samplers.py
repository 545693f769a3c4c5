"""Samplers of position ids."""

import jax
import numpy as np
import pytest

from experiments.tasks import Consecutive, Randomized


def test_consecutive_positions_count_from_zero(key):
    np.testing.assert_array_equal(Consecutive().sample(key, 5), range(5))
    assert Consecutive().num_positions(5) == 5


def test_randomised_positions_differ_by_key_and_ascend():
    positions = Randomized(over=30)
    first, second = (np.asarray(positions.sample(jax.random.key(i), 10)) for i in range(2))
    assert (np.diff(first) > 0).all()
    assert first.max() < 30
    assert (first != second).any()
    assert positions.num_positions(10) == 30
    told = r"positions.over: should be at least 31, the tokens of the longest context, got 30"
    with pytest.raises(ValueError, match=told):
        positions.num_positions(31)
