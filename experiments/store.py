"""A run's directory: who may write it, what it must agree with, and how its result is read.

manifest.json            the resolved config and, for every session that worked on it, when, where and with what versions
encodings/0, 1, ...      what each trained encoding has so far, in the config's order:
    metrics.jsonl            one row for each seed and report
    checkpoint-*.safetensors the last two states of training
    results.jsonl            one row for each length and seed
and, when the run is complete,
metrics.jsonl, results.jsonl   all of those rows
result.json              everything that figures and reports read
"""

import hashlib
import json
import math
import os
import platform
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import filelock
from pydantic import TypeAdapter, ValidationError

from experiments.files import DiskError, telling, write_json
from experiments.results import ConfigFacts, Result
from experiments.text import plain, shown

FORMAT = 1  # of a run's files; a reader refuses any other
PACKAGES = ("jrope", "jax", "jaxlib", "flax", "optax", "numpy")


class StoreError(Exception):
    """A run directory that cannot be used, and why."""


@contextmanager
def session(
    directory: Path, config: dict[str, Any], command: str, imports: dict[str, str], seeds: str
) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Holds a run's directory, new or to be continued, for as long as this process works on it.

    Args:
      imports: a digest of the source of each class that the config imports.
      seeds: how they are trained.

    Yields:
      the manifest, and warnings for the user.

    Raises:
      StoreError: if another process holds it, or it is of another config, or of no run at all.
      DiskError: if it cannot be written.
    """
    path = directory / "manifest.json"
    if directory.exists() and not directory.is_dir():
        raise StoreError(f"{directory} is a file: give another --out")
    with telling(directory):
        found = {entry.name for entry in directory.iterdir()} if directory.exists() else set()
        if "manifest.json" not in found and found - {"lock", "manifest.json.tmp"}:
            raise StoreError(f"{directory} is not empty, and not the directory of a run: give another --out")
        directory.mkdir(parents=True, exist_ok=True)
    here = environment() | imports  # before the lock, since it takes a second, and who holds it should be written down at once
    lock = filelock.FileLock(directory / "lock")
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise StoreError(f"{directory} is in use by {_holder(path)}") from None
    except OSError as error:
        raise DiskError(f"{directory}: {error.strerror or error}") from None
    with lock:
        manifest, warnings = _continued(directory, config, here) if path.exists() else ({}, [])
        began = {"started": now(), "ended": None, "process": os.getpid(), "host": socket.gethostname()}
        manifest = {
            "format": FORMAT,
            "command": command,
            "config": config,
            "config_sha256": digest(config),
            "seeds": seeds,
            "environment": here,  # of the first session, which the others should have too
            "sessions": [],
            **manifest,
        }
        manifest["sessions"].append({**began, "environment": here})
        write_json(path, manifest)
        with telling(directory):
            (directory / "encodings").mkdir(exist_ok=True)
        try:
            yield manifest, warnings
        finally:
            manifest["sessions"][-1]["ended"] = now()
            if path.exists():  # the directory may have gone, or its disk be full: neither may hide what went wrong before
                with suppress(DiskError):
                    write_json(path, manifest)


def _holder(path: Path) -> str:
    """The process that holds a run's directory, in words: the manifest's last session, unless that is just being written."""
    last = _manifest(path.parent)["sessions"][-1:] if path.exists() else []
    if not last or last[0].get("ended"):
        return "another process"
    return f"process {last[0].get('process')} on {last[0].get('host')}, since {last[0].get('started')}"


def _continued(directory: Path, config: dict[str, Any], here: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The manifest of a run that is to be continued with this config, and what has changed around it."""
    manifest = _manifest(directory)
    then, now_ = flat(manifest["config"]), flat(config)
    changed = [
        f"  {plain(key)}: {shown(then.get(key))}, now {shown(now_.get(key))}"
        for key in {**then, **now_}
        if then.get(key) != now_.get(key)
    ]
    if changed:
        raise StoreError(f"{directory} is a run of another config; give another --out, or undo:\n" + "\n".join(changed))
    before = manifest["environment"]
    keys = [key for key in {**before, **here} if before.get(key) != here.get(key)]
    differences = [f"{plain(key)} {plain(str(before.get(key)))}, now {plain(str(here.get(key)))}" for key in keys]
    told = f"Since this run began there has changed: {'; '.join(differences)}. Its numbers may differ from one run left alone."
    return manifest, [told] if differences else []


