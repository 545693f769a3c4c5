"""A concrete scalar of JAX or NumPy is the Python number that it holds, also inside jit."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_encoding import EVERY, VARIANTS
from every_function import CALLS

import jrope
from jrope import transformer

KINDS = {"jax": jnp.asarray, "numpy": np.asarray, "generic": lambda n: np.asarray(n)[()]}
VALUES = [
    *EVERY,
    *VARIANTS,
    jrope.Rotary(jrope.spectrum(8), softmax_multiplier=1.5),
    jrope.HardAlibi(2, 1),
    jrope.Linear(2.0),
    jrope.NTK(2.0),
    jrope.DynamicNTK(2.0, 8),
    jrope.Llama3(2.0, 8),
    jrope.Step(2.0, 8),
    jrope.Proportional(0.5, 2.0),
    jrope.Yarn(2.0, 8, attention_factor=1.5, mscale=0.5, mscale_all_dim=0.25),
    jrope.LongRope((1.0, 2.0), (2.0, 3.0), 8, 2.0, attention_factor=1.5),
    jrope.Sections((1, 1, 2)),
    jrope.Axial(2),
    transformer.TransformerConfig(vocabulary=4),
]


def numbers(fields: dict) -> dict:
    """Those that are a number, or a tuple with numbers."""

    def is_numeric(x):
        return (type(x) is tuple and any(map(is_numeric, x))) or type(x) in (int, float, bool)

    return {name: x for name, x in fields.items() if is_numeric(x)}


def held(number, kind):
    return jax.tree.map(KINDS[kind], number)


@pytest.mark.parametrize("name", [name for name, call in CALLS.items() if numbers(call.options)])
def test_a_number_that_a_jitted_function_closes_over(name):
    call = CALLS[name]
    arrays = call.example()
    given = [{n: held(x, k)} for n, x in numbers(call.options).items() for k in KINDS]
    want = call(arrays)
    got = jax.jit(
        lambda a: [dataclasses.replace(call, options=call.options | g)(a) for g in given]
    )(arrays)
    for each in got:
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-6), each, want)


@pytest.mark.parametrize("value", VALUES, ids=repr)
@pytest.mark.parametrize("kind", KINDS)
def test_a_value_holds_the_number(value, kind):
    """It is equal, has the same hash and is printed in the same way, also if jit traces its making."""
    fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    given = {name: held(number, kind) for name, number in numbers(fields).items()}
    plain = jax.tree.map(lambda x: np.asarray(x).tolist(), given)  # rounded to float32 by JAX
    value = dataclasses.replace(value, **plain)
    made = []
    jax.eval_shape(lambda: made.append(dataclasses.replace(value, **given)))
    made.append(dataclasses.replace(value, **given))
    for each in made:
        assert each == value
        assert hash(each) == hash(value)
        assert repr(each) == repr(value)


def test_lists_of_numbers_may_be_one_array():
    two, ids, made = jnp.array([1, 2]), jnp.arange(3)[None], []
    jax.eval_shape(lambda: made.extend([jrope.LongRope(two, two, 8), jrope.Sections(two)]))
    assert made == [jrope.LongRope((1, 2), (1, 2), 8), jrope.Sections((1, 2))]
    got = jax.jit(lambda: jrope.windowed(ids, ids, windows=two))()
    np.testing.assert_array_equal(got, jrope.windowed(ids, ids, windows=(1, 2)))


@pytest.mark.parametrize("kind", [jrope.Spectrum, jrope.LearnedSpectrum])
def test_a_spectrum_holds_the_numbers(kind):
    frequencies, amplitude, axes = jnp.array([1.0, 0.5]), jnp.float32(1.5), jnp.array([0, 1])
    want, made = kind([1.0, 0.5], 1.5, (0, 1)), []
    jax.eval_shape(lambda: made.append(kind(frequencies, amplitude, axes)))
    assert made == [want]
    assert hash(made[0]) == hash(want)


@pytest.mark.parametrize("encoding", EVERY + VARIANTS, ids=repr)
def test_sizes_of_the_maps_may_be_jax_scalars(encoding):
    """Also the length, which some scalings of RoPE need."""
    encoding, params = encoding.layer(
        encoding.init(jax.random.key(0), features=8, num_heads=2, head_dim=8, num_layers=1), 0
    )
    ids, q = jnp.arange(3)[None], jnp.ones((1, 3, 2, 8))

    def maps(heads, head_dim, length):
        rotation = encoding.rotation(params, ids, ids, head_dim=head_dim, length=length)
        return (
            rotation(q, q),
            encoding.bias(params, ids, ids, num_heads=heads),
            encoding.softmax_scale(head_dim),
            encoding.bind(head_dim=head_dim, length=length),
        )

    sizes = 2, 8, 16
    held_by_jax = [jnp.asarray(size) for size in sizes]
    want, got = jax.jit(lambda: (maps(*sizes), maps(*held_by_jax)))()
    assert jax.tree.structure(got) == jax.tree.structure(want)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=2e-6), got, want)
