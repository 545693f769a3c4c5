"""A cache gives the logits of one full pass, for every encoding: from any split, with padding, at any offset."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_encoding import CAPACITY, EVERY, TOKENS, VARIANTS, model, new

import jrope
from jrope import generation, transformer
from jrope.transformer import TransformerConfig

each = pytest.mark.parametrize("encoding", EVERY + VARIANTS, ids=repr)


@each
def test_prefill_and_single_tokens_equal_the_full_pass(encoding):
    """Left padding of its own in each row; the offset is traced, so every step runs the same program."""
    full, step, cache = model(encoding)
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
    assert step._cache_size() == 2  # prefill, and one for all steps
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
    config = TransformerConfig(vocabulary=11, features=16)
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
    want = transformer.apply(graphdef, params, TOKENS, positions, encoding=long)
    cache = transformer.empty_cache(config, 2, CAPACITY)
    _, cache = transformer.decode(
        graphdef, params, TOKENS[:, :4], positions[:4], cache, encoding=short
    )
    naive, _ = transformer.decode(
        graphdef, params, TOKENS[:, 4:], positions[4:], cache, encoding=long
    )
    (keys,) = cache.keys  # of one layer [B, N, S, H]
    turned = jrope.rerotate(
        keys.swapaxes(1, 2), cache.positions, short.spectrum, long.spectrum
    ).swapaxes(1, 2)
    mended = cache._replace(keys=(turned,))
    right, _ = transformer.decode(
        graphdef, params, TOKENS[:, 4:], positions[4:], mended, encoding=long
    )
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
    real = jnp.array([[True] * 3 + [False] * 2, [True] * 5])
    _, cache = step(TOKENS[:, :5], jrope.from_mask(real), cache, real)
    got = []
    for t in range(5, 8):
        real = jnp.concatenate([real, jnp.ones((2, 1), bool)], axis=1)
        logits, cache = step(
            TOKENS[:, t : t + 1], jrope.from_mask(real)[:, -1:], cache, jnp.ones((2, 1), bool)
        )
        got.append(logits)
    got = jnp.concatenate(got, axis=1)
    for row, prompt in ((0, 3), (1, 5)):
        alone = jnp.concatenate([TOKENS[row, :prompt], TOKENS[row, 5:8]])[None]
        positions = jnp.arange(alone.shape[1])
        want = full(alone, positions[None], jnp.ones(alone.shape, bool))
        np.testing.assert_allclose(got[row], want[0, prompt:], atol=1e-5)


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
    config = TransformerConfig(vocabulary=11, encoding=encoding, features=16, heads=2)
    params, graphdef = new(config), transformer.abstract(config)
    positions = jnp.arange(10)
    want = transformer.apply(graphdef, params, TOKENS, positions)
    short = encoding.bind(
        head_dim=8, length=4
    )  # the last length at which nothing has changed yet is the greatest itself
    np.testing.assert_allclose(
        transformer.apply(graphdef, params, TOKENS, positions, encoding=short), want, atol=1e-5
    )
    cache = transformer.empty_cache(config, 2, 10)
    first, cache = transformer.decode(graphdef, params, TOKENS[:, :9], positions[:9], cache)
    last, _ = transformer.decode(graphdef, params, TOKENS[:, 9:], positions[9:], cache)
    np.testing.assert_allclose(jnp.concatenate([first, last], axis=1), want, atol=1e-5)


def test_the_room_in_a_cache_says_nothing_about_the_sequence():
    """llama.cpp#24823: LongRoPE's list chosen by the allocated length. Where it matters, the length must be told."""
    scaling = jrope.LongRope((1.0,) * 4, (1.0, 2.0, 3.0, 4.0), 8, factor=2.0)
    config = TransformerConfig(
        vocabulary=11, encoding=jrope.Rope(scaling=scaling), features=16, heads=2
    )
    params, graphdef = new(config), transformer.abstract(config)
    tokens, positions, cache = (
        TOKENS[:, :8],
        jnp.arange(8),
        transformer.empty_cache(config, 2, CAPACITY),
    )
    want = transformer.apply(graphdef, params, tokens, positions)
    got, _ = transformer.decode(
        graphdef,
        params,
        tokens,
        positions,
        cache,
        encoding=config.encoding.bind(head_dim=8, length=8),
    )
    np.testing.assert_allclose(got, want, atol=1e-5)
    with pytest.raises(ValueError, match=r"decode: the spectrum of Rope.* depends on the length"):
        transformer.decode(graphdef, params, tokens, positions, cache)


