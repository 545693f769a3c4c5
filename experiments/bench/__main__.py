"""`python -m experiments.bench [NAME...]`: ratios against peers and limits, in one run on this machine.

Run it on a machine that does nothing else, twice: a difference of less than a tenth is not a finding.
"""

import importlib
import os
import platform
import subprocess
import sys
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

NAMES = ("rotation", "attention", "decoding")
PACKAGES = ("jax", "jaxlib", "flax", "torch", "transformers", "rotary-embedding-torch")
CHILD = "JROPE_BENCH_CHILD"
out, err = Console(), Console(stderr=True)


def main(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help=f"Of {', '.join(NAMES)}; by default all.")] = None,
    directory: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where NAME.json is written.")] = Path("runs/bench"),
):
    """Time jrope beside other packages, on one core."""
    for name in names or NAMES:
        if name not in NAMES:
            err.print(f"{name!r}: not a benchmark, expected one of {', '.join(NAMES)}", markup=False)
            raise typer.Exit(2)
    if CHILD in os.environ:
        for name in names or NAMES:
            _run(name, directory)
        return
    directory.mkdir(parents=True, exist_ok=True)
    for name in names or NAMES:
        # a process of its own, since how many threads XLA and PyTorch have is settled when they start
        environment = os.environ | {CHILD: "1", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "experiments.bench", name, "--out", str(directory)]
        done = subprocess.run(command, env=environment)
        if done.returncode:
            raise typer.Exit(done.returncode)


def _run(name: str, directory: Path):
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {os.sched_getaffinity(0).pop()})
    from experiments.bench.peers import Missing
    from experiments.bench.timing import compare
    from experiments.files import write_json

    results = []
    try:
        for case, forms in importlib.import_module(f"experiments.bench.{name}").cases():
            ratios = compare(forms)
            results.append({"case": case, "forms": [ratio._asdict() for ratio in ratios]})
            table = Table("", "ms", "ratio", "middle half", title=f"{name}: {case}", title_justify="left", box=None)
            for ratio in ratios:
                table.add_row(
                    ratio.form, f"{1e3 * ratio.seconds:.3g}", f"{ratio.ratio:.2f}", f"{ratio.low:.2f}–{ratio.high:.2f}"
                )
            out.print(table)
    except Missing as error:
        err.print(str(error), markup=False)
        raise typer.Exit(2) from None
    about = {"date": str(date.today()), "python": platform.python_version(), "machine": platform.machine(), "cores": 1}
    write_json(directory / f"{name}.json", {**about, **_versions(), "results": results})


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    typer.run(main)
