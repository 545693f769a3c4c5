"""From the command to the first training step, with and without compiled programs in the cache."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from benchmarks.timing import Case, seconds_of_children

ALL_CORES = True
CONFIG = """
title = "The first step of one encoding"
seeds = [0, 1, 2, 3, 4]

[task]
type = "sort"
symbols = 128
length = 12

[train]
steps = 1000000
batch = 16
learning_rate = 7e-3
report_every = 1

[encodings.rope]
type = "rope"
"""


def cases() -> Iterator[Case]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "config.toml").write_text(CONFIG, "utf-8")
        _first_step(folder, "first", "cache")  # fills the cache and writes Python's bytecode
        warm = [_first_step(folder, f"warm{i}", "cache") for i in range(3)]
        cold = _first_step(folder, "cold", "another cache")
    for clock in ("CPU", "wall"):
        compiled = median(seconds[clock] for seconds in warm)
        forms = {"compiled before": compiled, "nothing compiled": cold[clock]}
        yield Case(f"to the first training step, {clock} time", forms)


def _first_step(folder: Path, name: str, cache: str) -> dict[str, float]:
    """The seconds of `experiments run` until its first report; then it is killed."""
    run = folder / name
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(folder / cache)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # or each start compiles all packages
    command = [sys.executable, "-m", "experiments", "run", str(folder / "config.toml")]
    with seconds_of_children() as seconds:
        process = subprocess.Popen(
            [*command, "--out", str(run)],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        while not any(path.stat().st_size for path in run.glob("encodings/0/metrics.jsonl")):
            if process.poll() is not None:
                raise AssertionError(f"the run ended too early: {process.communicate()[1]}")
            time.sleep(0.005)
        process.kill()
        process.communicate()
    return seconds
