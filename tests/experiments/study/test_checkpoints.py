"""A checkpoint holds what was saved, or is refused."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.study.checkpoints import CheckpointManager

STATE = {"a": np.arange(6.0, dtype=np.float32).reshape(2, 3), "b": [np.uint32(7)]}


@pytest.fixture
def saved(tmp_path):
    """A manager that has saved a state at step 3, and its warnings."""
    template = jax.eval_shape(lambda: jax.tree.map(jnp.asarray, STATE))
    warnings = []
    manager = CheckpointManager(tmp_path, "me", template, lambda step: True, warnings.append)
    manager.save(3, STATE)
    return manager, warnings


def test_a_state_is_loaded_as_it_was_saved(saved):
    manager, warnings = saved
    loaded = manager.load(3)
    assert jax.tree.structure(loaded) == jax.tree.structure(STATE)
    assert all(map(np.array_equal, jax.tree.leaves(loaded), jax.tree.leaves(STATE)))
    assert warnings == []


@pytest.mark.parametrize("change", [{"owner": "you"}, {"template": {"a": STATE["a"]}}], ids=str)
def test_a_checkpoint_of_another_run_is_refused(saved, change):
    manager, warnings = saved
    assert dataclasses.replace(manager, **change).load(3) is None
    assert "belongs to another run" in warnings[0]


def test_a_flip_of_any_bit_is_noticed(saved):
    manager, _ = saved
    path = manager.path(3)
    data = path.read_bytes()
    for i in range(len(data)):
        for bit in range(8):
            path.write_bytes(data[:i] + bytes([data[i] ^ (1 << bit)]) + data[i + 1 :])
            assert manager.load(3) is None
    for length in range(len(data)):
        path.write_bytes(data[:length])
        assert manager.load(3) is None


def test_equal_states_are_equal_files(saved):
    manager, _ = saved
    first = manager.path(3).read_bytes()
    manager.save(3, jax.tree.map(np.copy, STATE))
    assert manager.path(3).read_bytes() == first


def test_the_last_two_scheduled_checkpoints_are_kept(tmp_path):
    is_scheduled = {10, 20, 30}.__contains__
    manager = CheckpointManager(tmp_path, "me", STATE, is_scheduled, print)
    kept = []
    for step in (10, 14, 20, 23, 30):
        manager.save(step, STATE)
        kept.append(manager.steps())
    assert kept == [[10], [10, 14], [10, 20], [20, 23], [20, 30]]
    manager.save(33, STATE)
    manager.remove_unscheduled()
    assert manager.steps() == [30]
