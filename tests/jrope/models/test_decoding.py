"""A cache gives the logits of one full pass, for every encoding: from any split, with padding, at any offset."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_encoding import CAPACITY, EVERY, TOKENS, VARIANTS, apply, decode, model, new

import jrope
from jrope import generation, transformer
from jrope.transformer import TransformerConfig

generate = jax.jit(generation.generate, static_argnames=("graphdef", "count", "choose"))
each = pytest.mark.parametrize("encoding", EVERY + VARIANTS, ids=repr)


@each
def test_prefill_and_single_tokens_equal_the_full_pass(encoding):
    """Left padding of its own in each row; the offset is traced, so every step runs the same program."""
    full, step, cache = model(encoding)
    programs = decode._cache_size()
    real = jnp.array([[False] * 2 + [True] * 8, [True] * 10])
    positions = jrope.from_mask(real)
    want = full(TOKENS, positions, real)
    logits, cache = step(TOKENS[:, :4], positions[:, :4], cache, real[:, :4])
    got = [logits]
    for t in range(4, 10):
        logits, cache = step(
            TOKENS[:, t : t + 1], positions[:, t : t + 1], cache, real[:, t : t + 1]
        )
        got.append(logits)
    assert decode._cache_size() <= programs + 2  # prefill, and one for all steps
    got = jnp.concatenate(got, axis=1)
    np.testing.assert_allclose(got[0, 2:], want[0, 2:], atol=1e-5)
    np.testing.assert_allclose(got[1], want[1], atol=1e-5)


@each
def test_padding_changes_nothing(encoding):
    full, _, _ = model(encoding)
    real = jnp.array([[False] * 3 + [True] * 7] * 2)
    padded = full(TOKENS, jrope.from_mask(real), real)
    right = jnp.roll(real, 7, axis=1)  # the same tokens, with the padding after them: one program
    alone = full(jnp.roll(TOKENS, 7, axis=1), jrope.from_mask(right), right)
    np.testing.assert_allclose(padded[:, 3:], alone[:, :7], atol=1e-5)


def test_a_full_cache_is_an_error_outside_jit_and_nan_inside():
    """dynamic_update_slice would shift the write and go on."""
    config = TransformerConfig(vocabulary=11, features=16, layers=1)
    params, graphdef = new(config), transformer.abstract(config)
    cache = transformer.empty_cache(config, 2, 4)
    with pytest.raises(
        ValueError, match="6 more tokens do not fit in a cache of 4 columns, 0 of them used"
    ):
        transformer.decode(graphdef, params, TOKENS[:, :6], jnp.arange(6), cache)
    logits, cache = jax.jit(
        lambda c: transformer.decode(graphdef, params, TOKENS[:, :3], jnp.arange(3), c)
    )(cache)
    assert jnp.isfinite(logits).all()
    logits, _ = jax.jit(
        lambda c: transformer.decode(graphdef, params, TOKENS[:, :3], jnp.arange(3), c)
    )(cache)
    assert jnp.isnan(logits).all()


BY_DISTANCE = jrope.Chain(
    (
        jrope.Sinusoidal(),
        jrope.Rope(),
        jrope.Alibi(),
        jrope.KerpleLog(),
        jrope.Fire(threshold=4.0),
        jrope.Window(4),
        jrope.LogN(3),
    )
)
FAR = np.arange(10, dtype=np.int64) + 2**31 - 5


@pytest.mark.parametrize(
    ("first", "rest", "dtype"),
    [
        (np.float32(0.75) * np.arange(5), np.float32(0.75) * np.arange(5, 10), "float32"),
        (np.arange(5), np.arange(5, 10) + np.float32(0.5), "float32"),
        (np.float32(0.75) * np.arange(5), np.arange(5, 10), "float32"),
        (FAR[:5].astype("uint32"), FAR[5:].astype("uint32"), "uint32"),
        (FAR[:5].astype("int32"), FAR[5:].astype("uint32"), "uint32"),
        (np.arange(5, dtype="uint8"), np.arange(5, 10, dtype="int8"), "int32"),
    ],
)
def test_a_cache_keeps_ids_as_a_full_pass_sees_them(first, rest, dtype):
    full, step, cache = model(BY_DISTANCE)
    mask = jnp.ones((2, 10), bool)
    want = full(TOKENS, np.concatenate([first, rest]).astype(dtype), mask)
    begun, cache = step(TOKENS[:, :5], first, cache, mask[:, :5])
    after, cache = step(TOKENS[:, 5:], rest, cache, mask[:, 5:])
    assert cache.positions.dtype == dtype
    np.testing.assert_allclose(jnp.concatenate([begun, after], axis=1), want, atol=1e-5)


def test_ids_above_int32_come_from_numpy_uncut():
    config = TransformerConfig(11, jrope.Alibi(), features=16, layers=1)
    params, graphdef = new(config), transformer.abstract(config)
    cache = transformer.empty_cache(config, 2, CAPACITY)
    want = apply(graphdef, params, TOKENS, jnp.arange(10))
    got, cache = transformer.decode(graphdef, params, TOKENS, FAR, cache)
    np.testing.assert_allclose(got, want, atol=1e-5)
    np.testing.assert_array_equal(cache.positions[0, :10], FAR.astype(np.uint32))
    more = (graphdef, params, TOKENS[:, :1])
    with pytest.raises(ValueError, match=r"positions must be within uint32, got 4294967296"):
        transformer.decode(*more, np.array([2**32]), cache)
    with pytest.raises(ValueError, match="a cache of uint32 ids cannot hold negative positions"):
        transformer.decode(*more, jnp.array([-1]), cache)
    logits, _ = decode(*more, jnp.array([-1]), cache)
    assert jnp.isnan(logits).all()


def test_what_does_not_fit_a_cache_is_refused():
    config = TransformerConfig(11, jrope.Alibi(), features=16, layers=1)
    params, graphdef = new(config), transformer.abstract(config)
    cache = transformer.empty_cache(config, 3, CAPACITY)
    with pytest.raises(ValueError, match=r"decode: a cache of .* 3 rows.* but .* 2 rows"):
        transformer.decode(graphdef, params, TOKENS, jnp.arange(10), cache)
    cache = transformer.empty_cache(config, 2, CAPACITY)
    with pytest.raises(
        ValueError, match=r"positions .*\[B, T\] .* with B=2 and T=10, got shape \(4,\)"
    ):
        transformer.decode(graphdef, params, TOKENS, jnp.arange(4), cache)
    with pytest.raises(ValueError, match=r"make the cache with axes=3"):
        transformer.decode(graphdef, params, TOKENS, jnp.zeros((3, 2, 10), int), cache)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            jrope.DynamicNTK(2.0, 4)(jrope.spectrum(16), length=4),
            jrope.DynamicNTK(2.0, 4)(jrope.spectrum(16), length=64),
        ),
        (
            jrope.LongRope((1.0,) * 8, (4.0,) * 8, 32, factor=4.0)(jrope.spectrum(16), length=32),
            jrope.LongRope((1.0,) * 8, (4.0,) * 8, 32, factor=4.0)(jrope.spectrum(16), length=33),
        ),
        (jrope.spectrum(16), jrope.Yarn(8.0, 64)(jrope.spectrum(16))),
    ],
    ids=["dynamic NTK", "LongRoPE past its original length", "YaRN's amplitude"],
)
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_cached_keys_are_turned_when_the_spectrum_changes(old, new, layout):
    """transformers#25104, #25306, PR#46624: the cached keys keep the old base, and scores are of no distance at all."""
    q, k = jax.random.normal(jax.random.key(0), (2, 1, 5, 2, 16))
    positions = np.array([0, 3, 31, 1000, 10**9])
    cached = jrope.rotate(k, positions, old, layout=layout)

    def scores(keys):
        turned = jrope.rotate(q, positions, new, layout=layout)
        return jnp.einsum("btnh,bsnh->bnts", turned, keys, precision="highest")

    want = scores(jrope.rotate(k, positions, new, layout=layout))
    np.testing.assert_allclose(
        scores(jrope.rerotate(cached, positions, old, new, layout=layout)), want, atol=2e-5
    )
    assert jnp.abs(scores(cached) - want).max() > 0.5  # the naive way


