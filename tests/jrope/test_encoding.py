"""Encodings are values, and compose as a monoid; no field of theirs is dead."""

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_encoding import EVERY

import jrope
from jrope import (
    T5,
    Alibi,
    Chain,
    Encoding,
    Fire,
    HardAlibi,
    Layers,
    Learned,
    Rope,
    Rotary,
    Sandwich,
    Sinusoidal,
    Window,
    XPos,
)

SIZES = {"features": 8, "num_heads": 2, "head_dim": 4, "num_layers": 2}
POSITIONS = jnp.array([0, 1, 5])
MASK = jnp.tri(3, dtype=bool)[None]
ALL = [*EVERY, Rope(scaling=jrope.DynamicNTK(2.0, 4)), Rotary(jrope.spectrum(4))]
KINDS = [e for e in EVERY if type(e) not in (Encoding, Chain, Layers)] + ALL[-1:]


def maps(encoding, length=6, layer=0):
    """Everything that an encoding does to one input in a layer, by the name of the map."""
    params = encoding.init(jax.random.key(0), **SIZES)
    none_is_zero = lambda p: p + 0.1 * jnp.cos(jnp.arange(1.0, p.size + 1)).reshape(p.shape)  # noqa: E731
    params = jax.tree.map(none_is_zero, params)
    shapes = ((8,), (2, 4), (2, 4))
    x, q, k = (jax.random.normal(jax.random.key(i + 1), (1, 3, *s)) for i, s in enumerate(shapes))
    embedded = encoding.embed(params, x, POSITIONS)
    encoding, params = encoding.layer(params, layer)
    rotation = encoding.rotation(params, POSITIONS, POSITIONS, head_dim=4, length=length)
    q_rotated, k_rotated = rotation(q, k)
    state = encoding.state(params, x, layer=layer)
    options = {"layer": layer, "mask": MASK, "scale": 0.5}
    content = encoding.content_bias(params, q_rotated, k_rotated, POSITIONS, POSITIONS, **options)
    none = jnp.zeros((2, 3, 3))
    made = {
        "embed": embedded,
        "rotation": jnp.stack([q_rotated, k_rotated]),
        "query_scale": encoding.query_scale(params, POSITIONS),
        "bias": encoding.bias(params, POSITIONS, POSITIONS, num_heads=2),
        "state_bias": encoding.state_bias(params, state, state),
        "content_bias": content,
        "softmax_scale": jnp.array(encoding.softmax_scale(4)),
    }
    made["query_scale"] = jnp.ones(3) if made["query_scale"] is None else made["query_scale"]
    return {name: none if value is None else value for name, value in made.items()}


def same(a, b, **options):
    ours, theirs = maps(a, **options), maps(b, **options)
    return all(np.allclose(ours[name], theirs[name], atol=1e-6) for name in ours)


@pytest.mark.parametrize("encoding", ALL, ids=repr)
def test_is_a_value(encoding):
    leaves, structure = jax.tree.flatten(encoding)
    assert same(jax.tree.unflatten(structure, leaves), encoding)
    twin = dataclasses.replace(encoding)
    assert twin == encoding
    assert hash(twin) == hash(encoding)
    if type(encoding) is not Rotary:  # a spectrum is printed as numbers
        assert eval(repr(encoding), vars(jrope)) == encoding


def test_nope_does_nothing_and_is_the_identity_of_chains():
    nothing = maps(Encoding())
    empty = maps(Chain(()))
    assert all(np.array_equal(nothing[name], empty[name]) for name in nothing)
    for encoding in ALL:
        if encoding == Encoding():
            continue
        assert not same(encoding, Encoding())
    for encoding in (Sinusoidal(), Rope(), Alibi(), XPos(), Sandwich(), HardAlibi(), Window(2)):
        assert same(Chain((encoding, Encoding())), encoding)
        assert same(Chain((Encoding(), encoding)), encoding)


def test_chains_associate():
    a, b, c = Sinusoidal(), Rope(), Alibi()
    assert same(Chain((Chain((a, b)), c)), Chain((a, Chain((b, c)))))
    doubled = jrope.Spectrum(2 * jrope.spectrum(4).frequencies)
    assert same(Chain((b, b)), Rotary(doubled))
    twice = Chain((c, c)).bias({"0": {}, "1": {}}, POSITIONS, POSITIONS, num_heads=2)
    np.testing.assert_allclose(twice, 2 * c.bias({}, POSITIONS, POSITIONS, num_heads=2))


