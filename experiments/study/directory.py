"""A run's directory: who may write to it, and what it must agree with.

    manifest.json              the config; and for each session when, where and with what versions
    encodings/0, 1, ...        of each job, in the order of the config:
        metrics.jsonl            one row for each seed and report
        checkpoint-*.safetensors the last two states of training
        results.jsonl            one row for each length, encoding and seed

and, once the run is complete,

    metrics.jsonl, results.jsonl   all of those rows
    result.json                    everything that figures and reports read
"""

import hashlib
import json
import os
import platform
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import filelock
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from experiments.study.files import DiskError, as_disk_error, write_json
from experiments.study.folders import check_folder, make_folder
from experiments.study.result import FORMAT, DirectoryError, read_object
from experiments.text import plain, shown, shown_path

PACKAGES = ("jrope", "jax", "jaxlib", "flax", "optax", "numpy")


class Manifest(TypedDict):
    """What resuming needs of a manifest."""

    command: str
    config: dict[str, Any]
    config_sha256: str
    seeds: str
    environment: dict[str, Any]
    sessions: list[dict[str, Any]]


_VECTOR_FLAGS = re.compile(r"sse4_2|avx2?|avx512(f|_bf16|_fp16)|fma|amx_tile|asimd|sve2?")


@contextmanager
def session(
    directory: Path, config: dict[str, Any], command: str, sources: dict[str, str], seeds: str
) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Holds a run's directory, new or to be continued, while this process works on it.

    Args:
      sources: a digest of the file of each class that the config imports.
      seeds: how they are trained, which changes how sums are rounded.

    Yields:
      the manifest, and warnings for the user.

    Raises:
      DirectoryError: if another process holds it, or it is of another config, or of no run.
      DiskError: if it cannot be written.
    """
    path = directory / "manifest.json"
    _check_is_usable(directory)
    make_folder(directory)
    # it takes a second, and the holder of the lock should be in the manifest at once
    here = environment() | sources
    lock = filelock.FileLock(directory / "lock")
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise DirectoryError(f"{shown_path(directory)} is in use by {_holder(path)}") from None
    except OSError as error:
        raise DiskError(f"{shown_path(directory)}: {error.strerror or error}") from None
    with lock:
        manifest, warnings = _continue(directory, config, here) if path.exists() else ({}, [])
        started = {"started": _now(), "ended": None, "process": os.getpid()}
        manifest = {
            "format": FORMAT,
            "command": command,
            "config": config,
            "config_sha256": digest(config),
            "seeds": seeds,
            "environment": here,  # of the first session
            "sessions": [],
            **manifest,
        }
        manifest["sessions"].append({**started, "host": socket.gethostname(), "environment": here})
        write_json(path, manifest)
        with as_disk_error(directory):
            (directory / "encodings").mkdir(exist_ok=True)
        try:
            yield manifest, warnings
        finally:
            manifest["sessions"][-1]["ended"] = _now()
            if path.exists():  # a vanished directory or a full disk must not hide the first error
                with suppress(DiskError):
                    write_json(path, manifest)


def _check_is_usable(directory: Path):
    check_folder(directory)
    with as_disk_error(directory):
        found = {entry.name for entry in directory.iterdir()} if directory.exists() else set()
    if "manifest.json" not in found and found - {"lock", "manifest.json.tmp"}:
        reason = "is not empty, and not the directory of a run"
        raise DirectoryError(f"{shown_path(directory)} {reason}; give another --out")


def _holder(path: Path) -> str:
    """The process that holds a run's directory, in words, from the manifest's last session."""
    last = _manifest(path.parent)["sessions"][-1:] if path.exists() else []
    if not last or last[0].get("ended"):  # the new session is not written yet
        return "another process"
    return (
        f"process {last[0].get('process')} on {last[0].get('host')}, since {last[0].get('started')}"
    )


def _continue(directory: Path, config: dict, here: dict) -> tuple[dict[str, Any], list[str]]:
    """The manifest of a run that continues with this config, and what has changed around it."""
    manifest = _manifest(directory)
    if changed := _changes(flat(manifest["config"]), flat(config)):
        lines = "\n".join(
            f"  {plain(k)}: {shown(old)}, now {shown(new)}" for k, old, new in changed
        )
        remedy = "give another --out, or undo:"
        raise DirectoryError(
            f"{shown_path(directory)} is a run of another config; {remedy}\n{lines}"
        )
    if changed := _changes(manifest["environment"], here):
        words = (f"{plain(k)} {plain(str(old))}, now {plain(str(new))}" for k, old, new in changed)
        what = "The environment has changed since this run started"
        effect = "Its numbers may differ from those of an uninterrupted run."
        return manifest, [f"{what}: {'; '.join(words)}. {effect}"]
    return manifest, []


def _changes(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """The keys whose values differ, with both values."""
    keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    return [(key, old.get(key), new.get(key)) for key in keys]


def config_of(directory: Path) -> tuple[dict[str, Any], str]:
    """The config and the command of a run that has begun.

    Raises:
      DirectoryError: if there is none.
    """
    with as_disk_error(directory):
        has_begun = (directory / "manifest.json").exists()
    if not has_begun:
        raise DirectoryError(
            f"{shown_path(directory)}: no manifest.json: not the directory of a run"
        )
    manifest = _manifest(directory)
    return manifest["config"], manifest["command"]


def _manifest(directory: Path) -> dict[str, Any]:
    """The manifest of a run that this version can continue."""
    path = directory / "manifest.json"
    manifest = read_object(path)
    try:
        TypeAdapter(Manifest).validate_python(manifest)
    except ValidationError as error:
        wrong = ", ".join(".".join(map(str, e["loc"])) for e in error.errors())
        reason = "this version of jrope cannot continue this manifest"
        raise DirectoryError(f"{shown_path(path)}: {reason}: {wrong}") from None
    if digest(manifest["config"]) != manifest["config_sha256"]:
        reason = "its config is not the one that the run began with: config_sha256 does not match"
        raise DirectoryError(f"{shown_path(path)}: {reason}")
    return manifest


def digest(config: dict[str, Any]) -> str:
    """A name for a config with all its defaults."""
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """`{"a": {"b": 1}}` as `{"a.b": 1}`."""
    if not isinstance(value, dict):
        return {path: value}
    inner = (flat(v, f"{path}.{key}" if path else key) for key, v in value.items())
    return {key: leaf for leaves in inner for key, leaf in leaves.items()}


def environment() -> dict[str, Any]:
    """What the numbers of a run may depend on, other than its config."""
    import jax

    devices = jax.devices()
    return {
        **{name: version(name) for name in PACKAGES},
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "devices": f"{len(devices)} {devices[0].device_kind}",
        "cpu": _cpu(),
        "cores": cores(),
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", ""),
    }


def _cpu() -> str:
    """The model and its vector instructions, which decide how sums are rounded."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return platform.processor()
    facts = {
        key.strip().lower(): value.strip() for key, _, value in (s.partition(":") for s in lines)
    }
    flags = facts.get("flags", facts.get("features", "")).split()
    vector = " ".join(sorted(filter(_VECTOR_FLAGS.fullmatch, flags)))
    return f"{facts.get('model name', platform.machine())}: {vector}"


def cores() -> int:
    """CPU cores that this process may use."""
    has_affinity = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
