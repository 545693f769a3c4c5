"""Files that are written whole or not at all, and JSON lines that are cut back to whole rows."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from experiments.text import shown_path


class DiskError(Exception):
    """A file that cannot be read or written, and why."""


@contextmanager
def as_disk_error(path: Path) -> Iterator[None]:
    """Turns errors of the operating system into DiskError."""
    try:
        yield
    except OSError as error:
        raise DiskError(
            f"{shown_path(error.filename or path)}: {error.strerror or error}"
        ) from None


def write_bytes(path: Path, data: bytes):
    """Replaces a file: even after a power cut it is the whole old one or the whole new one."""
    temporary = path.with_name(path.name + ".tmp")
    with as_disk_error(path):
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


def read_bytes(path: Path) -> bytes:
    """The file's content; empty if there is no such file."""
    with as_disk_error(path):
        return path.read_bytes() if path.exists() else b""


def write_json(path: Path, value: Mapping[str, Any]):
    write_bytes(path, json.dumps(value, indent=1, allow_nan=False).encode())


def write_table(path: Path, value: Mapping[str, Any], rows: str):
    """Writes a JSON object whose list `rows` has a line for each row, for people and for diffs."""
    lines = ",\n".join("  " + json.dumps(row, allow_nan=False) for row in value[rows])
    others = {key: inner for key, inner in value.items() if key != rows}
    text = json.dumps(others, indent=1, allow_nan=False)
    write_bytes(path, f'{text[:-2]},\n "{rows}": [\n{lines}\n ]\n}}\n'.encode())


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]):
    write_bytes(path, _lines(rows))


def append_rows(path: Path, rows: Sequence[Mapping[str, Any]]):
    """Adds rows to a file of JSON lines, in one write that survives a power cut."""
    with as_disk_error(path), open(path, "ab") as file:
        file.write(_lines(rows))
        file.flush()
        os.fsync(file.fileno())


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The rows of a file of JSON lines before the first that is not whole; none without a file."""
    rows = []
    for line in read_bytes(path).splitlines(keepends=True):
        try:
            row = json.loads(line)
            is_whole = isinstance(row, dict) and _lines([row]) == line
        except (ValueError, RecursionError):
            break
        if not is_whole:
            break
        rows.append(row)
    return rows


def read_rows(path: Path, keep: Callable[[list[dict]], list[dict]]) -> list[dict[str, Any]]:
    """The rows of `read_lines` that `keep` keeps; cuts the file back to them."""
    rows = keep(read_lines(path))
    if _lines(rows) != read_bytes(path):
        write_rows(path, rows)
    return rows


def _lines(rows: Sequence[Mapping[str, Any]]) -> bytes:
    return "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows).encode()
