"""Text and tables for people in a terminal, and the same for files and pipes, where a line is a line."""

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table


def say(console: Console, text: str):
    """A sentence or a message: broken between words in a terminal, one line elsewhere."""
    console.print(text, markup=False, highlight=False, soft_wrap=not console.is_terminal)


def show_table(console: Console, table: Table):
    """A table that fits a terminal by folding its texts; elsewhere as wide as it is, a row on each line."""
    if not console.is_terminal:
        table.width = natural_width(table)
    console.print(table, crop=False, highlight=False)


def natural_width(table: Table) -> int:
    """How wide a table is that nothing is folded in."""
    unbounded = Console(width=10_000)
    return Measurement.get(unbounded, unbounded.options, table).maximum


def duration(seconds: float) -> str:
    """A time to wait, as roughly as it is known."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
