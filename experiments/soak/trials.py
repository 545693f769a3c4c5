"""What a run must survive besides kills: signals at bad moments, a second run, and disks that are full, read-only or gone."""

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


class Trials:
    """Each trial runs `config` in a directory of its own, and gives what went wrong, by the name of what was tried.

    Args:
      folder: to work in.
      config: a config file.
      alone: the contents of a run of it that was left alone.
    """

    def __init__(self, folder: Path, config: Path, alone: dict[str, bytes]):
        self.folder, self.config, self.alone = folder, config, alone

    def all(self) -> Iterator[tuple[str, list[str]]]:
        for name, moment in MOMENTS.items():
            yield f"SIGTERM while {name}", self._signalled(name, moment)
        yield "a second SIGTERM", self._signalled("twice", MOMENTS["training"], second=True)
        yield "two processes at once", self._two_at_once()
        yield "a directory that vanishes", self._vanished()
        if not _can_mount(self.folder):
            yield "disks: not tried, since mounting is not allowed here", []
            return
        for free in (0, 20, 60, 120, 250, 400, 1200):
            yield f"a tmpfs with {free} KiB left", self._full(free)
        yield "a read-only directory", self._read_only()

    def _signalled(self, name: str, moment: Callable[[Path], bool], second: bool = False) -> list[str]:
        directory = self.folder / f"signalled-{name}"
        process = self._start(directory, cached=name != "compiling")
        hit = _wait(process, lambda: moment(directory))
        process.send_signal(signal.SIGTERM)
        if second:
            time.sleep(0.2)
            process.send_signal(signal.SIGTERM)
        wrong = self._ended(process, (0, INTERRUPTED)) + ([] if hit else ["it ended before that moment"])
        return wrong + self._ends_as_one_left_alone(directory)

    def _two_at_once(self) -> list[str]:
        directory = self.folder / "two"
        both = [self._start(directory) for _ in range(2)]
        errors = [process.communicate()[1] for process in both]
        refused = next((i for i, process in enumerate(both) if process.returncode == BAD_INPUT), None)
        if refused is None or both[1 - refused].returncode:
            return [f"statuses {[process.returncode for process in both]}: {errors}"]
        other = (f"in use by process {both[1 - refused].pid} ", "in use by another process")
        named = any(words in errors[refused] for words in other)
        return [*([] if named else [errors[refused]]), *self._ends_as_one_left_alone(directory)]

    def _vanished(self) -> list[str]:
        directory = self.folder / "vanished"
        process = self._start(directory)
        _wait(process, lambda: MOMENTS["training"](directory))
        shutil.rmtree(directory, ignore_errors=True)
        return self._ended(process, (DISK,)) + (["it was made again"] if directory.exists() else [])

    def _full(self, free: int) -> list[str]:
        with _tmpfs(self.folder / f"tmpfs-{free}", "size=6m") as mounted:
            filler = mounted / "filler"
            with open(filler, "wb") as file:
                _fill(file.fileno())
                os.ftruncate(file.fileno(), os.fstat(file.fileno()).st_size - 1024 * free)
            wrong = self._ended(self._start(mounted / "run"), (DISK,))
            filler.unlink()
            return wrong + self._ends_as_one_left_alone(mounted / "run")

    def _read_only(self) -> list[str]:
        with _tmpfs(self.folder / "read-only", "size=6m") as mounted:
            process = self._start(mounted / "run")
            _wait(process, lambda: MOMENTS["training"](mounted / "run"))
            process.kill()
            process.communicate()
            subprocess.run(["mount", "-o", "remount,ro", mounted], check=True)
            wrong = self._ended(self._start(mounted / "run"), (DISK,))
            subprocess.run(["mount", "-o", "remount,rw", mounted], check=True)
            return wrong + self._ends_as_one_left_alone(mounted / "run")

    def _start(self, directory: Path, cached: bool = True) -> subprocess.Popen:
        environment = os.environ | ({} if cached else {"JAX_ENABLE_COMPILATION_CACHE": "false"})
        command = command_to_run(self.config, directory)
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)

    def _ended(self, process: subprocess.Popen, statuses: tuple[int, ...]) -> list[str]:
        """What is wrong with how a process ended."""
        _, error = process.communicate()
        good = process.returncode in statuses and (process.returncode == 0 or error.strip()) and "Traceback" not in error
        return [] if good else [f"status {process.returncode}, not one of {statuses}: {error.strip()}"]

    def _ends_as_one_left_alone(self, directory: Path) -> list[str]:
        wrong = self._ended(self._start(directory), (0,))
        return wrong + differences(self.alone, directory)


def command_to_run(config: Path, directory: Path) -> list[str]:
    """The run, new or resumed: `run` on an existing directory goes on with it."""
    return [sys.executable, "-m", "experiments", "run", str(config), "--out", str(directory)]


def contents(directory: Path) -> dict[str, bytes]:
    """What must not depend on how often a run was stopped: metrics, checkpoints, results, figures, report.

    Not the manifest, which tells of every session, nor the PDF, which holds the time at which it was drawn.
    """
    paths = (path for path in directory.rglob("*") if path.is_file() and path.name not in ("manifest.json", "lock"))
    return {str(path.relative_to(directory)): path.read_bytes() for path in paths if path.suffix != ".pdf"}


def differences(alone: dict[str, bytes], directory: Path) -> list[str]:
    """The files of a run that are not, byte for byte, those of the one that was left alone."""
    got = contents(directory)
    return sorted(f"{name} differs" for name in {*alone, *got} if alone.get(name) != got.get(name))


MOMENTS: dict[str, Callable[[Path], bool]] = {
    "compiling": lambda run: (run / "encodings" / "0").exists() and not (run / "encodings" / "0" / "metrics.jsonl").exists(),
    "training": lambda run: any(run.glob("encodings/*/checkpoint-*.safetensors")),
    "saving": lambda run: any(run.glob("encodings/*/checkpoint-*.tmp")),
    "plotting": lambda run: (run / "result.json").exists() and not (run / "report.html").exists(),
}


def _wait(process: subprocess.Popen, moment: Callable[[], bool]) -> bool:
    """Waits until the moment has come; false if the process ended before."""
    while not moment():
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
    """A small file system of its own."""
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", path], check=True, capture_output=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", path], check=True)
