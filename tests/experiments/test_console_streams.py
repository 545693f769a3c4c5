"""Commands on consoles that lack characters, on closed pipes and on full disks, and under -OO."""

import ast
import errno
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from experiments import __main__ as main
from experiments import streams
from experiments.analysis import figures
from experiments.analysis.stored import CONFIGS, STUDY, stored
from experiments.analysis.table import Results
from experiments.status import BAD_INPUT, DISK

ROOT = Path(__file__).parents[2]
ASCII = {"PYTHONIOENCODING": "ascii:strict", "LC_ALL": "C", "PYTHONUTF8": "0"}


class Broken(io.BytesIO):
    """A stream whose every write fails."""

    def __init__(self, number):
        super().__init__()
        self.number = number

    def write(self, _):
        raise OSError(self.number, os.strerror(self.number))


@pytest.fixture
def on(monkeypatch):
    """Does a command with other streams; its status, and what it wrote to each."""

    def command(*words, encoding="ascii", stdout=None):
        raw = [stdout or io.BytesIO(), io.BytesIO()]
        for name, buffer in zip(("stdout", "stderr"), raw, strict=True):
            monkeypatch.setattr(sys, name, io.TextIOWrapper(buffer, encoding, errors="strict"))
        with pytest.raises(SystemExit) as end:
            main.main(list(map(str, words)))
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        return end.value.code or 0, *(buffer.getvalue().decode(encoding) for buffer in raw)

    return command


@pytest.mark.parametrize(
    ("encoding", "written"),
    [
        ("ascii", r"8-9 x na\xefve \u65e5 \udce9"),
        ("cp1252", r"8–9 × naïve \u65e5 \udce9"),
        ("utf-8", r"8–9 × naïve 日 \udce9"),
    ],
)
def test_characters_that_an_encoding_lacks_are_ascii_or_escapes(encoding, written):
    assert "8–9 × naïve 日 \udce9".encode(encoding, streams.ERRORS).decode(encoding) == written


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1"])
def test_commands_print_to_any_console(on, encoding, tmp_path):
    config = (CONFIGS / "quick.toml").read_text(encoding="utf-8").replace(".pi]", '."日–é"]')
    (tmp_path / "naïve–日.toml").write_text("\ufeff" + config, encoding="utf-8")
    status, stdout, _ = on("validate", tmp_path / "naïve–日.toml", encoding=encoding)
    assert status == 0
    assert r"\u65e5.toml: valid: 3 encodings to train" in stdout
    status, _, stderr = on("validate", tmp_path / "no\udce9", "train.stéps=日", encoding=encoding)
    assert status == BAD_INPUT
    assert stderr.endswith(r"no\udce9: No such file or directory" + "\n")
    for words in (["list"], ["show"], ["show", "yarn", "--out", tmp_path / "é.svg"], ["報"]):
        status, *_ = on(*words, encoding=encoding)
        assert status == BAD_INPUT * (words == ["報"])
    assert b"<svg" in (tmp_path / "é.svg").read_bytes()


def test_files_may_begin_with_a_byte_order_mark(on, tmp_path, monkeypatch):
    text = (CONFIGS / "quick.toml").read_text("utf-8")
    (tmp_path / "marked.toml").write_text(text, "utf-8-sig")
    assert on("validate", tmp_path / "marked.toml")[0] == 0
    monkeypatch.setattr(main, "CONFIGS", tmp_path)
    status, stdout, _ = on("list")
    assert status == 0
    assert "Sorting strings longer than those trained on" in stdout
    published = {"model_type": "llama", "head_dim": 8, "rope_theta": 500.0}
    (tmp_path / "config.json").write_text(json.dumps(published), "utf-8-sig")
    status, stdout, _ = on("show", tmp_path / "config.json", "--out", tmp_path / "x.svg")
    assert status == 0
    assert "Base 500" in stdout
    shutil.copytree(STUDY / "quick", tmp_path / "run")
    result = tmp_path / "run" / "result.json"
    result.write_text(result.read_text("utf-8"), "utf-8-sig")
    assert Results.read(tmp_path / "run").config == stored("quick").config