def following(encoding, tokens, real, count):
    """The likeliest tokens after each prompt, by a full pass of that row alone for each of them."""
    config = TransformerConfig(vocabulary=11, encoding=encoding, features=16, heads=2)
    params, graphdef = new(config), transformer.abstract(config)
    apply = jax.jit(
        lambda row: transformer.apply(graphdef, params, row[None], jnp.arange(len(row)))[
            0, -1
        ].argmax()
    )
    rows = [tokens[i][real[i]] for i in range(len(tokens))]
    for _ in range(count):
        rows = [jnp.append(row, apply(row)) for row in rows]
    return jnp.stack([row[-count:] for row in rows])


@pytest.mark.parametrize(
    "encoding", [jrope.Rope(), jrope.Alibi(), jrope.Learned(CAPACITY, scale=1.0)], ids=repr
)
@pytest.mark.parametrize("side", ["left", "right"])
def test_generated_tokens_are_those_of_full_passes(encoding, side):
    config = TransformerConfig(vocabulary=11, encoding=encoding, features=16, heads=2)
    real = jnp.array([[True] * 5, [True] * 3 + [False] * 2])
    real = real[:, ::-1] if side == "left" else real
    generate = jax.jit(generation.generate, static_argnames=("graphdef", "count"))
    got = generate(
        transformer.abstract(config), new(config), TOKENS[:, :5], count=6, token_mask=real
    )
    assert jnp.array_equal(got, following(encoding, TOKENS[:, :5], real, 6))


def test_generated_tokens_may_be_drawn():
    """Each from the distribution that the model gives it: at a low temperature the likeliest, and with a key of its own."""
    config = TransformerConfig(vocabulary=11, encoding=jrope.Rope(), features=16, heads=2)
    params, graphdef, prompt = (
        new(config),
        transformer.abstract(config),
        jnp.tile(TOKENS[:1, :4], (256, 1)),
    )

    def drawn(temperature, count):
        def choose(logits, key):
            return jax.random.categorical(key, logits / temperature)

        return generation.generate(
            graphdef, params, prompt, count, choose=choose, key=jax.random.key(5)
        )

    likeliest = generation.generate(graphdef, params, prompt, 4)
    assert jnp.array_equal(drawn(1e-4, 4), likeliest)
    first = drawn(1.0, 1)[:, 0]
    wanted = jax.nn.softmax(transformer.apply(graphdef, params, prompt[:1], jnp.arange(4))[0, -1])
    got = jnp.bincount(first, length=11) / first.size
    assert jnp.abs(got - wanted).max() < 4 * jnp.sqrt(wanted * (1 - wanted) / first.size).max()


@pytest.mark.parametrize(("length", "count"), [(3, 0), (0, 3)])
def test_generating_nothing_or_from_nothing_is_an_error(length, count):
    config = TransformerConfig(vocabulary=11, features=16, heads=2)
    with pytest.raises(ValueError, match=f"got {length} tokens and {count}"):
        generation.generate(transformer.abstract(config), new(config), TOKENS[:, :length], count)


def test_a_cache_can_be_donated():
    config = TransformerConfig(vocabulary=11, encoding=jrope.Rope(), features=16, heads=2)
    params, graphdef = new(config), transformer.abstract(config)
    step = jax.jit(partial(transformer.decode, graphdef), donate_argnums=3)
    cache = transformer.empty_cache(config, 2, CAPACITY)
    logits, cache = step(params, TOKENS[:, :1], jnp.arange(1), cache)
    logits, _ = step(params, TOKENS[:, 1:2], jnp.arange(1, 2), cache)
    want = transformer.apply(graphdef, params, TOKENS[:, :2], jnp.arange(2))[:, 1:]
    np.testing.assert_allclose(logits, want, atol=1e-5)
