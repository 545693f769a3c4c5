"""Trackers log what the display shows, in order, by one thread each; and never harm a run."""

import json
import struct
import sys
import threading
import time
import types

import pytest
from runs import ROOT, run
from typer.testing import CliRunner
from watch import Watch

from experiments import signals
from experiments.__main__ import Tracker, app
from experiments.study import trackers, tracking
from experiments.study.result import read
from tests.soak.trials import contents

METRICS = {"accuracy": 0.75, "exact_match": 0.75, "loss": 1.0}


def row(label, length, seed, accuracy, **more):
    has_value = accuracy is not None
    metrics = {"accuracy": accuracy, "exact_match": accuracy, "loss": 1.0} if has_value else {}
    place = {"encoding": label, "seed": seed, "multiple": length / 4, "length": length}
    return {**place, "metrics": metrics, "fitted": True, **more}


ROWS = [
    row("rope", 4, 0, 1.0),
    row("rope", 4, 1, 0.5),
    row("rope", 8, 0, 0.25),
    row("rope", 8, 1, None),
]


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
    """The warnings while several threads report to a display."""
    monkeypatch.setitem(trackers.TRACKERS, "wandb", lambda: fake)
    warnings, shown = [], Watch(threading.Event())
    with tracking.Tracking(["wandb", "wandb"], warnings.append, patience) as tracked:
        with tracked.display(shown, directory, {"title": "x"}) as display:

            def work(label):
                display.begin(label, steps)
                for step in range(steps):
                    display.step(label, step, 0.5)
                display.evaluating(label, "at 1x")
                display.end(label)

            workers = [threading.Thread(target=work, args=(str(i),)) for i in range(threads)]
            for thread in workers:
                thread.start()
            for thread in workers:
                thread.join()
        tracked.call("results", ROWS)
    assert len(shown.events) == threads * (steps + 3)  # whatever the tracker does
    return warnings


def test_calls_from_many_threads_come_one_by_one_and_in_order(monkeypatch, directory):
    fake = Fake()
    assert track(monkeypatch, fake, directory) == []
    assert len(fake.threads) == 1
    methods = [call[0] for call in fake.calls]
    assert methods == ["start", *["log"] * 100, "results", "finish"]
    for label in "0123":
        own = [call[3] for call in fake.calls if call[:3] == ("log", "training", label)]
        assert own == list(range(25))
    assert fake.calls[5][4] == {"loss": 0.5}


@pytest.mark.parametrize("error", [RuntimeError("the server is gone"), SystemExit(1)], ids=repr)
@pytest.mark.parametrize("method", ["start", "log", "results", "finish"])
def test_a_failing_tracker_gives_one_warning_and_is_dropped(monkeypatch, directory, method, error):
    fake = Fake(method, error)
    (warning,) = track(monkeypatch, fake, directory)
    failed = f"wandb: dropped, because `{method}` failed: {error!r}"
    assert warning == f"{failed}. The run continues."
    methods = [call[0] for call in fake.calls]
    assert methods.count(method) == 1
    # a tracker that has started is finished
    assert methods[-1] == ("start" if method == "start" else "finish")


def test_a_tracker_that_hangs_does_not_hold_the_run(monkeypatch, directory):
    fake, release = Fake(), threading.Event()
    fake.log = lambda *_: release.wait(10)
    (warning,) = track(monkeypatch, fake, directory, threads=1, steps=1, patience=0.05)
    release.set()
    assert "not finished 0.05 s after the run, and abandoned" in warning


def test_results_have_the_same_bytes_with_trackers(monkeypatch, config, whole, tmp_path):
    monkeypatch.setitem(trackers.TRACKERS, "wandb", lambda: Fake("log"))
    warnings, directory = [], tmp_path / "run"
    with tracking.Tracking(["tensorboard", "wandb"], warnings.append) as tracked:
        run(config, directory, shown_by=lambda shown: tracked.display(shown, directory, {}))
        tracked.call("results", read(directory)["rows"])
    assert len(warnings) == 1
    files = contents(directory).items()
    of_run = {path: data for path, data in files if not path.startswith("tensorboard")}
    assert of_run == contents(whole)

    tags = scalars(directory / "tensorboard" / "rope")
    lines = (directory / "encodings" / "1" / "metrics.jsonl").read_text().splitlines()
    losses = {}
    for reported in map(json.loads, lines):
        losses.setdefault(reported["step"], []).append(reported["loss"])
    logged = tags["training/loss"]  # also at steps between two reports
    for step, of_seeds in losses.items():
        assert logged[step] == pytest.approx(sum(of_seeds) / 2, rel=1e-6)
    assert list(tags["at_length/accuracy"]) == [3, 6]


def test_no_label_leaves_the_folder_of_tensorboard(directory):
    tracker = trackers.TensorBoard()
    tracker.start("mine", directory, {"title": "x"})
    tracker.log("training", "rope a/../b", 1, {"loss": 2.0})
    tracker.finish()
    (folder,) = (path for path in (directory / "tensorboard").iterdir() if path.is_dir())
    assert folder.name == "rope a%2F%2E%2E%2Fb"
    assert scalars(folder) == {"training/loss": {1: 2.0}}


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


def test_means_are_over_all_seeds_and_after_all_finetuning():
    tuned = [row("tuned", 4, 0, 0.1, finetuned=0), row("tuned", 4, 0, 0.9, finetuned=10)]
    assert list(trackers.means([*ROWS, *tuned])) == [
        ("rope", 4, METRICS),
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
def test_the_calls_of_the_online_trackers(monkeypatch, directory, name):
    module = Module(name, monkeypatch)
    tracker = trackers.TRACKERS[name]()
    tracker.start("mine", directory, {"title": "x"})
    tracker.log("training", "rope", 5, {"loss": 2.0})
    tracker.results(ROWS[:2])
    tracker.finish()
    assert module.options["config"] == {"title": "x"}
    assert module.options["resume"] == "allow"
    at_length = {f"at_length/{name}/rope": value for name, value in METRICS.items()}
    if name == "wandb":
        first, means, table = module.calls[:3]
        assert module.options["id"] == trackers.identity(directory)
        assert module.options["settings"].console == "off"
        assert first == ({"step": 5, "training/loss/rope": 2.0}, {})
        assert means == ({"length": 4, **at_length}, {})
        assert table[0]["results"]["data"][1] == ["rope", 1, 1.0, 4, True, 0.5, 0.5, 1.0]
    else:
        first, means = module.calls[:2]
        assert first == ({"training/loss/rope": 2.0}, {"step": 5})
        assert means == (at_length, {"step": 4})
    assert module.calls[-1] == "finish"


def test_a_resumed_run_keeps_its_identity_and_shares_it_with_none(directory, tmp_path_factory):
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
    monkeypatch.setattr(signals, "stop_event", lambda _: threading.Event())
    config, directory = ROOT / "configs" / "quick.toml", tmp_path / "run"
    words = ["run", config, "--out", directory, "--track", "trackio"]
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 2
    assert "install it with: pip install trackio" in done.output
    assert not directory.exists()


def test_the_command_line_has_the_names_of_the_trackers():
    assert set(trackers.TRACKERS) == set(Tracker)
