"""`python -m benchmarks [NAME...]`: how fast jrope is on this machine, as ratios.

Run it twice, on a machine that does nothing else: differences below a tenth are noise.
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

NAMES = (
    "rotation",
    "attention",
    "decoding",
    "training",
    "seeds",
    "startup",
    "scaling_cost",
    "study",
)
PACKAGES = (
    "jax",
    "jaxlib",
    "flax",
    "torch",
    "transformers",
    "x-transformers",
    "rotary-embedding-torch",
)
CHILD = "JROPE_BENCHMARK_CHILD"
# Pages of 2 MiB, where Linux has them. With pages of 4 KiB the system takes as long for the first
# touch of a large array as a formula takes for two or three passes. Training and whole commands
# are timed without them, as users run them.
LARGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
AS_USERS_RUN = ("training", "seeds", "startup", "study")
out, err = Console(), Console(stderr=True)


def main(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help=f"Of {', '.join(NAMES)}; by default all."),
    ] = None,
    directory: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="The folder for NAME.json.")
    ] = Path("runs/bench"),
):
    """Time jrope next to other packages."""
    for name in names or NAMES:
        if name not in NAMES:
            message = f"{name!r}: not a benchmark, expected one of {', '.join(NAMES)}"
            err.print(message, markup=False, soft_wrap=True)
            raise typer.Exit(2)
    directory.mkdir(parents=True, exist_ok=True)
    for name in names or NAMES:
        if CHILD in os.environ:
            measure(name, directory)
            continue
        # XLA and PyTorch choose their threads when they start: each benchmark is a process
        command = [sys.executable, "-m", "benchmarks", name, "--out", str(directory)]
        pages = {} if name in AS_USERS_RUN else LARGE_PAGES
        done = subprocess.run(command, env=pages | os.environ | {CHILD: "1"})
        if done.returncode:
            raise typer.Exit(done.returncode)


def measure(name: str, directory: Path):
    """Runs one benchmark in this process, prints its tables and writes them as JSON."""
    module = importlib.import_module(f"benchmarks.{name}")
    cores = _use_cores(all_of_them=module.ALL_CORES)
    from benchmarks.stored import duration
    from experiments.study.files import write_json

    about = {
        "date": str(date.today()),
        "python": platform.python_version(),
        "machine": f"{platform.machine()}{_vectors()}",
        "cores": cores,
        **_versions(),
    }
    results = []
    for case in module.cases():
        ratios, at = case.ratios(), {} if case.at is None else {"at": case.at}
        results.append({"case": case.name, **at, "forms": [ratio._asdict() for ratio in ratios]})
        write_json(directory / f"{name}.json", {**about, "results": results})
        title = f"{name}: {case.name}" + ("" if case.at is None else f": {case.at:g}")
        columns = "", "time", "ratio", "middle half"
        table = Table(*columns, title=title, title_justify="left", box=None)
        for form, seconds, ratio, low, high in ratios:
            table.add_row(form, duration(seconds), f"{ratio:.2f}", f"{low:.2f}–{high:.2f}")
        out.print(table)


def _use_cores(*, all_of_them: bool) -> int:
    """Gives this process all cores or one; returns how many it has."""
    if not hasattr(os, "sched_setaffinity"):
        return os.cpu_count() or 1
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores if all_of_them else {min(cores)})
    return len(os.sched_getaffinity(0))


def _vectors() -> str:
    """The widest vectors of an x86 processor, where Linux says them: many ratios depend on them."""
    try:
        flags = Path("/proc/cpuinfo").read_text("utf-8", "replace").split()
    except OSError:
        return ""
    widths = {"avx512f": "AVX-512", "avx2": "AVX2"}
    return next((f" with {name}" for flag, name in widths.items() if flag in flags), "")


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
