"""Broken run directories: `report` and `resume` end in words and a documented status."""

import json
import shutil
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from hypothesis import strategies as st
from typer.testing import CliRunner

from experiments.__main__ import app
from experiments.status import BAD_INPUT, DISK, DIVERGED
from tests.soak.damage import anything_json, corrupted, mutated, try_many

DOCUMENTED = (0, BAD_INPUT, DIVERGED, DISK)


@st.composite
def damage(draw, run: Path):
    """One file of a run, and what it then holds: broken bytes, other values, None if deleted."""
    kinds = (".json", ".jsonl", ".safetensors")
    path = draw(st.sampled_from(sorted(p for p in run.rglob("*") if p.suffix in kinds)))
    data = path.read_bytes()
    ways = [st.none(), corrupted(data)]
    if path.suffix == ".json":
        ways.append(mutated(json.loads(data), anything_json).map(json.dumps).map(str.encode))
    if path.suffix == ".jsonl":
        rows = mutated([json.loads(line) for line in data.splitlines()], anything_json)
        lines = rows.map(lambda rows: "".join(json.dumps(row) + "\n" for row in rows))
        ways.append(lines.map(str.encode))
    return path.relative_to(run), draw(st.one_of(ways))


def status(*arguments: str) -> int:
    """The exit status of a command, run in this process: a documented one, with a message."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        done = CliRunner().invoke(app, arguments)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code in DOCUMENTED, (done.exit_code, done.output)
    assert done.exit_code in (0, DIVERGED) or done.stderr.strip()
    return done.exit_code


def fuzz(
    count: int, run: Path, broken: Path, commands: Sequence[str] = ("report", "resume")
) -> Counter[str]:
    """How often each command ends in each status, on copies of a run with one broken file."""
    counts: Counter[str] = Counter()

    def check(change: tuple[Path, bytes | None]):
        path, data = change
        for command in commands:
            shutil.rmtree(broken, ignore_errors=True)
            shutil.copytree(run, broken)
            if data is None:
                (broken / path).unlink()
            else:
                (broken / path).write_bytes(data)
            counts[f"{command} with status {status(command, str(broken))}"] += 1

    try_many(check, damage(run), count)
    return counts
