"""What is printed: whole numbers at any width, and a line a line where it is not a terminal."""

import io
import re
import time

import pytest
from rich.console import Console
from rich.table import Table

from experiments import progress, tables, terminal

SCORES = {"rope": [1.0, 0.811, 0.495, 0.295], "a_much_longer_name": [1.0, 0.994, 0.925, 0.817]}


def made_up():
    """A result of two encodings at four lengths, whose seeds are five points apart past the trained length."""
    rows = [
        {
            "encoding": label,
            "seed": seed,
            "multiple": 2**i,
            "length": 10 * 2**i,
            "accuracy": min(score + (0.05 * seed if i else 0), 1.0),
            "fitted": True,
        }
        for label, scores in SCORES.items()
        for i, score in enumerate(scores)
        for seed in (0, 1)
    ]
    task = {"parents": {label: label for label in SCORES}, "fitted_means": "all of it"}
    return {"task": task, "config": {"encodings": {}}, "bands": {}, "rows": rows}


def printed(width, *, terminal=True):
    console = Console(width=width, force_terminal=terminal, color_system=None, file=io.StringIO(), _environ={})
    tables.show(made_up(), console)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [44, 60, 80, 120])
def test_no_score_is_broken_and_nothing_is_wider_than_the_terminal(width):
    text = printed(width)
    assert max(map(len, text.splitlines())) <= width
    table = text[: text.index("fitted to the")]
    scores = [tables.short(c) for c in (tables.results.cell(made_up(), "rope", m, "accuracy") for m in (1, 2, 4, 8))]
    assert scores[0] == "100.0"
    assert re.fullmatch(r"83\.\d \(81–86\)", scores[1])
    assert all(any(score in line for line in table.splitlines()) for score in scores)


def test_a_file_has_a_row_on_each_line_however_narrow():
    lines = printed(30, terminal=False).splitlines()
    assert sum(line.startswith(("rope ", "a_much_longer_name ")) for line in lines) == 2
    assert len(lines) == 1 + 3 + 2  # a heading, the table, two sentences


def test_a_table_in_a_file_is_as_wide_as_it_is():
    table = Table("name", box=None, pad_edge=False)
    table.add_row("one two " * 30)
    console = Console(width=40, file=io.StringIO(), _environ={})
    terminal.show_table(console, table)
    assert len(console.file.getvalue().splitlines()) == 2


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.2, "0 s"), (99, "99 s"), (99.7, "2 min"), (3600, "60 min"), (5999, "1 h 40 min"), (7260, "2 h 1 min")],
)
def test_durations(seconds, words):
    assert terminal.duration(seconds) == words


@pytest.mark.parametrize("width", [80, 120])
def test_bars_show_loss_speed_and_time_left_and_leave_a_line_for_what_is_done(width):
    console = Console(width=width, force_terminal=True, color_system=None, file=io.StringIO(), _environ={})
    with progress.Bars(console) as bars:
        for label in ("[red]rope", "a much longer name than most"):
            bars.begin(label, 1200)
            bars.step(label, 100, 2.0)
            time.sleep(0.01)
            bars.step(label, 600, 1.5)
        plain = Console(width=width, color_system=None, file=io.StringIO(), _environ={})
        plain.print(bars.progress.get_renderable())
        bars.end("[red]rope")
        lines = plain.file.getvalue().splitlines()
        assert len(lines) == 2
        assert all(re.search(r"━.* 600/1200 loss 1\.5000  \d+ steps/s  \d+ s left", line) for line in lines)
        assert [task.description for task in bars.progress.tasks if task.visible] == ["a much longer name than most"]
    assert "[red]rope  done in 0 s: 1200 steps, loss 1.5000" in console.file.getvalue()


def test_slow_steps_and_long_waits_are_told_in_their_own_units(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    clock = progress.Clock(1000)
    assert (clock.rate(0), clock.left(0)) == ("", "")
    now[0] = 50.0
    assert (clock.rate(20), clock.left(20)) == ("2.5 s/step", "41 min left")
