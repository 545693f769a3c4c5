"""The laws of a rotation, in both layouts."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from golden_values import VALUES
from hypothesis import given, settings
from hypothesis import strategies as st

import jrope

LAYOUTS = ["interleaved", "half"]
rotate = jax.jit(jrope.rotate, static_argnames="layout")


def normal(*shape, seed=0):
    return jax.random.normal(jax.random.key(seed), shape)


def test_the_defining_example():
    """README: the score of q and k depends on how far apart they are and not on where."""
    q, k = normal(1, 1, 8, seed=1), normal(1, 1, 8, seed=2)

    def score(at_q, at_k):
        return jnp.vdot(jrope.rope(q, jnp.array([at_q])), jrope.rope(k, jnp.array([at_k])))

    np.testing.assert_allclose(score(3, 1), score(10, 8), rtol=1e-5)
    assert abs(score(3, 1) - score(5, 1)) > 1e-2


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("offset", [1, 4096, 10**6, 2 * 10**9])
def test_scores_depend_on_the_distance_alone(offset, layout):
    q, k, s = normal(1, 9, 2, 64, seed=1), normal(1, 9, 2, 64, seed=2), jrope.spectrum(64)

    def scores(start):
        positions = start + np.arange(9)
        q_, k_ = (rotate(x, positions, s, layout=layout) for x in (q, k))
        return jnp.einsum("btnh,bsnh->bnts", q_, k_, precision="highest")

    size = jnp.linalg.norm(q, axis=-1).max() * jnp.linalg.norm(k, axis=-1).max()
    assert jnp.abs(scores(0) - scores(offset)).max() / size < 2e-6


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_rotation_keeps_lengths_and_angles(layout):
    x, y = normal(3, 5, 2, 16, seed=1), normal(3, 5, 2, 16, seed=2)
    positions = jnp.array([[0, 1, 5, 10**6, 3]] * 3)
    turned = [jrope.rotate(v, positions, jrope.spectrum(16), layout=layout) for v in (x, y)]
    np.testing.assert_allclose((turned[0] * turned[1]).sum(-1), (x * y).sum(-1), atol=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
@given(a=st.integers(-(2**30), 2**30), b=st.integers(-(2**30) + 1, 2**30 - 1))
@settings(max_examples=30, deadline=None)
def test_rotations_compose_by_adding_positions(layout, a, b):
    x, s = normal(1, 2, 16), jrope.spectrum(16)
    twice = rotate(rotate(x, np.array([a]), s, layout=layout), np.array([b]), s, layout=layout)
    np.testing.assert_allclose(twice, rotate(x, np.array([a + b]), s, layout=layout), atol=3e-6)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_position_zero_is_the_identity(layout):
    x = normal(4, 2, 16)
    np.testing.assert_array_equal(jrope.rope(x, jnp.zeros(4, int), layout=layout), x)


def test_golden_layouts():
    golden = VALUES["layout_check"]
    x = jnp.array(golden["x"], jnp.float32).reshape(len(golden["positions"]), 1, golden["d"])
    for layout in LAYOUTS:
        got = jrope.rope(x, np.array(golden["positions"], int), base=golden["base"], layout=layout)
        np.testing.assert_allclose(got, np.array(golden[layout]).reshape(got.shape), atol=2e-6)


def test_golden_partial_rotary():
    """Pairs lie inside the rotating slice: (i, i + rotary_dim/2), not (i, i + head_dim/2)."""
    golden = VALUES["partial_check"]
    shape = np.shape(golden["neox_half"])
    x = jnp.array(VALUES["layout_check"]["x"], jnp.float32).reshape(shape[0], 1, -1)
    s, positions = (
        jrope.spectrum(golden["rotary_dim"]),
        np.array(VALUES["layout_check"]["positions"], int),
    )
    for layout, name in (("half", "neox_half"), ("interleaved", "glm_interleaved")):
        got = jrope.rotate(x, positions, s, layout=layout)
        np.testing.assert_allclose(got[:, 0], golden[name], atol=2e-6)
        np.testing.assert_array_equal(
            got[..., golden["rotary_dim"] :], x[..., golden["rotary_dim"] :]
        )


def test_layouts_differ_by_a_permutation_of_features():
    """transformers#25199, flash-attention#288 and many more."""
    x, positions = normal(5, 2, 16), jnp.arange(5)
    order = np.concatenate([np.arange(0, 16, 2), np.arange(1, 16, 2)])
    np.testing.assert_allclose(
        jrope.rope(x[..., order], positions, layout="half"),
        jrope.rope(x, positions, layout="interleaved")[..., order],
        atol=1e-6,
    )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
