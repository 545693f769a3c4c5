"""Trackers: TensorBoard, Weights & Biases and trackio, told of a run while it goes on.

Off unless asked for, and no part of an experiment: they are told what the display is told, and nothing comes back. Each is
called by a thread of its own, one call after the other, so that training neither waits for a network nor meets an error; after
its first error a tracker is told nothing more.
"""

import hashlib
import importlib
import json
import os
import queue
import re
import statistics
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, Self
from urllib.parse import quote

from experiments.progress import Display
from experiments.results import Row

PATIENCE = 60.0  # seconds that a tracker may take to send what it still holds once a run has ended
SCORES = ("accuracy", "exact_match", "loss")


class TrackerError(Exception):
    """A tracker that cannot be used, and what to do about it."""


class Tracker(Protocol):
    """What is asked of a tracker. Any method may raise anything."""

    def start(self, name: str, directory: Path, config: dict[str, Any]) -> None: ...
    def log(self, label: str, step: int, metrics: dict[str, float]) -> None: ...
    def results(self, rows: Sequence[Row]) -> None: ...
    def finish(self) -> None: ...


class TensorBoard:
    """A folder of events for each encoding, in the run's `tensorboard/`: their curves share a chart."""

    def __init__(self):
        self.module = _imported("tensorboardX")
        self.writers: dict[str, Any] = {}

    def start(self, name, directory, config):
        self.folder = directory / "tensorboard"
        writer = self.module.SummaryWriter(str(self.folder))
        writer.add_text("config", f"```json\n{json.dumps(config, indent=1)}\n```")
        writer.close()

    def log(self, label, step, metrics):
        for name, value in metrics.items():
            self._writer(label).add_scalar(f"training/{name}", value, step)

    def results(self, rows):
        for label, length, scores in means(rows):
            for name, value in scores.items():
                self._writer(label).add_scalar(f"at_length/{name}", value, length)

    def finish(self):
        for writer in self.writers.values():
            writer.close()

    def _writer(self, label: str):
        if label not in self.writers:
            # no two labels share a folder, and none leaves the run's
            name = re.sub(r"[^\w =+,()-]", lambda character: quote(character[0], safe="").replace(".", "%2E"), label)
            self.writers[label] = self.module.SummaryWriter(str(self.folder / name))
        return self.writers[label]


@contextmanager
def _unattended():
    """Without a terminal to ask at: who has no key is told so, and not asked for one in the middle of the progress bars."""
    asked = sys.stdin
    with open(os.devnull) as nobody:
        sys.stdin = nobody
        try:
            yield
        finally:
            sys.stdin = asked


class WandB:
    """A run in Weights & Biases, in the project jrope unless WANDB_PROJECT says otherwise; resumed as the run is."""

    def __init__(self):
        self.module = _imported("wandb")

    def start(self, name, directory, config):
        # its console capture would fight with the progress bars for the terminal
        settings = self.module.Settings(console="off")
        project = None if self.module.Settings().project else "jrope"
        with _unattended():
            self.run = self.module.init(
                project=project,
                name=name,
                id=identity(directory),
                resume="allow",
                dir=str(directory),
                config=config,
                settings=settings,
            )
        self.run.define_metric("training/*", step_metric="step")
        self.run.define_metric("at_length/*", step_metric="length")

    def log(self, label, step, metrics):
        self.run.log({"step": step, **{f"training/{name}/{label}": value for name, value in metrics.items()}})

    def results(self, rows):
        for label, length, scores in means(rows):
            self.run.log({"length": length, **{f"at_length/{name}/{label}": value for name, value in scores.items()}})
        columns = ["encoding", "seed", "multiple", "length", "fitted", *SCORES]
        self.run.log({"results": self.module.Table(columns=columns, data=[[row.get(c) for c in columns] for row in rows])})

    def finish(self):
        self.run.finish()


class Trackio:
    """A run in trackio's project jrope; resumed as the run is."""

    def __init__(self):
        self.module = _imported("trackio")

    def start(self, name, directory, config):
        self.run = self.module.init(project="jrope", name=f"{name}-{identity(directory)[:6]}", config=config, resume="allow")

    def log(self, label, step, metrics):
        self.run.log({f"training/{name}/{label}": value for name, value in metrics.items()}, step=step)

    def results(self, rows):
        for label, length, scores in means(rows):
            self.run.log({f"at_length/{name}/{label}": value for name, value in scores.items()}, step=length)

    def finish(self):
        self.run.finish()


