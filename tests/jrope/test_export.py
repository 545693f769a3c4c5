"""Programs that `jax.export` makes for all batches and lengths, stores and reads."""

import dataclasses
import json
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_encoding import ONE_OF_EACH_KIND
from every_function import CALLS, Call, abstract
from every_map import ARRAYS, ENCODINGS, MODEL, all_maps
from jax import export

import jrope
from jrope import serialization, transformer
from jrope.models.generate import generate

TWO_SIZES = [{"B": 2, "T": 3, "S": 4}, {"B": 1, "T": 5, "S": 2}]


def symbolic():
    """Sizes B, T and S that are any, and room C in a cache."""
    return dict(zip("BTSC", export.symbolic_shape("b, t, s, c"), strict=True))


def stored(function, *arguments):
    """The program of a function, after it was stored and read."""
    return export.deserialize(export.export(jax.jit(function))(*arguments).serialize())


def assert_equal(got, want):
    jax.tree.map(partial(np.testing.assert_allclose, atol=2e-6), got, want)


def all_functions(arrays):
    return {name: call(arrays[name]) for name, call in CALLS.items()}


@pytest.fixture(scope="module")
def functions():
    """Every public function at two sizes: what the stored program returns, and what it should."""
    sizes = symbolic()
    program = stored(all_functions, {n: call.abstract(**sizes) for n, call in CALLS.items()})
    inputs = [{n: call.example(**sizes) for n, call in CALLS.items()} for sizes in TWO_SIZES]
    return [(program.call(arrays), jax.jit(all_functions)(arrays)) for arrays in inputs]


@pytest.mark.parametrize("name", CALLS)
def test_a_stored_function_is_the_function(functions, name):
    for got, want in functions:
        assert_equal(got[name], want[name])
        assert jax.tree.structure(got[name]) == jax.tree.structure(want[name])


@pytest.mark.parametrize("start", [None, 1])
def test_a_stored_gradient_of_attention_in_blocks(start):
    call = CALLS["blocked_attention"]
    call = dataclasses.replace(call, options=call.options | {"start": start})
    gradient = jax.grad(lambda arrays: (call(arrays) ** 2).sum())
    program = stored(gradient, call.abstract(**symbolic()))
    for sizes in TWO_SIZES:
        arrays = call.example(**sizes)
        assert_equal(program.call(arrays), gradient(arrays))


@pytest.fixture(scope="module")
def encoding_maps():
    """The maps of every encoding, likewise; encodings and parameters are arguments."""
    params = [encoding.init(jax.random.key(0), **MODEL) for encoding in ENCODINGS]
    arguments = abstract([ENCODINGS, params])
    call = Call(all_maps, ARRAYS)
    program = stored(all_maps, *arguments, call.abstract(**symbolic()))
    inputs = [call.example(**sizes) for sizes in TWO_SIZES]
    return [
        (program.call(ENCODINGS, params, x), jax.jit(all_maps)(ENCODINGS, params, x))
        for x in inputs
    ]


@pytest.mark.parametrize("index", range(len(ENCODINGS)), ids=map(repr, ENCODINGS))
def test_the_maps_of_a_stored_encoding_are_its_maps(encoding_maps, index):
    for got, want in encoding_maps:
        assert_equal(got[index], want[index])
        assert len(jax.tree.leaves(got[index])) >= 3  # the embedding and two rotations


def test_a_stored_transformer_is_the_transformer():
    """Its parameters are an argument as a list, since `nnx.State` has keys that are not strings."""
    models = []
    for encoding in ONE_OF_EACH_KIND:
        sizes = {"features": 8, "heads": 2, "layers": 1, "mlp_ratio": 1}
        config = transformer.TransformerConfig(vocabulary=5, encoding=encoding, **sizes)
        params = transformer.init(config, jax.random.key(0))
        models.append((transformer.abstract(config), *jax.tree.flatten(params)))

    def logits(leaves, tokens, positions, token_mask):
        return [
            transformer.apply(
                graphdef,
                jax.tree.unflatten(structure, own),
                tokens,
                positions,
                token_mask=token_mask,
            )
            for own, (graphdef, _, structure) in zip(leaves, models, strict=True)
        ]

    leaves = [leaves for _, leaves, _ in models]
    call = Call(logits, dict.fromkeys("tp", "int32: B T") | {"m": "bool: B T"})
    program = stored(logits, abstract(leaves), *call.abstract(**symbolic()).values())
    for sizes in TWO_SIZES:
        arrays = call.example(**sizes).values()
        assert_equal(program.call(leaves, *arrays), jax.jit(logits)(leaves, *arrays))


def test_stored_decoding_is_decoding():
    """A prompt into a cache, which is an argument, and the tokens that follow a prompt."""
    encoding = jrope.Chain((jrope.Rope(), jrope.ForgettingGate()))
    config = transformer.TransformerConfig(5, encoding, features=8, heads=1, layers=1)
    graphdef = transformer.abstract(config)
    leaves, structure = jax.tree.flatten(transformer.init(config, jax.random.key(0)))

    def decoded(leaves, tokens, positions, cache):
        params = jax.tree.unflatten(structure, leaves)
        return (
            transformer.decode(graphdef, params, tokens, positions, cache),
            generate(graphdef, params, tokens, 2),
        )

    call = Call(decoded, {"tokens": "int32: B T", "positions": "int32: B T"})
    sizes = symbolic()
    cache = jax.eval_shape(partial(transformer.empty_cache, config, 2, 9))
    letters = {2: sizes["B"], 9: sizes["T"] + sizes["C"]}
    cache = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct([letters.get(n, n) for n in x.shape], x.dtype), cache
    )
    program = stored(decoded, abstract(leaves), *call.abstract(**sizes).values(), cache)
    for batch, length in ((1, 3), (4, 5)):
        arrays = call.example(B=batch, T=length).values()
        cache = transformer.empty_cache(config, batch, 7)
        assert_equal(program.call(leaves, *arrays, cache), jax.jit(decoded)(leaves, *arrays, cache))