@pytest.mark.parametrize("pairs", [0, 1, 2, 3, 4, 6, 8, 12])
def test_any_number_of_pairs(pairs, dtype, layout):
    """Of 12 that a head has, by the formula with complex numbers; mapped over batches, and its gradient the inverse."""
    x, d = (normal(2, 5, 3, 24, seed=i).astype(dtype) for i in (1, 2))
    s = jrope.Spectrum(np.linspace(1, 0.1, pairs))
    turned = jax.jit(jax.vmap(lambda x: jrope.rotate(x, jnp.arange(5), s, layout=layout)))
    halves = (
        [slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)]
        if layout == "interleaved"
        else [np.s_[:pairs], np.s_[pairs : 2 * pairs]]
    )

    def expected(x, sign):
        x = np.asarray(x, np.float64)
        z = (x[..., halves[0]] + 1j * x[..., halves[1]]) * np.exp(
            sign * 1j * np.arange(5)[:, None, None] * s.frequencies
        )
        x[..., halves[0]], x[..., halves[1]] = z.real, z.imag
        return x

    tolerance = {"atol": 1e-6 if dtype is jnp.float32 else 2e-2}
    got, pull = jax.vjp(turned, x)
    np.testing.assert_allclose(np.asarray(got, np.float64), expected(x, 1), **tolerance)
    np.testing.assert_allclose(np.asarray(pull(d)[0], np.float64), expected(d, -1), **tolerance)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_half_precision_is_rounded_once(dtype):
    """transformers#25681, #29496, PR#29285: the model's dtype must not reach the angles, at any of 4095 positions."""
    x, positions = normal(2, 4096, 1, 64).astype(dtype), jnp.arange(4096)
    for layout in LAYOUTS:
        got = jrope.rope(x, positions, layout=layout)
        assert got.dtype == dtype
        np.testing.assert_array_equal(
            got, jrope.rope(x.astype(jnp.float32), positions, layout=layout).astype(dtype)
        )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_error_in_bfloat16_is_one_rounding(layout):
    """TransformerEngine#1245: a kernel that multiplied in bfloat16; the loss showed it at base 500,000."""
    x, positions, s = (
        normal(4096, 1, 64).astype(jnp.bfloat16),
        np.arange(4096),
        jrope.spectrum(64, base=5e5),
    )
    got = rotate(x, positions, s, layout=layout)
    pairs = [
        np.asarray(v, np.float64).reshape((-1, 32, 2) if layout == "interleaved" else (-1, 2, 32))
        for v in (x, got)
    ]
    axis = 2 if layout == "interleaved" else 1
    before, after = (np.take(v, 0, axis) + 1j * np.take(v, 1, axis) for v in pairs)
    error = np.abs(after - before * np.exp(1j * positions[:, None] * s.frequencies))
    assert (error <= 2.0**-8 * np.abs(before) * 1.0001).all()


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_neighbours_in_half_precision_are_rotated_differently(dtype):
    """rotary-embedding-torch 0.9.1, get_seq_pos: positions in the dtype of q, of which 769 are left of 4096 in bfloat16."""
    x = jnp.ones((4096, 1, 64), dtype)
    turned = np.asarray(jrope.rope(x, jnp.arange(4096)).astype(jnp.float32))[:, 0]
    assert (np.abs(np.diff(turned, axis=0)).max(-1) > 1e-2).all()
    assert np.isfinite(
        jrope.rope(x[:1], jnp.array([100_000])).astype(jnp.float32)
    ).all()  # beyond float16


