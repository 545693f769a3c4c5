"""The results table, for a terminal and as Markdown."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from experiments import results
from experiments.remarks import remarks
from experiments.results import Result
from experiments.text import plain


def show(result: Result, console: Console):
    """Prints token accuracy at every length, what fitted, and the answer."""
    heading, *body = _cells(result)
    table = Table(box=None, pad_edge=False, title="token accuracy in %, mean (range) over seeds", title_justify="left")
    for name in heading:
        table.add_column(name, overflow="fold")
    for row in body:
        table.add_row(*(escape(plain(cell)) for cell in row))
    console.print(table)
    for sentence in (results.fit_sentence(result), results.answer(result), *remarks(result)):
        console.print(plain(sentence), markup=False, highlight=False, soft_wrap=True)


def markdown(result: Result) -> str:
    """The same table for a page."""
    heading, *body = _cells(result)
    return "\n".join(f"| {' | '.join(row)} |" for row in (heading, ["---"] * len(heading), *body))


def _cells(result: Result) -> list[list[str]]:
    multiples = results.multiples(result)
    rows = [["encoding", "fitted", *(f"{multiple:g}x" for multiple in multiples)]]
    for label in results.labels(result):
        cells = [
            c.percent() if (c := results.cell(result, label, m, "accuracy")) else results.absent(result, label, m)
            for m in multiples
        ]
        rows.append([label, "{} of {}".format(*results.fitted(result, label)), *cells])
    return rows