def test_a_cache_through_a_change_of_spectrum_equals_the_full_pass():
    """The whole model: after the first layer keys depend on the old spectrum through attention, which no rotation mends; with
    one layer the turned cache is exact."""
    scaling = jrope.DynamicNTK(2.0, 4)
    config = TransformerConfig(
        vocabulary=11, encoding=jrope.Rope(scaling=scaling), features=16, heads=2, layers=1
    )
    params, graphdef = new(config), transformer.abstract(config)
    short, long = (config.encoding.bind(head_dim=8, length=length) for length in (4, 10))
    positions = jnp.arange(10)
    want = apply(graphdef, params, TOKENS, positions, encoding=long)
    cache = transformer.empty_cache(config, 2, CAPACITY)
    _, cache = decode(graphdef, params, TOKENS[:, :4], positions[:4], cache, encoding=short)
    rest = TOKENS[:, 4:], positions[4:]
    naive, _ = decode(graphdef, params, *rest, cache, encoding=long)
    keys = cache.keys[0].swapaxes(1, 2)  # of the one layer, [B, S, N, H]
    turned = jrope.rerotate(keys, cache.positions, short.spectrum, long.spectrum)
    mended = cache._replace(keys=(turned.swapaxes(1, 2),))
    right, _ = decode(graphdef, params, *rest, mended, encoding=long)
    np.testing.assert_allclose(right, want[:, 4:], atol=1e-5)
    assert jnp.abs(naive - want[:, 4:]).max() > 1e-2