def test_tables_are_float32_unless_told():
    """mlx-lm PR#1076, sglang PR#33117, modded-nanogpt#39, tinygrad PR#17698, vllm PR#1004: tables in half precision."""
    positions = jnp.arange(4, dtype=jnp.int16)
    made = [*jrope.rotation_tables(positions, jrope.spectrum(8)), jrope.sinusoidal(positions, 8)]
    made += [jrope.rotation_tables(positions, jrope.spectrum(8, base=jnp.bfloat16(1e4)))[0]]
    made += [jrope.xpos_scale(positions, 4), jrope.alibi(positions, positions, num_heads=2)]
    assert {table.dtype for table in made} == {jnp.dtype("float32")}


@pytest.mark.parametrize("traced", [False, True])
def test_no_table_ends(traced):
    """vllm PR#55910, nanochat PR#520, pegainfer#220: tables shorter than the positions crashed, or gave garbage."""
    call = jax.jit(jrope.rope) if traced else jrope.rope
    x = jnp.zeros((2, 1, 8)).at[:, 0, 0].set(1.0)
    got = call(x, jnp.array([65_537, 65_536]))[:, 0, :2]
    spot = VALUES["spot"]["cos/sin(65537),(65536) diffusers 13922"]
    np.testing.assert_allclose(got.reshape(-1), spot, atol=1.5e-7)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dim", [2, 4, 6, 30, 66])
def test_any_even_number_of_features_rotates(dim, layout):
    """x-transformers#296 forced 32 features on smaller heads. Against complex multiplication."""
    x, positions = normal(3, 1, dim), np.array([0, 3, 77])
    order = (
        np.arange(dim).reshape(-1, 2)
        if layout == "interleaved"
        else np.arange(dim).reshape(2, -1).T
    )
    a, b = order.T
    got = np.asarray(jrope.rope(x, positions, layout=layout), np.float64)[:, 0]
    turns = np.exp(1j * positions[:, None] * 10_000.0 ** (-np.arange(0, dim, 2) / dim))
    want = (np.asarray(x[:, 0, a], np.float64) + 1j * np.asarray(x[:, 0, b], np.float64)) * turns
    np.testing.assert_allclose(got[:, a] + 1j * got[:, b], want, atol=1e-6)


@pytest.mark.parametrize("tokens", [3, 4])
def test_positions_belong_to_tokens_and_not_to_heads(tokens):
    """open_lm#4, leo-optimizer PR#2, labml#215: rotated along the axis of heads, which may be as long as that of tokens."""
    x = jnp.ones((2, tokens, 3, 8))
    got = jrope.rope(x, jnp.tile(jnp.arange(tokens), (2, 1)))
    np.testing.assert_array_equal(
        got, jnp.tile(got[:, :, :1], (1, 1, 3, 1))
    )  # all heads of a token alike
    want = np.cos(np.arange(tokens)) - np.sin(np.arange(tokens))
    np.testing.assert_allclose(got[1, :, 2, 0], want, atol=1e-6)
    with pytest.raises(ValueError, match="do not broadcast"):
        jrope.rope(x, jnp.arange(5))


def test_two_scalings_share_one_program():
    turn = jax.jit(chex.assert_max_traces(jrope.rotate, n=1))

    x, plain = normal(1, 8, 2, 16), jrope.spectrum(16)
    spectra = [
        plain,
        jrope.Linear(4.0)(plain),
        jrope.NTK(2.0)(plain),
        jrope.Yarn(8.0, 64)(plain),
        jrope.spectrum(16, base=5e5),
    ]
    outputs = [turn(x, jnp.arange(8), s) for s in spectra]
    assert len({float(o[0, 7].sum()) for o in outputs}) == len(spectra)


