"""The configs in a folder: what each shows, and how long it takes."""

import tomllib
from pathlib import Path

from rich.console import Console
from rich.table import Table

from experiments.terminal import say, show_table

TIME = "# Time:"  # begins the line of a config that says "how long on what machine"


def list_configs(folder: Path, console: Console):
    """Prints a table of them."""
    rows = []
    for path in sorted(folder.glob("*.toml")):
        text = path.read_text(encoding="utf-8-sig")
        times = (line.removeprefix(TIME) for line in text.splitlines() if line.startswith(TIME))
        time, _, machine = "".join(times).strip().partition(" on ")
        shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        rows.append((str(shown), tomllib.loads(text).get("title", ""), time, machine))
    machines = {machine for *_, machine in rows}
    table = Table("config", "shows", "time", box=None, pad_edge=False)
    for *cells, time, machine in rows:
        table.add_row(*cells, time if len(machines) == 1 else f"{time} on {machine}")
    show_table(console, table)
    if len(machines) == 1:
        say(console, f"Times are on {machines.pop()}.")
