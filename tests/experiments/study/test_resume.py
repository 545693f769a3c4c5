"""A run is never lost: stopped, killed, damaged, or out of disk, it goes on to the bytes of a run left alone."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner
from watch import Watch

from experiments import files, run, signals, soak, store, train
from experiments.__main__ import app
from experiments.config import load
from experiments.run import checkpoint, chunk
from experiments.soak.trials import contents

ROOT = Path(__file__).parent.parent
CONFIG = soak.CONFIG.replace("steps = 1000", "steps = 120").replace("report_every = 20", "report_every = 4")


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("resume") / "resumed.toml"
    path.write_text(CONFIG)
    return path


def go(config, directory, *overrides, event=None, step=0):
    """Runs, perhaps to be stopped at an event; what was told on the way, and the warnings."""
    stop, warnings = threading.Event(), []
    watch = Watch(stop, event, step=step)
    try:
        run.run(load.load(config, overrides), directory, lambda: watch, "command", stop, warnings.append)
    finally:
        go.warnings, go.events = warnings, watch.events
    return warnings


@pytest.fixture(scope="module")
def alone(config):
    """A run that was left alone."""
    assert go(config, config.parent / "alone") == []
    return config.parent / "alone"


@pytest.fixture
def stopped(config, tmp_path):
    """A run that was stopped at step 60 of 120."""
    with pytest.raises(run.Stopped):
        go(config, tmp_path / "run", event="step", step=60)
    return tmp_path / "run"


@pytest.mark.parametrize(
    ("event", "step"), [("begin", 0), ("step", 4), ("step", 40), ("step", 116), ("evaluating", 0), ("end", 0)]
)
def test_stopped_anywhere_it_ends_in_the_same_bytes(config, alone, tmp_path, event, step):
    try:
        go(config, tmp_path / "run", event=event, step=step)
    except run.Stopped:
        assert not (tmp_path / "run" / "result.json").exists()
        assert go(config, tmp_path / "run") == []
    assert contents(tmp_path / "run") == contents(alone)


def test_a_complete_run_is_not_run_again(config, alone):
    before = contents(alone)
    go(config, alone)
    assert go.events == []
    assert contents(alone) == before


FINETUNE = "finetune={multiple=2, steps=24, evaluate_at=[0, 10, 24], learning_rate=1e-3, batch=4, report_every=4}"


@pytest.fixture(scope="module")
def tuned(config):
    """A run left alone in which `pi` is trained on from the end of `rope`."""
    go(config, config.parent / "tuned", FINETUNE)
    return config.parent / "tuned"


@pytest.mark.parametrize(
    ("label", "event", "step"), [("rope", "end", 0), ("pi", "step", 4), ("pi", "step", 16), ("pi", "evaluating", 0)]
)
def test_a_finetune_goes_on_to_the_same_bytes(config, tuned, tmp_path, label, event, step):
    stop = threading.Event()
    watch = Watch(stop, event, label, step)
    with pytest.raises(run.Stopped):
        run.run(load.load(config, [FINETUNE]), tmp_path / "run", lambda: watch, "command", stop, print)
    assert go(config, tmp_path / "run", FINETUNE) == []
    assert contents(tmp_path / "run") == contents(tuned)


def test_a_finetune_is_scored_on_its_way_and_begins_where_training_ended(tuned):
    from experiments import results

    result = store.read(tuned)
    assert results.points(result, "pi") == [0, 10, 24]
    assert results.points(result, "rope") == []
    losses = [results.cell(result, "pi", 2, "loss", point).mean for point in (0, 10, 24)]
    assert len(set(losses)) == 3
    assert losses[2] < losses[0]
    assert results.cell(result, "pi", 2, "loss").mean == losses[2]  # after all steps, if it is not said after how many
    fits = {(row["seed"], row["fitted"]) for row in result["rows"] if row["encoding"] == "rope"}
    assert {(row["seed"], row["fitted"]) for row in result["rows"] if row["encoding"] == "pi"} == fits


def test_a_finetune_without_trusted_weights_to_begin_from_says_so(config, tuned, tmp_path):
    shutil.copytree(tuned, tmp_path / "run")
    (tmp_path / "run" / "result.json").unlink()
    shutil.rmtree(tmp_path / "run" / "encodings" / "2")
    for step in checkpoint.steps(tmp_path / "run" / "encodings" / "1"):
        checkpoint.path_of(tmp_path / "run" / "encodings" / "1", step).write_bytes(b"nonsense")
    with pytest.raises(store.StoreError, match="the last checkpoint of 'rope', which others go on from, cannot be trusted"):
        go(config, tmp_path / "run", FINETUNE)


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "gone"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_used(config, alone, stopped, damage):
    folder = stopped / "encodings" / "1"
    steps = checkpoint.steps(folder)
    assert len(steps) == 2
    newest = checkpoint.path_of(folder, steps[-1])
    data = newest.read_bytes()
    newest.unlink()
    if damage != "gone":
        flipped = data[:999] + bytes([data[999] ^ 1]) + data[1000:]
        newest.write_bytes({"flipped": flipped, "cut": data[:-1], "empty": b""}[damage])
    warnings = go(config, stopped)
    assert [str(newest) in warning for warning in warnings] == ([] if damage == "gone" else [True])
    assert min(step for event, label, step in go.events if (event, label) == ("step", "rope")) == steps[0] + 1
    assert contents(stopped) == contents(alone)


@pytest.mark.parametrize("gone", [False, True])
def test_with_no_checkpoint_left_it_says_so(config, stopped, gone):
    folder = stopped / "encodings" / "1"
    for step in checkpoint.steps(folder):
        path = checkpoint.path_of(folder, step)
        path.unlink() if gone else path.write_bytes(b"nonsense")
    with pytest.raises(store.StoreError, match="no checkpoint of 'rope' is left that can be trusted"):
        go(config, stopped)


def test_rows_past_the_checkpoint_are_cut(config, alone, stopped):
    folder = stopped / "encodings" / "0"
    files.append_rows(folder / "metrics.jsonl", [{"encoding": "learned", "seed": 0, "step": 9999, "loss": 0.0}])
    with open(folder / "metrics.jsonl", "ab") as file:
        file.write(b'{"half a row')
    go(config, stopped)
    assert contents(stopped) == contents(alone)


def test_another_config_is_refused_with_the_differences(config, stopped):
    with pytest.raises(store.StoreError) as caught:
        go(config, stopped, "train.steps=500", "seeds=[0]")
    assert "  train.steps: 120, now 500" in str(caught.value)
    assert "  seeds: [0, 5], now [0]" in str(caught.value)


def test_another_environment_is_told(config, stopped):
    manifest = stopped / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"jax": "', '"jax": "0.0.1-', 1))
    (warning,) = go(config, stopped)
    assert warning.startswith("Since this run began there has changed: jax 0.0.1-")


def test_the_manifest_tells_of_every_session(config, stopped):
    go(config, stopped)
    manifest = store._json(stopped / "manifest.json")
    assert [sorted(s) for s in manifest["sessions"]] == [["ended", "environment", "host", "process", "started"]] * 2
    assert all(s["ended"] for s in manifest["sessions"])
    assert manifest["seeds"] == "one by one"
    with store.session(stopped.parent / "one", manifest["config"] | {"seeds": [5]}, "command", {}, "vmapped") as (one, _):
        assert one["seeds"] == "vmapped"
    assert manifest["config_sha256"] == store.digest(manifest["config"])


def test_divergence_stops_that_encoding_alone(config, alone, tmp_path):
    from experiments import results

    go(config, tmp_path / "run", "encodings.learned.train={learning_rate=1e8}")
    result = store.read(tmp_path / "run")
    assert results.diverged(result) == ["learned"]
    own = [row for row in result["rows"] if row["encoding"] == "learned"]
    assert all(row["loss"] is None and row["diverged"] > 0 and not row["fitted"] for row in own)
    others = [row for row in store.read(alone)["rows"] if row["encoding"] != "learned"]
    assert [row for row in result["rows"] if row["encoding"] != "learned"] == others
    assert "diverged by step" in results.fit_sentence(result)


def test_a_vanished_directory_is_an_error_of_the_disk(config, tmp_path):
    stop = threading.Event()

    class Vandal(Watch):
        def step(self, label, done, loss):
            shutil.rmtree(tmp_path / "run", ignore_errors=True)

    with pytest.raises(files.DiskError, match="No such file or directory"):
        run.run(load.load(config), tmp_path / "run", lambda: Vandal(stop), "command", stop, print)


def test_killed_and_interrupted_as_a_process(config, alone, tmp_path):
    """SIGKILL in mid-training, a second process meanwhile, then SIGTERM, then the end, all from the command line."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}

    def start():
        command = [sys.executable, "-m", "experiments", "run", str(config), "--out", str(tmp_path / "run")]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=ROOT, env=environment)

    def come_to(process, least):
        while not all(checkpoint.steps(tmp_path / "run" / "encodings" / str(i))[-1:] >= [least] for i in (0, 1)):
            assert process.poll() is None
            time.sleep(0.005)

    first = start()
    come_to(first, 40)
    first.send_signal(signal.SIGSTOP)
    second = start()
    _, stderr = second.communicate(timeout=60)
    assert second.returncode == 2
    assert f"is in use by process {first.pid} on" in stderr
    first.kill()
    first.communicate()
    third = start()
    time.sleep(2)
    third.send_signal(signal.SIGTERM)  # whatever it is at by then: importing, compiling, training, drawing
    _, stderr = third.communicate(timeout=100)
    assert third.returncode in (0, 130, -signal.SIGTERM)
    assert "Traceback" not in stderr
    last = start()
    stdout, stderr = last.communicate(timeout=100)
    assert (last.returncode, stderr) == (0, "")
    assert stdout.splitlines()[-1] == str(tmp_path / "run" / "report.html")
    drawn = (".svg", ".pdf", ".png", ".html")
    kept = {name: data for name, data in contents(tmp_path / "run").items() if not name.endswith(drawn)}
    wanted = contents(alone)
    command = b'"command": "command"'
    assert wanted["result.json"].count(command) == 1
    del wanted["result.json"], kept["result.json"]  # which holds the command
    assert kept == wanted


