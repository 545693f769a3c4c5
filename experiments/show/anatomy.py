"""What there is to say of an encoding in numbers: its bands, its biases by distance, and the sentences that these make."""

import dataclasses
import math
from collections.abc import Iterator
from functools import singledispatch
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import jrope
from experiments.show.subjects import Subject
from jrope.bias_learned import t5_thresholds

FEW = 20  # pairs that are listed without being asked for all


class Bands(NamedTuple):
    """The spectrum of a rotation [P], as trained and as it is at the length at hand."""

    before: np.ndarray
    after: np.ndarray
    amplitude: float
    axes: tuple[int, ...] | None


def parts(encoding: jrope.Encoding) -> list[jrope.Encoding]:
    """The links of a chain, however nested; else the encoding itself."""
    return [p for e in encoding.encodings for p in parts(e)] if isinstance(encoding, jrope.Chain) else [encoding]


def bands(encoding: jrope.Encoding, subject: Subject) -> Bands | None:
    """The bands of an encoding that rotates; None for any other."""
    if isinstance(encoding, jrope.Rope):
        before = dataclasses.replace(encoding, scaling=None).spectrum(subject.head_dim)
        after = encoding.spectrum(subject.head_dim, subject.length)
    elif isinstance(encoding, jrope.XPos):
        before = after = jrope.spectrum(subject.head_dim, base=encoding.base)
    else:
        return None
    return Bands(np.asarray(before.frequencies), np.asarray(after.frequencies), float(after.amplitude), after.axes)


def biases(encoding: jrope.Encoding, subject: Subject) -> dict[int, np.ndarray] | None:
    """The bias of each head [N] at distances from the last position, untrained where it is learned; None if there is none."""
    if type(encoding).bias is jrope.Encoding.bias:
        return None
    last = subject.length - 1
    distances = sorted({0, *(2**i for i in range(32) if 2**i < last), last})
    keys = jnp.asarray([last - distance for distance in distances])
    bias = encoding.bias(
        encoding.init(jax.random.key(0), **sizes(subject)), jnp.asarray([last]), keys, num_heads=subject.heads
    )
    if bias is None:
        return None
    return dict(zip(distances, np.asarray(bias)[:, 0].T, strict=True))


def parameters(encoding: jrope.Encoding, subject: Subject) -> int:
    """How many numbers of it are trained."""
    shapes = jax.eval_shape(lambda key: encoding.init(key, **sizes(subject)), jax.random.key(0))
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes))


def sizes(subject: Subject) -> dict[str, int]:
    """What an encoding's parameters are made for."""
    return {"features": subject.heads * subject.head_dim, "num_heads": subject.heads, "head_dim": subject.head_dim}


@singledispatch
def facts(encoding: jrope.Encoding, subject: Subject) -> Iterator[str]:
    """What the numbers of one kind of encoding come to, in sentences."""
    yield from ()


@facts.register
def _(encoding: jrope.Alibi, subject: Subject):
    yield f"Slopes of {subject.heads} heads: {', '.join(f'{slope:.4g}' for slope in jrope.alibi_slopes(subject.heads))}."


@facts.register
def _(encoding: jrope.T5, subject: Subject):
    buckets = encoding.buckets // 2 if encoding.bidirectional else encoding.buckets
    starts = ", ".join(map(str, t5_thresholds(buckets, encoding.max_distance)))
    yield f"Buckets{' of one direction' if encoding.bidirectional else ''} start at the distances {starts}."


def reach(encoding: jrope.Encoding) -> Iterator[str]:
    """Where it has a value, and what that depends on."""
    if encoding.limit is not None:
        yield f"It has a value for {encoding.limit} positions, from 0, and none beyond."
    if type(encoding).content_bias is not jrope.Encoding.content_bias:
        yield "What it adds to a score depends on the content between query and key, and not on the distance alone."


def summary(found: Bands, subject: Subject) -> str:
    """How many pairs never complete a turn, and what becomes of the pairs: the sentence that the table is printed for."""
    pairs, slow = len(found.before), int((found.before * subject.trained < 2 * math.pi).sum())
    verb = "completes" if slow == 1 else "complete"
    told = [f"{slow} of {pairs} pairs never {verb} a turn within the {subject.trained} positions of training."]
    kept, stopped = np.isclose(found.after, found.before), found.after == 0
    if not kept.all():
        ratio = found.after / found.before
        most = ratio[~stopped].min(initial=1.0)
        whole = np.isclose(ratio, most) & ~kept & ~stopped
        between = int((~kept & ~whole & ~stopped).sum())
        counts = {
            "left as trained": int(kept.sum()),
            "slowed less": between,
            f"slowed the most, to {most:.3g} of their frequency": int(whole.sum()),
            "not turning": int(stopped.sum()),
        }
        told.append(f"At length {subject.length}: {', '.join(f'{n} {what}' for what, n in counts.items() if n)}.")
    return " ".join(told)


def listed(found: Bands, subject: Subject, every: bool) -> list[int]:
    """The pairs to list: all, or a few that are evenly spaced and those where something begins or ends."""
    pairs = len(found.before)
    if every or pairs <= FEW:
        return list(range(pairs))
    slow = found.before * subject.trained < 2 * math.pi
    ratio = np.round(found.after / found.before, 6)
    changes = [i for i in range(1, pairs) if slow[i] != slow[i - 1]]
    ends = [i for i in range(1, pairs) if (ratio[i] == ratio[i - 1]) != (ratio[min(i + 1, pairs - 1)] == ratio[i])]
    edges = [*changes, *(i - 1 for i in changes), *(ends if len(ends) <= 6 else ())]
    return sorted({*np.linspace(0, pairs - 1, FEW - 6).round().astype(int).tolist(), *edges})
