"""Calls the trackers of a run, which do not affect its results.

Each has its own thread, which makes one call after another. So training neither waits for a network
nor meets an error of a tracker. After its first error a tracker is not called again.
"""

import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from experiments.study.hooks import Display
from experiments.study.trackers import TRACKERS, Tracker

PATIENCE = 60.0  # seconds in which a tracker may finish after the run


class Worker:
    """A tracker, and the one thread that calls it, in order."""

    def __init__(self, name: str, tracker: Tracker, warn: Callable[[str], None]):
        self.name, self.tracker, self.warn = name, tracker, warn
        self.calls: queue.SimpleQueue[tuple[str, tuple]] = queue.SimpleQueue()
        # a daemon, unlike the threads of an executor: one that hangs does not keep Python alive
        self.thread = threading.Thread(target=self._work, name=f"tracker {name}", daemon=True)
        self.thread.start()

    def call(self, method: str, *arguments):
        self.calls.put((method, arguments))

    def end(self, patience: float):
        """Waits this many seconds for the tracker to finish."""
        self.call("finish")
        self.thread.join(patience)
        if self.thread.is_alive():
            late = f"{self.name}: not finished {patience:g} s after the run, and abandoned"
            self.warn(f"{late}. The run itself is complete.")

    def _work(self):
        method = ""
        while method != "finish":
            method, arguments = self.calls.get()
            try:
                getattr(self.tracker, method)(*arguments)
            except BaseException as error:  # SystemExit too, which some libraries raise
                failed = f"{self.name}: dropped, because `{method}` failed: {error!r}"
                self.warn(f"{failed}. The run continues.")
                if method not in ("start", "finish"):
                    with suppress(BaseException):
                        self.tracker.finish()
                return


class Tracking:
    """All trackers of a run.

    Raises:
      TrackerError: if one cannot be imported.
    """

    def __init__(self, names: Sequence[str], warn: Callable[[str], None], patience=PATIENCE):
        self.trackers = {name: TRACKERS[name]() for name in dict.fromkeys(names)}
        self.warn, self.patience = warn, patience
        self.workers: list[Worker] = []

    def call(self, method: str, *arguments):
        for worker in self.workers:
            worker.call(method, *arguments)

    def display(self, shown: Display, directory: Path, config: dict[str, Any]) -> Display:
        """Starts the trackers; returns a display that logs what it shows."""
        if not self.trackers:
            return shown
        self.workers = [Worker(n, tracker, self.warn) for n, tracker in self.trackers.items()]
        directory = directory.resolve()
        self.call("start", directory.name, directory, config)
        return TrackedDisplay(shown, self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc):
        for worker in self.workers:
            worker.end(self.patience)


class TrackedDisplay(Display):
    """Shows what another display shows, and logs the losses."""

    def __init__(self, shown: Display, tracking: Tracking):
        self.shown, self.tracking = shown, tracking
        self.begin, self.evaluating, self.end = shown.begin, shown.evaluating, shown.end

    def step(self, label, done, loss):
        self.shown.step(label, done, loss)
        self.tracking.call("log", "training", label, done, {"loss": loss})

    def __enter__(self):
        self.shown.__enter__()
        return self

    def __exit__(self, *exc):
        self.shown.__exit__(*exc)
