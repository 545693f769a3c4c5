"""Whether the user's own classes do what a study needs: they are traced, without computing."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

import jrope
from experiments.config import plan
from experiments.config.schema import Experiment
from experiments.tasks import Task
from experiments.text import plain
from jrope.transformer import TransformerConfig

B, T, S = 2, 5, 7  # all sizes differ, so that no axis is taken for another
Shape = tuple[tuple[int, ...], str]  # and what it is, in words


def failure(name: str, function: Callable, *arguments: Any) -> str:
    """How a call fails; "" if it does not."""
    try:
        function(*arguments)
    except Exception as error:  # any, because it is the user's code that runs
        first = str(error).strip().partition("\n")[0]
        return f"{name} fails with {type(error).__name__}: {plain(first)}"
    return ""


def mistakes_of_task(task: Task, length: int) -> Iterator[str]:
    """What is wrong with a task's sequences of this length."""
    wanted = (B, task.context(length) + 1), "[B, context + 1]"
    for training in (True, False):
        sample = partial(task.sample, batch=B, length=length, data=task.data(), training=training)
        yield from _of_shapes("sample", sample, [jax.random.key(0)], [wanted, wanted])


def mistakes_of_label(experiment: Experiment, label: str) -> Iterator[str]:
    """What is wrong with the model, position ids and encoding of one encoding of the config."""
    model, context = plan.model(experiment, label), plan.context(experiment, 1).length
    names, key = ("features", "num_heads", "head_dim", "num_layers"), jax.random.key(0)
    if message := failure("sizes", lambda: [model.sizes[name] for name in names]):
        yield f"model: {message}"
        return
    sample = partial(plan.positions(experiment, label).sample, context=context)
    yield from _of_shapes("positions: sample", sample, [key], [((context,), "[context]")])
    yield from mistakes_of_encoding(model.encoding, model.sizes)
    if not isinstance(model, TransformerConfig):

        def apply(key, tokens, positions):
            return model.apply(model.init(key), tokens, positions, encoding=model.encoding)

        logits = (B, T, model.vocabulary), "[B, T, vocabulary]"
        yield from _of_shapes("model: apply", apply, [key, _ids(B, T), _ids(T)], [logits])


def mistakes_of_encoding(encoding: jrope.Encoding, sizes: dict[str, int]) -> Iterator[str]:
    """What is wrong with each map of an encoding, in a model of these sizes."""
    params, message = _traced("init", partial(encoding.init, **sizes), jax.random.key(0))
    if message:
        yield message
        return
    x = _floats(B, T, sizes["features"])
    wanted = x.shape, "[..., T, D], as x,"
    yield from _of_shapes("embed", encoding.embed, [params, x, _ids(T)], [wanted])
    first_of_variant = {encoding.variant(i): i for i in reversed(range(sizes["num_layers"]))}
    for layer in first_of_variant.values():
        yield from _of_layer(encoding, params, layer, sizes)


def _of_layer(encoding: jrope.Encoding, params: Any, layer: int, sizes: dict) -> Iterator[str]:
    """What is wrong with the maps that act in one layer."""
    dim, heads = sizes["head_dim"], sizes["num_heads"]
    q, k = (_floats(B, n, heads, dim) for n in (T, S))
    x_q, x_k = (_floats(B, n, sizes["features"]) for n in (T, S))
    rows, columns, mask = _ids(T), _ids(S), jax.ShapeDtypeStruct((B, T, S), bool)
    options = {"layer": layer, "scale": 1.0}

    def rotation(own, params, q, k, rows, columns):
        return own.rotation(params, rows, columns, head_dim=dim, length=S)(q, k)

    def query_scale(own, params, rows):
        return own.query_scale(params, rows)

    def bias(own, params, rows, columns):
        return own.bias(params, rows, columns, num_heads=heads)

    def state_bias(own, params, x_q, x_k):
        return own.state_bias(params, *(own.state(params, x, layer=layer) for x in (x_q, x_k)))

    def content_bias(own, params, q, k, rows, columns, mask):
        return own.content_bias(params, q, k, rows, columns, mask=mask, **options)

    def of(function: Callable, arguments: list, *wanted: Shape, or_none=True) -> Iterator[str]:
        def in_layer(params, *arguments):
            return function(*encoding.layer(params, layer), *arguments)

        name, arguments = function.__name__, [params, *arguments]
        return _of_shapes(name, in_layer, arguments, list(wanted), or_none=or_none)

    scores = (heads, T, S), "[..., N, T, S], heads by queries by keys,"
    rotated = (q.shape, "as q"), (k.shape, "as k")
    yield from of(rotation, [q, k, rows, columns], *rotated, or_none=False)
    yield from of(query_scale, [rows], ((T,), "[..., T]"))
    yield from of(bias, [rows, columns], scores)
    yield from of(state_bias, [x_q, x_k], scores)
    yield from of(content_bias, [q, k, rows, columns, mask], scores)


def _floats(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def _ids(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.int32)


def _traced(name: str, function: Callable, *arguments: Any) -> tuple[Any, str]:
    """The shapes that a function returns, and how it fails; "" if it does not."""
    results: list = []
    message = failure(name, lambda: results.append(jax.eval_shape(function, *arguments)))
    return (None if message else results[0]), message


def _of_shapes(
    name: str, function: Callable, arguments: list, wanted: list[Shape], or_none: bool = False
) -> Iterator[str]:
    """What is wrong with a function: it fails, or a result does not end in the axes wanted."""
    results, message = _traced(name, function, *arguments)
    if message:
        yield message
        return
    if results is None and or_none:
        return
    results = results if isinstance(results, tuple) else (results,)
    if len(results) != len(wanted):
        words = ", ".join(words for _, words in wanted)
        yield f"{name} should give {len(wanted)} of {words}; gives {len(results)}"
        return
    for result, (shape, words) in zip(results, wanted, strict=True):
        got = getattr(result, "shape", None)
        if got is None or got[len(got) - len(shape) :] != shape:
            gives = list(got) if got is not None else result
            yield f"{name} should give {words} here {list(shape)}, gives {gives!r}"
