"""The results table, for a terminal and as Markdown."""

from collections.abc import Callable

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from experiments import terminal
from experiments.analysis.observations import observations
from experiments.analysis.table import Cell, Results
from experiments.text import plain


def show(results: Results, console: Console):
    """Prints the main metric at every length, which models fitted, and the answer."""
    metric = results.main_metric
    unit = " in %" if metric.unit == "share" else ""
    terminal.say(
        console, f"{metric.title.lower()}{unit}: mean over seeds, and the range where seeds differ"
    )
    for table in _tables(_cells(results, compact), console):
        terminal.show_table(console, table)
    for sentence in (results.fit_sentence(), results.answer(), *observations(results)):
        terminal.say(console, plain(sentence))


def compact(cell: Cell) -> str:
    """A share in percent, with its range only if rounding leaves one; another metric as it is."""
    same = f"{100 * cell.low:.0f}" == f"{100 * cell.high:.0f}"
    return cell.short().split(" ")[0] if same and cell.unit == "share" else cell.short()


def markdown(results: Results) -> str:
    """The same table for a page."""
    heading, *body = _cells(results, Cell.short)
    rows = (heading, ["---"] * len(heading), *body)
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cells(results: Results, text: Callable[[Cell], str]) -> list[list[str]]:
    rows = [["encoding", "fitted", *(f"{multiple:g}x" for multiple in results.multiples)]]
    for entry in results:
        cells = [
            text(cell) if (cell := entry.cell(multiple)) else entry.absence(multiple)
            for multiple in results.multiples
        ]
        rows.append([entry.label, "{} of {}".format(*entry.fitted), *cells])
    return rows


def _tables(rows: list[list[str]], console: Console) -> list[Table]:
    """One table; in a narrow terminal several, since broken scores are hard to read."""
    first, last = 2, len(rows[0])
    tables = []
    while first < last:
        end = last
        while end > first + 1 and not _fits(_table(rows, first, end), console):
            end -= 1
        tables.append(_table(rows, first, end))
        first = end
    return tables


def _fits(table: Table, console: Console) -> bool:
    return not console.is_terminal or terminal.natural_width(table) <= console.width


def _table(rows: list[list[str]], first: int, end: int) -> Table:
    """The first two columns, and those from `first` to `end`."""
    heading, *body = [[*row[:2], *row[first:end]] for row in rows]
    table = Table(box=None, pad_edge=False)
    for i, name in enumerate(heading):
        table.add_column(name, overflow="fold", no_wrap=i > 0)
    for row in body:
        table.add_row(*(escape(plain(cell)) for cell in row))
    return table
