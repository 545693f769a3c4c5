"""`configs/quick.toml` from command to report, beside the same study on PyTorch packages: wall and CPU time of commands."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from experiments.bench.peers import peer
from experiments.bench.study_peers import PACKAGES
from experiments.bench.timing import Case, ratios
from experiments.store import cores

ALL_CORES = True
CONFIG = Path(__file__).parents[2] / "configs" / "quick.toml"


def cases() -> Iterator[Case]:
    for package in PACKAGES:
        peer(package.replace("-", "_"))
    with tempfile.TemporaryDirectory() as folder:
        run, peers = ["experiments", "run", str(CONFIG), "--out"], "experiments.bench.study_peers"
        commands = {
            "jrope, nothing compiled before": [*run, f"{folder}/cold"],
            "jrope, compiled before": [*run, f"{folder}/warm"],
        }
        for package in PACKAGES:
            commands[f"{package}, a script"] = [peers, package, "1", str(CONFIG)]
            commands[f"{package}, a process for each core"] = [peers, package, str(cores()), str(CONFIG)]
        environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": f"{folder}/cache"}
        times = {name: _seconds(command, environment) for name, command in commands.items()}
        for i, clock in enumerate(("wall", "CPU")):
            yield Case(f"configs/quick.toml, {clock} time", ratios({name: own[i] for name, own in times.items()}))


def _seconds(command: list[str], environment) -> tuple[float, float]:
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([sys.executable, "-m", *command], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)} failed: {done.stderr[-500:]}")
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