def config_of(directory: Path) -> tuple[dict[str, Any], str]:
    """The config and the command of a run that has begun.

    Raises:
      StoreError: if there is none.
    """
    if not (directory / "manifest.json").exists():
        raise StoreError(f"{directory}: no manifest.json: not the directory of a run")
    manifest = _manifest(directory)
    return manifest["config"], manifest["command"]


def _manifest(directory: Path) -> dict[str, Any]:
    """The manifest of a run that this version can continue."""
    path = directory / "manifest.json"
    manifest = _json(path)
    kinds = {"command": str, "config": dict, "config_sha256": str, "seeds": str, "environment": dict, "sessions": list}
    wrong = [key for key, kind in kinds.items() if not isinstance(manifest.get(key), kind)]
    if "sessions" not in wrong and not all(isinstance(session, dict) for session in manifest["sessions"]):
        wrong.append("sessions")
    if manifest.get("format") != FORMAT or wrong:
        raise StoreError(f"{path}: not a manifest that this version of jrope can continue: {', '.join(wrong or ['format'])}")
    if digest(manifest["config"]) != manifest["config_sha256"]:
        raise StoreError(f"{path}: its config is not the one that the run began with: config_sha256 is of another")
    return manifest


def digest(config: dict[str, Any]) -> str:
    """A name for a resolved config."""
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


def flat(value, path: str = "") -> dict[str, Any]:
    """`{"a": {"b": 1}}` as `{"a.b": 1}`."""
    if not isinstance(value, dict):
        return {path: value}
    return {k: v for key, inner in value.items() for k, v in flat(inner, f"{path}.{key}" if path else key).items()}


def environment() -> dict[str, Any]:
    """What the numbers of a run may depend on besides its config."""
    import jax

    devices = jax.devices()
    return {
        **{name: version(name) for name in PACKAGES},
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "devices": f"{len(devices)} {devices[0].device_kind}",
        "cores": cores(),
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", ""),
    }


def cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def finite(value) -> float | None:
    """A measured number for JSON, which has no NaN: None where there is no number to report."""
    return float(value) if math.isfinite(value) else None


def _json(path: Path) -> Any:
    with telling(path):
        data = path.read_bytes()
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path}: not readable as JSON: {error}") from None
    if not isinstance(value, dict):
        raise StoreError(f"{path}: should hold an object, holds {type(value).__name__}")
    return value


def read(directory: str | Path) -> Result:
    """The result of a complete run.

    Raises:
      StoreError: if there is none, or it is not one that this version can read.
      DiskError: if it cannot be read.
    """
    directory = Path(directory)
    path = directory / "result.json"
    if not path.exists():
        reason = "the run is not complete" if (directory / "manifest.json").exists() else "not the directory of a run"
        raise StoreError(f"{directory}: no result.json: {reason}")
    result = _json(path)
    if result.get("format", FORMAT) != FORMAT:
        raise StoreError(f"{path}: has format {result['format']!r}, but this version of jrope reads format {FORMAT}")
    try:
        result = TypeAdapter(Result).validate_python(result)
        TypeAdapter(ConfigFacts).validate_python(result["config"])
    except ValidationError as error:
        first, count = error.errors(include_url=False)[0], error.error_count()
        place = ".".join(map(str, first["loc"]))
        raise StoreError(f"{path}: not the result of a run: {place}: {first['msg']} ({count} such faults)") from None
    if set(result["task"]["parents"]) != {row["encoding"] for row in result["rows"] if row["multiple"] == 1}:
        raise StoreError(f"{path}: not the result of a run: rows at 1x are missing")
    return result
