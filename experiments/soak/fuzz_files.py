"""Run directories, broken in every way: `report` and `resume` end in words and a documented status, whatever they find."""

import json
import shutil
import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from hypothesis import strategies as st
from typer.testing import CliRunner

from experiments.__main__ import app
from experiments.soak.fuzz import anything, corrupted, mutated, tried
from experiments.status import BAD_INPUT, DISK, DIVERGED

DOCUMENTED = (0, BAD_INPUT, DIVERGED, DISK)
values = anything.filter(lambda value: _is_json(value))


@st.composite
def damage(draw, directory: Path):
    """One file of a run and what it holds instead, None for nothing: broken bytes, or other values in a JSON file."""
    paths = [path for path in directory.rglob("*") if path.is_file() and path.suffix in (".json", ".jsonl", ".safetensors")]
    path = draw(st.sampled_from(sorted(paths)))
    data = path.read_bytes()
    ways = [st.none(), corrupted(data)]
    if path.suffix == ".json":
        ways.append(mutated(json.loads(data), values).map(lambda value: json.dumps(value).encode()))
    if path.suffix == ".jsonl":
        rows = [json.loads(line) for line in data.splitlines()]
        ways.append(mutated(rows, values).map(lambda rows: "".join(json.dumps(row) + "\n" for row in rows).encode()))
    return path.relative_to(directory), draw(st.one_of(ways))


def status(*arguments: str) -> int:
    """The exit status of a command, run in this process: one of the documented ones, with a message, and never a traceback."""
    before = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        done = CliRunner().invoke(app, arguments)
    finally:
        for number, handler in before:
            signal.signal(number, handler)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code in DOCUMENTED, (done.exit_code, done.output)
    assert done.exit_code == 0 or done.stderr.strip() or done.exit_code == DIVERGED
    return done.exit_code


def many(count: int, run: Path, broken: Path, commands: Sequence[str] = ("report", "resume")) -> Counter[str]:
    """How often each command ended in each status, on copies of a run with one file broken."""
    counts: Counter[str] = Counter()

    def check(change: tuple[Path, bytes | None]):
        for command in commands:
            copy_with(run, broken, *change)
            counts[f"{command} with status {status(command, str(broken))}"] += 1

    tried(check, damage(run), count)
    return counts


def copy_with(run: Path, broken: Path, path: Path, data: bytes | None):
    """A copy of a directory in which one file holds other bytes, or is missing."""
    shutil.rmtree(broken, ignore_errors=True)
    shutil.copytree(run, broken)
    if data is None:
        (broken / path).unlink()
    else:
        (broken / path).write_bytes(data)


def _is_json(value) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True
