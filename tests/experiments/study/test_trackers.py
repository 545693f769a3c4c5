"""Trackers are told what the display is told, in order, by one thread each; and never harm a run."""

import json
import struct
import sys
import threading
import time
import types
from pathlib import Path

import pytest
from typer.testing import CliRunner
from watch import Watch

from experiments import run, trackers
from experiments.__main__ import Tracker, app
from experiments.config import load
from experiments.soak.trials import contents

ROOT = Path(__file__).parent.parent
TINY = """
title = "Tiny"
seeds = [0, 5]
task = { type = "copy", symbols = 24, length = 3 }
model = { features = 16 }
train = { steps = 6, batch = 4, learning_rate = 1e-2, warmup = 2, report_every = 2 }
evaluate = { multiples = [1], sequences = 10 }
[encodings."rope a/../b"]
type = "rope"
"""


def row(label, length, seed, accuracy, **more):
    scores = {"accuracy": accuracy, "exact_match": accuracy, "loss": None if accuracy is None else 1.0}
    return {"encoding": label, "seed": seed, "multiple": length / 4, "length": length, "fitted": True, **scores, **more}


ROWS = [row("rope", 4, 0, 1.0), row("rope", 4, 1, 0.5), row("rope", 8, 0, 0.25), row("rope", 8, 1, None)]


class Fake:
    """A tracker that remembers its calls and their threads, and fails at one of them."""

    def __init__(self, fails=None, error=None):
        self.fails, self.error = fails, error or RuntimeError("the server is gone")
        self.calls, self.threads, self.inside = [], set(), 0

    def __getattr__(self, method):
        def call(*arguments):
            self.inside += 1
            assert self.inside == 1
            self.threads.add(threading.get_ident())
            self.calls.append((method, *arguments))
            time.sleep(0.001)
            self.inside -= 1
            if method == self.fails:
                raise self.error

        return call


@pytest.fixture
def directory(tmp_path):
    """The directory of a run that has begun."""
    session = {"host": "here", "started": "2026-01-01"}
    (tmp_path / "manifest.json").write_text(json.dumps({"sessions": [session]}))
    return tmp_path


def track(monkeypatch, fake, directory, *, threads=4, steps=25, patience=20.0):
    """What is warned of while several threads tell a display."""
    monkeypatch.setitem(trackers.TRACKERS, "wandb", lambda: fake)
    warnings, shown = [], Watch(threading.Event())
    with trackers.Tracking(["wandb", "wandb"], warnings.append, patience) as tracking:
        with tracking.display(shown, directory, {"title": "x"}) as display:

            def work(label):
                display.begin(label, steps)
                for step in range(steps):
                    display.step(label, step, 0.5)
                display.evaluating(label, "at 1x")
                display.end(label)

            own = [threading.Thread(target=work, args=(str(i),)) for i in range(threads)]
            for thread in own:
                thread.start()
            for thread in own:
                thread.join()
        tracking.tell("results", ROWS)
    assert len(shown.events) == threads * (steps + 3)  # the display itself is told everything, whatever the tracker does
    return warnings


def test_calls_from_many_threads_come_one_by_one_and_in_order(monkeypatch, directory):
    fake = Fake()
    assert track(monkeypatch, fake, directory) == []
    assert len(fake.threads) == 1
    methods = [call[0] for call in fake.calls]
    assert methods == ["start", *["log"] * 100, "results", "finish"]
    for label in "0123":
        assert [call[2] for call in fake.calls if call[:2] == ("log", label)] == list(range(25))
    assert fake.calls[5][3] == {"loss": 0.5}


@pytest.mark.parametrize("error", [RuntimeError("the server is gone"), SystemExit(1)], ids=repr)
@pytest.mark.parametrize("method", ["start", "log", "results", "finish"])
def test_a_failing_tracker_gives_one_warning_and_is_told_nothing_more(monkeypatch, directory, method, error):
    fake = Fake(method, error)
    (warning,) = track(monkeypatch, fake, directory)
    assert warning == f"wandb: dropped, since `{method}` failed: {error!r}. The run goes on."
    methods = [call[0] for call in fake.calls]
    assert methods.count(method) == 1
    assert methods[-1] == ("start" if method == "start" else "finish")  # what has started is finished


def test_a_tracker_that_hangs_does_not_hold_the_run(monkeypatch, directory):
    fake, release = Fake(), threading.Event()
    fake.log = lambda *_: release.wait(10)
    (warning,) = track(monkeypatch, fake, directory, threads=1, steps=1, patience=0.05)
    release.set()
    assert "not finished 0.05 s after the run, and left" in warning


def go(directory, display):
    config = directory.parent / "tiny.toml"
    config.write_text(TINY)
    return run.run(load.load(config), directory, display, "command", threading.Event(), lambda _: None)


