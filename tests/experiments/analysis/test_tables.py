"""The printed table: whole scores at any width; outside a terminal a row is a line."""

import io
import re

import pytest
from made_up import made_up
from rich.console import Console

from experiments.analysis import tables

ROPE, LONGER = [1.0, 0.811, 0.495, 0.295], [1.0, 0.994, 0.925, 0.817]


def results():
    """Two encodings at four lengths; past the trained length their seeds are five points apart."""
    scores = {
        label: {2**i: [s, min(s + (0.05 if i else 0), 1.0)] for i, s in enumerate(means)}
        for label, means in {"rope": ROPE, "a_much_longer_name": LONGER}.items()
    }
    return made_up(scores)


def printed(width, *, terminal=True):
    options = {"width": width, "force_terminal": terminal, "color_system": None, "_environ": {}}
    console = Console(file=io.StringIO(), **options)
    tables.show(results(), console)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [44, 60, 80, 120])
def test_no_score_is_broken_and_nothing_is_wider_than_the_terminal(width):
    text = printed(width)
    assert max(map(len, text.splitlines())) <= width
    table = text[: text.index("All fitted")]
    scores = [tables.compact(results()["rope"].cell(multiple)) for multiple in (1, 2, 4, 8)]
    assert scores[0] == "100.0"
    assert re.fullmatch(r"83\.\d \(81–86\)", scores[1])
    assert all(any(score in line for line in table.splitlines()) for score in scores)


def test_a_file_has_a_row_on_each_line_however_narrow():
    lines = printed(30, terminal=False).splitlines()
    assert sum(line.startswith(("rope ", "a_much_longer_name ")) for line in lines) == 2
    assert len(lines) == 1 + 3 + 2  # a heading, the table, two sentences


def test_the_table_as_markdown():
    assert tables.markdown(made_up({"rope": {1: [1.0], 2: [None]}})).splitlines() == [
        "| encoding | fitted | 1x | 2x |",
        "| --- | --- | --- | --- |",
        "| rope | 1 of 1 | 100.0 (100–100) | – |",
    ]
