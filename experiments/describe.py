"""An encoding told in a terminal: what it is, its formula and fields, its bands, and what it does at each distance."""

import dataclasses
import math
from collections.abc import Iterator
from functools import singledispatch
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

import jrope
from experiments import docstrings, terminal
from experiments.config import ENCODINGS, SCALINGS
from experiments.subjects import Subject
from jrope.bias import UNSEEN
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


def names(console: Console):
    """Prints all names that configs use for encodings and scalings, and what each is."""
    for title, classes in (("Encodings", {**ENCODINGS, "chain": jrope.Chain}), ("Scalings of RoPE", SCALINGS)):
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for name, cls in classes.items():
            table.add_row(name, escape(docstrings.summary(cls)))
        console.print(title)
        terminal.show_table(console, table)
        console.print()
    terminal.say(console, "More of one of them: python -m experiments show NAME")


def describe(subject: Subject, console: Console, *, every: bool = False):
    """Prints all of it; `every` lists all pairs, however many."""
    console.print(Text(subject.name, "bold"))
    for encoding in parts(subject.encoding):
        scaling = getattr(encoding, "scaling", None)
        _about(scaling if scaling is not None else encoding, console)
        _fields(encoding, console, all_of_them=scaling is None)
        if scaling is not None:
            _fields(scaling, console)
        if subject.source:
            terminal.say(console, f"Trained length {subject.trained}: {subject.source}. --trained sets another.")
        if subject.examples:
            terminal.say(console, f"An example is all that the value of {' and '.join(subject.examples)} is: set your own.")
        for sentence in (*facts(encoding, subject), *_reach(encoding, subject)):
            terminal.say(console, sentence)
        if found := bands(encoding, subject):
            _bands(found, encoding, subject, console, every)
        elif by_distance := biases(encoding, subject):
            _biases(by_distance, subject, console)


def _about(value: Any, console: Console):
    doc = docstrings.about(type(value))
    for block in doc.blocks:
        if "\n" in block or block.startswith(" "):
            console.print()
            console.print(block, markup=False, highlight=False, soft_wrap=not console.is_terminal)
            console.print()
        else:
            terminal.say(console, block)
    for paper in doc.papers:
        terminal.say(console, f"https://arxiv.org/abs/{paper}")
    console.print()


def _fields(value: Any, console: Console, *, all_of_them: bool = True):
    """A row for each field, or for several that the docstring explains together."""
    meanings = docstrings.about(type(value)).fields
    rows: dict[str, list[tuple[str, str]]] = {}
    for field in dataclasses.fields(value):
        given = getattr(value, field.name)
        if all_of_them or (given != field.default and field.name != "scaling"):
            shown = (
                type(given).__name__
                if dataclasses.is_dataclass(given)
                else f"{given:g}"
                if type(given) is float
                else str(given)
            )
            shown = shown if len(shown) < 24 else f"{shown[:20]} ..."
            rows.setdefault(meanings.get(field.name) or field.name, []).append((field.name, shown))
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(max_width=24)
    table.add_column(overflow="fold")
    for meaning, given in rows.items():
        names, shown = zip(*given, strict=True)
        table.add_row(*map(escape, (", ".join(names), ", ".join(shown), meaning if meaning not in names else "")))
    if rows:
        console.print(Text(type(value).__name__, "bold"))
        terminal.show_table(console, table)
        console.print()


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


def _reach(encoding: jrope.Encoding, subject: Subject) -> Iterator[str]:
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


def _bands(found: Bands, encoding: Any, subject: Subject, console: Console, every: bool):
    head = subject.softmax_dim or subject.head_dim
    scale = encoding.softmax_scale(head)
    multiplied = scale * head**0.5
    by = "" if math.isclose(multiplied, 1) else f" × {multiplied:.6g}"
    terminal.say(
        console,
        f"Base {encoding.base:.10g}; {2 * len(found.before)} of the {subject.head_dim} features of a head rotate. Amplitude"
        f" {found.amplitude:.6g}: scores grow by {found.amplitude**2:.6g}. Softmax scale {scale:.6g} = {head}^-0.5{by}.",
    )
    terminal.say(console, summary(found, subject))
    console.print()
    scaled = not np.allclose(found.after, found.before)
    columns = ["pair", *(["axis"] if found.axes else []), "wavelength", f"turns in {subject.trained}"]
    columns += [f"wavelength at {subject.length}", "frequency after / before"] if scaled else []
    table = Table(box=None, pad_edge=False)
    for name in columns:
        table.add_column(name, justify="right")
    table.add_column("")
    shown = listed(found, subject, every)
    for i in shown:
        before, after = found.before[i], found.after[i]
        row = [str(i), *([str(found.axes[i])] if found.axes else []), _round(2 * math.pi / before)]
        row += [_round(subject.trained * before / (2 * math.pi))]
        row += [_round(2 * math.pi / after) if after else "does not turn", f"{after / before:.4f}"] if scaled else []
        slow = before * subject.trained < 2 * math.pi
        table.add_row(*row, "no full turn" if slow else "", style="yellow" if slow else None)
    terminal.show_table(console, table)
    if len(shown) < len(found.before):
        terminal.say(console, f"{len(shown)} of {len(found.before)} pairs; --all lists every one.")


def _biases(by_distance: dict[int, np.ndarray], subject: Subject, console: Console):
    learned = " before any training" if parameters(subject.encoding, subject) else ""
    terminal.say(console, f"What is added to the scores{learned}, by distance, of the query at position {subject.length - 1}:")
    console.print()
    table = Table(box=None, pad_edge=False)
    heads = range(min(subject.heads, 8))
    for name in ("distance", *(f"head {h}" for h in heads)):
        table.add_column(name, justify="right", no_wrap=True)
    for distance, row in by_distance.items():
        table.add_row(str(distance), *("unseen" if row[h] <= UNSEEN else _short(row[h]) for h in heads))
    terminal.show_table(console, table)
    if len(heads) < subject.heads:
        terminal.say(console, f"The first {len(heads)} of {subject.heads} heads.")


def parameters(encoding: jrope.Encoding, subject: Subject) -> int:
    """How many numbers of it are trained."""
    shapes = jax.eval_shape(lambda key: encoding.init(key, **sizes(subject)), jax.random.key(0))
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes))


def sizes(subject: Subject) -> dict[str, int]:
    """What an encoding's parameters are made for."""
    return {"features": subject.heads * subject.head_dim, "num_heads": subject.heads, "head_dim": subject.head_dim}


def _short(value: float) -> str:
    """Two digits, or the whole part: as many heads as may be should fit a line."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value + 0.0:.2g}"


def _round(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"
