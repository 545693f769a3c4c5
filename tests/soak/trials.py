"""What a run must survive besides kills: signals, a second run, and disks that fail."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from experiments.status import BAD_INPUT, DISK, INTERRUPTED

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
steps = 1000
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
FREE_KIB = (0, 20, 60, 120, 250, 400, 1200)


def run_command(config: Path, directory: Path) -> list[str]:
    """The command that starts a run, or resumes it if the directory exists."""
    return [sys.executable, "-m", "experiments", "run", str(config), "--out", str(directory)]


def contents(directory: Path) -> dict[str, bytes]:
    """What must not depend on how often a run was stopped: metrics, checkpoints, results, report.

    The manifest lists the sessions, and a PDF holds the time at which it was drawn: not these.
    """
    paths = (path for path in directory.rglob("*") if path.is_file() and path.suffix != ".pdf")
    kept = (path for path in paths if path.name not in ("manifest.json", "lock"))
    return {str(path.relative_to(directory)): path.read_bytes() for path in kept}


def differences(expected: dict[str, bytes], directory: Path) -> list[str]:
    """The files of a run that are not, byte for byte, the expected ones."""
    got = contents(directory)
    names = sorted({*expected, *got})
    return [f"{name} differs" for name in names if expected.get(name) != got.get(name)]


class Trials:
    """Trials of one config, each in its own directory.

    Args:
      folder: to work in.
      config: a config file.
      expected: the contents of a run of it that nothing interrupted.
    """

    def __init__(self, folder: Path, config: Path, expected: dict[str, bytes]):
        self.folder, self.config, self.expected = folder, config, expected

    def all(self) -> Iterator[tuple[str, list[str]]]:
        """Each trial's name and what is wrong."""
        for name in MOMENTS:
            yield f"SIGTERM while {name}", self._signal(name)
        yield "a second SIGTERM", self._signal("training", twice=True)
        yield "two processes at once", self._two_at_once()
        yield "a directory that vanishes", self._vanish()
        if not _can_mount(self.folder):
            yield "disks: not tried, since mounting is not allowed here", []
            return
        for free in FREE_KIB:
            yield f"a tmpfs with {free} KiB left", self._full_disk(free)
        yield "a read-only directory", self._read_only()

    def _signal(self, name: str, *, twice: bool = False) -> list[str]:
        directory = self.folder / f"signal-{name}-{twice}"
        process = self._start(directory, cache=name != "compiling")
        reached = _wait(process, directory, name)
        process.send_signal(signal.SIGTERM)
        if twice:
            time.sleep(0.2)
            process.send_signal(signal.SIGTERM)
        # a second signal may find Python on its way out, without handlers
        statuses = (0, INTERRUPTED, *([-signal.SIGTERM] if twice else []))
        wrong = self._end(process, *statuses) + self._finish(directory)
        return wrong if reached else ["it ended before that moment", *wrong]

    def _two_at_once(self) -> list[str]:
        directory = self.folder / "two"
        both = [self._start(directory) for _ in range(2)]
        errors = [process.communicate()[1] for process in both]
        statuses = [process.returncode for process in both]
        if sorted(statuses) != [0, BAD_INPUT]:
            return [f"statuses {statuses}: {errors}"]
        refused = statuses.index(BAD_INPUT)
        words = f"in use by process {both[1 - refused].pid} ", "in use by another process"
        wrong = [] if any(word in errors[refused] for word in words) else [errors[refused]]
        return wrong + self._finish(directory)

    def _vanish(self) -> list[str]:
        directory = self.folder / "vanished"
        process = self._start(directory)
        _wait(process, directory, "training")
        shutil.rmtree(directory, ignore_errors=True)
        wrong = self._end(process, DISK)
        return [*wrong, "it was made again"] if directory.exists() else wrong

    def _full_disk(self, free: int) -> list[str]:
        with _tmpfs(self.folder / f"tmpfs-{free}", "size=6m") as disk:
            with open(disk / "filler", "wb") as file:
                _fill(file.fileno())
                os.ftruncate(file.fileno(), os.fstat(file.fileno()).st_size - 1024 * free)
            wrong = self._end(self._start(disk / "run"), DISK)
            (disk / "filler").unlink()
            return wrong + self._finish(disk / "run")

    def _read_only(self) -> list[str]:
        with _tmpfs(self.folder / "read-only", "size=6m") as disk:
            process = self._start(disk / "run")
            _wait(process, disk / "run", "training")
            process.kill()
            process.communicate()
            subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
            wrong = self._end(self._start(disk / "run"), DISK)
            subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
            return wrong + self._finish(disk / "run")

    def _start(self, directory: Path, *, cache: bool = True) -> subprocess.Popen:
        environment = os.environ | ({} if cache else {"JAX_ENABLE_COMPILATION_CACHE": "false"})
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(run_command(self.config, directory), env=environment, **pipes)

    def _end(self, process: subprocess.Popen, *statuses: int) -> list[str]:
        """What is wrong with how a process ends."""
        error, status = process.communicate()[1].strip(), process.returncode
        if status in statuses and (status == 0 or error) and "Traceback" not in error:
            return []
        return [f"status {status}, not one of {statuses}: {error}"]

    def _finish(self, directory: Path) -> list[str]:
        """What is wrong with a run after it is resumed to its end."""
        return self._end(self._start(directory), 0) + differences(self.expected, directory)


MOMENTS: dict[str, Callable[[Path], bool]] = {
    "compiling": lambda run: (
        (run / "encodings" / "0").exists()
        and not (run / "encodings" / "0" / "metrics.jsonl").exists()
    ),
    "training": lambda run: any(run.glob("encodings/*/checkpoint-*.safetensors")),
    "saving": lambda run: any(run.glob("encodings/*/checkpoint-*.tmp")),
    "plotting": lambda run: (run / "result.json").exists() and not (run / "report.html").exists(),
}


def _wait(process: subprocess.Popen, directory: Path, moment: str) -> bool:
    """Waits for a moment; false if the process ends before."""
    while not MOMENTS[moment](directory):
        if process.poll() is not None:
            return False
    return True


def _fill(file: int):
    """Writes zeros until there is no room for one more."""
    for size in (2**16, 1):
        try:
            while True:
                os.write(file, bytes(size))
        except OSError:
            pass


def _can_mount(folder: Path) -> bool:
    try:
        with _tmpfs(folder / "can-mount", "size=1m"):
            return True
    except subprocess.CalledProcessError:
        return False


@contextmanager
def _tmpfs(path: Path, options: str) -> Iterator[Path]:
    """A small file system."""
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", path]
    subprocess.run(mount, check=True, capture_output=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", path], check=True)
