"""Checkpoints that can be trusted: safetensors files that hold a digest of all their bytes."""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import safetensors.numpy

from experiments.study.files import as_disk_error, write_bytes

_BLANK = b"0" * 64  # stands in place of the digest while it is computed
_DIGEST = re.compile(rb'\\"sha256\\": \\"([0-9a-f]{64})\\"')


class _Damaged(Exception):
    """How it shows that a checkpoint is not what was written."""


@dataclass(frozen=True)
class CheckpointManager:
    """The checkpoints of one job: the last two that are scheduled, and where training was stopped.

    Attributes:
      owner: the run and job that they belong to; no other one can load them.
      template: the structure of a state, of arrays or jax.ShapeDtypeStruct.
      is_scheduled: whether there is a checkpoint after a step even if nothing stops.
      warn: receives a message about each checkpoint that is damaged.
    """

    folder: Path
    owner: str
    template: Any
    is_scheduled: Callable[[int], bool]
    warn: Callable[[str], None]

    def path(self, step: int) -> Path:
        return self.folder / f"checkpoint-{step:010d}.safetensors"

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, ascending."""
        names = (path.name for path in self.folder.glob("checkpoint-*"))
        found = (re.fullmatch(r"checkpoint-(\d{10})\.safetensors", name) for name in names)
        return sorted(int(match[1]) for match in found if match)

    def save(self, step: int, state: Any):
        """Keeps this state and the scheduled one before it, so that stops leave no trace.

        Equal states make equal files.
        """
        facts = {"owner": self.owner, "sha256": _BLANK.decode(), "step": step}
        # all facts under one key, since safetensors writes several keys in no fixed order
        metadata = {"jrope": json.dumps(facts)}
        data = safetensors.numpy.save(_by_path(state, np.asarray), metadata=metadata)
        digest = hashlib.sha256(data).hexdigest().encode()
        write_bytes(self.path(step), data.replace(_BLANK, digest, 1))
        earlier = (s for s in self.steps() if s < step and self.is_scheduled(s))
        kept = {step, max(earlier, default=None)}
        self._remove(lambda s: s not in kept)

    def remove_unscheduled(self):
        """Removes the checkpoints that are there only because training was stopped."""
        self._remove(lambda step: not self.is_scheduled(step))

    def _remove(self, is_unwanted: Callable[[int], bool]):
        with as_disk_error(self.folder):
            for step in filter(is_unwanted, self.steps()):
                self.path(step).unlink()

    def load(self, step: int) -> Any:
        """The saved state; None, after a warning, if a byte of it is not the one written."""
        try:
            return self._load(step)
        except _Damaged as damage:
            self.warn(f"{self.path(step)} is damaged ({damage}) and cannot be used.")
            return None

    def _load(self, step: int) -> Any:
        try:
            data = self.path(step).read_bytes()
        except OSError as error:
            raise _Damaged(error.strerror or str(error)) from None
        found = _DIGEST.search(data)
        if not found:
            raise _Damaged("it has no digest" if data else "it is empty")
        blank = data[: found.start(1)] + _BLANK + data[found.end(1) :]
        if hashlib.sha256(blank).hexdigest().encode() != found[1]:
            raise _Damaged("its digest does not match its bytes")
        arrays = safetensors.numpy.load(data)
        expected = _by_path(self.template, lambda x: (tuple(x.shape), np.dtype(x.dtype)))
        is_owned = f'\\"owner\\": \\"{self.owner}\\"'.encode() in data
        if not is_owned or expected != {name: (a.shape, a.dtype) for name, a in arrays.items()}:
            raise _Damaged("it belongs to another run")
        return jax.tree.unflatten(jax.tree.structure(self.template), map(arrays.get, expected))


def _by_path(tree: Any, of: Callable[[Any], Any]) -> dict[str, Any]:
    """`of` each leaf, under the leaf's path."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): of(leaf) for path, leaf in leaves}
