"""Position ids of every integer type are the same numbers in every function; other things are refused in one set of words."""

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from every_function import CALLS

import jrope
from jrope import checks

IDS = ("positions", "q_positions", "k_positions", "relative")
TAKES_IDS = {name: call for name, call in CALLS.items() if any(n in IDS for n in call.arrays)}
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (4, 8, 16, 32, 64)]
each = pytest.mark.parametrize("name", TAKES_IDS)


def with_ids(call, convert):
    arrays = call.example()
    return call({k: convert(v) if k in IDS else v for k, v in arrays.items()})


@each
def test_every_integer_type_is_the_same_number(name):
    call = TAKES_IDS[name]
    want = with_ids(call, lambda ids: ids)
    for dtype in INTEGERS:
        narrow = {"int4": ml_dtypes.int4, "uint4": ml_dtypes.uint4}.get(dtype, dtype)
        got = with_ids(call, lambda ids, dtype=narrow: np.asarray(ids).astype(dtype))
        jax.tree.map(np.testing.assert_array_equal, got, want)
        if not dtype.endswith("64"):  # JAX has those with x64 only
            got = with_ids(call, lambda ids, dtype=dtype: ids.astype(dtype))
            jax.tree.map(np.testing.assert_array_equal, got, want)


@each
def test_what_is_no_position_is_refused_in_one_set_of_words(name):
    words = "must be an array \\(or one number\\) of integers, float32 or float64, got"
    for wrong in (
        lambda ids: np.asarray(ids).tolist(),
        lambda ids: tuple(np.asarray(ids)),
        lambda ids: ids > 0,
        lambda ids: ids.astype(jnp.bfloat16),
        lambda ids: ids.astype(jnp.float16),
        lambda ids: ids.astype(complex),
        lambda ids: np.asarray(ids).astype(object),
        lambda ids: jax.random.key(0),
        lambda ids: "0",
        lambda ids: True,
        lambda ids: None,
    ):
        with pytest.raises(TypeError, match=f"({'|'.join(IDS)}) {words}"):
            with_ids(TAKES_IDS[name], wrong)


def test_narrow_ids_do_not_wrap():
    table = jnp.arange(300.0)[:, None]
    np.testing.assert_array_equal(
        jrope.lookup(table, jnp.array([5, 255], jnp.uint8))[:, 0], [5, 255]
    )
    np.testing.assert_array_equal(
        jrope.lookup(table, jnp.array([5, 127], jnp.int8))[:, 0], [5, 127]
    )
    small = jnp.array([-128, 127], jnp.int8)
    np.testing.assert_array_equal(
        jrope.alibi(small, small, num_heads=1)[0] * 256,
        jrope.alibi(small.astype(int), small, num_heads=1)[0] * 256,
    )
    assert jrope.alibi(small, small, num_heads=1)[0, 0, 1] * -256 == 255
    assert jrope.log_n(jnp.array([127], jnp.int8), original_length=2)[0] == 7  # 127 + 1 = 2^7


def test_wide_ids_are_not_cut():
    table = jnp.arange(4.0)[:, None]
    far = np.array([2**32, -(2**32), 2**40 + 1])
    np.testing.assert_array_equal(jrope.lookup(table, far, mode="clip")[:, 0], [3, 0, 3])
    with pytest.raises(IndexError, match=r"within 0..3.*got -4294967296..1099511627777"):
        jrope.lookup(table, far)
    np.testing.assert_array_equal(jrope.from_segments(np.array([7, 7 + 2**32, 7])), [0, 0, 0])
    np.testing.assert_array_equal(jrope.t5_bucket(np.array([-(2**32), -1])), [31, 1])
    assert jrope.log_n(np.array([2**40 - 1]), original_length=2**20)[0] == 2
    for function in (
        jrope.sinusoidal,
        lambda ids, dim: jrope.rotation_tables(ids, jrope.spectrum(dim)),
    ):
        with pytest.raises(
            ValueError, match=r"positions must be below 2\^63, got 9223372036854775808"
        ):
            function(np.array([2**63], np.uint64), 8)


@pytest.mark.parametrize("number", [3, np.int8(3), np.uint64(3), jnp.int32(3)])
def test_one_number_is_a_position(number):
    np.testing.assert_array_equal(
        jrope.sinusoidal(number, 6), jrope.sinusoidal(jnp.array([3]), 6)[0]
    )
    assert checks.position_ids("positions", number).shape == ()