def at_work(config, directory, *overrides):
    """A process that trains, longer than any test, and has come to its first checkpoint."""
    command = [sys.executable, "-m", "experiments", "run", str(config), "train.steps=1000000", *overrides, "--out", directory]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    while not any(directory.glob("encodings/*/checkpoint-*.safetensors")):
        assert process.poll() is None
        time.sleep(0.01)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_saves_and_tells_how_to_go_on(config, tmp_path, number):
    process = at_work(config, tmp_path / "run")
    process.send_signal(number)
    told, said = process.stderr.readline(), process.communicate(timeout=60)[1]
    assert told == "Stopping in a few seconds, with all saved; once more to stop now.\n"
    assert said == f"Stopped, and saved. Go on with: python -m experiments resume {tmp_path / 'run'}\n"
    assert process.returncode == 130


def test_the_second_signal_ends_at_once(config, tmp_path):
    process = at_work(config, tmp_path / "run")
    process.send_signal(signal.SIGSTOP)
    for number in (signal.SIGTERM, signal.SIGINT):  # both are pending when it wakes
        process.send_signal(number)
    process.send_signal(signal.SIGCONT)
    assert "Stopped, and saved" not in process.communicate(timeout=60)[1]
    assert process.returncode == 130


def test_no_room_and_no_memory_have_statuses_of_their_own(config, tmp_path, monkeypatch):
    def all_used(*_):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 64000000000 bytes.")

    monkeypatch.setattr(signals, "stop_event", lambda _: threading.Event())  # the handlers of this process are pytest's
    (tmp_path / "file").write_text("")
    invoke = partial(CliRunner().invoke, app)
    nowhere = invoke(["run", str(config), "--out", str(tmp_path / "file" / "run")])
    assert (nowhere.exit_code, nowhere.stderr) == (4, f"{tmp_path / 'file' / 'run'}: Not a directory\n")
    monkeypatch.setattr(train, "advance", all_used)
    starved = invoke(["run", str(config), "--out", str(tmp_path / "run")])
    assert starved.exit_code == 5
    assert "RESOURCE_EXHAUSTED: Out of memory allocating 64000000000 bytes. What was saved before is whole" in starved.stderr
    assert starved.stderr.startswith(("encodings.learned: ", "encodings.rope: "))
    assert f"go on with: python -m experiments resume {tmp_path / 'run'}" in starved.stderr


