"""Tables and durations in a terminal and in a file."""

import io

import pytest
from rich.console import Console
from rich.table import Table

from experiments import terminal


def test_a_table_in_a_file_has_its_natural_width():
    table = Table("name", box=None, pad_edge=False)
    table.add_row("one two " * 30)
    console = Console(width=40, file=io.StringIO(), _environ={})
    terminal.show_table(console, table)
    assert len(console.file.getvalue().splitlines()) == 2


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "0 s"),
        (99, "99 s"),
        (99.7, "2 min"),
        (3600, "60 min"),
        (5999, "1 h 40 min"),
        (7260, "2 h 1 min"),
    ],
)
def test_durations(seconds, words):
    assert terminal.duration(seconds) == words
