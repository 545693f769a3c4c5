"""The results table in the terminal."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from experiments import results
from experiments.results import Result


def show(result: Result, console: Console):
    """Prints token accuracy at every length, what fitted, and the answer."""
    multiples = results.multiples(result)
    table = Table(title="token accuracy, mean (range) over seeds", title_justify="left", box=None, pad_edge=False)
    for heading in ("encoding", "fitted", *(f"{multiple:g}x" for multiple in multiples), f"exact match {multiples[0]:g}x"):
        table.add_column(heading, no_wrap=True)
    for label in results.labels(result):
        cells = [str(results.cell(result, label, multiple, "accuracy")) for multiple in multiples]
        exact = str(results.cell(result, label, multiples[0], "exact_match"))
        table.add_row(escape(label), "{} of {}".format(*results.fitted(result, label)), *cells, exact)
    console.print(table, soft_wrap=True)
    console.print(results.fit_sentence(result), markup=False, highlight=False)
