"""Encodings are values, and compose as a monoid; no field of theirs is dead."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jrope
from jrope import (
    T5,
    Alibi,
    Chain,
    Cope,
    Encoding,
    Fire,
    HardAlibi,
    KerpleLog,
    KerplePower,
    Learned,
    Rope,
    Rotary,
    Sandwich,
    Sinusoidal,
    Window,
    XPos,
)

SIZES = {"features": 8, "num_heads": 2, "head_dim": 4}
POSITIONS = jnp.array([0, 1, 5])
VISIBLE = jnp.tri(3, dtype=bool)[None]
ALL = [
    Encoding(),
    Sinusoidal(),
    Learned(max_length=8),
    Rope(),
    Rope(scaling=jrope.DynamicNTK(2.0, 4)),
    Rotary(jrope.spectrum(4)),
    Alibi(),
    Chain((Learned(max_length=8), Rope(), Alibi())),
    XPos(),
    HardAlibi(windowed_heads=1),
    Window(2),
    Sandwich(),
    T5(buckets=6, max_distance=4),
    KerpleLog(),
    KerplePower(),
    Fire(threshold=4.0),
    Cope(),
    Chain((XPos(), Cope(), T5())),
]


def maps(encoding, length=6, key=0):
    """Everything an encoding does to one input: embeddings, query, key, biases, and the scale of the scores."""
    params = encoding.init(jax.random.key(key), **SIZES)
    params = jax.tree.map(lambda p: p + 0.1 * jnp.cos(jnp.arange(1.0, p.size + 1)).reshape(p.shape), params)  # none is zero
    x, q, k = (jax.random.normal(jax.random.key(i), (1, 3, *shape)) for i, shape in ((1, (8,)), (2, (2, 4)), (3, (2, 4))))
    bias = encoding.bias(params, POSITIONS, POSITIONS, num_heads=2)
    rotated = encoding.rotation(params, POSITIONS, POSITIONS, head_dim=4, length=length)(q, k)
    content = encoding.content_bias(params, *rotated, POSITIONS, POSITIONS, visible=VISIBLE, scale=0.5)
    biases = [jnp.zeros((2, 3, 3)) if b is None else b for b in (bias, content)]
    return [encoding.embed(params, x, POSITIONS), *rotated, *biases, jnp.array(encoding.softmax_scale(4))]


def same(a, b, **options):
    return all(np.allclose(x, y, atol=1e-6) for x, y in zip(maps(a, **options), maps(b, **options), strict=True))


@pytest.mark.parametrize("encoding", ALL, ids=repr)
def test_is_a_value(encoding):
    leaves, structure = jax.tree.flatten(encoding)
    assert same(jax.tree.unflatten(structure, leaves), encoding)
    if not leaves:  # an encoding without arrays is known by its fields alone
        twin = dataclasses.replace(encoding)
        assert twin == encoding
        assert hash(twin) == hash(encoding)
        assert eval(repr(encoding), vars(jrope)) == encoding


def test_nope_does_nothing_and_is_the_identity_of_chains():
    nothing = maps(Encoding())
    assert all(np.array_equal(a, b) for a, b in zip(nothing, maps(Chain(())), strict=True))
    for encoding in ALL[1:]:
        assert not same(encoding, Encoding())
    for encoding in (Sinusoidal(), Rope(), Alibi(), XPos(), Sandwich(), HardAlibi(), Window(2)):
        assert same(Chain((encoding, Encoding())), encoding)
        assert same(Chain((Encoding(), encoding)), encoding)


def test_chains_associate():
    a, b, c = Sinusoidal(), Rope(), Alibi()
    assert same(Chain((Chain((a, b)), c)), Chain((a, Chain((b, c)))))
    assert same(Chain((b, b)), Rotary(jrope.Spectrum(2 * jrope.spectrum(4).frequencies)))
    twice = Chain((c, c)).bias({"0": {}, "1": {}}, POSITIONS, POSITIONS, num_heads=2)
    np.testing.assert_allclose(twice, 2 * c.bias({}, POSITIONS, POSITIONS, num_heads=2))


def test_a_chain_of_a_list_is_that_of_a_tuple_and_holds_encodings_alone():
    assert Chain([Rope(), Alibi()]) == Chain((Rope(), Alibi()))
    assert hash(Chain([Rope()])) == hash(Chain((Rope(),)))
    for given in ([Rope], (Rope(), None), Rope(), "rope"):
        with pytest.raises(TypeError, match="Chain: encodings must be a tuple of encodings, got"):
            Chain(given)


@pytest.mark.parametrize("encoding", [e for e in ALL if type(e) not in (Encoding, Chain)], ids=repr)
def test_an_encoding_acts_in_one_place_and_two_at_once_only_in_a_chain(encoding):
    """gpt-neox PR#147: a rotation and a learned embedding were both active where one was asked for."""

    def acting(e):
        embedded, q, k, bias, content, _ = (not np.array_equal(a, b) for a, b in zip(maps(e), maps(Encoding()), strict=True))
        return {"embed": embedded, "rotation": q or k, "bias": bias, "content": content}

    alone = acting(encoding)
    assert sum(alone.values()) == 1
    other = Alibi() if not alone["bias"] else Rope()
    assert acting(Chain((encoding, other))) == {name: alone[name] or acting(other)[name] for name in alone}


