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

NAMES = ("rotation", "attention", "decoding", "training", "seeds", "startup", "growth", "study")
PACKAGES = ("jax", "jaxlib", "flax", "torch", "transformers", "x-transformers", "rotary-embedding-torch")
CHILD = "JROPE_BENCH_CHILD"
# Arrays in pages of 2 MiB, where Linux gives them: with pages of 4 KiB the first touch of a large array, which is the system's
# work and no one's formula, takes as long as two or three passes over it. Not where training and whole commands are timed
# beside others, as users run them: to need no new memory at each step is a part of their speed.
LARGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
AS_USERS_RUN = ("training", "seeds", "startup", "study")
out, err = Console(), Console(stderr=True)


def main(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help=f"Of {', '.join(NAMES)}; by default all.")] = None,
    directory: Annotated[Path, typer.Option("--out", metavar="DIR", help="Where NAME.json is written.")] = Path("runs/bench"),
):
    """Time jrope beside other packages: what is called by models on one core, what is trained on all."""
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
        command = [sys.executable, "-m", "experiments.bench", name, "--out", str(directory)]
        pages = {} if name in AS_USERS_RUN else LARGE_PAGES
        done = subprocess.run(command, env=pages | os.environ | {CHILD: "1"})
        if done.returncode:
            raise typer.Exit(done.returncode)


def _run(name: str, directory: Path):
    module = importlib.import_module(f"experiments.bench.{name}")
    cores = _cores(module.ALL_CORES)
    from experiments.bench.peers import Missing
    from experiments.bench.timing import compare
    from experiments.files import write_json

    machine = f"{platform.machine()}{_vectors()}"
    about = {"date": str(date.today()), "python": platform.python_version(), "machine": machine, "cores": cores}
    results = []
    try:
        for case in module.cases():
            ratios = case.forms if isinstance(case.forms, list) else compare(case.forms)
            at = {} if case.at is None else {"at": case.at}
            results.append({"case": case.name, **at, "forms": [ratio._asdict() for ratio in ratios]})
            write_json(directory / f"{name}.json", {**about, **_versions(), "results": results})
            title = case.name if case.at is None else f"{case.name}: {case.at:g}"
            table = Table("", "ms", "ratio", "middle half", title=f"{name}: {title}", title_justify="left", box=None)
            for ratio in ratios:
                table.add_row(
                    ratio.form, f"{1e3 * ratio.seconds:.3g}", f"{ratio.ratio:.2f}", f"{ratio.low:.2f}–{ratio.high:.2f}"
                )
            out.print(table)
    except Missing as error:
        err.print(str(error), markup=False)
        raise typer.Exit(2) from None


def _cores(every: bool) -> int:
    """How many cores this process has from now on, and PyTorch threads: all, or one."""
    if not hasattr(os, "sched_setaffinity"):
        return os.cpu_count() or 1
    given = os.sched_getaffinity(0)
    os.sched_setaffinity(0, given if every else {min(given)})
    return len(os.sched_getaffinity(0))


def _vectors() -> str:
    """The widest vectors of an x86 processor, on which many a ratio depends, where Linux tells."""
    try:
        flags = Path("/proc/cpuinfo").read_text().split()
    except OSError:
        return ""
    return next((f" with {name}" for flag, name in (("avx512f", "AVX-512"), ("avx2", "AVX2")) if flag in flags), "")


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
