"""An argument of a wrong type, rank or size is named in jrope's words, before XLA finds it."""

import dataclasses
import re
import traceback
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from every_function import CALLS, OLD
from test_numbers import VALUES

import jrope
from jrope import transformer
from jrope.models.generate import generate

SOURCE = str(Path(jrope.__file__).parent)
NEITHER = (object(), "one", 1j, b"1", {"one": 1}, np.array(["a"]), jnp.array([1j]), [[1], [1, 2]])


def refusal(call, *args, **options) -> str | None:
    """The message of the error that a call raises, in jrope's words; None if it returns."""
    try:
        call(*args, **options)
    except (TypeError, ValueError) as caught:
        error = caught
    else:
        return None
    last = traceback.extract_tb(error.__traceback__)[-1]
    assert last.filename.startswith(SOURCE), f"{last.filename}:{last.lineno}: {error}"
    return str(error)


def others(value):
    """Values of another type than this one has."""
    if isinstance(value, bool):
        return [*NEITHER, 2, None, jnp.ones(3)]
    if isinstance(value, int):
        return [*NEITHER, 2.5, np.float32(2.5), jnp.ones(3), [2]]
    if isinstance(value, float):
        return [*NEITHER, jnp.ones(3), [2.5], True]
    return [*NEITHER, True]


CASES = [
    (name, argument)
    for name, call in CALLS.items()
    for argument in (*call.arrays, *call.options)
    if name != "grid"  # whose arguments have no names
]
ARRAYS = [(name, arg) for name, arg in CASES if isinstance(CALLS[name].arrays.get(arg), str)]
SCALINGS = (*jrope.scaling_types().values(), *jrope.axes_types().values())
TAKEN = {("coupled", "steps", "[2]")}  # a number or a vector


@pytest.mark.parametrize(("name", "argument"), CASES)
def test_a_wrong_type(name, argument):
    call, arrays = CALLS[name], CALLS[name].example()
    for wrong in others((arrays | call.options)[argument]):
        if (name, argument, repr(wrong)) in TAKEN:
            continue
        given = arrays | call.options | {argument: wrong}
        message = refusal(call.function, **given)
        assert message, f"{wrong!r} is taken"
        assert argument in message


@pytest.mark.parametrize(("name", "argument"), ARRAYS)
def test_a_wrong_rank_or_size(name, argument):
    """A size of 6 is nowhere else in a call: an array of it fits or is refused with its shape."""
    call, arrays = CALLS[name], CALLS[name].example()
    array = arrays[argument]
    shapes = [(), (6,), array.shape[1:], (6, *array.shape), (*array.shape, 6)]
    shapes += [(*array.shape[:i], 6, *array.shape[i + 1 :]) for i in range(array.ndim)]
    for shape in shapes:
        given = arrays | {argument: jnp.zeros(shape, array.dtype)}
        message = refusal(jax.eval_shape, call, given)
        if message is not None:
            sizes = [str(shape[:n]) for n in (len(shape), -2)]  # of x, or before its heads
            assert any(size in message for size in sizes), message
            assert re.search(rf"\b({argument}|x|positions)\b", message)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_field_of_a_wrong_type(value):
    for field in dataclasses.fields(value):
        for wrong in others(getattr(value, field.name)):
            message = refusal(dataclasses.replace, value, **{field.name: wrong})
            assert message, f"{field.name}={wrong!r} is taken"
            assert field.name in message
            assert type(value).__name__ in message


@pytest.mark.parametrize("value", [v for v in VALUES if isinstance(v, SCALINGS)], ids=repr)
def test_a_scaling_of_what_is_no_spectrum(value):
    for wrong in NEITHER:
        words = f"{type(value).__name__}: spectrum must be of type Spectrum or of type LearnedSpectrum, got"
        assert words in refusal(value, wrong)


