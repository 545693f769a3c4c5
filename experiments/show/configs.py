"""The configs in a folder: what each shows, and how long it takes."""

import tomllib
from pathlib import Path

from rich.console import Console
from rich.table import Table

from experiments import terminal

TIME = "# Time:"  # begins the line of a config that says how long it takes, and on what machine


def configs(folder: Path, console: Console):
    """Prints a table of them."""
    rows, machines = [], set()
    for path in sorted(folder.glob("*.toml")):
        text = path.read_text(encoding="utf-8")
        told = "".join(line.removeprefix(TIME).strip() for line in text.splitlines() if line.startswith(TIME))
        takes, _, machine = told.partition(" on ")
        shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        rows.append([str(shown), tomllib.loads(text).get("title", ""), takes, machine])
        machines.add(machine)
    table = Table("config", "shows", "time", box=None, pad_edge=False)
    for *cells, takes, machine in rows:
        table.add_row(*cells, takes if len(machines) == 1 else f"{takes} on {machine}")
    terminal.show_table(console, table)
    if len(machines) == 1:
        terminal.say(console, f"Times are on {machines.pop()}.")
