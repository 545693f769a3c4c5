"""Checkpoints that can be trusted: safetensors files with a digest of every byte inside, written whole or not at all."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import jax
import numpy as np
import safetensors.numpy

from experiments.files import write_bytes

_BLANK = b"0" * 64  # stands where the digest will be while it is computed
_DIGEST = re.compile(rb'\\"sha256\\": \\"([0-9a-f]{64})\\"')


class Damaged(Exception):
    """A checkpoint that is not what was written, and how that shows."""


def path_of(folder: Path, step: int) -> Path:
    return folder / f"checkpoint-{step:010d}.safetensors"


def steps(folder: Path) -> list[int]:
    """The steps of the checkpoints in a folder, ascending."""
    names = (re.fullmatch(r"checkpoint-(\d{10})\.safetensors", path.name) for path in folder.glob("checkpoint-*"))
    return sorted(int(name[1]) for name in names if name)


def save(folder: Path, step: int, tree, owner: str):
    """Writes the arrays of a pytree; `owner` says whose they are, and a reader must say the same."""
    facts = {"owner": owner, "sha256": _BLANK.decode(), "step": step}
    # one key, since the library writes several in no fixed order, and equal states should be equal files
    data = safetensors.numpy.save(_named(tree, np.asarray), metadata={"jrope": json.dumps(facts)})
    write_bytes(path_of(folder, step), data.replace(_BLANK, hashlib.sha256(data).hexdigest().encode(), 1))


def load(folder: Path, step: int, like, owner: str):
    """The pytree that was saved, shaped as `like` (of arrays or jax.ShapeDtypeStruct).

    Raises:
      Damaged: if any byte is not the one that was written, or the file is of another run.
    """
    try:
        data = path_of(folder, step).read_bytes()
    except OSError as error:
        raise Damaged(error.strerror or str(error)) from None
    found = _DIGEST.search(data)
    if not found:
        raise Damaged("no digest in it" if data else "empty")
    blank = data[: found.start(1)] + _BLANK + data[found.end(1) :]
    if hashlib.sha256(blank).hexdigest().encode() != found[1]:
        raise Damaged("its digest is not that of its bytes")
    arrays = safetensors.numpy.load(data)
    wanted = _named(like, lambda leaf: (tuple(leaf.shape), np.dtype(leaf.dtype)))
    if f'\\"owner\\": \\"{owner}\\"'.encode() not in data or wanted != {k: (v.shape, v.dtype) for k, v in arrays.items()}:
        raise Damaged("it belongs to another run")
    return jax.tree.unflatten(jax.tree.structure(like), [arrays[name] for name in wanted])


def _named(tree, of) -> dict[str, Any]:
    """`of` each leaf, by the leaf's path."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): of(leaf) for path, leaf in leaves}
