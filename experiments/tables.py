"""The results table in the terminal."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from experiments import results
from experiments.results import Result


def show(result: Result, console: Console):
    """Prints token accuracy at every length, what fitted, and the answer."""
    multiples = results.multiples(result)
    table = Table(box=None, pad_edge=False, title="token accuracy in %, mean (range) over seeds", title_justify="left")
    for heading in ("encoding", "fitted", *(f"{multiple:g}x" for multiple in multiples)):
        table.add_column(heading, overflow="fold")
    for label in results.labels(result):
        cells = [c.percent() if (c := results.cell(result, label, m, "accuracy")) else "–" for m in multiples]
        table.add_row(escape(label), "{} of {}".format(*results.fitted(result, label)), *cells)
    console.print(table)
    for sentence in (results.fit_sentence(result), results.answer(result)):
        console.print(sentence, markup=False, highlight=False, soft_wrap=True)
