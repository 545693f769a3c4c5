"""Files are whole or not there, rows are cut back to whole ones, and a full disk is reported."""

import os

import pytest

from experiments.study import files


def test_rows_are_cut_back_to_whole_ones(tmp_path):
    path = tmp_path / "rows.jsonl"
    files.append_rows(path, [{"a": 1}, {"a": 2}])
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        rows = files.read_rows(path, lambda rows: rows)
        assert rows == [{"a": 1}, {"a": 2}][: whole[:cut].count(b"\n")]
        assert path.read_bytes() == whole[: whole[:cut].rfind(b"\n") + 1]


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "x"
    files.write_bytes(path, b"old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(files.DiskError, match="No space left on device"):
        files.write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_device_is_a_disk_error(tmp_path):
    (tmp_path / "rows.jsonl").symlink_to("/dev/full")
    with pytest.raises(files.DiskError, match="No space left on device"):
        files.append_rows(tmp_path / "rows.jsonl", [{"a": 1}])