FEW = [
    jrope.Rope(),
    jrope.Chain((jrope.Learned(max_length=CAPACITY, scale=1.0), jrope.Alibi())),
    jrope.Cope(max_positions=6),
    jrope.Fire(threshold=4.0),
]


@pytest.mark.parametrize("encoding", FEW, ids=repr)
def test_a_batch_padded_on_the_right_goes_on_from_its_own_lengths(encoding):
    """transformers PR#48161: the columns of padding were counted as positions once the cache was in use."""
    full, step, cache = model(encoding)
    mask, one = jnp.array([[True] * 2 + [False] * 2, [True] * 4]), jnp.ones((2, 1), bool)
    _, cache = step(TOKENS[:, :4], jrope.from_mask(mask), cache, mask)
    got = []
    for t in range(4, 7):
        mask = jnp.concatenate([mask, one], axis=1)
        positions = jrope.from_mask(mask)[:, -1:]
        logits, cache = step(TOKENS[:, t : t + 1], positions, cache, one)
        got.append(logits)
    got = jnp.concatenate(got, axis=1)
    alone = TOKENS.at[0, 2:5].set(TOKENS[0, 4:7])  # without the padding between
    real = jnp.arange(10)[None] < jnp.array([[5], [7]])
    want = full(alone, jrope.from_mask(real), real)
    np.testing.assert_allclose(got[0], want[0, 2:5], atol=1e-5)
    np.testing.assert_allclose(got[1], want[1, 4:7], atol=1e-5)


