"""What the user sees while models train: live bars in a terminal, lines anywhere else."""

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TaskID, TextColumn
from rich.table import Column

from experiments import terminal
from experiments.study.hooks import Display
from experiments.text import plain

SECONDS_PER_LINE = 15.0


def display(console: Console) -> Display:
    """The display that suits the console."""
    return Bars(console) if console.is_terminal else Lines(console)


def pace(task: Task) -> str:
    """The rate and the time left, without compilation: counted from the first report."""
    if not task.speed:
        return ""
    rate = f"{task.speed:.0f} steps/s" if task.speed >= 1 else f"{1 / task.speed:.1f} s/step"
    return f"{rate}  {terminal.duration(task.time_remaining or 0)} left"


class _Steps(Display):
    """Counts the steps of each job."""

    def __init__(self, console: Console):
        self.console, self.ids = console, dict[str, TaskID]()
        self.progress = Progress(
            TextColumn("[bold]{task.description}", table_column=Column(no_wrap=True, max_width=18)),
            BarColumn(bar_width=None, table_column=Column(ratio=1, min_width=4)),
            MofNCompleteColumn(table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[status]}", table_column=Column(no_wrap=True)),
            console=console,
            expand=True,
            speed_estimate_period=3600.0,  # steps may be slow
        )

    def begin(self, label, steps):
        facts = {"status": "compiling", "loss": "", "shown": (0, self.console.get_time())}
        self.ids[label] = self.progress.add_task(escape(plain(label)), total=steps, **facts)

    def step(self, label, done, loss):
        self.progress.update(self.ids[label], completed=done, loss=f"loss {loss:.4f}")

    def task(self, label: str) -> Task:
        return next(task for task in self.progress.tasks if task.id == self.ids[label])


class Bars(_Steps):
    """A live bar for each job at work. A finished one leaves a line above, so many jobs fit."""

    def step(self, label, done, loss):
        super().step(label, done, loss)
        task = self.task(label)
        self.progress.update(task.id, status=f"{task.fields['loss']}  {pace(task)}")

    def evaluating(self, label, what):
        self.progress.update(self.ids[label], status=f"evaluating {escape(plain(what))}")

    def end(self, label):
        task = self.task(label)
        self.progress.update(task.id, visible=False)
        took = terminal.duration(task.elapsed or 0)
        facts = ", ".join(filter(None, (f"{task.total:.0f} steps", task.fields["loss"])))
        self.console.print(f"[bold]{task.description}[/bold]  done in {took}: {facts}")

    def __enter__(self):
        self.progress.start()
        return self

    def __exit__(self, *exc):
        self.progress.stop()


class Lines(_Steps):
    """About ten lines for each job, and at least one every 15 seconds, for logs."""

    def begin(self, label, steps):
        super().begin(label, steps)
        self._print(label, f"compiling, then {steps} steps")

    def step(self, label, done, loss):
        super().step(label, done, loss)
        task, now = self.task(label), self.console.get_time()
        steps, (tenth, last) = f"{task.total:.0f}", task.fields["shown"]
        if 10 * done // int(steps) > tenth or now > last + SECONDS_PER_LINE:
            self.progress.update(task.id, shown=(10 * done // int(steps), now))
            self._print(label, f"{done}/{steps} steps  {task.fields['loss']}  {pace(task)}")

    def end(self, label):
        self._print(label, "evaluated")

    def _print(self, label: str, text: str):
        line = f"{plain(label):>12}  {text}"
        self.console.print(line, markup=False, highlight=False, soft_wrap=True)