TRACKERS: dict[str, Callable[[], Tracker]] = {"tensorboard": TensorBoard, "wandb": WandB, "trackio": Trackio}


def _imported(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except Exception as error:  # a package that is there may still fail in its own ways
        raise TrackerError(f"{package} cannot be imported ({error}); install it with: pip install {package}") from None


def identity(directory: Path) -> str:
    """A name for a run that it keeps when it is resumed, and that no other run has."""
    began = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))["sessions"][0]
    return hashlib.sha256(f"{began['host']} {began['started']} {directory.resolve()}".encode()).hexdigest()[:16]


def means(rows: Sequence[Row]) -> Iterator[tuple[str, int, dict[str, float]]]:
    """For each encoding and length the mean scores over seeds, after the last step of fine-tuning if there was any."""
    places: dict[tuple[str, int], list[Row]] = defaultdict(list)
    last: dict[str, int] = defaultdict(int)
    for row in rows:
        last[row["encoding"]] = max(last[row["encoding"]], row.get("finetuned", 0))
    for row in rows:
        if row.get("finetuned", 0) == last[row["encoding"]]:
            places[row["encoding"], row["length"]].append(row)
    for (label, length), seeds in places.items():
        values = {name: [value for row in seeds if (value := row[name]) is not None] for name in SCORES}
        yield label, length, {n: statistics.fmean(v) for n, v in values.items() if len(v) == len(seeds)}


class Worker:
    """A tracker and the one thread that calls it, in the order of what it is told."""

    def __init__(self, name: str, tracker: Tracker, warn: Callable[[str], None]):
        self.name, self.tracker, self.warn = name, tracker, warn
        self.calls: queue.SimpleQueue = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._work, name=f"tracker {name}", daemon=True)
        self.thread.start()

    def tell(self, method: str, *arguments):
        self.calls.put((method, arguments))

    def end(self, patience: float):
        """Waits, but not for ever, until all has been told."""
        self.tell("finish")
        self.thread.join(patience)
        if self.thread.is_alive():
            self.warn(f"{self.name}: not finished {patience:g} s after the run, and left. The run itself is whole.")

    def _work(self):
        method = ""
        while method != "finish":
            method, arguments = self.calls.get()
            try:
                getattr(self.tracker, method)(*arguments)
            except BaseException as error:  # SystemExit too, by which some libraries end what they are called from
                self.warn(f"{self.name}: dropped, since `{method}` failed: {error!r}. The run goes on.")
                if method not in ("start", "finish"):
                    with suppress(BaseException):
                        self.tracker.finish()
                return


class Tracking:
    """All trackers of a run, from before it starts until after it ends.

    Raises:
      TrackerError: if one cannot be imported.
    """

    def __init__(self, names: Sequence[str], warn: Callable[[str], None], patience: float = PATIENCE):
        self.trackers = {name: TRACKERS[name]() for name in dict.fromkeys(names)}
        self.warn, self.patience = warn, patience
        self.workers: list[Worker] = []

    def tell(self, method: str, *arguments):
        for worker in self.workers:
            worker.tell(method, *arguments)

    def display(self, shown: Display, directory: Path, config: dict[str, Any]) -> Display:
        """The display of a run that begins now, or goes on, with the trackers behind it."""
        if not self.trackers:
            return shown
        self.workers = [Worker(name, tracker, self.warn) for name, tracker in self.trackers.items()]
        self.tell("start", directory.resolve().name, directory.resolve(), config)
        return Tracked(shown, self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc):
        for worker in self.workers:
            worker.end(self.patience)


class Tracked:
    """A display that tells the trackers what it shows."""

    def __init__(self, shown: Display, tracking: Tracking):
        self.shown, self.tracking = shown, tracking

    def begin(self, label: str, steps: int):
        self.shown.begin(label, steps)

    def step(self, label: str, done: int, loss: float):
        self.shown.step(label, done, loss)
        self.tracking.tell("log", label, done, {"loss": loss})

    def evaluating(self, label: str, what: str):
        self.shown.evaluating(label, what)

    def end(self, label: str):
        self.shown.end(label)

    def __enter__(self) -> Self:
        self.shown.__enter__()
        return self

    def __exit__(self, *exc):
        self.shown.__exit__(*exc)
