"""Text and tables for a terminal, and for files and pipes, where nothing is wrapped."""

from typing import NoReturn

import typer
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

out, err = Console(), Console(stderr=True)


def warn(message: str):
    """Prints a message to standard error as it is, without wrapping."""
    err.print(message, markup=False, highlight=False, soft_wrap=True)


def fail(message: str, status: int) -> NoReturn:
    """Ends the command with a message."""
    warn(message)
    raise typer.Exit(status)


def say(console: Console, text: str):
    """Prints a sentence: broken between words in a terminal, one line elsewhere."""
    console.print(text, markup=False, highlight=False, soft_wrap=not console.is_terminal)


def show_table(console: Console, table: Table):
    """Prints a table: folded to fit a terminal, and one line for each row elsewhere."""
    if not console.is_terminal:
        table.width = natural_width(table)
    console.print(table, crop=False, highlight=False)


def natural_width(table: Table) -> int:
    """The width of a table without folded texts."""
    unbounded = Console(width=10_000)
    return Measurement.get(unbounded, unbounded.options, table).maximum


def duration(seconds: float) -> str:
    """A time to wait, roughly."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
