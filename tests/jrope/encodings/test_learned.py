"""The learned absolute encoding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jrope

lookup = jax.jit(jrope.lookup, static_argnames="mode")


def test_lookup_has_no_value_outside_its_table():
    """jax docs PR#4455, tt-mlir#9211: JAX clamps an index past the end and wraps -1 round; here
    neither may happen."""
    table = jnp.arange(6.0).reshape(3, 2) + 1
    ids = jnp.array([[2], [0]])
    np.testing.assert_array_equal(jrope.lookup(table, ids), table[ids])
    inside = lookup(table, jnp.array([0, 2, 3, 12, -1, -4]))
    np.testing.assert_array_equal(np.isnan(inside).all(-1), [False, False, True, True, True, True])
    for position in (3, -1):
        with pytest.raises(
            IndexError, match=rf"within 0..2, the rows of the table, got {position}"
        ):
            jrope.lookup(table, jnp.array([position]))
    with pytest.raises(TypeError, match="integers, got float32"):
        jrope.lookup(table, jnp.array([0.5]))


def test_lookup_clips_if_asked_and_keeps_the_gradient():
    table = jnp.arange(6.0).reshape(3, 2)
    positions = jnp.array([-(2**31), -1, 1, 3, 2**31 - 1])
    for call in (jrope.lookup, lookup):
        clipped = call(table, positions, mode="clip")
        np.testing.assert_array_equal(clipped, table[jnp.array([0, 0, 1, 2, 2])])
    gradient = jax.grad(lambda table: lookup(table, positions, mode="clip").sum())(table)
    np.testing.assert_array_equal(gradient, [[2, 2], [1, 1], [2, 2]])


def test_lookup_gradient_reaches_the_rows_read_and_no_others():
    gradient = jax.grad(lambda table: lookup(table, jnp.array([1, 1])).sum())(jnp.ones((3, 2)))
    np.testing.assert_array_equal(gradient, [[0, 0], [2, 2], [0, 0]])


def test_only_clipping_has_a_value_at_every_position():
    assert jrope.Learned(7).position_limit == 7
    assert jrope.Learned(7, mode="clip").position_limit is None


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: lookup(jnp.ones((2, 2)), jnp.arange(2), mode="wrap"),
            "mode must be one of.*'wrap'",
        ),
        (lambda: jrope.Learned(4, mode="wrap"), "Learned: mode must be one of.*'wrap'"),
        (lambda: jrope.Learned(0), "max_length must be at least 1, got 0"),
        (lambda: jrope.Learned(4, scale=-1.0), "scale must be at least 0, got -1.0"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(ValueError, match=words):
        call()
