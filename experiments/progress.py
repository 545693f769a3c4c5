"""What the user sees while models train: live bars in a terminal, a line now and then anywhere else."""

import time
from typing import Protocol, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Column

from experiments import terminal
from experiments.text import plain


class Display(Protocol):
    """Told what happens to each encoding, from several threads."""

    def begin(self, label: str, steps: int) -> None: ...
    def step(self, label: str, done: int, loss: float) -> None: ...
    def evaluating(self, label: str, what: str) -> None: ...
    def end(self, label: str) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *exc) -> None: ...


def display(console: Console) -> Display:
    """The display that suits the console."""
    return Bars(console) if console.is_terminal else Lines(console)


class Bars:
    """A live bar for each encoding at work; one that is done leaves a line above them, so that dozens fit any terminal."""

    def __init__(self, console: Console):
        self.console = console
        self.progress = Progress(
            TextColumn("[bold]{task.description}", table_column=Column(no_wrap=True, max_width=18)),
            BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=4)),
            MofNCompleteColumn(table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[status]}", table_column=Column(no_wrap=True)),
            console=console,
            expand=True,
        )
        self.tasks: dict[str, TaskID] = {}
        self.clocks: dict[str, Clock] = {}
        self.losses: dict[str, str] = {}

    def begin(self, label, steps):
        self.tasks[label] = self.progress.add_task(escape(plain(label)), total=steps, status="compiling")
        self.clocks[label], self.losses[label] = Clock(steps), ""

    def step(self, label, done, loss):
        clock = self.clocks[label]
        self.losses[label] = f", loss {loss:.4f}"
        status = f"loss {loss:.4f}  {clock.rate(done)}  {clock.left(done)}"
        self.progress.update(self.tasks[label], completed=done, status=status)

    def evaluating(self, label, what):
        self.progress.update(self.tasks[label], status=f"evaluating {escape(plain(what))}")

    def end(self, label):
        clock, task = self.clocks[label], self.tasks[label]
        self.progress.update(task, visible=False)
        took = terminal.duration(time.monotonic() - clock.began)
        self.console.print(f"[bold]{escape(plain(label))}[/bold]  done in {took}: {clock.steps} steps{self.losses[label]}")

    def __enter__(self):
        self.progress.start()
        return self

    def __exit__(self, *exc):
        self.progress.stop()


class Lines:
    """About ten lines for each encoding, and one at least every quarter of a minute, for logs."""

    def __init__(self, console: Console):
        self.console = console
        self.clocks: dict[str, Clock] = {}
        self.shown: dict[str, tuple[int, float]] = {}

    def begin(self, label, steps):
        self.clocks[label], self.shown[label] = Clock(steps), (0, time.monotonic())
        self._print(label, f"compiling, then {steps} steps")

    def step(self, label, done, loss):
        clock = self.clocks[label]
        rate, tenth, now = clock.rate(done), 10 * done // clock.steps, time.monotonic()
        if tenth > self.shown[label][0] or now > self.shown[label][1] + 15:
            self.shown[label] = (tenth, now)
            self._print(label, f"{done}/{clock.steps} steps  loss {loss:.4f}  {rate}  {clock.left(done)}")

    def evaluating(self, label, what):
        pass

    def end(self, label):
        self._print(label, "evaluated")

    def _print(self, label, text):
        self.console.print(f"{plain(label):>12}  {text}", markup=False, highlight=False, soft_wrap=True)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        pass


class Clock:
    """Steps a second and time left, counted from the first report on so that compilation is left out."""

    def __init__(self, steps: int):
        self.steps = steps
        self.began = time.monotonic()
        self.first: tuple[int, float] | None = None
        self.speed = 0.0

    def rate(self, done: int) -> str:
        if self.first is None:
            self.first = (done, time.monotonic())
            return ""
        self.speed = (done - self.first[0]) / max(time.monotonic() - self.first[1], 1e-9)
        return f"{self.speed:.0f} steps/s" if self.speed >= 1 or not self.speed else f"{1 / self.speed:.1f} s/step"

    def left(self, done: int) -> str:
        return f"{terminal.duration((self.steps - done) / self.speed)} left" if self.speed else ""