def test_chain_has_a_value_only_where_all_its_parts_do():
    assert Chain((Learned(max_length=8), Alibi(), Learned(max_length=5))).limit == 5
    assert Chain((Rope(), Alibi())).limit is None


OTHER = {  # another value for every field that any encoding or scaling has
    "base": 100.0,
    "scaling": jrope.Linear(2.0),
    "layout": "half",
    "rotary_fraction": 0.5,
    "max_length": 9,
    "size": 1,
    "scale": 1.0,
    "encodings": (Alibi(),),
    "factor": 3.0,
    "original_length": 40,
    "beta_fast": 8.0,
    "beta_slow": 0.5,
    "truncate": False,
    "attention_factor": 2.0,
    "mscale": 2.0,
    "mscale_all_dim": 2.0,
    "low_freq_factor": 2.0,
    "high_freq_factor": 8.0,
    "short_factor": (3.0,) * 32,
    "long_factor": (5.0,) * 32,
    "softmax_multiplier": 1.5,
    "axes": jrope.Axial(),
    "sections": (5, 27),
    "interleaved": True,
    "spectrum": jrope.spectrum(4, base=50.0),
    "mode": "clip",
    "endpoint": True,
    "scale_base": 100.0,
    "origin": 90,
    "window": 2,
    "windowed_heads": 2,
    "dim": 64,
    "buckets": 4,
    "max_distance": 8,
    "bidirectional": True,
    "hidden": 8,
    "c": 1.0,
    "threshold": 9.0,
    "max_positions": 2,
}
SCALINGS = [
    jrope.Linear(2.0),
    jrope.NTK(2.0),
    jrope.DynamicNTK(2.0, 64),
    jrope.Yarn(2.0, 1000),
    jrope.Llama3(2.0, 1000),
    jrope.LongRope((1.5,) * 8, (4.0,) * 8, 64, 4.0),
    jrope.Step(2.0, 1000),
    jrope.Proportional(0.25),
]
OF_32_BANDS = [
    *(s for s in SCALINGS if not isinstance(s, jrope.LongRope)),
    jrope.Yarn(2.0, 1000, mscale=1.0, mscale_all_dim=0.5),
    jrope.LongRope((1.5,) * 32, (4.0,) * 32, 64, 4.0),
]
MUTE = {"mscale", "mscale_all_dim"}  # each alone is without effect, by the published rule


def fields(values):
    return [pytest.param(v, f.name, id=f"{type(v).__name__}.{f.name}") for v in values for f in dataclasses.fields(v)]


@pytest.mark.parametrize(("encoding", "field"), fields({type(encoding): encoding for encoding in ALL}.values()))
def test_every_field_of_an_encoding_changes_what_it_does(encoding, field):
    other = "concatenated" if (type(encoding), field) == (Sinusoidal, "layout") else OTHER[field]
    changed = dataclasses.replace(encoding, **{field: other})
    if field in ("max_length", "mode"):  # of a learned table, which differ beyond its end alone
        assert changed.limit != encoding.limit
        assert changed.init(jax.random.key(0), **SIZES)["table"].shape == (changed.max_length, 8)
    else:
        assert not same(changed, encoding)


@pytest.mark.parametrize(("scaling", "field"), fields(OF_32_BANDS))
def test_every_field_of_a_scaling_changes_the_spectrum(scaling, field):
    start, changed = jrope.spectrum(64), dataclasses.replace(scaling, **{field: OTHER[field]})

    def differ(length):
        a, b = scaling(start, length=length), changed(start, length=length)
        return a.amplitude != b.amplitude or not np.allclose(a.frequencies, b.frequencies, rtol=1e-6)

    assert (differ(50) or differ(2000)) != (field in MUTE and not getattr(scaling, field))


@pytest.mark.parametrize(("axes", "field"), fields([jrope.Sections((16, 16)), jrope.Axial(4)]))
def test_every_field_of_axes_changes_which_axis_turns_a_pair(axes, field):
    start, other = jrope.spectrum(64), {**OTHER, "axes": 2}
    changed = dataclasses.replace(axes, **{field: other[field]})
    assert changed(start).axes != axes(start).axes


