"""`python -m tests.soak`: what a maintainer runs for hours before a release.

It kills runs at random moments, resumes them, and compares every byte with an uninterrupted run. It
sends signals at bad moments, starts two runs in one directory, fills disks, and breaks configs and
run directories in thousands of ways. The tests do a little of the same.
"""

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

from experiments.study.directory import environment
from tests.soak import fuzz_configs, fuzz_files
from tests.soak.trials import CONFIG, Trials, contents, differences, run_command

QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def main(
    kills: Annotated[int, typer.Option(help="How many kills in all.")] = 100,
    kills_a_run: Annotated[int, typer.Option(help="How many kills before a run may end.")] = 5,
    configs: Annotated[int, typer.Option(help="How many broken configs.")] = 10_000,
    files: Annotated[int, typer.Option(help="How many broken run directories.")] = 500,
    seed: Annotated[int, typer.Option(help="Of the random moments.")] = 0,
):
    """Kill, resume, compare; then everything else that may happen to a run."""
    facts = ", ".join(f"{name} {value}" for name, value in environment().items())
    print(f"{date.today()}: {facts}", flush=True)
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = folder / "soak.toml"
        config.write_text(CONFIG)
        for name in ("warm", "whole"):  # the first one compiles
            began = time.monotonic()
            subprocess.run(run_command(config, folder / name), check=True, **QUIET)
        expected, seconds = contents(folder / "whole"), time.monotonic() - began
        print(f"uninterrupted: {len(expected)} files, {seconds:.0f} s", flush=True)

        moments = random.Random(seed)
        killed = _killed(config, expected, seconds, kills, kills_a_run, moments)
        for trial, found in (*killed, *Trials(folder, config, expected).all()):
            wrong += bool(found)
            print(f"{trial}: {', '.join(found) or 'as it should be'}", flush=True)
        counts = fuzz_configs.fuzz(configs, folder / "broken.toml")
        print(f"broken configs: {_listed(counts)}", flush=True)
        counts = fuzz_files.fuzz(files, folder / "whole", folder / "broken")
        print(f"broken run directories: {_listed(counts)}", flush=True)
    print(f"{wrong} wrong")
    raise typer.Exit(wrong > 0)


def _listed(counts: Counter) -> str:
    return ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))


def _killed(
    config: Path,
    expected: dict[str, bytes],
    seconds: float,
    kills: int,
    kills_a_run: int,
    moments: random.Random,
) -> Iterator[tuple[str, list[str]]]:
    """Runs that are killed and resumed, and which of their files differ."""
    done = number = 0
    while done < kills:
        command = run_command(config, config.parent / f"killed-{number}")
        for _ in range(min(kills_a_run, kills - done)):
            chosen = moments.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM])
            if not _kill(command, moments.uniform(0.1, 0.8 * seconds), chosen):
                break
            done += 1
        subprocess.run(command, check=True, **QUIET)
        found = differences(expected, config.parent / f"killed-{number}")
        yield f"run {number}, {done} kills so far", found
        number += 1


def _kill(command: list[str], after: float, number: signal.Signals) -> bool:
    """Runs for a while, then kills; whether the run had not ended."""
    process = subprocess.Popen(command, **QUIET)
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.send_signal(number)
        process.wait()
        return True
    return False


if __name__ == "__main__":
    typer.run(main)
