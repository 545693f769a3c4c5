"""A run's directory: what is written there, when, and how it is read again.

manifest.json   before training: the resolved config, versions, the machine
metrics.jsonl   while training: one row for each encoding, seed and report
results.jsonl   as evaluations end: one row for each encoding, length and seed
result.json     when the run is complete: everything that figures and reports read
"""

import json
import math
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from experiments.config import Experiment
from experiments.results import Result

FORMAT = 1  # of result.json; a reader refuses any other
PACKAGES = ("jrope", "jax", "jaxlib", "flax", "optax", "numpy")


class StoreError(Exception):
    """A run directory that cannot be used, and why."""


def create(directory: Path, config: dict[str, Any], command: str) -> dict[str, Any]:
    """Makes the directory of a new run and returns the manifest written there."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            raise StoreError(f"{directory} is not empty: give another --out, or draw what is there with `report {directory}`")
    except OSError as error:
        raise StoreError(f"{directory}: {error.strerror}") from None
    manifest = {"format": FORMAT, "command": command, "started": now(), "config": config, "environment": environment()}
    write(directory / "manifest.json", manifest)
    return manifest


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


def write(path: Path, value: Mapping[str, Any]):
    """Writes JSON whole or not at all."""
    temporary = path.with_suffix(".tmp")
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(value, file, indent=1, allow_nan=False)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from None


def append(path: Path, rows: list[dict[str, Any]]):
    """Adds rows to a file of JSON lines."""
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.writelines(json.dumps(row, allow_nan=False) + "\n" for row in rows)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from None


def finite(value) -> float | None:
    """A measured number for JSON, which has no NaN: None where there is no number to report."""
    return float(value) if math.isfinite(value) else None


def read(directory: Path) -> Result:
    """The result of a complete run.

    Raises:
      StoreError: if there is none, or it is not one that this version can read.
    """
    path = directory / "result.json"
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        reason = "the run is not complete" if (directory / "manifest.json").exists() else "not the directory of a run"
        raise StoreError(f"{directory}: no result.json: {reason}") from None
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{path}: not readable as JSON: {error}") from None
    if isinstance(result, dict) and result.get("format", FORMAT) != FORMAT:
        raise StoreError(f"{path}: has format {result['format']!r}, but this version of jrope reads format {FORMAT}")
    try:
        result = TypeAdapter(Result).validate_python(result)
        Experiment.model_validate(result["config"])
    except ValidationError as error:
        first, count = error.errors(include_url=False)[0], error.error_count()
        place = ".".join(map(str, first["loc"])) or "the whole"
        raise StoreError(f"{path}: not the result of a run: {place}: {first['msg']} ({count} such faults)") from None
    if set(result["task"]["parents"]) != {row["encoding"] for row in result["rows"] if row["multiple"] == 1}:
        raise StoreError(f"{path}: not the result of a run: rows at 1x are missing")
    return result