def test_a_pipe_that_is_closed_ends_no_command(on):
    assert on("list", stdout=Broken(errno.EPIPE)) == (0, "", "")


def test_a_full_disk_behind_standard_output_has_its_status(on):
    status, _, stderr = on("list", stdout=Broken(errno.ENOSPC))
    assert status == DISK
    assert stderr == "standard output: No space left on device. The command itself is done.\n"
    status, _, stderr = on("validate", "nowhere", stdout=Broken(errno.ENOSPC))
    assert (status, stderr) == (BAD_INPUT, "nowhere: No such file or directory\n")


def test_a_console_that_is_closed_from_the_start(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    with pytest.raises(SystemExit) as end:
        main.main(["list"])
    assert not end.value.code


def test_a_removed_working_directory_is_named(on, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tmp_path.rmdir()
    message = "The working directory does not exist any more: change to another one.\n"
    assert on("list") == (DISK, "", message)


@pytest.mark.parametrize(
    "words",
    [
        ["run", "configs/quick.toml"],
        ["resume", "runs/x"],
        ["report", "--all"],
        ["reproduce"],
        ["show", "yarn"],
    ],
)
def test_without_docstrings_commands_say_so_before_any_work(on, words, monkeypatch):
    monkeypatch.setattr(main, "OPTIMIZE", 2)
    message = "python -OO and PYTHONOPTIMIZE=2 remove the docstrings that charts need: use -O\n"
    assert on(*words) == (BAD_INPUT, "", message)


def test_a_process_in_an_ascii_locale_without_docstrings_closed_after_a_line(tmp_path):
    """Python -OO, a pipe that nobody reads, no home and no UTF-8: the files are UTF-8 still."""
    environment = {**os.environ, **ASCII, "PYTHONCOERCECLOCALE": "0", "HOME": "/dev/null"}
    command = [sys.executable, "-OO", "-m", "experiments"]
    reader, writer = os.pipe()
    os.close(reader)
    options = {"cwd": ROOT, "env": environment, "stderr": subprocess.PIPE, "text": True}
    listed = subprocess.Popen([*command, "list"], stdout=writer, **options)
    quick = [*command, "validate", "configs/quick.toml", "title=é"]
    valid = subprocess.Popen(quick, stdout=subprocess.PIPE, **options)
    os.close(writer)
    assert (listed.communicate()[1], listed.returncode) == ("", 0)
    _, stderr = valid.communicate()
    assert valid.returncode == BAD_INPUT
    remedy = "set it in the config file, or use a locale of UTF-8, such as LC_ALL=C.UTF-8"
    assert stderr == rf"'title=\udcc3\udca9': not text in this locale; {remedy}" + "\n"


def test_a_report_is_utf_8_whatever_the_console(on, tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "save", lambda charts, directory: None)  # takes seconds
    status, stdout, stderr = on("report", STUDY / "quick", "--out", tmp_path)
    assert (status, stderr) == (0, "")
    assert "rope        5 of 5  100.0  81.8 (81-83)" in stdout
    assert str(stored("quick")["rope"].cell(2)) in (tmp_path / "report.html").read_text("utf-8")


def text_files(path):
    """The calls that read or write text in a file, or open one."""
    for call in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(call, ast.Call):
            name = getattr(call.func, "id", getattr(call.func, "attr", ""))
            is_binary = any(
                isinstance(a, ast.Constant) and a.value in ("rb", "wb", "ab") for a in call.args
            )
            if name in ("open", "read_text", "write_text") and not is_binary:
                yield ast.unparse(call)


def test_every_text_file_is_utf_8():
    paths = [
        path for folder in ("experiments", "benchmarks") for path in ROOT.glob(f"{folder}/**/*.py")
    ]
    calls = [call for path in paths for call in text_files(path)]
    assert len(calls) >= 8
    others = ("os.open(", "open(os.devnull)")
    assert [call for call in calls if "utf-8" not in call and not call.startswith(others)] == []
