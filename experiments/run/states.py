"""The states of training that a folder keeps: the last two that were planned, and where it was stopped."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.files import telling
from experiments.run import checkpoint


@dataclass(frozen=True)
class States:
    """The checkpoints in a folder.

    Attributes:
      owner: whose they are, written into each.
      scheduled: whether there is one after a step even if nothing is stopped.
      like: a state's structure, of arrays or jax.ShapeDtypeStruct.
      warn: told of each that is damaged.
    """

    folder: Path
    owner: str
    scheduled: Callable[[int], bool]
    like: Any
    warn: Callable[[str], None]

    def steps(self) -> list[int]:
        return checkpoint.steps(self.folder)

    def path(self, step: int) -> Path:
        return checkpoint.path_of(self.folder, step)

    def save(self, step: int, state):
        """Keeps this state and the last scheduled one before it, so that what is left in the end does not tell of stops."""
        checkpoint.save(self.folder, step, state, self.owner)
        before = max((s for s in self.steps() if s < step and self.scheduled(s)), default=None)
        self._keep(lambda s: s in (step, before))

    def forget_stops(self):
        """Removes those that are there only because training was stopped."""
        self._keep(self.scheduled)

    def _keep(self, wanted: Callable[[int], bool]):
        with telling(self.folder):
            for step in self.steps():
                if not wanted(step):
                    self.path(step).unlink()

    def load(self, step: int):
        """The saved state, or None, with a warning, if it is damaged."""
        try:
            return checkpoint.load(self.folder, step, self.like, self.owner)
        except checkpoint.Damaged as damage:
            self.warn(f"{self.path(step)} is damaged ({damage}); looking for the one before it.")
            return None
