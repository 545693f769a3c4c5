"""Files that are written whole or not at all, and lines that are cut back to what was written whole."""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class DiskError(Exception):
    """A file that could not be read or written, and why."""


@contextmanager
def telling(path: Path):
    """Turns the operating system's errors into DiskError."""
    try:
        yield
    except OSError as error:
        raise DiskError(f"{error.filename or path}: {error.strerror or error}") from None


def write_bytes(path: Path, data: bytes):
    """Writes a file so that a reader, even after a power cut, finds the old one or the new one and nothing between."""
    temporary = path.with_name(path.name + ".tmp")
    with telling(path):
        try:
            with open(temporary, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
        except OSError:
            temporary.unlink(missing_ok=True)  # it may be what fills the disk
            raise
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_json(path: Path, value: Mapping[str, Any]):
    write_bytes(path, json.dumps(value, indent=1, allow_nan=False).encode())


def write_table(path: Path, value: Mapping[str, Any], rows: str):
    """Writes a JSON object whose list `rows` has one line for each, for people and for diffs."""
    lines = ",\n".join("  " + json.dumps(row, allow_nan=False) for row in value[rows])
    rest = json.dumps({key: inner for key, inner in value.items() if key != rows}, indent=1, allow_nan=False)
    write_bytes(path, f'{rest[:-2]},\n "{rows}": [\n{lines}\n ]\n}}\n'.encode())


def write_rows(path: Path, rows: list[dict[str, Any]]):
    write_bytes(path, "".join(map(_line, rows)).encode())


def append_rows(path: Path, rows: list[dict[str, Any]]):
    """Adds rows to a file of JSON lines, in one write that outlasts a power cut."""
    with telling(path), open(path, "ab") as file:
        file.write("".join(map(_line, rows)).encode())
        file.flush()
        os.fsync(file.fileno())


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines as far as they are whole; none if there is no such file."""
    rows = []
    with telling(path):
        data = path.read_bytes() if path.exists() else b""
    for line in data.splitlines(keepends=True):
        try:
            row = json.loads(line)
            whole = isinstance(row, dict) and _line(row).encode() == line
        except (ValueError, RecursionError):
            break
        if not whole:
            break
        rows.append(row)
    return rows


def read_rows(path: Path, keep: Callable[[list[dict]], list[dict]]) -> list[dict[str, Any]]:
    """Those of `read_lines` that `keep` keeps; the file is cut back to them."""
    rows = keep(read_lines(path))
    with telling(path):
        data = path.read_bytes() if path.exists() else b""
    if "".join(map(_line, rows)).encode() != data:
        write_rows(path, rows)
    return rows


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, allow_nan=False) + "\n"
