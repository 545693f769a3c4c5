"""Local windows and Hard-ALiBi."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jrope


def test_windows_are_those_of_hard_alibi():
    """Jelassi et al.: head h sees itself and h before it, the last heads see all. A key outside the
    window has no weight."""
    positions = jnp.arange(5)
    bias = jrope.HardAlibi(windowed_heads=3).bias({}, positions, positions, num_heads=4)
    causal = np.tril(np.ones((5, 5), bool))
    seen = (np.asarray(bias) == 0) & causal
    for h in range(3):
        np.testing.assert_array_equal(seen[h].sum(-1), np.minimum(np.arange(5) + 1, h + 1))
    np.testing.assert_array_equal(seen[3], causal)
    weights = jax.nn.softmax(jnp.where(causal[None], bias + 50.0, -jnp.inf))
    np.testing.assert_array_equal(np.asarray(weights) > 0, seen)


def test_half_of_the_heads_have_a_window_by_default_and_every_head_of_a_window():
    q, k = jnp.array([9]), jnp.arange(10)
    seen = (jrope.HardAlibi(window=2).bias({}, q, k, num_heads=5) == 0).sum(-1)[:, 0]
    np.testing.assert_array_equal(seen, [2, 4, 6, 10, 10])
    seen = (jrope.Window(3).bias({}, q, k, num_heads=2) == 0).sum(-1)[:, 0]
    np.testing.assert_array_equal(seen, [3, 3])


def test_rows_without_any_visible_key_are_finite_and_so_are_gradients():
    bias = jrope.windowed(jnp.array([9]), jnp.arange(4), windows=(1,))

    def weight(scores):
        return jax.nn.softmax(scores + bias)[0, 0, 0]

    value, gradient = jax.value_and_grad(weight)(jnp.zeros((1, 1, 4)))
    assert value == 0.25
    assert np.isfinite(gradient).all()
    assert np.isfinite(4 * bias).all()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: jrope.windowed(p, p, windows=(1, 0)), r"at least 1, or None.*got \(1, 0\)"),
        (lambda p: jrope.windowed(p, p, windows=()), r"got \(\)"),
        (lambda p: jrope.Window(0), "Window: size must be at least 1, got 0"),
        (lambda p: jrope.HardAlibi(0), "HardAlibi: window must be at least 1, got 0"),
        (lambda p: jrope.HardAlibi(windowed_heads=-1), "windowed_heads must be at least 0, got -1"),
        (
            lambda p: jrope.HardAlibi(windowed_heads=3).bias({}, p, p, num_heads=2),
            "windowed_heads must be at most the number of heads, 2, got 3",
        ),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(ValueError, match=words):
        call(jnp.arange(2))
