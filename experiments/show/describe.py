"""An encoding in a terminal: what it is, its formula and fields, its bands or biases."""

import dataclasses
import math
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

import jrope
from experiments.show import docstrings, encoding_stats
from experiments.show.encoding_stats import Bands
from experiments.show.parse_query import Subject
from experiments.terminal import say, show_table
from jrope.checks import MASK_VALUE

MAX_HEADS = 8
MAX_VALUE = 24  # characters of a field's value


def list_names(console: Console):
    """Prints the names of all encodings and scalings, and what each is."""
    kinds = {"Encodings": jrope.encoding_types(), "Scalings of RoPE": jrope.scaling_types()}
    for title, classes in kinds.items():
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for name, cls in classes.items():
            table.add_row(name, escape(docstrings.summary(cls)))
        console.print(title)
        show_table(console, table)
        console.print()
    say(console, "More about one of them: python -m experiments show NAME")


def describe(subject: Subject, console: Console, *, all_pairs: bool = False):
    """Prints everything about one encoding."""
    console.print(Text(subject.name, "bold"))
    if subject.source:
        say(console, f"Trained length {subject.trained}: {subject.source}. --trained sets another.")
    if subject.examples:
        names = " and ".join(subject.examples)
        say(console, f"The value of {names} is only an example: set your own.")
    parts = encoding_stats.parts(subject.encoding)
    if parts != [subject.encoding]:
        _about(subject.encoding, console)
    for encoding in parts:
        scaling = getattr(encoding, "scaling", None)
        _about(encoding if scaling is None else scaling, console)
        _fields(encoding, console, only_set=scaling is not None)
        if scaling is not None:
            _fields(scaling, console)
        for sentence in encoding_stats.facts(encoding, subject):
            say(console, sentence)
        if bands := encoding_stats.bands(encoding, subject):
            _bands(bands, encoding, subject, console, all_pairs)
        elif biases := encoding_stats.biases(encoding, subject):
            _biases(biases, encoding, subject, console)


def _about(value: Any, console: Console):
    """The docstring, with formulas as they are written."""
    doc = docstrings.about(type(value))
    for block in doc.blocks:
        if "\n" in block or block.startswith(" "):
            console.print()
            wide = not console.is_terminal
            console.print(block, markup=False, highlight=False, soft_wrap=wide)
            console.print()
        else:
            say(console, block)
    for paper in doc.papers:
        say(console, f"https://arxiv.org/abs/{paper}")
    console.print()


def _fields(value: Any, console: Console, *, only_set: bool = False):
    """A row for each field, or for several that the docstring explains together."""
    meanings = docstrings.about(type(value)).fields
    rows: dict[str, list[tuple[str, str]]] = {}
    for field in dataclasses.fields(value):
        given = getattr(value, field.name)
        if not only_set or (given != field.default and field.name != "scaling"):
            meaning = meanings.get(field.name, field.name)
            rows.setdefault(meaning, []).append((field.name, _value(given)))
    if not rows:
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(max_width=MAX_VALUE)
    table.add_column(overflow="fold")
    for meaning, given in rows.items():
        names, values = zip(*given, strict=True)
        cells = ", ".join(names), ", ".join(values), "" if meaning in names else meaning
        table.add_row(*map(escape, cells))
    console.print(Text(type(value).__name__, "bold"))
    show_table(console, table)
    console.print()


def _value(given: Any) -> str:
    if dataclasses.is_dataclass(given):
        return type(given).__name__
    text = f"{given:g}" if type(given) is float else str(given)
    return text if len(text) < MAX_VALUE else f"{text[: MAX_VALUE - 4]} ..."


def _bands(bands: Bands, encoding: Any, subject: Subject, console: Console, all_pairs: bool):
    head = subject.softmax_dim or subject.head_dim
    scale = encoding.softmax_scale(head)
    multiplier = scale * head**0.5
    times = "" if math.isclose(multiplier, 1) else f" × {multiplier:.6g}"
    base = f"Base {encoding.base:.10g}; " if hasattr(encoding, "base") else ""
    rotating = f"{2 * len(bands.before)} of the {subject.head_dim} features of a head rotate."
    grow = f"Amplitude {bands.amplitude:.6g}: scores grow by {bands.amplitude**2:.6g}."
    say(console, f"{base}{rotating} {grow} Softmax scale {scale:.6g} = {head}^-0.5{times}.")
    say(console, encoding_stats.summary(bands, subject))
    console.print()
    is_scaled = not np.allclose(bands.after, bands.before)
    columns = [
        "pair",
        *(["axis"] if bands.axes else []),
        "wavelength",
        f"turns in {subject.trained}",
    ]
    if is_scaled:
        columns += [f"wavelength at {subject.length}", "frequency after / before"]
    table = Table(box=None, pad_edge=False)
    for name in columns:
        table.add_column(name, justify="right")
    table.add_column("")
    pairs = encoding_stats.listed_pairs(bands, subject, all_pairs)
    for i in pairs:
        before, after = bands.before[i], bands.after[i]
        turns = subject.trained * before / (2 * math.pi)
        row = [str(i), *([str(bands.axes[i])] if bands.axes else []), _wavelength(before)]
        row += [_round(turns)]
        if is_scaled:
            row += [_wavelength(after), f"{after / before:.4f}"]
        if turns < 1:
            table.add_row(*row, "no full turn", style="yellow")
        else:
            table.add_row(*row, "")
    show_table(console, table)
    if len(pairs) < len(bands.before):
        say(console, f"{len(pairs)} of {len(bands.before)} pairs; --all lists every one.")


def _biases(
    biases: dict[int, np.ndarray], encoding: jrope.Encoding, subject: Subject, console: Console
):
    is_learned = encoding_stats.num_parameters(encoding, subject) > 0
    before = " before any training" if is_learned else ""
    query = f"the query at position {subject.length - 1}"
    say(console, f"What is added to the scores{before}, by distance, of {query}:")
    console.print()
    heads = range(min(subject.heads, MAX_HEADS))
    table = Table(box=None, pad_edge=False)
    for name in ("distance", *(f"head {head}" for head in heads)):
        table.add_column(name, justify="right", no_wrap=True)
    for distance, row in biases.items():
        table.add_row(str(distance), *(_bias(row[head]) for head in heads))
    show_table(console, table)
    if len(heads) < subject.heads:
        say(console, f"The first {len(heads)} of {subject.heads} heads.")


def _bias(value: float) -> str:
    """In few characters: all heads must fit in a line."""
    if value <= MASK_VALUE:
        return "unseen"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value + 0.0:.2g}"


def _wavelength(frequency: float) -> str:
    return _round(2 * math.pi / frequency) if frequency else "does not turn"


def _round(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"