def test_a_chain_of_a_list_is_that_of_a_tuple_and_holds_encodings_alone():
    assert Chain([Rope(), Alibi()]) == Chain((Rope(), Alibi()))
    assert hash(Chain([Rope()])) == hash(Chain((Rope(),)))
    for given in ([Rope], (Rope(), None), Rope(), "rope"):
        with pytest.raises(TypeError, match="Chain: encodings must be a tuple of encodings, got"):
            Chain(given)


@pytest.mark.parametrize("encoding", KINDS, ids=repr)
def test_an_encoding_acts_in_one_place_and_two_at_once_only_in_a_chain(encoding):
    """gpt-neox PR#147: a rotation and a learned embedding were both active where one was asked for."""

    def acting(e):
        ours, nothing = maps(e), maps(Encoding())
        return {name: not np.array_equal(ours[name], nothing[name]) for name in ours}

    alone = acting(encoding)
    assert sum(alone.values()) == 1
    other = Rope() if alone["bias"] else Alibi()
    assert acting(Chain((encoding, other))) == {n: alone[n] or acting(other)[n] for n in alone}


def test_layers_differ_and_share_what_is_the_same():
    both = Layers((Rope(), Alibi()), pattern=(0, 0, 1))
    assert [both.variant(i)[0] for i in range(6)] == [0, 0, 1, 0, 0, 1]
    for index, alone in enumerate((Rope(), Rope(), Alibi(), Rope())):
        ours, theirs = maps(both, layer=index), maps(alone)
        assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    chained = Chain((both, Alibi()))
    assert len({chained.variant(i) for i in range(9)}) == 2
    assert same(Layers((Rope(),)), Rope())
    with pytest.raises(TypeError, match="its maps differ by layer: take layer"):
        both.bias({}, POSITIONS, POSITIONS, num_heads=2)


def test_members_of_layers_have_parameters_of_their_own():
    twice = Layers((T5(6, 4), T5(6, 4)))
    params = twice.init(jax.random.key(0), **SIZES)
    (_, first), (_, second), (_, third) = (twice.layer(params, i) for i in range(3))
    assert (first["table"] != second["table"]).any()
    assert third["table"] is first["table"]


def test_chain_has_a_value_only_where_all_its_parts_do():
    assert Chain((Learned(max_length=8), Alibi(), Learned(max_length=5))).position_limit == 5
    assert Chain((Rope(), Alibi())).position_limit is None


