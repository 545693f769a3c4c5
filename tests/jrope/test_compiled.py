"""Facts of compiled programs that decide how fast they are, and do not depend on noise."""

import math
import re
from functools import partial

import jax
import jax.numpy as jnp
import pytest
from jax import export

import jrope
from jrope import transformer
from jrope.attention import attention

X = jax.ShapeDtypeStruct((8, 64, 4, 32), jnp.float32)
POSITIONS = jnp.arange(64)
SPECTRUM = jrope.spectrum(32)
each_layout = pytest.mark.parametrize("layout", ["interleaved", "half"])


def computations(function, *arguments):
    """The text of each computation of the compiled program, by its first word; the last is the ENTRY."""
    text = jax.jit(function).lower(*arguments).compile().as_text()
    parts = [part.strip().split("\n\n")[-1] for part in text.split("\n}\n") if " -> " in part]
    return {re.search(r"(\S+) \(", part)[1]: part for part in parts}


def largest(computation):
    """Elements of the largest array in a computation."""
    return max(
        math.prod(int(n) for n in shape.split(","))
        for shape in re.findall(r"\[([\d,]+)\]", computation) or ["0"]
    )


@each_layout
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("gradient", [False, True], ids=["forward", "gradient"])
def test_a_rotation_is_one_loop_over_pairs(layout, dtype, gradient):
    """And not over all features of a head, which XLA does not vectorise: the reshape of its result is no part of it."""
    rotation = partial(jrope.apply_rotary, layout=layout)
    x, (cos, sin) = jax.ShapeDtypeStruct(X.shape, dtype), jrope.rotation_tables(POSITIONS, SPECTRUM)

    def backward(x, cos, sin):
        return jax.vjp(lambda x: rotation(x, cos, sin), x)[1](x)

    parts = computations(backward if gradient else rotation, x, cos, sin)
    *_, entry = parts.values()
    operations = re.findall(r" = (\S+) (\w+)\((.*)", entry)
    loops = [
        shape
        for shape, operation, rest in operations
        if operation == "fusion" and "kind=kLoop" in rest
    ]
    assert [shape.split("{")[0].split("[")[1] for shape in loops] == [
        "8,64,4,16,2]"
        if layout == "interleaved"
        else "8,64,4,2,4,4]"
        if dtype == "float32"
        else "8,64,4,2,1,16]"
    ]
    called = [
        re.search(r"to_apply=(\S+?),", rest)[1]
        for _, operation, rest in operations
        if operation == "call"
    ]
    assert called
    for name in called:
        assert set(re.findall(r" = \S+ (\w+)\(", parts[name])) == {"parameter", "bitcast"}
    assert {operation for _, operation, _ in operations} <= {
        "parameter",
        "fusion",
        "call",
        "bitcast",
    }


def test_reshapes_are_kept_apart_on_cpus_alone():
    """Other compilers find their own loops, and may join a rotation with what comes after it."""
    traced = jax.jit(jrope.rotate).trace(X, POSITIONS, SPECTRUM)
    kept = {
        name: "inlineable" in traced.lower(lowering_platforms=(name,)).as_text()
        for name in ("cpu", "cuda", "tpu")
    }
    assert kept == {"cpu": True, "cuda": False, "tpu": False}


@each_layout
@pytest.mark.parametrize("argument", ["x", "frequencies"])
def test_a_gradient_scatters_nothing(layout, argument):
    def objective(x, frequencies):
        return (
            jrope.rotate(x, POSITIONS, jrope.LearnedSpectrum(frequencies), layout=layout) ** 2
        ).sum()

    gradient = jax.grad(objective, ["x", "frequencies"].index(argument))
    frequencies = jax.ShapeDtypeStruct((16,), jnp.float32)
    assert not any("scatter(" in part for part in computations(gradient, X, frequencies).values())


@each_layout
def test_angles_are_made_apart_from_the_rotation(layout):
    """In the plain call too: of all loops as large as x, none holds the integers that angles are made of."""
    parts = computations(
        lambda x, p, s: jrope.rotate(x, p, s, layout=layout), X, POSITIONS, SPECTRUM
    )
    *parts, _ = parts.values()
    assert any("u32[" in part for part in parts)
    assert any(largest(part) == math.prod(X.shape) for part in parts)
    assert not [part for part in parts if "u32[" in part and largest(part) >= math.prod(X.shape)]


def test_a_program_for_all_sizes_makes_its_angles_apart_too():
    batch, length = export.symbolic_shape("b, t")
    x = jax.ShapeDtypeStruct((batch, length, 4, 32), jnp.float32)
    ids = jax.ShapeDtypeStruct((length,), jnp.int32)
    program = export.export(jax.jit(jrope.rope))(x, ids)
    *parts, _ = computations(program.call, X, POSITIONS).values()
    assert any(largest(part) == math.prod(X.shape) for part in parts)
    of_integers = [part for part in parts if "u32[" in part]
    assert max(map(largest, of_integers)) < math.prod(X.shape)


@pytest.mark.parametrize("encoding", [jrope.Rope(), jrope.Sinusoidal()], ids=repr)
def test_a_forward_pass_makes_its_angles_once(encoding):
    """Not once a batch element, a head or a layer, nor once for queries and once for keys."""
    config = transformer.TransformerConfig(
        vocabulary=11, encoding=encoding, features=64, layers=3, heads=2
    )
    params = jax.eval_shape(partial(transformer.init, config), jax.random.key(0))
    graphdef = transformer.abstract(config)
    tokens = jax.ShapeDtypeStruct((8, 64), jnp.int32)
    parts = computations(
        lambda params, tokens: transformer.apply(graphdef, params, tokens, POSITIONS),
        params,
        tokens,
    )
    angles = [
        part
        for part in parts.values()
        if "u32[" in part and re.search(r"= f32\[[\d,]+\]\S* convert\(", part)
    ]
    assert len(angles) <= 2  # those of the cosines, and those of the sines
    assert max(map(largest, angles)) <= POSITIONS.size * config.features


@pytest.mark.parametrize("batch", [1, 8])
def test_attention_copies_no_scores(batch):
    """It did for a lone sequence, whose product with the values einsum had made the other way round."""
    x = jax.ShapeDtypeStruct((batch, 40, 2, 16), jnp.float32)
    parts = computations(lambda q, k, v: attention(q, k, v, mask=jnp.tri(40, dtype=bool)), x, x, x)
    text = "".join(parts.values())
    assert re.search(r"f32\[[\d,]*40,40\]\S* dot\(", text)
    assert not re.findall(r"f32\[[\d,]*40,40\]\S* (?:transpose|copy)\(", text)


def test_a_weight_gradient_is_one_product_without_a_transpose():
    """Of activations [B*T, D] as they lie in memory: those of [B, T, D] would be copied first."""
    config = transformer.TransformerConfig(
        vocabulary=11, encoding=jrope.Rope(), features=64, layers=2, heads=2
    )
    params = jax.eval_shape(partial(transformer.init, config), jax.random.key(0))
    graphdef = transformer.abstract(config)

    def objective(params, tokens):
        return (transformer.apply(graphdef, params, tokens, jnp.arange(12)) ** 2).sum()

    text = "".join(
        computations(jax.grad(objective), params, jax.ShapeDtypeStruct((8, 12), jnp.int32)).values()
    )
    products = re.findall(
        r"f32\[\d+,\d+\]\S* dot\(.*lhs_contracting_dims=\{0\}, rhs_contracting_dims=\{0\}", text
    )
    assert len(products) == 4 * config.layers + 1
    assert not re.findall(r"f32\[\d+,96\]\S* (?:transpose|copy)\(", text)