def test_results_do_not_depend_on_what_was_called_before():
    """equinox 0.13.8, PR#735: a cache of tables without the base in its key. rotary-embedding-torch 0.9.1: float32 calls read
    what a bfloat16 call had cached. seamless, wav2vec2-conformer: caches whose key is the length, whatever the dtype."""
    x, positions = jnp.zeros((4, 1, 64)).at[:, 0, 2].set(1.0), jnp.arange(4)
    jrope.rope(x.astype(jnp.bfloat16), positions, base=5e5)
    jax.jit(jrope.rope)(x, positions)
    with jax.enable_x64(True):
        assert jrope.rope(jnp.asarray(x, jnp.float64), positions).dtype == jnp.float64
    for base in (1e4, 5e5):
        got = jrope.rope(x, positions, base=base)
        assert got.dtype == jnp.float32
        np.testing.assert_allclose(
            got[:, 0, 2], np.cos(np.arange(4) * base ** (-1 / 32)), atol=1.5e-7
        )


def test_a_slice_at_an_offset_equals_the_slice_of_the_whole():
    """rotary-embedding-torch#11; equinox PR#704, #799: a traced offset compiles once, and is exact past any table's end."""
    x, s = normal(1, 12, 2, 16), jrope.spectrum(16)
    whole = jrope.rotate(x, jnp.arange(12), s)
    step = jax.jit(lambda x, t: jrope.rotate(x, jnp.arange(1) + t, s))
    for t in (0, 5, 11):
        np.testing.assert_allclose(step(x[:, t : t + 1], t), whole[:, t : t + 1], atol=1e-6)
    far = 10**9 + 7
    np.testing.assert_allclose(
        step(x[:, :1], far), jrope.rotate(x[:, :1], np.array([far]), s), atol=1e-6
    )
    angle = np.longdouble(far) * np.longdouble(s.frequencies[1])
    unit = jnp.zeros((1, 1, 2, 16)).at[..., 2].set(1.0)
    np.testing.assert_allclose(step(unit, far)[0, 0, 0, 2], float(np.cos(angle)), atol=3e-7)
    assert step._cache_size() == 1


def test_positions_of_their_own_in_each_row():
    x, positions = normal(2, 3, 2, 16), jnp.array([[0, 1, 2], [7, 8, 9]])
    together = jrope.rope(x, positions)
    for row in range(2):
        np.testing.assert_allclose(together[row], jrope.rope(x[row], positions[row]), atol=1e-6)
    lifted = jax.vmap(jrope.rope)(x, positions)
    np.testing.assert_allclose(lifted, together, atol=1e-6)


def test_gradients_flow_to_x_and_to_a_traced_base():
    x, positions = normal(3, 1, 8), jnp.arange(3)
    cotangent = normal(3, 1, 8, seed=5)
    _, pull = jax.vjp(lambda x: jrope.rope(x, positions), x)
    np.testing.assert_allclose(
        pull(cotangent)[0], jrope.rope(cotangent, -positions), atol=1e-6
    )  # transpose = inverse

    def loss(base):
        return (jrope.rope(x, positions, base=base) * cotangent).sum()

    slope = (loss(101.0) - loss(99.0)) / 2
    np.testing.assert_allclose(jax.grad(loss)(100.0), slope, rtol=1e-2)
    bases = jnp.array([100.0, 10_000.0])
    np.testing.assert_allclose(jax.vmap(loss)(bases), [loss(100.0), loss(10_000.0)], rtol=1e-5)
    by_value = jax.vmap(
        lambda base: jrope.Rope(base=base).rotation({}, positions, positions, head_dim=8)(x, x)[0]
    )(bases)
    np.testing.assert_allclose(by_value[0], jrope.rope(x, positions, base=100.0), atol=1e-5)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: jrope.spectrum(7), ValueError, "even.*got 7"),
        (lambda: jrope.spectrum(0), ValueError, "at least 2, got 0"),
        (lambda: jrope.spectrum(8, base=-1.0), ValueError, "base must be positive.*-1"),
        (lambda: jrope.spectrum(8, base=float("nan")), ValueError, "base must be positive.*nan"),
        (lambda: jrope.Spectrum([1.0, np.inf]), ValueError, "finite"),
        (
            lambda: jrope.rope(normal(4, 2, 8), jnp.arange(5)),
            ValueError,
            r"\(5,\) do not broadcast to \(4,\)",
        ),
        (
            lambda: jrope.rope(normal(4, 2, 8), jnp.zeros((2, 4), int)),
            ValueError,
            "do not broadcast",
        ),
        (lambda: jrope.rope(normal(4, 8), jnp.arange(4)), ValueError, r"\[..., T, N, H\]"),
        (
            lambda: jrope.rope(jnp.ones((4, 2, 8), int), jnp.arange(4)),
            TypeError,
            "floating, got int32",
        ),
        (
            lambda: jrope.rope(normal(4, 2, 8), jnp.arange(4), layout="neox"),
            ValueError,
            "got 'neox'",
        ),
        (
            lambda: jrope.rotate(normal(4, 2, 8), jnp.arange(4), jrope.spectrum(16)),
            ValueError,
            "rotates 16 features",
        ),
    ],
)
def test_bad_input_is_told_what_was_expected(call, error, words):
    with pytest.raises(error, match=words):
        call()


