"""`configs/quick.toml` from command to report, and the same study on PyTorch packages."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.peers import forms_of_peers, peer
from benchmarks.study_peers import PACKAGES
from benchmarks.timing import Case, seconds_of_children
from experiments.study.directory import cores

ALL_CORES = True
CONFIG = Path(__file__).parents[1] / "configs" / "quick.toml"


def cases() -> Iterator[Case]:
    with tempfile.TemporaryDirectory() as folder:
        run = ["experiments", "run", str(CONFIG), "--out"]
        commands = {
            "jrope, nothing compiled before": [*run, f"{folder}/cold"],
            "jrope, compiled before": [*run, f"{folder}/warm"],
        }
        for package in PACKAGES:
            commands |= forms_of_peers(_commands, package)
        environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": f"{folder}/cache"}
        seconds = {name: _seconds(command, environment) for name, command in commands.items()}
    for clock in ("wall", "CPU"):
        forms = {name: own[clock] for name, own in seconds.items()}
        yield Case(f"configs/quick.toml, {clock} time", forms)


def _commands(package: str) -> dict[str, list[str]]:
    peer(package.replace("-", "_"))
    command = ["benchmarks.study_peers", package]
    return {
        f"{package}, a script": [*command, "1", str(CONFIG)],
        f"{package}, a process for each core": [*command, str(cores()), str(CONFIG)],
    }


def _seconds(command: list[str], environment: dict[str, str]) -> dict[str, float]:
    command = [sys.executable, "-m", *command]
    with seconds_of_children() as seconds:
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)} failed: {done.stderr[-500:]}")
    return seconds
