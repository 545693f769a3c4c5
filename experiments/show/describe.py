"""An encoding told in a terminal: what it is, its formula and fields, its bands, and what it does at each distance."""

import dataclasses
import math
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

import jrope
from experiments import terminal
from experiments.config.experiment import ENCODINGS, SCALINGS
from experiments.show import anatomy, docstrings
from experiments.show.subjects import Subject
from jrope.bias import UNSEEN


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
    for encoding in anatomy.parts(subject.encoding):
        scaling = getattr(encoding, "scaling", None)
        _about(scaling if scaling is not None else encoding, console)
        _fields(encoding, console, all_of_them=scaling is None)
        if scaling is not None:
            _fields(scaling, console)
        if subject.source:
            terminal.say(console, f"Trained length {subject.trained}: {subject.source}. --trained sets another.")
        if subject.examples:
            terminal.say(console, f"An example is all that the value of {' and '.join(subject.examples)} is: set your own.")
        for sentence in (*anatomy.facts(encoding, subject), *anatomy.reach(encoding)):
            terminal.say(console, sentence)
        if found := anatomy.bands(encoding, subject):
            _bands(found, encoding, subject, console, every)
        elif by_distance := anatomy.biases(encoding, subject):
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


def _bands(found: anatomy.Bands, encoding: Any, subject: Subject, console: Console, every: bool):
    head = subject.softmax_dim or subject.head_dim
    scale = encoding.softmax_scale(head)
    multiplied = scale * head**0.5
    by = "" if math.isclose(multiplied, 1) else f" × {multiplied:.6g}"
    terminal.say(
        console,
        f"Base {encoding.base:.10g}; {2 * len(found.before)} of the {subject.head_dim} features of a head rotate. Amplitude"
        f" {found.amplitude:.6g}: scores grow by {found.amplitude**2:.6g}. Softmax scale {scale:.6g} = {head}^-0.5{by}.",
    )
    terminal.say(console, anatomy.summary(found, subject))
    console.print()
    scaled = not np.allclose(found.after, found.before)
    columns = ["pair", *(["axis"] if found.axes else []), "wavelength", f"turns in {subject.trained}"]
    columns += [f"wavelength at {subject.length}", "frequency after / before"] if scaled else []
    table = Table(box=None, pad_edge=False)
    for name in columns:
        table.add_column(name, justify="right")
    table.add_column("")
    shown = anatomy.listed(found, subject, every)
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
    learned = " before any training" if anatomy.parameters(subject.encoding, subject) else ""
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


def _short(value: float) -> str:
    """Two digits, or the whole part: as many heads as may be should fit a line."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value + 0.0:.2g}"


def _round(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"