def structure_of(value):
    """A value without its arrays, after it was stored and read."""
    return stored(lambda value: jnp.zeros(()), abstract(value)).in_tree


@dataclass(frozen=True)
class Halved:
    """A user's scaling."""

    by: tuple[float, ...] = (2.0,)

    def __call__(self, spectrum, *, length=None):
        return spectrum.scaled(spectrum.frequencies / self.by[0])


@dataclass(frozen=True)
class Shifted(jrope.Encoding):
    """A user's encoding, with every kind of field."""

    table: jax.Array
    inner: jrope.Encoding = field(default_factory=lambda: jrope.Rope(scaling=Halved()))
    words: tuple = ("a", None, (True, 2.5, 10**30))

    arrays: ClassVar[tuple[str, ...]] = ("table",)

    def embed(self, params, x, positions):
        return x + self.table


VALUES = [
    *ENCODINGS,
    OLD := jrope.spectrum(8),
    jrope.Sections((2, 2))(OLD),
    jrope.LearnedSpectrum(OLD.frequencies, 2.0, (0, 1, 0, 1)),
    Shifted(jnp.arange(3.0)),
    jrope.Chain((Shifted(jnp.arange(3.0)), jrope.Layers((jrope.Rope(axes=jrope.Axial(2)),)))),
    *[jrope.Rope(scaling=s) for s in (Halved(), jrope.NTK(2.0), jrope.Step(2.0, 8))],
    jrope.Rope(scaling=jrope.Proportional(0.5)),
    jrope.Rope(scaling=jrope.Llama3(8.0, 64)),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_comes_back_equal(value):
    leaves, structure = jax.tree.flatten(((value,), {}))
    back = structure_of(value)
    assert back == structure
    if not leaves:
        assert jax.tree.unflatten(back, leaves) == ((value,), {})


@pytest.mark.parametrize("value", [0.1, 1e-300, 2**80, True, None, "é", (), ((1,), "b")], ids=repr)
def test_fields_are_stored_as_plain_json(value):
    back = serialization.from_json(json.loads(json.dumps(serialization.to_json("Mine", value))))
    assert back == value
    assert type(back) is type(value)


def test_a_field_that_cannot_be_stored_is_named_with_a_remedy():
    @dataclass(frozen=True)
    class Local(Halved):
        pass

    for scaling in (lambda spectrum, length=None: spectrum, Local()):
        with pytest.raises(TypeError, match=r"^Rope: a field holds .*export cannot store.*bind\("):
            structure_of(jrope.Rope(scaling=scaling))
        bound = jrope.Rope(scaling=lambda s, length=None: s).bind(head_dim=8)
        assert structure_of(bound) == jax.tree.structure(((bound,), {}))


def test_a_type_that_is_not_defined_here_is_named():
    stored = {"type": "my_scalings:Mine", "fields": {}}
    with pytest.raises(ValueError, match=r"has a my_scalings:Mine.*import my_scalings"):
        serialization.from_json(stored)
    for other in ("json:dumps", "jrope.scalings.yarn:np", "builtins:int"):  # no dataclass
        with pytest.raises(ValueError, match="not defined here"):
            serialization.from_json({"type": other, "fields": {}})


def test_a_type_with_other_fields_is_refused():
    """A program that another version of the type stored."""
    stored = serialization.to_json("Rope", jrope.NTK(2.0))
    stored["fields"] = {"scale": 2.0}
    with pytest.raises(ValueError, match=r"ntk:NTK with the fields \['scale'\].*has \['factor'\]"):
        serialization.from_json(stored)


def test_a_definition_that_is_repeated_is_stored_too():
    """As a notebook's cell that runs twice."""

    def define():
        @dataclass(frozen=True)
        class Mine(jrope.Encoding):
            size: int = 3

        return Mine

    first, second = define(), define()
    assert structure_of(second()) == jax.tree.structure(((second(),), {}))
    # what the first definition stored is read as the last one
    assert structure_of(first(4)) == jax.tree.structure(((second(4),), {}))


def test_symbolic_lengths_choose_what_concrete_ones_choose():
    """LongRoPE's list by the length of the program's call; position ids of that many tokens."""
    scaling = jrope.LongRope((1.0,) * 4, (2.0, 3.0, 4.0, 5.0), 4)

    def rotated(x):
        ids = jnp.arange(x.shape[0])
        return jrope.rotate(x, ids, scaling(jrope.spectrum(8), length=x.shape[0])), (
            jrope.zigzag(x.shape[0], 2),
            jrope.grid(2, x.shape[0]),
            jrope.from_lengths(jnp.array([0, 3]), x.shape[0]),
            jrope.randomized(jax.random.key(0), x.shape[0], 16),
        )

    (n,) = export.symbolic_shape("n", constraints=["n >= 1", "n <= 4"])
    program = stored(rotated, abstract("float32: T 1 8", T=4 * n))
    for length in (4, 8):
        x = jnp.ones((length, 1, 8))
        assert_equal(program.call(x), rotated(x))


def test_dynamic_ntk_of_a_symbolic_length_is_refused_with_a_remedy():
    scaling = jrope.DynamicNTK(2.0, 4)
    x = abstract("float32: T 1 8", **symbolic())
    with pytest.raises(TypeError, match=r"no angle can be exact.*bind\(.*LearnedSpectrum"):
        export.export(jax.jit(lambda x: scaling(jrope.spectrum(8), length=x.shape[0])))(x)
