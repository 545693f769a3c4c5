"""`python -m experiments` as a process: killed, run twice at once, stopped, and resumed."""

import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time

import pytest
from runs import ENVIRONMENT, ROOT, run

from experiments import signals
from tests.soak.trials import contents


def start(*arguments):
    command = [sys.executable, "-m", "experiments", *map(str, arguments)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, **pipes)


def wait_for(process, moment):
    while not moment():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.005)


def test_a_run_killed_and_stopped_as_a_process_ends_in_the_same_bytes(config, whole, tmp_path):
    """SIGKILL in training with a second process meanwhile, two signals at once, then SIGTERM."""
    directory = tmp_path / "run"

    def is_trained():
        return any(directory.glob("encodings/*/checkpoint-*.safetensors"))

    def has_sessions(count):
        manifest = json.loads((directory / "manifest.json").read_text())
        return len(manifest["sessions"]) == count

    first = start("run", config, "--out", directory)
    wait_for(first, is_trained)
    first.send_signal(signal.SIGSTOP)
    second = start("run", config, "--out", directory)
    _, stderr = second.communicate(timeout=100)
    assert second.returncode == 2
    assert f"is in use by process {first.pid} on" in stderr
    first.kill()
    first.communicate()

    impatient = start("resume", directory)
    wait_for(impatient, lambda: has_sessions(2))
    impatient.send_signal(signal.SIGSTOP)
    for number in (signal.SIGTERM, signal.SIGINT):  # both are pending when it continues
        impatient.send_signal(number)
    impatient.send_signal(signal.SIGCONT)
    assert "Stopped and saved" not in impatient.communicate(timeout=60)[1]
    assert impatient.returncode == 130

    stopped = start("resume", directory)
    wait_for(stopped, lambda: has_sessions(3))
    stopped.send_signal(signal.SIGTERM)  # while it compiles
    _, stderr = stopped.communicate(timeout=100)
    resume = f"python -m experiments resume {shlex.quote(str(directory))}"
    assert stderr.splitlines() == [
        "Saving, then stopping, in a few seconds. A second signal stops at once.",
        f"Stopped and saved; continue with: {resume}",
    ]
    assert stopped.returncode == 130

    assert run(config, directory).warnings == []
    got, expected = contents(directory), contents(whole)
    for of_run in (got, expected):
        del of_run["result.json"]  # which holds the command
    assert got == expected


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_sets_the_event_and_the_second_exits(monkeypatch, capsys, number):
    handlers = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    exits = []
    monkeypatch.setattr(signals.os, "_exit", exits.append)
    try:
        stop = signals.stop_event(130)
        assert isinstance(stop, threading.Event)
        os.kill(os.getpid(), number)
        assert stop.is_set()
        assert exits == []
        os.kill(os.getpid(), number)
    finally:
        for number_, handler in handlers.items():
            signal.signal(number_, handler)
    assert exits == [130]
    assert "Saving, then stopping" in capsys.readouterr().err
