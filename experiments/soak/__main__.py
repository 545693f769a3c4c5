"""`python -m experiments.soak`: what a maintainer leaves running before a release, and its figures.

Runs are killed at random moments, resumed, and every byte compared with that of a run left alone; they are signalled at bad
moments, two run in one directory, their disks are full, read-only or gone; configs and run directories are broken in thousands
of ways. The same in a quick form is in tests/test_resume.py and tests/test_fuzz.py.
"""

import platform
import random
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from experiments.soak import CONFIG, fuzz, fuzz_files
from experiments.soak.trials import Trials, command_to_run, contents, differences
from experiments.store import PACKAGES, cores, version


def main(
    kills: Annotated[int, typer.Option(help="How many kills in all.")] = 100,
    kills_a_run: Annotated[int, typer.Option(help="After so many kills a run may end.")] = 5,
    configs: Annotated[int, typer.Option(help="How many broken configs.")] = 10_000,
    files: Annotated[int, typer.Option(help="How many broken run directories.")] = 500,
    seed: Annotated[int, typer.Option(help="Of the random moments.")] = 0,
):
    """Kill, resume, compare; then all else that may happen to a run."""
    wrong = 0
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    print(f"{date.today()}: Python {platform.python_version()}, {packages}; {cores()} cores", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = folder / "soak.toml"
        config.write_text(CONFIG)
        for name in ("warm", "alone"):  # the first compiles
            began = time.monotonic()
            subprocess.run(command_to_run(config, folder / name), check=True, stdout=subprocess.DEVNULL)
        alone, length = contents(folder / "alone"), time.monotonic() - began
        print(f"left alone: {len(alone)} files, {length:.0f} s", flush=True)
        for done, number, bad in _killed(config, alone, length, kills, kills_a_run, random.Random(seed)):
            wrong += bool(bad)
            print(f"run {number}, {done} kills so far: {', '.join(bad) or 'identical'}", flush=True)
        for tried, bad in Trials(folder, config, alone).all():
            wrong += bool(bad)
            print(f"{tried}: {', '.join(bad) or 'as it should be'}", flush=True)
        print(f"broken configs: {_told(fuzz.many(configs, folder / 'broken.toml'))}", flush=True)
        print(f"broken run directories: {_told(fuzz_files.many(files, folder / 'alone', folder / 'broken'))}", flush=True)
    print(f"{wrong} wrong")
    raise typer.Exit(wrong > 0)


def _told(counts: Counter) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))


def _killed(config, alone, length: float, kills: int, kills_a_run: int, moments) -> Iterator[tuple[int, int, list[str]]]:
    """For each of several runs, killed and resumed: kills so far, its number, and which files differ."""
    done = number = 0
    while done < kills:
        directory = config.parent / f"killed-{number}"
        for _ in range(min(kills_a_run, kills - done)):
            chosen = moments.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM])
            if not _kill(command_to_run(config, directory), moments.uniform(0.1, 0.8 * length), chosen):
                break
            done += 1
        subprocess.run(command_to_run(config, directory), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        number += 1
        yield done, number, differences(alone, directory)


def _kill(command: list[str], after: float, number: signal.Signals) -> bool:
    """Runs for a while and kills; whether the run was still at work."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.send_signal(number)
        process.wait()
        return True
    return False


if __name__ == "__main__":
    typer.run(main)
