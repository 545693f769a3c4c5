"""Sizes of zero: arrays without elements, of the shape and dtype that other sizes have."""

import inspect
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_encoding import EVERY
from every_function import CALLS, Call
from every_map import ARRAYS, ENCODINGS, MODEL, all_maps

import jrope
from jrope import transformer

NO_OTHER = 7  # a size that nothing else in the calls has
ERRORS = {  # what has no meaning when it is empty, and the words
    ("from_lengths", "T"): "cumulative_lengths must rise from 0",
    ("attention", "N"): "K dividing N",
    ("blocked_attention", "N"): "K dividing N",
}
CASES = [
    (name, letter)
    for name, call in CALLS.items()
    for letter in "BTSN"
    if any(letter in spec.split() for spec in call.arrays.values() if isinstance(spec, str))
]


def shapes(arrays):
    """The shape and dtype of each array; 0 for `NO_OTHER`."""
    leaves = jax.tree.leaves(arrays)
    return [(tuple(n * (n != NO_OTHER) for n in np.shape(x)), x.dtype) for x in leaves]


@pytest.mark.parametrize(("name", "letter"), CASES)
def test_a_size_of_zero(name, letter):
    call = CALLS[name]
    empty = call.example(**{letter: 0})
    if (name, letter) in ERRORS:
        for function in (call, jax.jit(call)):
            with pytest.raises(ValueError, match=ERRORS[name, letter]):
                function(empty)
        return
    want = shapes(jax.eval_shape(call, call.abstract(**{letter: NO_OTHER})))
    known = jax.eval_shape(lambda: call(empty))  # ids whose values are checked
    assert shapes(known) == shapes(jax.eval_shape(call, empty)) == want
    if any(0 not in shape for shape, _ in want):
        assert all(np.isfinite(x).all() for x in jax.tree.leaves(call(empty)))


def test_every_public_function_has_a_call():
    named = {name for name, value in vars(jrope).items() if inspect.isfunction(value)}
    of_no_arrays = {"encoding_types", "scaling_types", "axes_types", "from_huggingface"}
    assert {n for n in named if not n.startswith("_")} - of_no_arrays <= set(CALLS)


@pytest.mark.parametrize("letter", "BTS")
def test_the_maps_of_every_encoding(letter):
    params = [encoding.init(jax.random.key(0), **MODEL) for encoding in ENCODINGS]
    call = Call(lambda **arrays: all_maps(ENCODINGS, params, arrays), ARRAYS)
    got, want = (jax.eval_shape(call, call.abstract(**{letter: n})) for n in (0, NO_OTHER))
    assert shapes(got) == shapes(want)


@pytest.mark.parametrize(("batch", "length"), [(2, 0), (0, 3)])
def test_a_transformer_of_no_tokens(batch, length):
    tokens, ids = jnp.zeros((batch, length), jnp.int32), jnp.arange(length)

    def apply(encoding, transform):
        config = transformer.TransformerConfig(5, encoding, features=8, layers=1)
        run = partial(transformer.apply, transformer.abstract(config))
        return transform(run)(transformer.init(config, jax.random.key(0)), tokens, ids)

    traced = [apply(encoding, lambda f: partial(jax.eval_shape, f)) for encoding in EVERY]
    for logits in [*traced, apply(jrope.Chain((jrope.Rope(), jrope.T5())), jax.jit)]:
        assert (logits.shape, logits.dtype) == ((batch, length, 5), jnp.float32)
