"""`python -m experiments.soak`: kills runs at random moments, resumes them, and compares every byte with a run left alone.

Not a test but a trial, for a maintainer to leave running before a release: it prints as it goes. The same in a
quick form is in tests/test_resume.py.
"""

import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import typer

CONFIG = """
title = "soak"
seeds = [0, 5]
[task]
type = "copy"
symbols = 24
length = 3
[model]
features = 16
[train]
steps = 3000
batch = 4
learning_rate = 1e-2
report_every = 20
[evaluate]
multiples = [1, 2]
sequences = 64
[encodings.learned]
type = "learned"
[encodings.rope]
type = "rope"
[encodings.pi]
extends = "rope"
scaling = { type = "linear", factor = "match" }
"""


def command(directory: Path) -> list[str]:
    """The run, new or resumed: `run` on an existing directory goes on with it."""
    return [sys.executable, "-m", "experiments", "run", str(directory.parent / "soak.toml"), "--out", str(directory)]


def contents(directory: Path) -> dict[str, bytes]:
    """What must not depend on how often a run was killed: metrics, checkpoints, results, figures, report."""
    paths = (path for path in directory.rglob("*") if path.is_file() and path.name not in ("manifest.json", "lock"))
    return {str(path.relative_to(directory)): path.read_bytes() for path in paths if path.suffix != ".pdf"}


def kill(directory: Path, after: float, number: signal.Signals) -> bool:
    """Runs for a while and kills; whether the run was still at work."""
    process = subprocess.Popen(command(directory), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.send_signal(number)
        process.wait()
        return True
    return False


def main(
    kills: Annotated[int, typer.Option(help="How many kills in all.")] = 100,
    kills_a_run: Annotated[int, typer.Option(help="After so many kills a run may end.")] = 5,
    seed: Annotated[int, typer.Option(help="Of the random moments.")] = 0,
):
    """Kill, resume, compare."""
    moments, done, different = random.Random(seed), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "soak.toml").write_text(CONFIG)
        for name in ("warm", "alone"):  # the first compiles
            began = time.monotonic()
            subprocess.run(command(Path(folder) / name), check=True, stdout=subprocess.DEVNULL)
        alone, length = contents(Path(folder) / "alone"), time.monotonic() - began
        print(f"left alone: {len(alone)} files, {length:.0f} s", flush=True)
        runs = 0
        while done < kills:
            directory = Path(folder) / f"run-{runs}"
            for _ in range(min(kills_a_run, kills - done)):
                number = moments.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM])
                if not kill(directory, moments.uniform(0.1, 0.8 * length), number):
                    break
                done += 1
            subprocess.run(command(directory), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            got = contents(directory)
            wrong = sorted(name for name in {*alone, *got} if alone.get(name) != got.get(name))
            different += bool(wrong)
            runs += 1
            print(f"run {runs}: {done} kills so far; {f'DIFFERENT: {wrong}' if wrong else 'identical'}", flush=True)
    print(f"{runs} runs, {done} kills, {different} different")
    raise typer.Exit(different > 0)


if __name__ == "__main__":
    typer.run(main)
