"""What a running job reports to, and how it is stopped."""

import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Self


class Stopped(Exception):
    """The run was asked to stop, and everything is saved."""


class Display:
    """Receives the events of every job, from several threads. This one shows nothing."""

    def begin(self, label: str, steps: int) -> None: ...
    def step(self, label: str, done: int, loss: float) -> None: ...
    def evaluating(self, label: str, what: str) -> None: ...
    def end(self, label: str) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc) -> None: ...


@dataclass(frozen=True)
class Hooks:
    """The surroundings of a job, which change nothing in its results.

    Attributes:
      stop: the job saves its state and raises Stopped soon after this is set.
      warn: receives messages for the user.
      cores: a thread for each core, on which the job's seeds train side by side;
        without it they train one after another.
    """

    display: Display = field(default_factory=Display)
    stop: threading.Event = field(default_factory=threading.Event)
    warn: Callable[[str], None] = warnings.warn
    cores: Executor | None = None

    def raise_if_stopped(self):
        if self.stop.is_set():
            raise Stopped