@pytest.mark.parametrize("name", ["alternate", "consecutive", "neox", "gptj"])
def test_layouts_are_named_by_their_pairs_alone(name):
    """TransformerEngine PR#655 called the pairs (i, i+d/2) "alternate" and (2i, 2i+1) "consecutive"."""
    with pytest.raises(ValueError, match=name):
        jrope.rope(normal(4, 2, 8), jnp.arange(4), layout=name)
    x = jnp.zeros((1, 1, 8)).at[0, 0, 0].set(1.0)
    for layout, partner in (("interleaved", 1), ("half", 4)):
        turned = jrope.rope(x, jnp.ones(1, int), layout=layout)[0, 0]
        assert jnp.flatnonzero(turned).tolist() == [0, partner]


def test_an_even_slice_of_an_odd_head_is_legal():
    """rotary-embedding-torch#45, transformers#35233, PR#48217, fla PR#1177: odd sizes crashed without a word of why."""
    with pytest.raises(ValueError, match=r"even.*got 7"):
        jrope.rope(normal(4, 2, 7), jnp.arange(4))
    x = normal(4, 2, 7)
    np.testing.assert_allclose(
        jrope.rotate(x, jnp.arange(4), jrope.spectrum(4))[..., :4],
        jrope.rope(x[..., :4], jnp.arange(4)),
        atol=1e-6,
    )
    got = jrope.rotate(x, jnp.arange(4), jrope.spectrum(4))
    np.testing.assert_array_equal(got[..., 4:], x[..., 4:])


def test_frequencies_are_learned_through_a_spectrum_made_from_them():
    """And not by editing an exact one, which is refused."""
    x, positions, made = normal(3, 1, 8), jnp.arange(3), jrope.spectrum(8)
    cotangent = normal(3, 1, 8, seed=5)

    def loss(frequencies):
        return (jrope.rotate(x, positions, jrope.LearnedSpectrum(frequencies)) * cotangent).sum()

    frequencies = jnp.asarray(made.frequencies, jnp.float32)
    gradient = jax.jit(jax.grad(loss))(frequencies)
    for i in range(4):
        step = jnp.zeros(4).at[i].set(1e-2)
        slope = (loss(frequencies + step) - loss(frequencies - step)) / 2e-2
        np.testing.assert_allclose(gradient[i], slope, rtol=1e-2, atol=1e-4)
    assert (jnp.abs(gradient) > 1e-3).all()
    with pytest.raises(AttributeError, match="Spectrum is frozen: make a new one"):
        made.frequencies = 2 * made.frequencies


def test_spectra_that_do_not_fit_are_not_rotated_between():
    k, positions, s = normal(4, 2, 8), jnp.arange(4), jrope.spectrum(8)
    given = "got 4 pairs with axes None and 2 pairs with axes None"
    with pytest.raises(ValueError, match=f"must have the same pairs and axes, {given}"):
        jrope.rerotate(k, positions, s, jrope.spectrum(4))
    with pytest.raises(ValueError, match="must have the same pairs and axes"):
        jrope.rerotate(k, positions, s, jrope.Axial(2)(s))
    with pytest.raises(TypeError, match="of one kind, got Spectrum and LearnedSpectrum"):
        jrope.rerotate(k, positions, s, jrope.LearnedSpectrum(s.frequencies))