@pytest.mark.parametrize("kind", [jrope.Spectrum, jrope.LearnedSpectrum])
def test_a_spectrum_of_a_wrong_type_or_size(kind):
    given = {"frequencies": [1.0, 0.5], "amplitude": 1.0, "axes": (0, 1)}
    wrong = [(name, value) for name in given for value in NEITHER]
    wrong += [("frequencies", [[1.0]]), ("frequencies", 1.0), ("axes", (0,)), ("axes", 2)]
    for name, value in wrong:
        message = refusal(kind, **given | {name: value})
        assert message, f"{name}={value!r} is taken"
        assert kind.__name__ in message
        assert name in message


def test_a_scaling_by_its_name_or_class():
    for wrong in ("yarn", jrope.Yarn):
        message = refusal(jrope.Rope, scaling=wrong)
        assert message.startswith("Rope: scaling must be None or a value such as jrope.Yarn(")


CONFIG = transformer.TransformerConfig(11, jrope.Alibi(), features=16, layers=1, heads=2)
TOKENS, IDS = jnp.zeros((2, 5), jnp.int32), jnp.arange(5)
OTHER_CACHES = {
    "a cache of 1 layers, 3 rows": (CONFIG, 3),
    "a cache of 2 layers": (dataclasses.replace(CONFIG, layers=2), 2),
    "a cache of 1 layers, 2 rows, 4 heads": (dataclasses.replace(CONFIG, heads=4), 2),
    "of another encoding": (dataclasses.replace(CONFIG, encoding=jrope.ForgettingGate()), 2),
}


def test_arguments_of_a_transformer():
    graphdef, params = transformer.abstract(CONFIG), transformer.init(CONFIG, jax.random.key(0))
    mask = jnp.ones((2, 5), bool)
    wrong = {
        "positions": (jnp.arange(4), jnp.zeros((3, 5), jnp.int32), "one", None, mask),
        "tokens": (TOKENS[0], TOKENS[..., None], 1.0 * TOKENS, TOKENS + 11, TOKENS - 1, [[1]]),
        "token_mask": (mask[:, :4], mask[0]),
        "encoding": ("rope", jrope.Rope),
    }
    cache = transformer.empty_cache(CONFIG, 2, 8)
    for function, more in ((transformer.apply, {}), (transformer.decode, {"cache": cache})):
        call = partial(function, graphdef, params)
        given = {"tokens": TOKENS, "positions": IDS} | more
        for name, values in wrong.items():
            for value in values:
                message = refusal(call, **given | {name: value})
                assert message, f"{name}={value!r} is taken"
                assert name in message
    for words, (config, batch) in OTHER_CACHES.items():
        cache = transformer.empty_cache(config, batch, 8)
        assert words in refusal(transformer.decode, graphdef, params, TOKENS, IDS, cache)
    wrong = {"tokens": (TOKENS[0], 1.0 * TOKENS), "count": (2.5, 0), "choose": ("greedy",)}
    wrong |= {"token_mask": (mask[:, :4],), "key": (3,)}
    for name, values in wrong.items():
        given = {"tokens": TOKENS, "count": 2}
        for value in values:
            assert name in refusal(generate, graphdef, params, **given | {name: value})
    for wrong in ({"batch": 2.5}, {"capacity": -1}, {"config": 3}):
        given = {"config": CONFIG, "batch": 2, "capacity": 8} | wrong
        assert next(iter(wrong)) in refusal(transformer.empty_cache, **given)


@pytest.mark.parametrize("length", [5, 513])
@pytest.mark.parametrize("encoding", [jrope.Alibi(), jrope.Cope(6), jrope.LogN(4)], ids=repr)
def test_ids_of_several_axes_where_no_axis_has_a_meaning(encoding, length):
    config = dataclasses.replace(CONFIG, encoding=encoding)
    params = transformer.init(config, jax.random.key(0))
    ids, tokens = jnp.zeros((2, 1, length), jnp.int32), jnp.zeros((1, length), jnp.int32)
    call = partial(transformer.apply, transformer.abstract(config), params, tokens, ids)
    assert "position ids must be [T] or [B, T]" in refusal(jax.eval_shape, call)


def test_a_spectrum_of_anything_is_printed():
    assert repr(jax.tree.map(jnp.shape, OLD)) == "Spectrum((5, 4), amplitude=())"
