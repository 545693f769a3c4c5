"""From the command to the first training step: CPU seconds, without compiled programs of before and with them."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from experiments.bench.timing import Case, ratios

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
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.toml").write_text(CONFIG)
        _seconds(Path(folder), "first", "cache")  # compiles, and writes Python's bytecode where that has not been done
        warm = [_seconds(Path(folder), f"warm{i}", "cache") for i in range(3)]
        cold = _seconds(Path(folder), "cold", "another cache")
    for i, clock in enumerate(("CPU", "wall")):
        times = {"compiled before": sorted(own[i] for own in warm)[1], "nothing compiled": cold[i]}
        yield Case(f"to the first training step, {clock} time", ratios(times))


def _seconds(folder: Path, name: str, cache: str) -> tuple[float, float]:
    """CPU and wall seconds of `experiments run` until its first report, at which it is killed."""
    metrics = folder / name / "encodings" / "0" / "metrics.jsonl"
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(folder / cache)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # or each start would compile all packages
    command = [sys.executable, "-m", "experiments", "run", str(folder / "config.toml"), "--out", str(folder / name)]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        while not (metrics.exists() and metrics.stat().st_size):
            if process.poll() is not None:
                raise AssertionError(
                    f"the run ended before its first step: {process.stderr and process.stderr.read().decode()}"
                )
            time.sleep(0.005)
        wall = time.perf_counter() - began
        process.kill()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall
