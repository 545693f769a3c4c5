"""Facts of compiled programs that decide how fast they are, and do not depend on noise."""

import math
import re
from functools import partial

import jax
import jax.numpy as jnp
import pytest

import jrope
from jrope import transformer

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
    return max(math.prod(int(n) for n in shape.split(",")) for shape in re.findall(r"\[([\d,]+)\]", computation) or ["0"])


@each_layout
def test_a_rotation_is_one_loop(layout):
    cos, sin = jrope.rotation_tables(POSITIONS, SPECTRUM)
    *_, entry = computations(partial(jrope.apply_rotary, layout=layout), X, cos, sin).values()
    operations = [line for line in entry.splitlines()[1:] if " = " in line and " parameter(" not in line]
    assert [bool(re.search(r" fusion\(.*kind=kLoop", line)) for line in operations] == [True], operations


@each_layout
@pytest.mark.parametrize("argument", ["x", "frequencies"])
def test_a_gradient_scatters_nothing(layout, argument):
    def objective(x, frequencies):
        return (jrope.rotate(x, POSITIONS, jrope.Spectrum(frequencies), layout=layout) ** 2).sum()

    gradient = jax.grad(objective, ["x", "frequencies"].index(argument))
    frequencies = jax.ShapeDtypeStruct((16,), jnp.float32)
    assert not any("scatter(" in part for part in computations(gradient, X, frequencies).values())


@each_layout
def test_angles_are_made_apart_from_the_rotation(layout):
    """In the plain call too: of all loops as large as x, none holds the integers that angles are made of."""
    parts = computations(lambda x, p, s: jrope.rotate(x, p, s, layout=layout), X, POSITIONS, SPECTRUM)
    *parts, _ = parts.values()
    assert any("u32[" in part for part in parts)
    assert any(largest(part) == math.prod(X.shape) for part in parts)
    assert not [part for part in parts if "u32[" in part and largest(part) >= math.prod(X.shape)]


@pytest.mark.parametrize("encoding", [jrope.Rope(), jrope.Sinusoidal()], ids=repr)
def test_a_forward_pass_makes_its_angles_once(encoding):
    """Not once a batch element, a head or a layer, nor once for queries and once for keys."""
    config = transformer.TransformerConfig(vocabulary=11, encoding=encoding, features=64, layers=3, heads=2)
    params = jax.eval_shape(partial(transformer.init, config), jax.random.key(0))
    graphdef = transformer.abstract(config)
    tokens = jax.ShapeDtypeStruct((8, 64), jnp.int32)
    parts = computations(lambda params, tokens: transformer.apply(graphdef, params, tokens, POSITIONS), params, tokens)
    angles = [part for part in parts.values() if "u32[" in part and re.search(r"= f32\[[\d,]+\]\S* convert\(", part)]
    assert len(angles) <= 2  # those of the cosines, and those of the sines
    assert max(map(largest, angles)) <= POSITIONS.size * config.features


def test_a_weight_gradient_is_one_product_without_a_transpose():
    """Of activations [B*T, D] as they lie in memory: those of [B, T, D] would be copied first."""
    config = transformer.TransformerConfig(vocabulary=11, encoding=jrope.Rope(), features=64, layers=2, heads=2)
    params = jax.eval_shape(partial(transformer.init, config), jax.random.key(0))
    graphdef = transformer.abstract(config)

    def objective(params, tokens):
        return (transformer.apply(graphdef, params, tokens, jnp.arange(12)) ** 2).sum()

    text = "".join(computations(jax.grad(objective), params, jax.ShapeDtypeStruct((8, 12), jnp.int32)).values())
    products = re.findall(r"f32\[\d+,\d+\]\S* dot\(.*lhs_contracting_dims=\{0\}, rhs_contracting_dims=\{0\}", text)
    assert len(products) == 4 * config.layers + 1
    assert not re.findall(r"f32\[\d+,96\]\S* (?:transpose|copy)\(", text)
