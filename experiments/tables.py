"""The results table, for a terminal and as Markdown."""

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from experiments import results, terminal
from experiments.remarks import remarks
from experiments.results import Cell, Result
from experiments.text import plain


def show(result: Result, console: Console):
    """Prints token accuracy at every length, what fitted, and the answer."""
    terminal.say(console, "token accuracy in %: mean over seeds, and their range where they differ")
    for table in _tables(_cells(result, short), console):
        terminal.show_table(console, table)
    for sentence in (results.fit_sentence(result), results.answer(result), *remarks(result)):
        terminal.say(console, plain(sentence))


def short(cell: Cell) -> str:
    """A share in percent, with the range over seeds only where it can be seen."""
    percent = cell.percent()
    low, high = (f"{100 * value:.0f}" for value in (cell.low, cell.high))
    return percent.split(" ")[0] if low == high else percent


def markdown(result: Result) -> str:
    """The same table for a page."""
    heading, *body = _cells(result, Cell.percent)
    return "\n".join(f"| {' | '.join(row)} |" for row in (heading, ["---"] * len(heading), *body))


def _cells(result: Result, percent) -> list[list[str]]:
    multiples = results.multiples(result)
    rows = [["encoding", "fitted", *(f"{multiple:g}x" for multiple in multiples)]]
    for label in results.labels(result):
        cells = [
            percent(c) if (c := results.cell(result, label, m, "accuracy")) else results.absent(result, label, m)
            for m in multiples
        ]
        rows.append([label, "{} of {}".format(*results.fitted(result, label)), *cells])
    return rows


def _tables(rows: list[list[str]], console: Console) -> list[Table]:
    """One table, or in a terminal that it does not fit several below one another: a score that is broken is hard to read."""
    first, last = 2, len(rows[0])
    tables = []
    while first < last:
        end = last
        while end > first + 1 and console.is_terminal and terminal.natural_width(_table(rows, first, end)) > console.width:
            end -= 1
        tables.append(_table(rows, first, end))
        first = end
    return tables


def _table(rows: list[list[str]], first: int, end: int) -> Table:
    table = Table(box=None, pad_edge=False)
    for i, name in enumerate([*rows[0][:2], *rows[0][first:end]]):
        table.add_column(name, overflow="fold", no_wrap=i > 0)
    for row in rows[1:]:
        table.add_row(*(escape(plain(cell)) for cell in (*row[:2], *row[first:end])))
    return table
