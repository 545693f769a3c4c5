"""Position ids: each by its example and its law."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jrope

X = jax.random.normal(jax.random.key(0), (2, 6, 1, 4))


@pytest.mark.parametrize(
    ("mask", "positions"),
    [
        ([0, 0, 1, 1, 1], [0, 0, 0, 1, 2]),
        ([1, 1, 1, 0, 0], [0, 1, 2, 2, 2]),
        ([1, 0, 1, 1, 0], [0, 0, 1, 2, 2]),
        ([0, 0, 0], [0, 0, 0]),
    ],
)
def test_padding(mask, positions):
    """transformers#22161, unsloth#3699, nnsight PR#673, alpaca-lora#315."""
    for kind in (bool, int, float):
        got = jrope.from_mask(jnp.array(mask, kind))
        np.testing.assert_array_equal(got, positions)
        assert got.dtype == jnp.int32
    np.testing.assert_array_equal(
        jax.jit(jrope.from_mask)(jnp.array([mask, mask])), [positions, positions]
    )


def test_a_padded_row_rotates_as_the_row_alone():
    alone = jrope.rope(X[:, :4], jnp.arange(4))
    padded = jnp.concatenate([X[:, 4:], X[:, :4]], axis=1)
    positions = jrope.from_mask(jnp.array([0, 0, 1, 1, 1, 1]))
    np.testing.assert_array_equal(jrope.rope(padded, positions)[:, 2:], alone)


def test_the_next_token_after_right_padding_continues_the_count():
    """transformers PR#48161: batched generation went on from the padded length."""
    mask = jnp.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
    longer = jnp.concatenate([mask, jnp.ones((2, 1), int)], axis=1)
    np.testing.assert_array_equal(jrope.from_mask(longer)[:, -1], [3, 5])


@pytest.mark.parametrize("start", [0, 1, 5])
def test_a_decoding_step_rotates_as_in_the_whole_row(start):
    """rotary-embedding-torch#11, fla#477, keras-hub PR#1544: the offset was ignored or counted twice."""
    whole = jrope.rope(X, jnp.arange(6))
    step = jax.jit(lambda offset: jrope.rope(X[:, start : start + 1], offset[None]))(
        jnp.int32(start)
    )
    np.testing.assert_allclose(step, whole[:, start : start + 1], atol=1e-6)


def test_rows_may_have_offsets_of_their_own():
    """flash-attention#177, x-transformers#299, keras-hub PR#1571."""
    offsets = jnp.array([[0], [1000]])
    got = jrope.rope(X, offsets + jnp.arange(6)[None])
    np.testing.assert_array_equal(got[1], jrope.rope(X[1], 1000 + jnp.arange(6)))


def test_documents_restart():
    """Megatron-LM#453, OLMo-core#503, torchtitan#2559, nanoVLM#201: no reset where a document starts."""
    segments = jnp.array([1, 1, 1, 2, 2, 3])
    np.testing.assert_array_equal(jrope.from_segments(segments), [0, 1, 2, 0, 1, 0])
    np.testing.assert_array_equal(
        jrope.from_segments(jnp.array([7, 7, 0, 7, 7, 7])), [0, 1, 0, 0, 1, 2]
    )
    batch = jnp.stack([segments, segments[::-1]])
    np.testing.assert_array_equal(jax.jit(jrope.from_segments)(batch)[1], [0, 0, 1, 0, 1, 2])
    assert jrope.from_segments(jnp.zeros((2, 0), int)).shape == (2, 0)


def test_identical_documents_rotate_identically():
    twice = jnp.concatenate([X, X], axis=1)
    rotated = jrope.rope(twice, jrope.from_segments(jnp.repeat(jnp.array([4, 5]), 6)))
    np.testing.assert_array_equal(rotated[:, :6], rotated[:, 6:])


def test_cumulative_lengths_are_the_same_documents():
    """TransformerEngine PR#2188: cu_seqlens."""
    ends = jnp.array([0, 3, 3, 5, 6])
    np.testing.assert_array_equal(jrope.from_lengths(ends, 8), [0, 1, 2, 0, 1, 0, 0, 1])
    jitted = jax.jit(jrope.from_lengths, static_argnums=1)
    np.testing.assert_array_equal(
        jitted(ends, 6), jrope.from_segments(jnp.array([1, 1, 1, 2, 2, 3]))
    )


@pytest.mark.parametrize("shards", [1, 2, 4])
def test_zigzag_gives_every_shard_the_same_causal_work(shards):
    order = np.asarray(jrope.zigzag(16, shards))
    np.testing.assert_array_equal(np.sort(order), np.arange(16))
    work = (order + 1).reshape(shards, -1).sum(-1)  # a query at p sees p + 1 keys
    assert len(set(work.tolist())) == 1
    np.testing.assert_array_equal(jrope.zigzag(8, 2), [0, 1, 6, 7, 2, 3, 4, 5])


def test_zigzag_attention_is_attention():
    order = jrope.zigzag(8, 2)
    whole, zigzag = (jrope.alibi(p, p, num_heads=2) for p in (jnp.arange(8), order))
    np.testing.assert_array_equal(zigzag, whole[:, order][:, :, order])


def test_grid_is_row_then_column():
    np.testing.assert_array_equal(jrope.grid(2, 3), [[0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2]])
    assert jrope.grid(2, 3, 4).shape == (3, 24)
    assert jrope.grid(5).dtype == jnp.int32


def test_randomized_is_a_sorted_sample_without_replacement():
    draw = jax.jit(jax.vmap(lambda key: jrope.randomized(key, 8, 20)))
    samples = np.asarray(draw(jax.random.split(jax.random.key(0), 2000)))
    assert (np.diff(samples, axis=-1) > 0).all()
    counts = np.bincount(samples.reshape(-1), minlength=20) / 2000
    np.testing.assert_allclose(counts, 8 / 20, atol=0.05)  # every position is as likely
    np.testing.assert_array_equal(jrope.randomized(jax.random.key(1), 5, 5), np.arange(5))


def test_coupled_digits_share_an_id():
    """ "12+34=64", the sum written backwards: units with units, tens with tens, separators apart."""
    segments = jnp.array([0, 0, 1, 2, 2, 3, 4, 4])
    got = jrope.coupled(segments, jnp.array([1, 0, 1, 0, 2]), jnp.array([1, 1, 1, 1, -1]))
    np.testing.assert_array_equal(got, [1, 2, 0, 1, 2, 0, 2, 1])
    shifted = jax.jit(jrope.coupled)(segments[None], jnp.array([1, 0, 1, 0, 2]) + 7)
    np.testing.assert_array_equal(shifted[0], [8, 9, 7, 8, 9, 7, 9, 10])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: jrope.from_lengths(np.array([0, 3, 2]), 5),
            r"rise from 0 to at most total, 5, got \[0, 3, 2\]",
        ),
        (lambda: jrope.from_lengths(np.array([1, 3]), 5), r"got \[1, 3\]"),
        (lambda: jrope.from_lengths(np.array([0, 6]), 5), r"got \[0, 6\]"),
        (lambda: jrope.zigzag(6, 2), "multiple of 2 \\* shards.*got 6 and 2"),
        (lambda: jrope.zigzag(6, 0), "got 6 and 0"),
        (lambda: jrope.grid(), r"got \(\)"),
        (lambda: jrope.grid(2, -1), r"got \(2, -1\)"),
        (lambda: jrope.randomized(jax.random.key(0), 6, 5), "within 0..max_length, 5, got 6"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(ValueError, match=words):
        call()