def test_results_have_the_same_bytes_with_and_without(monkeypatch, tmp_path):
    go(tmp_path / "without", lambda: Watch(threading.Event()))
    warnings = []
    monkeypatch.setitem(trackers.TRACKERS, "wandb", lambda: Fake("log"))
    with trackers.Tracking(["tensorboard", "wandb"], warnings.append) as tracking:
        result = go(tmp_path / "with", lambda: tracking.display(Watch(threading.Event()), tmp_path / "with", {"title": "x"}))
        tracking.tell("results", result["rows"])
    assert len(warnings) == 1
    alone, tracked = (contents(tmp_path / name) for name in ("without", "with"))
    assert {path: data for path, data in tracked.items() if not str(path).startswith("tensorboard")} == alone
    (folder,) = (path for path in (tmp_path / "with" / "tensorboard").iterdir() if path.is_dir())
    assert folder.name == "rope a%2F%2E%2E%2Fb"
    tags = scalars(folder)
    rows = [json.loads(line) for line in (tmp_path / "with" / "metrics.jsonl").read_text().splitlines()]
    means = {
        step: sum(row["loss"] for row in rows if row["step"] == step) / 2 for step in sorted({row["step"] for row in rows})
    }
    seen = tags["training/loss"]  # the display, and so a tracker, may be told of steps between those of the metrics
    assert {step: seen[step] for step in means} == pytest.approx(means, rel=1e-6)
    assert list(tags["at_length/accuracy"]) == [3]


def scalars(folder):
    """{tag: {step: value}} of the one file of events in a folder."""
    event_pb2 = pytest.importorskip("tensorboardX.proto.event_pb2")
    (path,) = folder.iterdir()
    data, found = path.read_bytes(), {}
    while data:  # records of length, checksum, event, checksum
        (length,) = struct.unpack("<Q", data[:8])
        event = event_pb2.Event.FromString(data[12 : 12 + length])
        for value in event.summary.value:
            found.setdefault(value.tag, {})[event.step] = value.simple_value
        data = data[16 + length :]
    return found


def test_means_are_over_all_seeds_and_after_the_last_step_of_finetuning():
    tuned = [row("tuned", 4, 0, 0.1, finetuned=0), row("tuned", 4, 0, 0.9, finetuned=10)]
    assert list(trackers.means([*ROWS, *tuned])) == [
        ("rope", 4, {"accuracy": 0.75, "exact_match": 0.75, "loss": 1.0}),
        ("rope", 8, {}),
        ("tuned", 4, {"accuracy": 0.9, "exact_match": 0.9, "loss": 1.0}),
    ]


class Module(types.ModuleType):
    """A stand-in for wandb or trackio, that remembers its calls."""

    def __init__(self, name, monkeypatch):
        super().__init__(name)
        self.calls = []
        self.run = types.SimpleNamespace(
            log=lambda *a, **k: self.calls.append((*a, k)),
            define_metric=lambda *a, **k: None,
            finish=lambda: self.calls.append("finish"),
        )
        self.Settings = lambda **options: types.SimpleNamespace(project=None, **options)
        self.Table = lambda **table: table
        monkeypatch.setitem(sys.modules, name, self)

    def init(self, **options):
        self.options = options
        return self.run


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_what_the_online_trackers_are_told(monkeypatch, directory, name):
    module = Module(name, monkeypatch)
    tracker = trackers.TRACKERS[name]()
    tracker.start("mine", directory, {"title": "x"})
    tracker.log("rope", 5, {"loss": 2.0})
    tracker.results(ROWS[:2])
    tracker.finish()
    assert module.options["config"] == {"title": "x"}
    assert module.options["resume"] == "allow"
    first, at_length, *rest = module.calls
    if name == "wandb":
        assert module.options["id"] == trackers.identity(directory)
        assert module.options["settings"].console == "off"
        assert first == ({"step": 5, "training/loss/rope": 2.0}, {})
        assert at_length[0] == {"length": 4, **{f"at_length/{k}/rope": v for k, v in MEANS.items()}}
        assert rest[0][0]["results"]["data"][1] == ["rope", 1, 1.0, 4, True, 0.5, 0.5, 1.0]
    else:
        assert first == ({"training/loss/rope": 2.0}, {"step": 5})
        assert at_length == ({f"at_length/{k}/rope": v for k, v in MEANS.items()}, {"step": 4})
    assert module.calls[-1] == "finish"


MEANS = {"accuracy": 0.75, "exact_match": 0.75, "loss": 1.0}


def test_a_run_keeps_its_identity_when_resumed_and_shares_it_with_none(directory, tmp_path_factory):
    first = trackers.identity(directory)
    manifest = json.loads((directory / "manifest.json").read_text())
    manifest["sessions"].append({"host": "there", "started": "2026-01-02"})
    (directory / "manifest.json").write_text(json.dumps(manifest))
    assert trackers.identity(directory) == first
    other = tmp_path_factory.mktemp("other")
    (other / "manifest.json").write_text(json.dumps(manifest))
    assert trackers.identity(other) != first


def test_a_missing_package_ends_the_command_before_training(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "trackio", None)
    done = CliRunner().invoke(
        app, ["run", str(ROOT / "configs/quick.toml"), "--out", str(tmp_path / "run"), "--track", "trackio"]
    )
    assert done.exit_code == 2
    assert "install it with: pip install trackio" in done.output
    assert not (tmp_path / "run").exists()


def test_the_command_line_and_the_trackers_know_the_same_names():
    assert set(trackers.TRACKERS) == set(Tracker)
