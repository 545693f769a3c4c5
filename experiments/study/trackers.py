"""Trackers: services that log the losses and the final scores of a run."""

import hashlib
import importlib
import json
import os
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

from experiments.study.result import Row


class TrackerError(Exception):
    """A tracker that cannot be used, and what to do about it."""


class Tracker:
    """A service that logs a run. Any method may raise anything.

    Attributes:
      package: what is imported and installed.
      run: what logs, after `start`.
    """

    package: ClassVar[str]
    run: Any

    def __init__(self):
        try:
            self.module: Any = importlib.import_module(self.package)
        except Exception as error:  # an installed package may also fail
            remedy = f"install it with: pip install {self.package}"
            raise TrackerError(f"{self.package} cannot be imported ({error}); {remedy}") from None

    def start(self, name: str, directory: Path, config: dict[str, Any]) -> None:
        raise NotImplementedError

    def log(self, group: str, label: str, x: int, metrics: dict[str, float]) -> None:
        """Adds a point to curves: of the group "training" by step, of "at_length" by length."""
        raise NotImplementedError

    def results(self, rows: Sequence[Row]) -> None:
        for label, length, metrics in means(rows):
            self.log("at_length", label, length, metrics)

    def finish(self) -> None:
        self.run.finish()


class TensorBoard(Tracker):
    """A folder of events for each encoding, in `tensorboard/` of the run: curves share a chart."""

    package = "tensorboardX"

    def start(self, name, directory, config):
        self.folder, self.writers = directory / "tensorboard", dict[str, Any]()
        writer = self.module.SummaryWriter(str(self.folder))
        writer.add_text("config", f"```json\n{json.dumps(config, indent=1)}\n```")
        writer.close()

    def log(self, group, label, x, metrics):
        if label not in self.writers:
            folder = self.folder / re.sub(r"[^\w =+,()-]", _escape, label)
            self.writers[label] = self.module.SummaryWriter(str(folder))
        for name, value in metrics.items():
            self.writers[label].add_scalar(f"{group}/{name}", value, x)

    def finish(self):
        for writer in self.writers.values():
            writer.close()


def _escape(found: re.Match) -> str:
    """No two labels share a folder, and every folder is inside the run's."""
    return quote(found[0], safe="").replace(".", "%2E")


class WandB(Tracker):
    """A run in Weights & Biases, in the project WANDB_PROJECT or jrope; resumed when the run is."""

    package = "wandb"
    axes: ClassVar = {"training": "step", "at_length": "length"}

    def start(self, name, directory, config):
        options = {
            "project": None if self.module.Settings().project else "jrope",
            "id": identity(directory),
            "dir": str(directory),
            "settings": self.module.Settings(console="off"),  # capture disturbs the progress bars
        }
        with _without_input():
            self.run = self.module.init(name=name, config=config, resume="allow", **options)
        for group, axis in self.axes.items():
            self.run.define_metric(f"{group}/*", step_metric=axis)

    def log(self, group, label, x, metrics):
        self.run.log({self.axes[group]: x, **_named(group, label, metrics)})

    def results(self, rows):
        super().results(rows)
        names = list(dict.fromkeys(name for row in rows for name in row["metrics"]))
        columns = ["encoding", "seed", "multiple", "length", "fitted"]
        data = [[*(row[c] for c in columns), *map(row["metrics"].get, names)] for row in rows]
        self.run.log({"results": self.module.Table(columns=[*columns, *names], data=data)})


class Trackio(Tracker):
    """A run in trackio's project jrope; resumed when the run is."""

    package = "trackio"

    def start(self, name, directory, config):
        name = f"{name}-{identity(directory)[:6]}"
        self.run = self.module.init(project="jrope", name=name, config=config, resume="allow")

    def log(self, group, label, x, metrics):
        self.run.log(_named(group, label, metrics), step=x)


TRACKERS: dict[str, type[Tracker]] = {
    "tensorboard": TensorBoard,
    "wandb": WandB,
    "trackio": Trackio,
}


def _named(group: str, label: str, metrics: dict[str, float]) -> dict[str, float]:
    return {f"{group}/{name}/{label}": value for name, value in metrics.items()}


@contextmanager
def _without_input() -> Iterator[None]:
    """Hides the terminal: without a key there is an error, not a question among progress bars."""
    before = sys.stdin
    with open(os.devnull) as nothing:
        sys.stdin = nothing
        try:
            yield
        finally:
            sys.stdin = before


def identity(directory: Path) -> str:
    """A name that a run keeps when it is resumed, and that no other run has."""
    manifest = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))
    first = manifest["sessions"][0]
    name = f"{first['host']} {first['started']} {directory.resolve()}"
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def means(rows: Sequence[Row]) -> Iterator[tuple[str, int, dict[str, float]]]:
    """For each encoding and length, the mean of each metric over seeds, after all fine-tuning."""
    last: dict[str, int] = defaultdict(int)
    for row in rows:
        last[row["encoding"]] = max(last[row["encoding"]], row.get("finetuned", 0))
    groups: dict[tuple[str, int], list[dict[str, float]]] = defaultdict(list)
    for row in rows:
        if row.get("finetuned", 0) == last[row["encoding"]]:
            groups[row["encoding"], row["length"]].append(row["metrics"])
    for (label, length), seeds in groups.items():
        names = [name for name in seeds[0] if all(name in metrics for metrics in seeds)]
        yield label, length, {n: statistics.fmean(metrics[n] for metrics in seeds) for n in names}