@pytest.mark.parametrize(
    "encoding",
    [
        jrope.Learned(max_length=10, scale=1.0),
        jrope.Rope(scaling=jrope.DynamicNTK(2.0, 10)),
        jrope.Rope(scaling=jrope.LongRope((1.0,) * 4, (2.0,) * 4, 10, factor=2.0)),
    ],
    ids=repr,
)
def test_a_sequence_of_exactly_the_greatest_length(encoding):
    """transformers#31228: off by one where the sequence is as long as the table."""
    config = TransformerConfig(11, encoding, features=16, heads=2, layers=1)
    params, graphdef, positions = new(config), transformer.abstract(config), np.arange(10)
    want = jax.jit(lambda p: transformer.apply(graphdef, p, TOKENS, positions))(params)
    short = encoding.bind(head_dim=8, length=4)  # nothing changes up to the trained length
    got = apply(graphdef, params, TOKENS, positions, encoding=short)
    np.testing.assert_allclose(got, want, atol=1e-5)
    cache = transformer.empty_cache(config, 2, 10)
    first, cache = decode(graphdef, params, TOKENS[:, :9], positions[:9], cache)
    last, _ = decode(graphdef, params, TOKENS[:, 9:], positions[9:], cache)
    np.testing.assert_allclose(jnp.concatenate([first, last], axis=1), want, atol=1e-5)


def test_the_room_in_a_cache_says_nothing_about_the_sequence():
    """llama.cpp#24823: LongRoPE's list chosen by the allocated length. Where it matters, the length must be told."""
    scaling = jrope.LongRope((1.0,) * 4, (1.0, 2.0, 3.0, 4.0), 8, factor=2.0)
    config = TransformerConfig(11, jrope.Rope(scaling=scaling), features=16, heads=2, layers=1)
    params, graphdef = new(config), transformer.abstract(config)
    tokens, positions = TOKENS[:, :8], np.arange(8)
    cache, fixed = (
        transformer.empty_cache(config, 2, CAPACITY),
        config.encoding.bind(head_dim=8, length=8),
    )
    want = jax.jit(lambda p: transformer.apply(graphdef, p, tokens, positions))(params)
    got, _ = decode(graphdef, params, tokens, positions, cache, encoding=fixed)
    np.testing.assert_allclose(got, want, atol=1e-5)
    with pytest.raises(ValueError, match=r"decode: the spectrum of Rope.* depends on the length"):
        decode(graphdef, params, tokens, positions, cache)


def following(config, params, tokens, mask, count):
    """The likeliest tokens after each prompt, by a full pass of that row for each of them."""
    graphdef, index = transformer.abstract(config), jnp.arange(tokens.shape[1] + count)
    lengths = mask.sum(1)
    rows = jnp.stack([jnp.resize(row[m], index.shape) for row, m in zip(tokens, mask, strict=True)])
    made = []
    for _ in range(count):  # whatever is after a row's end is hidden
        seen = index[None] < lengths[:, None]
        logits = apply(graphdef, params, rows, index, token_mask=seen)
        made.append(logits[jnp.arange(len(rows)), lengths - 1].argmax(-1))
        rows = rows.at[jnp.arange(len(rows)), lengths].set(made[-1])
        lengths += 1
    return jnp.stack(made, axis=1)


@pytest.mark.parametrize(
    "encoding", [jrope.Rope(), jrope.Alibi(), jrope.Learned(CAPACITY, scale=1.0)], ids=repr
)
@pytest.mark.parametrize("side", ["left", "right"])
def test_generated_tokens_are_those_of_full_passes(encoding, side):
    config = TransformerConfig(vocabulary=11, encoding=encoding, features=16, heads=2, layers=1)
    mask = jnp.array([[True] * 5, [True] * 3 + [False] * 2])
    mask = mask[:, ::-1] if side == "left" else mask
    params = new(config)
    got = generate(transformer.abstract(config), params, TOKENS[:, :5], count=6, token_mask=mask)
    assert jnp.array_equal(got, following(config, params, TOKENS[:, :5], mask, 6))


