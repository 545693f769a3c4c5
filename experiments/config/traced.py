"""Whether the user's own encodings and tasks do in a model what they should: their maps are traced, without computing."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from experiments.config.experiment import Experiment
from experiments.text import plain
from jrope.encoding import Encoding

BATCH, ROWS, COLUMNS = 2, 5, 7  # all sizes differ, so that no axis is taken for another
Shape = tuple[tuple[int, ...], str]  # and what it is, in words


def mistakes_of_encoding(encoding: Encoding, features: int, heads: int) -> Iterator[str]:
    """What is wrong with each map of an encoding, for a model of this width."""
    dim = features // heads
    sizes = {"features": features, "num_heads": heads, "head_dim": dim}
    params, wrong = _traced("init", partial(encoding.init, **sizes), jax.random.key(0))
    if wrong:
        yield wrong
        return
    rows, columns = (jax.ShapeDtypeStruct((n,), jnp.int32) for n in (ROWS, COLUMNS))
    x = _floats(BATCH, ROWS, features)
    q, k = (_floats(BATCH, n, heads, dim) for n in (ROWS, COLUMNS))
    visible = jax.ShapeDtypeStruct((BATCH, ROWS, COLUMNS), bool)
    scores = (heads, ROWS, COLUMNS), "[..., N, T, S], heads by queries by keys,"

    def rotated(params, q, k, rows, columns):
        return encoding.rotation(params, rows, columns, head_dim=dim, length=COLUMNS)(q, k)

    def content_bias(params, q, k, rows, columns, visible):
        return encoding.content_bias(params, q, k, rows, columns, visible=visible, scale=1.0)

    yield from _of_shape("embed", encoding.embed, [params, x, rows], [(x.shape, "[..., T, D], as x,")])
    yield from _of_shape("rotation", rotated, [params, q, k, rows, columns], [(q.shape, "as q"), (k.shape, "as k")])
    bias = partial(encoding.bias, num_heads=heads)
    yield from _of_shape("bias", bias, [params, rows, columns], [scores], or_none=True)
    yield from _of_shape("content_bias", content_bias, [params, q, k, rows, columns, visible], [scores], or_none=True)


def mistakes_of_task(task: Any, length: int) -> Iterator[str]:
    """What is wrong with a task's sequences of this length."""
    for training in (True, False):
        sample = partial(task.sample, batch=BATCH, length=length, training=training)
        wanted = (BATCH, task.context(length) + 1), "[B, context + 1]"
        yield from _of_shape("sample", sample, [jax.random.key(0)], [wanted, wanted])


def mistakes(experiment: Experiment, labels: list[str], task: bool) -> Iterator[str]:
    """What is wrong with the encodings of these labels, and with the task if it is asked for."""
    if task:
        for mistake in mistakes_of_task(experiment.task_value(), experiment.task.length):
            yield f"task: {mistake}"
    for label in labels:
        model, encoding = experiment.model_of(label), experiment.encoding(label, 1)
        for mistake in mistakes_of_encoding(encoding, model.features, model.heads):
            yield f"encodings.{plain(label)}: {mistake}"


def _floats(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def _traced(name: str, function: Callable, *arguments) -> tuple[Any, str]:
    """What the function would return, and what is wrong if it fails."""
    try:
        return jax.eval_shape(function, *arguments), ""
    except Exception as error:  # of any kind, since it is the user's code that runs
        first = str(error).strip().splitlines() or [""]
        return None, f"{name} fails with {type(error).__name__}: {plain(first[0])}"


def _of_shape(name: str, function: Callable, arguments: list, wanted: list[Shape], or_none: bool = False) -> Iterator[str]:
    """What is wrong with a function's results: it fails, gives more or fewer, or one has not the last axes that are wanted."""
    results, wrong = _traced(name, function, *arguments)
    if wrong:
        yield wrong
        return
    if results is None and or_none:
        return
    results = results if isinstance(results, tuple) else (results,)
    if len(results) != len(wanted):
        yield f"{name} should give {len(wanted)} of {', '.join(words for _, words in wanted)}; gives {len(results)}"
        return
    for result, (shape, words) in zip(results, wanted, strict=True):
        got = getattr(result, "shape", None)
        if got is None or got[len(got) - len(shape) :] != shape:
            yield f"{name} should give {words} here {list(shape)}, gives {list(got) if got is not None else result!r}"