@pytest.fixture
def saved(tmp_path):
    tree = {"a": np.arange(6.0, dtype=np.float32).reshape(2, 3), "b": [np.uint32(7)]}
    checkpoint.save(tmp_path, 3, tree, "me")
    return tmp_path, tree


def test_a_checkpoint_comes_back_as_it_was(saved):
    folder, tree = saved
    like = jax.eval_shape(lambda: jax.tree.map(jnp.asarray, tree))
    got = checkpoint.load(folder, 3, like, "me")
    assert jax.tree.structure(got) == jax.tree.structure(tree)
    assert all(map(np.array_equal, jax.tree.leaves(got), jax.tree.leaves(tree)))
    with pytest.raises(checkpoint.Damaged, match="another run"):
        checkpoint.load(folder, 3, like, "you")
    with pytest.raises(checkpoint.Damaged, match="another run"):
        checkpoint.load(folder, 3, {"a": like["a"]}, "me")


def test_a_flip_of_any_bit_of_a_checkpoint_is_noticed(saved):
    folder, tree = saved
    path = checkpoint.path_of(folder, 3)
    data = path.read_bytes()
    for i in range(len(data)):
        for bit in range(8):
            path.write_bytes(data[:i] + bytes([data[i] ^ (1 << bit)]) + data[i + 1 :])
            with pytest.raises(checkpoint.Damaged):
                checkpoint.load(folder, 3, tree, "me")
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(checkpoint.Damaged):
            checkpoint.load(folder, 3, tree, "me")