def test_generated_tokens_may_be_drawn():
    """Each from the distribution that the model gives it: at a low temperature the likeliest, and with a key of its own."""
    config = TransformerConfig(11, jrope.Rope(), features=16, heads=2, layers=1)
    params, graphdef = new(config), transformer.abstract(config)
    prompt = jnp.tile(TOKENS[:1, :4], (256, 1))

    def drawn(temperature, count):
        def choose(logits, key):
            return jax.random.categorical(key, logits / temperature)

        key = jax.random.key(5)
        return generate(graphdef, params, prompt, count=count, choose=choose, key=key)

    likeliest = generate(graphdef, params, prompt, count=4)
    assert jnp.array_equal(drawn(1e-4, 4), likeliest)
    first = drawn(1.0, 1)[:, 0]
    wanted = jax.nn.softmax(apply(graphdef, params, prompt[:1], jnp.arange(4))[0, -1])
    got = jnp.bincount(first, length=11) / first.size
    assert jnp.abs(got - wanted).max() < 4 * jnp.sqrt(wanted * (1 - wanted) / first.size).max()


@pytest.mark.parametrize(("length", "count"), [(3, 0), (0, 3)])
def test_generating_nothing_or_from_nothing_is_an_error(length, count):
    config = TransformerConfig(vocabulary=11, features=16, heads=2)
    with pytest.raises(ValueError, match=f"got {length} tokens and {count}"):
        generation.generate(transformer.abstract(config), new(config), TOKENS[:, :length], count)


ENDS = [
    jrope.Learned(max_length=8),
    jrope.Chain((jrope.Rope(), jrope.Learned(max_length=8))),
    jrope.XPos(scale_base=0.14),  # 7 positions from 0
]


@pytest.mark.parametrize("encoding", ENDS, ids=repr)
def test_generating_past_the_end_is_an_error_outside_jit_and_minus_one_inside(encoding):
    config = TransformerConfig(11, encoding, features=16, heads=2, layers=1)
    params, graphdef, limit = new(config), transformer.abstract(config), encoding.position_limit
    make = partial(generation.generate, graphdef, params, TOKENS[:, :5])
    with pytest.raises(ValueError, match=f"{limit} positions, but a prompt of 5 tokens and 8 more"):
        make(8)
    with pytest.raises(ValueError, match=f"{limit} positions, but a prompt of 5 tokens and 8 more"):
        jax.jit(lambda: make(8))()
    mask = jnp.array([[True] * 5, [False] * 2 + [True] * 3])
    with pytest.raises(ValueError, match="a prompt of 5 tokens and 8 more"):
        make(8, token_mask=mask)
    made = generate(graphdef, params, TOKENS[:, :5], count=8, token_mask=mask)  # unknown inside
    ends = np.array([limit - 4, limit - 2])  # tokens that follow prompts of 5 and 3
    np.testing.assert_array_equal(made == -1, np.arange(8) >= ends[:, None])


def test_nan_logits_from_anywhere_give_no_token():
    config = TransformerConfig(11, features=16, heads=2, layers=1)
    params, graphdef = new(config), transformer.abstract(config)
    broken = jax.tree.map(lambda p: p.at[..., 0].set(jnp.nan) if p.ndim > 1 else p, params)
    assert (generate(graphdef, broken, TOKENS[:, :5], count=3) == -1).all()
    with pytest.raises(ValueError, match="generate: the logits of token 0 of row 0 are NaN"):
        generation.generate(graphdef, broken, TOKENS[:, :5], 3)


def test_a_cache_can_be_donated():
    config = TransformerConfig(11, jrope.Rope(), features=16, heads=2, layers=1)
    params, graphdef = new(config), transformer.abstract(config)
    step = jax.jit(partial(transformer.decode, graphdef), donate_argnums=3)
    cache = transformer.empty_cache(config, 2, CAPACITY)
    logits, cache = step(params, TOKENS[:, :1], jnp.arange(1), cache)
    logits, _ = step(params, TOKENS[:, 1:2], jnp.arange(1, 2), cache)
    want = apply(graphdef, params, TOKENS[:, :2], jnp.arange(2))[:, 1:]
    np.testing.assert_allclose(logits, want, atol=1e-5)
