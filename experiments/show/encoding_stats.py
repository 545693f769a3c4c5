"""An encoding in numbers, whatever its kind: its spectrum, its biases, and what follows from them.

An encoding that rotates has a method `spectrum(head_dim, length)`. All else is read off its maps.
"""

import dataclasses
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jrope
from experiments.show.parse_query import Subject
from jrope.checks import MASK_VALUE

MAX_LISTED = 20  # pairs, unless all are asked for
MAX_CHANGES = 64  # more changes of a bias are not listed
MAX_DISTANCES = 2**14  # that are searched for changes


class Bands(NamedTuple):
    """The spectrum of a rotation [P], as trained and at the length at hand."""

    before: np.ndarray
    after: np.ndarray
    amplitude: float
    axes: tuple[int, ...] | None


def parts(encoding: jrope.Encoding) -> list[jrope.Encoding]:
    """The members of a composition, however nested; else the encoding itself."""
    members = getattr(encoding, "encodings", None)
    return [encoding] if members is None else [part for member in members for part in parts(member)]


def bands(encoding: Any, subject: Subject) -> Bands | None:
    """The bands of an encoding that rotates; None for any other."""
    if not callable(getattr(encoding, "spectrum", None)):
        return None
    has_scaling = getattr(encoding, "scaling", None) is not None
    trained = dataclasses.replace(encoding, scaling=None) if has_scaling else encoding
    before = trained.spectrum(subject.head_dim)
    after = encoding.spectrum(subject.head_dim, subject.length)
    return Bands(before.frequencies, after.frequencies, float(after.amplitude), after.axes)


def biases(encoding: jrope.Encoding, subject: Subject) -> dict[int, np.ndarray] | None:
    """The bias of each head [N] by the distance from the last position, before any training."""
    last = subject.length - 1
    distances = sorted({0, *(2**i for i in range(32) if 2**i < last), last})
    bias = _bias(encoding, subject, distances)
    return None if bias is None else dict(zip(distances, bias.T, strict=True))


def _bias(encoding: jrope.Encoding, subject: Subject, distances) -> np.ndarray | None:
    """The bias [N, S] of the last position; None if the encoding has none."""
    if not overrides(encoding, "bias"):
        return None
    query, keys = jnp.asarray([subject.length - 1]), subject.length - 1 - jnp.asarray(distances)
    params = encoding.init(jax.random.key(0), **subject.sizes)
    bias = encoding.bias(params, query, keys, num_heads=subject.heads)
    return None if bias is None else np.asarray(bias)[:, 0]


def num_parameters(encoding: jrope.Encoding, subject: Subject) -> int:
    """How many numbers of it are trained."""
    init = jax.eval_shape(lambda key: encoding.init(key, **subject.sizes), jax.random.key(0))
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(init))


def overrides(encoding: jrope.Encoding, name: str) -> bool:
    """Whether this map is not the identity."""
    return getattr(type(encoding), name) is not getattr(jrope.Encoding, name)


def facts(encoding: jrope.Encoding, subject: Subject) -> Iterator[str]:
    """What its maps do, in sentences."""
    yield from _facts_of_bias(encoding, subject)
    if overrides(encoding, "query_scale"):
        yield _fact_of_queries(encoding, subject)
    if overrides(encoding, "state_bias"):
        yield "What it adds to a score depends on the tokens from the key to the query."
    if overrides(encoding, "content_bias"):
        yield "What it adds to a score depends on the content between query and key."
    if encoding.position_limit is not None:
        yield f"It has a value for {encoding.position_limit} positions, from 0, and none beyond."


def _facts_of_bias(encoding: jrope.Encoding, subject: Subject) -> Iterator[str]:
    """The slopes of a linear bias, or the steps of one with few."""
    count = min(subject.length, MAX_DISTANCES)
    bias = _bias(encoding, subject, range(count)) if count > 1 else None
    if bias is None or (bias <= MASK_VALUE).any():
        return
    slopes = -bias[:, 1]
    if slopes.any() and np.allclose(bias, -slopes[:, None] * np.arange(count), rtol=1e-5):
        yield f"Slopes of {subject.heads} heads: {', '.join(f'{slope:.4g}' for slope in slopes)}."
    changes = np.flatnonzero((np.diff(bias) != 0).any(0)) + 1
    if 0 < len(changes) <= min(MAX_CHANGES, count // 2):
        within = f"Up to distance {count - 1}, its" if count < subject.length else "Its"
        yield f"{within} bias changes only at the distances {', '.join(map(str, changes))}."


def _fact_of_queries(encoding: jrope.Encoding, subject: Subject) -> str:
    positions = sorted({0, subject.trained - 1, subject.length - 1})
    params = encoding.init(jax.random.key(0), **subject.sizes)
    scales = encoding.query_scale(params, jnp.asarray(positions))
    values = zip(positions, np.broadcast_to(np.asarray(scales), len(positions)), strict=True)
    listed = ", ".join(f"{scale:.4g} at position {position}" for position, scale in values)
    return f"The scores of a query are multiplied by {listed}."


def summary(bands: Bands, subject: Subject) -> str:
    """How many pairs never complete a turn, and what a scaling does with the pairs."""
    pairs, slow = len(bands.before), int(_are_slow(bands, subject).sum())
    verb = "completes" if slow == 1 else "complete"
    positions = f"the {subject.trained} positions of training"
    sentence = f"{slow} of {pairs} pairs never {verb} a turn within {positions}."
    kept, stopped = np.isclose(bands.after, bands.before), bands.after == 0
    if kept.all():
        return sentence
    ratio = bands.after / bands.before
    least = ratio[~stopped].min(initial=1.0)
    slowest = np.isclose(ratio, least) & ~kept & ~stopped
    counts = {
        "left as trained": kept,
        "slowed less": ~kept & ~slowest & ~stopped,
        f"slowed the most, to {least:.3g} of their frequency": slowest,
        "not turning": stopped,
    }
    listed = ", ".join(f"{which.sum()} {what}" for what, which in counts.items() if which.any())
    return f"{sentence} At length {subject.length}: {listed}."


def listed_pairs(bands: Bands, subject: Subject, all_of_them: bool) -> list[int]:
    """All pairs, or a few that are evenly spaced and those where something begins or ends."""
    pairs = len(bands.before)
    if all_of_them or pairs <= MAX_LISTED:
        return list(range(pairs))
    first_slow = np.flatnonzero(np.diff(_are_slow(bands, subject))) + 1
    changes = np.diff(np.round(bands.after / bands.before, 6)) != 0
    ends = np.flatnonzero(np.diff(changes)) + 1  # of a ramp
    edges = [*first_slow, *(first_slow - 1), *(ends if len(ends) <= 6 else [])]
    spread = np.linspace(0, pairs - 1, MAX_LISTED - 6).round()
    return sorted({int(i) for i in (*spread, *edges)})


def _are_slow(bands: Bands, subject: Subject) -> np.ndarray:
    """Which pairs never complete a turn in training."""
    return bands.before * subject.trained < 2 * math.pi
