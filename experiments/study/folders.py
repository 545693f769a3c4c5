"""Folders that a command writes to: new ones, or those that are there."""

import os
from pathlib import Path

from experiments.study.files import as_disk_error
from experiments.study.result import DirectoryError
from experiments.text import shown_path


def check_folder(path: Path):
    """Checks that a path is a folder or free, before anything is computed for it.

    Raises:
      DirectoryError: if it is a file, or it leads through a link to nothing.
      DiskError: if the system cannot say.
    """
    with as_disk_error(path):
        for part in (path, *path.parents):
            if part.is_symlink() and not part.exists():
                target = shown_path(os.readlink(part))
                remedy = "make that folder, or give another --out"
                raise DirectoryError(
                    f"{shown_path(part)} is a link to {target}, which is not there; {remedy}"
                )
        if path.exists() and not path.is_dir():
            raise DirectoryError(f"{shown_path(path)} is a file; give another --out")


def make_folder(path: Path):
    """Makes a folder, and those above it, where they are not there.

    Raises:
      DirectoryError, DiskError: as `check_folder`, and if it cannot be made.
    """
    check_folder(path)
    with as_disk_error(path):
        path.mkdir(parents=True, exist_ok=True)