def test_at_makes_one_type_and_shape_of_every_scaling():
    made = [Rope(scaling=s).at(head_dim=16, length=256) for s in (None, *SCALINGS)]
    assert len({jax.tree.structure(encoding) for encoding in made}) == 1

    @jax.jit
    @chex.assert_max_traces(n=1)
    def turn(encoding, q):
        return encoding.rotation({}, POSITIONS, POSITIONS, head_dim=16)(q, q)

    outputs = [turn(encoding, jnp.ones((1, 3, 2, 16)))[0] for encoding in made]
    assert len({float(o.sum()) for o in outputs}) == len(made)


def test_softmax_scale_is_apart_from_the_amplitude():
    """exllamav3#259: a temperature in the softmax scale is neither lost nor put on cos and sin."""
    assert Encoding().softmax_scale(64) == Alibi().softmax_scale(64) == Chain(()).softmax_scale(64) == 0.125
    rope = Rope(softmax_multiplier=1.5)
    assert rope.softmax_scale(64) == rope.at(head_dim=64, length=8).softmax_scale(64) == 1.5 / 8
    assert rope.spectrum(64).amplitude == 1.0
    chain = Chain((rope, Alibi(), Chain((Rope(softmax_multiplier=2.0),))))
    assert chain.softmax_scale(64) == pytest.approx(3 / 8)
    assert chain.at(head_dim=64, length=8).softmax_scale(64) == pytest.approx(3 / 8)


def test_partial_rotary_leaves_the_rest_of_a_head():
    encoding = Rope(rotary_fraction=0.5)
    assert encoding.spectrum(128).frequencies.shape == (32,)
    q = maps(encoding)[1]
    np.testing.assert_array_equal(q[..., 2:], maps(Encoding())[1][..., 2:])


def test_an_encoding_of_the_users_own_needs_no_registration():
    @dataclasses.dataclass(frozen=True)
    class Shifted(Encoding):
        by: float = 1.0

        def embed(self, params, x, positions):
            return x + self.by

    both = Chain((Shifted(2.0), Shifted()))
    np.testing.assert_allclose(jax.jit(lambda e: e.embed({"0": {}, "1": {}}, jnp.zeros(3), None))(both), 3.0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Rope(base=0.0), "Rope: base must be positive and finite, got 0.0"),
        (lambda: Rope(base=float("inf")), "Rope: base must be positive and finite, got inf"),
        (lambda: Rope(base=float("nan")), "Rope: base must be positive and finite, got nan"),
        (lambda: Rope(layout="neox"), "Rope: layout must be one of.*'neox'"),
        (lambda: Rope(rotary_fraction=1.5), "Rope: rotary_fraction.*got 1.5"),
        (lambda: Rope(softmax_multiplier=0.0), "Rope: softmax_multiplier.*got 0.0"),
        (lambda: Rope(rotary_fraction=0.5).spectrum(6), "even.*got 3"),
        (lambda: Learned(max_length=0), "Learned: max_length.*got 0"),
        (lambda: Learned(max_length=4, scale=-1.0), "Learned: scale.*got -1.0"),
        (lambda: Learned(max_length=4, mode="wrap"), "Learned: mode must be one of.*'wrap'"),
        (lambda: Sinusoidal(base=-1.0), "Sinusoidal: base must be positive and finite, got -1.0"),
        (lambda: Sinusoidal(layout="half"), "Sinusoidal: layout must be one of.*'half'"),
        (lambda: XPos(scale_base=0.0), "XPos: scale_base must be positive and finite, got 0.0"),
        (lambda: XPos(layout="neox"), "XPos: layout must be one of.*'neox'"),
        (lambda: Window(0), "Window: size must be at least 1, got 0"),
        (lambda: HardAlibi(window=0), "HardAlibi: window must be at least 1, got 0"),
        (lambda: HardAlibi(windowed_heads=-1), "HardAlibi: windowed_heads must be at least 0, got -1"),
        (lambda: maps(HardAlibi(windowed_heads=3)), "windowed_heads must be at most the number of heads, 2, got 3"),
        (lambda: Sandwich(dim=7), "Sandwich: dim must be an even.*got 7"),
        (lambda: T5(buckets=1), "T5: buckets must be at least 2, got 1"),
        (lambda: T5(max_distance=16), "T5: max_distance must be above 16.*got 16"),
        (lambda: Fire(hidden=0), "Fire: hidden must be at least 1, got 0"),
        (lambda: Fire(threshold=0.0), "Fire: threshold must be positive and finite, got 0.0"),
    ],
)
def test_bad_fields_are_told(make, words):
    with pytest.raises(ValueError, match=words):
        make()