def test_equal_states_are_equal_files(saved):
    folder, tree = saved
    first = checkpoint.path_of(folder, 3).read_bytes()
    checkpoint.save(folder, 3, jax.tree.map(np.copy, tree), "me")
    assert checkpoint.path_of(folder, 3).read_bytes() == first


def test_rows_are_cut_back_to_what_is_whole(tmp_path):
    path = tmp_path / "rows.jsonl"
    files.append_rows(path, [{"a": 1}, {"a": 2}])
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        assert files.read_rows(path, lambda rows: rows) == [{"a": 1}, {"a": 2}][: whole[:cut].count(b"\n")]
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


@pytest.mark.parametrize("damage", ["cut", "changed", "not JSON"])
def test_a_checkpoint_past_the_metrics_is_not_used(config, alone, stopped, damage):
    folder = stopped / "encodings" / "1"
    path, steps = folder / "metrics.jsonl", checkpoint.steps(folder)
    lines = path.read_text().splitlines(keepends=True)
    row = next(i for i, line in enumerate(lines) if f'"step": {steps[0] + 4},' in line)
    lines[row] = {"cut": "", "changed": lines[row].replace('"seed": 0', '"seed": 1'), "not JSON": '{"loss": NaN}\n'}[damage]
    path.write_text("".join(lines))
    (warning,) = go(config, stopped)
    assert f"{checkpoint.path_of(folder, steps[1])} is not used" in warning
    assert contents(stopped) == contents(alone)


def test_a_divergence_leaves_nothing_that_tells_of_stops(config, tmp_path):
    options = ["train.learning_rate=1e8", "train.report_every=60"]
    for name in ("alone", "stopped"):
        if name == "stopped":
            with pytest.raises(run.Stopped):
                go(config, tmp_path / name, *options, event="step", step=1)
        go(config, tmp_path / name, *options)
    assert contents(tmp_path / "stopped") == contents(tmp_path / "alone")


def test_a_vanished_directory_is_not_made_again(config, tmp_path):
    stop = threading.Event()

    class Vandal(Watch):
        def begin(self, label, steps):
            shutil.rmtree(tmp_path / "run", ignore_errors=True)

    with pytest.raises(files.DiskError, match="No such file or directory"):
        run.run(load.load(config), tmp_path / "run", lambda: Vandal(stop), "command", stop, print)
    assert not (tmp_path / "run").exists()


def test_a_manifest_with_another_config_is_refused(stopped):
    path = stopped / "manifest.json"
    path.write_text(path.read_text().replace('"steps": 120', '"steps": 130'))
    with pytest.raises(store.StoreError, match="its config is not the one that the run began with"):
        store.config_of(stopped)


def test_a_device_without_room_is_a_disk_error(tmp_path):
    (tmp_path / "rows.jsonl").symlink_to("/dev/full")
    with pytest.raises(files.DiskError, match="No space left on device"):
        files.append_rows(tmp_path / "rows.jsonl", [{"a": 1}])


def test_chunks_grow_to_about_a_second_and_no_further(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(chunk.time, "monotonic", lambda: clock[0])
    sizes, taken = [], chunk.Chunk()
    for seconds_a_step in [4.0, *[1 / 256] * 5, 4.0]:
        sizes.append(taken.steps)
        with taken.timed(taken.steps):
            clock[0] += seconds_a_step * taken.steps
    assert (sizes, taken.steps) == ([1, 1, 10, 100, 256, 256, 256], 1)