OTHER = {  # another value for every field that any encoding or scaling has
    "base": 100.0,
    "scaling": jrope.Linear(2.0),
    "layout": "half",
    "rotary_fraction": 0.5,
    "max_length": 9,
    "size": 1,
    "scale": 0.5,
    "encodings": (Alibi(), T5(6, 4)),
    "pattern": (1, 0),
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
    "window": 1,
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
    return [
        pytest.param(v, f.name, id=f"{type(v).__name__}.{f.name}")
        for v in values
        for f in dataclasses.fields(v)
    ]


@pytest.mark.parametrize(("encoding", "field"), fields({type(e): e for e in ALL}.values()))
def test_every_field_of_an_encoding_changes_what_it_does(encoding, field):
    other = "concatenated" if (type(encoding), field) == (Sinusoidal, "layout") else OTHER[field]
    changed = dataclasses.replace(encoding, **{field: other})
    if field in ("max_length", "mode"):  # of a learned table, which differ beyond its end alone
        assert changed.position_limit != encoding.position_limit
        assert changed.init(jax.random.key(0), **SIZES)["table"].shape == (changed.max_length, 8)
    else:
        assert not same(changed, encoding)


@pytest.mark.parametrize(("scaling", "field"), fields(OF_32_BANDS))
def test_every_field_of_a_scaling_changes_the_spectrum(scaling, field):
    start, changed = jrope.spectrum(64), dataclasses.replace(scaling, **{field: OTHER[field]})

    def differ(length):
        a, b = scaling(start, length=length), changed(start, length=length)
        return a.amplitude != b.amplitude or not np.allclose(
            a.frequencies, b.frequencies, rtol=1e-6
        )

    assert (differ(50) or differ(2000)) != (field in MUTE and not getattr(scaling, field))


@pytest.mark.parametrize(("axes", "field"), fields([jrope.Sections((16, 16)), jrope.Axial(4)]))
def test_every_field_of_axes_changes_which_axis_turns_a_pair(axes, field):
    start, other = jrope.spectrum(64), {**OTHER, "axes": 2}
    changed = dataclasses.replace(axes, **{field: other[field]})
    assert changed(start).axes != axes(start).axes


def test_at_makes_one_type_and_shape_of_every_scaling():
    made = [Rope(scaling=s).bind(head_dim=16, length=256) for s in (None, *SCALINGS)]
    assert len({jax.tree.structure(encoding) for encoding in made}) == 1

    @jax.jit
    @chex.assert_max_traces(n=1)
    def turn(encoding, q):
        return encoding.rotation({}, POSITIONS, POSITIONS, head_dim=16)(q, q)

    outputs = [turn(encoding, jnp.ones((1, 3, 2, 16)))[0] for encoding in made]
    assert len({float(o.sum()) for o in outputs}) == len(made)


def test_softmax_scale_is_apart_from_the_amplitude():
    """exllamav3#259: a temperature in the softmax scale is neither lost nor put on cos and sin."""
    assert (
        Encoding().softmax_scale(64)
        == Alibi().softmax_scale(64)
        == Chain(()).softmax_scale(64)
        == 0.125
    )
    rope = Rope(softmax_multiplier=1.5)
    assert rope.softmax_scale(64) == rope.bind(head_dim=64, length=8).softmax_scale(64) == 1.5 / 8
    assert rope.spectrum(64).amplitude == 1.0
    chain = Chain((rope, Alibi(), Chain((Rope(softmax_multiplier=2.0),))))
    assert chain.softmax_scale(64) == pytest.approx(3 / 8)
    assert chain.bind(head_dim=64, length=8).softmax_scale(64) == pytest.approx(3 / 8)


def test_partial_rotary_leaves_the_rest_of_a_head():
    encoding = Rope(rotary_fraction=0.5)
    assert encoding.spectrum(128).frequencies.shape == (32,)
    ours, nothing = (maps(e)["rotation"] for e in (encoding, Encoding()))
    np.testing.assert_array_equal(ours[..., 2:], nothing[..., 2:])


def test_an_encoding_of_the_users_own_needs_no_registration():
    @dataclasses.dataclass(frozen=True)
    class Shifted(Encoding):
        by: float = 1.0

        def embed(self, params, x, positions):
            return x + self.by

    both = Chain((Shifted(2.0), Shifted()))
    np.testing.assert_allclose(
        jax.jit(lambda e: e.embed({"0": {}, "1": {}}, jnp.zeros(3), None))(both), 3.0
    )
    with pytest.raises(TypeError, match="Old: limit is now called position_limit: override that"):
        type("Old", (Encoding,), {"limit": 8})


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
        (
            lambda: HardAlibi(windowed_heads=-1),
            "HardAlibi: windowed_heads must be at least 0, got -1",
        ),
        (
            lambda: maps(HardAlibi(windowed_heads=3)),
            "windowed_heads must be at most the number of heads, 2, got 3",
        ),
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


@pytest.mark.parametrize(
    "scaling",
    [jrope.DynamicNTK(2.0, 4), jrope.LongRope((1.0,) * 4, (2.0,) * 4, 4)],
    ids=lambda scaling: scaling.name,
)
@pytest.mark.parametrize("wrap", [lambda e: e, lambda e: Chain((e,)), lambda e: Layers((e,))])
def test_a_scaling_by_length_does_not_go_without_a_length(scaling, wrap):
    """Plain RoPE instead has a perplexity of 1045 where 10 is right."""
    encoding, words = wrap(Rope(scaling=scaling)), f"{type(scaling).__name__}.*give length="
    with pytest.raises(ValueError, match=words):
        encoding.bind(head_dim=8)
    own, positions = encoding.layer({}, 0)[0], np.arange(3)
    with pytest.raises(ValueError, match=words):
        own.rotation({}, positions, positions, head_dim=8)
    with pytest.raises(ValueError, match=words):
        own.at(head_dim=8)
    assert encoding.bind(head_dim=8, length=4) == wrap(Rope()).bind(head_dim=8)
