"""`--out` and DIR: what can be a folder, and what the message and the status are otherwise."""

import errno
import os
import re
import shutil
import threading
from pathlib import Path

import filelock
import pytest
from runs import ROOT
from typer.testing import CliRunner

from experiments import __main__ as main
from experiments import signals
from experiments.analysis import figures
from experiments.analysis.stored import STUDY
from experiments.status import BAD_INPUT, DISK
from tests.soak.trials import contents

QUICK = str(ROOT / "configs" / "quick.toml")
LONG = "x" * 5000
ONE_LINE = "should be a path without line breaks and control characters"
COMMANDS = {
    "run": ["run", QUICK, "--out"],
    "report": ["report", str(STUDY / "quick"), "--out"],
    "reproduce": ["reproduce", "quick", "--out"],
}


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # the handlers of this process are pytest's
    monkeypatch.setattr(signals, "stop_event", lambda _: threading.Event())


def ended(*words):
    """The status and the messages of a command."""
    done = CliRunner().invoke(main.app, [str(word) for word in words])
    assert isinstance(done.exception, SystemExit | None), done.exception
    return done.exit_code, done.stderr


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_an_out_that_cannot_be_a_folder(command):
    Path("file").touch()
    Path("nowhere").symlink_to("missing")
    Path("loop").symlink_to("loop")
    inside = "/quick" * ("reproduce" in command)
    cases = {
        "": (BAD_INPUT, f"--out: {ONE_LINE}, got ''"),
        "a\nb": (BAD_INPUT, rf"--out: {ONE_LINE}, got 'a\nb'"),
        "\x1b[2J": (BAD_INPUT, rf"--out: {ONE_LINE}, got '\x1b[2J'"),
        "nowhere": (BAD_INPUT, "nowhere is a link to missing, which is not there; make that"),
        "nowhere/x": (BAD_INPUT, "nowhere is a link to missing, which is not there; make that"),
        "loop": (BAD_INPUT, "loop is a link to loop, which is not there; make that"),
        LONG: (DISK, f"{'x' * 100}...{('x' * 100 + inside)[-100:]}: File name too long"),
        "file/x": (DISK, f"file/x{inside}: Not a directory"),
    }
    if not inside:
        cases["file"] = BAD_INPUT, "file is a file; give another --out"
    for out, (status, message) in cases.items():
        got, text = ended(*command, out)
        assert (got, text.count("\n")) == (status, 1), text
        assert text.startswith(message)
    assert sorted(path.name for path in Path().iterdir()) == ["file", "loop", "nowhere"]


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_an_out_without_permission(command, monkeypatch):
    def make(path, *arguments, **options):
        if str(path).startswith("new"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return mkdir(path, *arguments, **options)

    mkdir = Path.mkdir
    monkeypatch.setattr(Path, "mkdir", make)
    status, text = ended(*command, "new")
    assert status == DISK
    assert re.fullmatch("new(/quick)?: Permission denied\n", text)


def test_a_folder_that_cannot_be_locked(monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(filelock.FileLock, "acquire", refuse)
    assert ended("run", QUICK, "--out", "new") == (DISK, "new: Permission denied\n")


def test_a_link_to_a_folder_is_that_folder(monkeypatch):
    monkeypatch.setattr(figures, "save", lambda charts, directory: None)  # takes seconds
    Path("real").mkdir()
    Path("link").symlink_to("real")
    assert ended("report", STUDY / "quick", "--out", "link") == (0, "")
    assert Path("real/report.html").exists()


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["run", ""], BAD_INPUT, f"CONFIG: {ONE_LINE}, got ''\n"),
        (["run", "a\nb"], BAD_INPUT, rf"CONFIG: {ONE_LINE}, got 'a\nb'" + "\n"),
        (["validate", LONG], BAD_INPUT, f"{LONG[:100]}...{LONG[:100]}: File name too long\n"),
        (["resume", "a\tb"], BAD_INPUT, rf"DIR: {ONE_LINE}, got 'a\tb'" + "\n"),
        (["resume", LONG], DISK, f"{LONG[:100]}...{LONG[:86]}/manifest.json: File name too long\n"),
        (["report", LONG], DISK, f"{LONG[:100]}...{LONG[:88]}/result.json: File name too long\n"),
        (
            ["resume", "nowhere"],
            BAD_INPUT,
            "nowhere: no manifest.json: not the directory of a run\n",
        ),
        (["show", "a\nb.json"], BAD_INPUT, r"a\nb.json: No such file or directory" + "\n"),
        (["show", "alibi", "--out", "nowhere/x.svg"], BAD_INPUT, "nowhere is a link to missing"),
        (["show", "alibi", "--out", "/dev/null/x.svg"], BAD_INPUT, "/dev/null is a file; give"),
        (["show", "alibi", "--out", "folder.svg"], DISK, "folder.svg: Is a directory\n"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_other_paths_that_are_nothing(words, status, message):
    Path("nowhere").symlink_to("missing")
    Path("folder.svg").mkdir()
    got, text = ended(*words)
    assert (got, text.count("\n")) == (status, 1), text
    assert text.startswith(message)


def test_a_report_that_cannot_be_written_loses_nothing(whole, monkeypatch):
    monkeypatch.setattr(figures, "save", lambda charts, directory: None)
    shutil.copytree(whole, "run")
    before = contents(Path("run"))
    Path("run/report.html").mkdir()
    status, text = ended("resume", "run")
    assert status == DISK
    remedy = "What was saved before is whole; continue with: python -m experiments resume run"
    assert re.fullmatch(rf"run/report.html\S*: Is a directory\. {remedy}\n", text)
    assert contents(Path("run")) == before


def test_a_config_whose_name_is_not_utf_8_makes_a_result_that_can_be_read(monkeypatch):
    commands = []
    monkeypatch.setattr(
        main, "_run", lambda experiment, directory, command, *_: commands.append(command)
    )
    monkeypatch.setattr(main, "_end", lambda results: None)
    shutil.copy(QUICK, b"caf\xe9.toml")
    assert ended("run", os.fsdecode(b"caf\xe9.toml")) == (0, "")
    assert commands == [r"python -m experiments run 'caf\udce9.toml'"]
