"""Biases: laws that all of them keep, then each one's own values."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from golden_values import VALUES

import jrope
from jrope.bias_learned import t5_thresholds
from jrope.distance import distance

TABLE = jax.random.normal(jax.random.key(0), (32, 4))
R1, R2 = jnp.array([0.1, 0.5, 1.0, 2.0]), jnp.array([0.2, 1.0, 1.5, 2.0])
FIRE = jrope.Fire().init(jax.random.key(1), features=8, num_heads=4, head_dim=2)
RELATIVE = {
    "alibi": lambda q, k: jrope.alibi(q, k, num_heads=4),
    "windowed": lambda q, k: jrope.windowed(q, k, windows=(1, 2, 5, None)),
    "sandwich": lambda q, k: jrope.sandwich(q, k, num_heads=4),
    "t5": lambda q, k: jrope.t5(TABLE, q, k),
    "t5 bidirectional": lambda q, k: jrope.t5(TABLE, q, k, bidirectional=True),
    "kerple_log": lambda q, k: jrope.kerple_log(R1, R2, q, k),
    "kerple_power": lambda q, k: jrope.kerple_power(R1, R2, q, k),
}
ALL = {**RELATIVE, "fire": lambda q, k: jrope.fire(FIRE, q, k, threshold=4.0)}
each = pytest.mark.parametrize("bias", ALL.values(), ids=ALL)
each_relative = pytest.mark.parametrize("bias", RELATIVE.values(), ids=RELATIVE)


@each
def test_a_row_of_a_decoding_step_is_the_last_row_of_the_whole(bias):
    """keras-hub PR#2862, vllm PR#945, axlearn PR#502: a bias over the query's length is all zero for one query.
    TensorRT-LLM#1343, PR#13870, candle PR#899: T5's without the offset of the query."""
    whole = bias(jnp.arange(7), jnp.arange(7))
    np.testing.assert_array_equal(bias(jnp.array([6]), jnp.arange(7)), whole[:, -1:])


@each
def test_shape_dtype_batch_and_jit(bias):
    q, k = jnp.array([[0, 4], [5, 9]]), jnp.array([[0, 1, 3], [5, 6, 8]])
    out = bias(q, k)
    assert out.shape == (2, 4, 2, 3)
    assert out.dtype == jnp.float32
    np.testing.assert_array_equal(out[1], bias(q[1], k[1]))
    np.testing.assert_allclose(jax.jit(bias)(q, k), out, rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(bias)(q, k), out, rtol=1e-6)
    np.testing.assert_array_equal(bias(q.astype(jnp.int16), np.asarray(k, np.int64)), out)


@each_relative
@pytest.mark.parametrize("start", [-(2**31), 2**31 - 400, -200])
def test_a_shift_changes_nothing_up_to_the_ends_of_int32(bias, start):
    """JAX's int32 wraps: arange(3) + 2147483647 turns negative."""
    positions = np.array([0, 1, 7, 399])
    shifted = jnp.asarray((start + positions).astype(np.int32))
    np.testing.assert_array_equal(bias(shifted, shifted), bias(positions, positions))


