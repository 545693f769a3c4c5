"""What is shown of training: live bars in a terminal, lines elsewhere."""

import io
import re
import time

import pytest
from rich.console import Console

from experiments import streams
from experiments.study import progress


@pytest.mark.parametrize("width", [80, 120])
def test_bars_show_loss_rate_and_time_left_and_a_finished_one_leaves_a_line(width):
    options = {"width": width, "color_system": None, "_environ": {}}
    console = Console(force_terminal=True, file=io.StringIO(), **options)
    with progress.Bars(console) as bars:
        for label in ("[red]rope", "a much longer name than most"):
            bars.begin(label, 1200)
            bars.step(label, 100, 2.0)
            time.sleep(0.01)
            bars.step(label, 600, 1.5)
        plain = Console(file=io.StringIO(), **options)
        plain.print(bars.progress.get_renderable())
        bars.evaluating("[red]rope", "at 1x")
        bars.end("[red]rope")
        lines = plain.file.getvalue().splitlines()
        shown = r"━.* 600/1200 loss 1\.5000  \d+ steps/s  \d+ s left"
        assert len(lines) == 2
        assert all(re.search(shown, line) for line in lines)
        visible = [task.description for task in bars.progress.tasks if task.visible]
        assert visible == ["a much longer name than most"]
    assert "[red]rope  done in 0 s: 1200 steps, loss 1.5000" in console.file.getvalue()


def test_lines_come_at_tenths_and_at_least_every_15_seconds():
    now = [0.0]
    console = Console(file=io.StringIO(), get_time=lambda: now[0], width=100, _environ={})
    lines = progress.Lines(console)
    lines.begin("rope", 1000)
    for done, seconds in ((0, 0), (20, 50), (40, 51), (99, 52), (100, 53)):
        now[0] = float(seconds)
        lines.step("rope", done, 2.0)
    lines.end("rope")
    assert [line.strip() for line in console.file.getvalue().splitlines()] == [
        "rope  compiling, then 1000 steps",
        "rope  20/1000 steps  loss 2.0000",
        "rope  100/1000 steps  loss 2.0000  27 steps/s  34 s left",
        "rope  evaluated",
    ]


@pytest.mark.parametrize("form", [progress.Bars, progress.Lines])
def test_names_are_shown_on_a_console_that_lacks_their_characters(form):
    file = io.TextIOWrapper(io.BytesIO(), "ascii", streams.ERRORS)
    is_terminal = form is progress.Bars
    console = Console(file=file, force_terminal=is_terminal, color_system=None, _environ={})
    with form(console) as shown:
        shown.begin("naïve 日", 10)
        shown.step("naïve 日", 5, 2.0)
        shown.evaluating("naïve 日", "at 2×")
        shown.end("naïve 日")
    assert r"na\xefve \u65e5  " in file.buffer.getvalue().decode("ascii")


def test_slow_steps_and_long_waits_have_units_of_their_own():
    now = [0.0]
    bars = progress.Bars(Console(file=io.StringIO(), get_time=lambda: now[0], _environ={}))
    bars.begin("rope", 1000)
    for done, seconds in ((1, 100.0), (21, 150.0)):
        now[0] = seconds
        bars.step("rope", done, 2.0)
    assert progress.pace(bars.task("rope")) == "2.5 s/step  41 min left"