@each_relative
def test_two_ends_of_int32_are_far_apart_and_not_near(bias):
    low, high = jnp.array([-(2**31)], jnp.int32), jnp.array([2**31 - 1], jnp.int32)
    for q, k in ((low, high), (high, low)):
        wide = bias(np.asarray(q, np.int64) + 5, np.asarray(k, np.int64) + 5)
        np.testing.assert_array_equal(bias(q, k), wide)
    assert not np.allclose(bias(high, low), bias(high, high - 1))


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64])
def test_distance_is_exact(dtype):
    info = np.iinfo(np.int32 if dtype is np.int64 else dtype)
    positions = np.array([info.min, info.min + 1, info.max // 2, info.max - 1, info.max], dtype)
    got, after = distance(positions, jnp.asarray(positions.astype(np.int32)) if dtype is np.int32 else positions)
    wide = positions.astype(object)
    np.testing.assert_array_equal(got, np.abs(wide[:, None] - wide[None]).astype(np.uint32))
    np.testing.assert_array_equal(after, positions[None] > positions[:, None])


def test_distance_of_mixed_wide_and_fractional_positions():
    got, after = distance(jnp.array([-1], jnp.int32), jnp.array([2**32 - 1], jnp.uint32))
    assert (int(got[0, 0]), bool(after[0, 0])) == (2**32 - 1, True)  # saturated: it is 2^32
    got, after = distance(np.array([2**40]), np.array([2**40 - 3, 0]))
    assert got.tolist() == [[3, 2**32 - 1]]
    got, after = distance(jnp.array([0.5]), jnp.array([2.0]))
    assert (float(got[0, 0]), bool(after[0, 0])) == (1.5, True)


@pytest.mark.parametrize("heads", sorted(VALUES["alibi_slopes"], key=int))
def test_golden_slopes(heads):
    """mlx#343, TensorRT-LLM PR#1611, transformers PR#28380, Baichuan2#225: wrong unless the heads are a power of two."""
    np.testing.assert_allclose(jrope.alibi_slopes(int(heads)), VALUES["alibi_slopes"][heads], rtol=1e-6)


def test_bias_is_minus_slope_times_distance():
    bias = jrope.alibi(jnp.array([2, 5]), jnp.array([0, 5, 9]), num_heads=2)
    np.testing.assert_allclose(bias[0], -np.array([[2, 3, 7], [5, 0, 4]]) / 16)


def test_the_key_only_form_of_alibi_is_the_same_after_a_causal_softmax():
    """llm-foundry#186, NeMo PR#7105: slope * key differs from -slope * distance, and attention does not."""
    positions = jnp.arange(6)
    key_only = jrope.alibi_slopes(4)[:, None, None] * positions[None, None].astype(jnp.float32)
    bias = jrope.alibi(positions, positions, num_heads=4)
    causal = jnp.tril(jnp.ones((6, 6), bool))[None]
    scores = jax.random.normal(jax.random.key(0), (4, 6, 6))
    assert not np.allclose(bias, jnp.broadcast_to(key_only, bias.shape))
    np.testing.assert_allclose(*(jax.nn.softmax(jnp.where(causal, scores + b, -jnp.inf)) for b in (bias, key_only)), atol=1e-6)


def test_windows_are_those_of_hard_alibi():
    """Jelassi et al.: head h sees itself and h before it, the last heads see all; what is not seen has no weight at all."""
    positions = jnp.arange(5)
    bias = jrope.HardAlibi(windowed_heads=3).bias({}, positions, positions, num_heads=4)
    causal = np.tril(np.ones((5, 5), bool))
    seen = (np.asarray(bias) == 0) & causal
    for h in range(3):
        np.testing.assert_array_equal(seen[h].sum(-1), np.minimum(np.arange(5) + 1, h + 1))
    np.testing.assert_array_equal(seen[3], causal)
    weights = jax.nn.softmax(jnp.where(causal[None], bias + 50.0, -jnp.inf))
    np.testing.assert_array_equal(np.asarray(weights) > 0, seen)


def test_rows_without_any_visible_key_are_finite_and_so_are_gradients():
    bias = jrope.windowed(jnp.array([9]), jnp.arange(4), windows=(1,))
    value, gradient = jax.value_and_grad(lambda scores: jax.nn.softmax(scores + bias)[0, 0, 0])(jnp.zeros((1, 1, 4)))
    assert value == 0.25
    assert np.isfinite(gradient).all()
    assert np.isfinite(4 * bias).all()


def test_sandwich_is_a_compressed_sum_of_cosines():
    """NeMo once summed distances without their cosine. Far away, float64 needs the exact distance."""
    for far in (3, 2**31 - 8):
        bias = jrope.sandwich(jnp.array([far, 0]), jnp.array([0]), num_heads=4, dim=64, base=1000.0)
        sums = np.cos(np.float64(far) * 1000.0 ** (-2 * np.arange(1, 33) / 64)).sum() - 32
        np.testing.assert_allclose(bias[:, 0, 0], sums / (np.arange(1, 5) * 8 / 4), atol=2e-6)
    np.testing.assert_array_equal(bias[:, 1], 0)


@pytest.mark.parametrize("name", VALUES["t5_bucket_thresholds"])
def test_golden_thresholds(name):
    """The float32 logarithm of the usual code decides by rounding at distances such as 8 * 16^(1/2)."""
    buckets, max_distance = (int(word.strip(",")) for word in name.split() if word.strip(",").isdigit())
    thresholds = VALUES["t5_bucket_thresholds"][name]
    assert list(t5_thresholds(buckets, max_distance)) == thresholds
    distances = np.arange(2 * max_distance)
    want = np.searchsorted(thresholds, distances, side="right") - 1
    options = {"max_distance": max_distance}
    np.testing.assert_array_equal(jrope.t5_bucket(-distances, buckets=buckets, **options), want)
    both = {"buckets": 2 * buckets, "bidirectional": True, **options}
    np.testing.assert_array_equal(jrope.t5_bucket(-distances, **both), want)
    np.testing.assert_array_equal(jrope.t5_bucket(distances[1:], **both), want[1:] + buckets)
    assert int(jrope.t5_bucket(jnp.int32(-(2**31)), buckets=buckets, **options)) == buckets - 1


def test_t5_looks_up_key_minus_query():
    table = jnp.arange(8.0)[:, None]
    positions = jnp.arange(4)
    causal = jrope.t5(table, positions, positions, max_distance=20)[0]
    np.testing.assert_array_equal(causal, [[0, 0, 0, 0], [1, 0, 0, 0], [2, 1, 0, 0], [3, 2, 1, 0]])
    both = jrope.t5(table, positions, positions, max_distance=20, bidirectional=True)[0]
    np.testing.assert_array_equal(both[0, :3], [0, 5, 6])
    np.testing.assert_array_equal(both[:3, 0], [0, 1, 2])


def test_no_relative_bias_in_cross_attention():
    """transformers#7323: queries and keys of two sequences have no distance; the encoding there is `Encoding()`."""
    assert jrope.Encoding().bias({}, jnp.arange(3), jnp.arange(9), num_heads=2) is None


def test_kerple_values_and_alibi_as_its_special_case():
    q, k = jnp.array([10]), jnp.array([3, 10])
    np.testing.assert_allclose(jrope.kerple_log(R1, R2, q, k)[:, 0, 0], -R1 * np.log(1 + R2 * 7), rtol=1e-6)
    np.testing.assert_allclose(jrope.kerple_power(R1, R2, q, k)[:, 0, 0], -R1 * 7.0**R2, rtol=1e-5)
    ones = jnp.ones(4)
    np.testing.assert_allclose(
        jrope.kerple_power(jrope.alibi_slopes(4), ones, q, k), jrope.alibi(q, k, num_heads=4), rtol=1e-6
    )


@pytest.mark.parametrize("encoding", [jrope.KerpleLog(), jrope.KerplePower()], ids=repr)
def test_kerple_decays_whatever_is_learned(encoding):
    """r1 and r2 are positive, and the power at most 2, even where training ran away."""
    q, k = jnp.array([100]), jnp.arange(100)
    for value in (-20.0, -3.0, 0.0, 3.0, 20.0):
        bias = encoding.bias({"r1": jnp.full(2, value), "r2": jnp.full(2, value)}, q, k, num_heads=2)
        assert (bias <= 0).all()
        assert (jnp.diff(bias) >= 0).all()
        assert np.isfinite(bias).all()
    if isinstance(encoding, jrope.KerplePower):
        bias = encoding.bias({"r1": jnp.zeros(2), "r2": jnp.full(2, 50.0)}, q, k, num_heads=2)
        np.testing.assert_allclose(bias[0, 0, 0] / bias[0, 0, 50], 4.0, rtol=1e-6)


def test_kerple_starts_as_the_official_code_does():
    sizes = {"features": 8, "num_heads": 4000, "head_dim": 2}
    for encoding, highest in ((jrope.KerpleLog(), (2, 1)), (jrope.KerplePower(), (1, 2))):
        params = encoding.init(jax.random.key(0), **sizes)
        r1 = jax.nn.softplus(params["r1"])
        r2 = jax.nn.softplus(params["r2"]) if highest == (2, 1) else 2 * jax.nn.sigmoid(params["r2"])
        for r, high in zip((r1, r2), highest, strict=True):
            np.testing.assert_allclose([r.min(), r.mean(), r.max()], [0.01, high / 2, high], atol=0.04)


def test_fire_is_its_formula():
    bias = jrope.fire(FIRE, jnp.array([3, 50]), jnp.array([0, 3]), threshold=8.0)
    f = {name: np.asarray(p, np.float64) for name, p in FIRE.items()}
    for t, (q, normaliser) in enumerate(((3, 8), (50, 50))):
        x = np.log1p(0.1 * np.abs(q - np.array([0, 3]))) / np.log1p(0.1 * normaliser)
        hidden = np.maximum(x[:, None] * f["hidden_kernel"] + f["hidden_bias"], 0)
        np.testing.assert_allclose(bias[:, t].T, hidden @ f["out_kernel"] + f["out_bias"], atol=1e-5)


def test_fire_interpolates_any_length_into_the_trained_range():
    """The farthest key of every query past the threshold has distance 1, and the nearest 0."""
    for q in (8, 1000, 10**6):
        ends = jrope.fire(FIRE, jnp.array([q]), jnp.array([0, q]), threshold=8.0)
        want = jrope.fire(FIRE, jnp.array([8]), jnp.array([0, 8]), threshold=8.0)
        np.testing.assert_allclose(ends, want, atol=1e-5)


@pytest.mark.parametrize("encoding", [jrope.T5(), jrope.KerpleLog(), jrope.KerplePower(), jrope.Fire()], ids=repr)
def test_gradients_are_finite_and_reach_every_parameter(encoding):
    params = encoding.init(jax.random.key(0), features=8, num_heads=2, head_dim=4)
    weights = jax.random.normal(jax.random.key(1), (2, 600, 600))
    positions = jnp.arange(600)

    def loss(params):
        return (encoding.bias(params, positions, positions, num_heads=2) * weights).sum()

    gradient = jax.jit(jax.grad(loss))(params)
    assert all(np.isfinite(g).all() and (jnp.abs(g) > 0).any() for g in jax.tree.leaves(gradient))
    assert all(p.dtype == jnp.float32 for p in jax.tree.leaves(params))
    assert encoding.bias(jax.tree.map(lambda p: p.astype(jnp.bfloat16), params), positions, positions, num_heads=2).dtype == (
        jnp.float32
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: jrope.alibi_slopes(0), "at least 1, got 0"),
        (lambda: jrope.windowed(jnp.arange(2), jnp.arange(2), windows=(1, 0)), r"at least 1, or None.*got \(1, 0\)"),
        (lambda: jrope.windowed(jnp.arange(2), jnp.arange(2), windows=()), r"got \(\)"),
        (lambda: jrope.sandwich(jnp.arange(2), jnp.arange(2), num_heads=0), "num_heads.*got 0"),
        (lambda: jrope.sandwich(jnp.arange(2), jnp.arange(2), num_heads=1, dim=3), "dim must be an even.*got 3"),
        (lambda: jrope.t5_bucket(jnp.arange(2), buckets=1), "buckets must be at least 2, got 1"),
        (lambda: jrope.t5_bucket(jnp.arange(2), buckets=5, bidirectional=True), "even and at least 4.*got 5"),
        (lambda: jrope.t5_bucket(jnp.arange(2), max_distance=16), "max_distance must be above 16.*got 16"),
    ],
)
def test_bad_input(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_fractional_positions_have_no_bucket():
    with pytest.raises(TypeError, match="integers, got float32"):
        jrope.t5_bucket(jnp.array([0.5]))
