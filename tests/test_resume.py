"""A run is never lost: killed, stopped, damaged, or out of disk, it goes on to the bytes of a run left alone."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments import checkpoint, files, store
from experiments.soak import contents

ROOT = Path(__file__).parent.parent
CONFIG = """
title = "resumed"
seeds = [0, 5]
[task]
type = "copy"
symbols = 24
length = 3
[model]
features = 16
[train]
steps = 400
batch = 4
learning_rate = 1e-2
warmup = 2
report_every = 4
[evaluate]
multiples = [1, 2]
sequences = 10
[encodings.learned]
type = "learned"
[encodings.rope]
type = "rope"
[encodings.pi]
extends = "rope"
scaling = { type = "linear", factor = "match" }
"""


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, "-m", "experiments", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def finish(*arguments):
    process = start(*arguments)
    stdout, stderr = process.communicate(timeout=200)
    assert "Traceback" not in stderr
    return process.returncode, stdout, stderr


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("resume") / "resumed.toml"
    path.write_text(CONFIG)
    return path


@pytest.fixture(scope="module")
def alone(config):
    """A run that was left alone."""
    status, _, stderr = finish("run", config, "--out", config.parent / "alone")
    assert (status, stderr) == (0, "")
    return config.parent / "alone"


def at_step(directory, least):
    """Waits until both encodings have come to some step."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        found = [checkpoint.steps(directory / "encodings" / str(i)) for i in (0, 1)]
        if all(steps and steps[-1] >= least for steps in found):
            return
        time.sleep(0.02)
    raise AssertionError(f"no checkpoint of step {least} in time")


@pytest.fixture(scope="module")
def stopped(config, alone):
    """A run that SIGTERM stopped in mid-training; copied by those that damage it."""
    process = start("run", config, "--out", config.parent / "stopped")
    at_step(config.parent / "stopped", 80)
    process.send_signal(signal.SIGTERM)
    _, stderr = process.communicate(timeout=100)
    assert process.returncode == 130
    assert f"Stopped, and saved. Go on with: python -m experiments resume {config.parent / 'stopped'}" in stderr
    return config.parent / "stopped"


@pytest.fixture
def copied(stopped, tmp_path):
    subprocess.run(["cp", "-r", stopped, tmp_path / "run"], check=True)
    return tmp_path / "run"


def test_killed_at_random_moments_it_ends_in_the_same_bytes(config, alone, tmp_path):
    moments = random.Random(7)
    for _ in range(3):
        process = start("run", config, "--out", tmp_path / "run")
        time.sleep(moments.uniform(3, 12))
        process.kill()
        process.communicate()
    assert finish("run", config, "--out", tmp_path / "run")[0] == 0
    assert contents(tmp_path / "run") == contents(alone)


def test_stopped_and_resumed_it_ends_in_the_same_bytes(alone, copied):
    status, stdout, stderr = finish("resume", copied)
    assert (status, stderr) == (0, "")
    assert stdout.splitlines()[-1] == str(copied / "report.html")
    assert contents(copied) == contents(alone)


def test_a_complete_run_is_not_run_again(config, alone):
    before = contents(alone)
    status, stdout, _ = finish("run", config, "--out", alone)
    assert status == 0
    assert "compiling" not in stdout
    assert contents(alone) == before


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "gone"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_used(alone, copied, damage):
    folder = copied / "encodings" / "1"
    newest = checkpoint.path_of(folder, checkpoint.steps(folder)[-1])
    data = newest.read_bytes()
    if damage == "gone":
        newest.unlink()
    else:
        newest.write_bytes(
            {"flipped": data[:999] + bytes([data[999] ^ 1]) + data[1000:], "cut": data[:-1], "empty": b""}[damage]
        )
    status, _, stderr = finish("resume", copied)
    assert status == 0
    assert damage == "gone" or f"{newest} is damaged" in stderr
    assert contents(copied) == contents(alone)


def test_with_no_checkpoint_left_it_says_so(copied):
    folder = copied / "encodings" / "1"
    for step in checkpoint.steps(folder):
        checkpoint.path_of(folder, step).write_bytes(b"nonsense")
    status, _, stderr = finish("resume", copied)
    assert status == 2
    assert "no checkpoint of 'rope' is left that can be trusted" in stderr
    for step in checkpoint.steps(folder):
        checkpoint.path_of(folder, step).unlink()
    status, _, stderr = finish("resume", copied)
    assert status == 2
    assert "no checkpoint of 'rope' is left that can be trusted" in stderr


def test_another_config_is_refused_with_the_differences(config, copied):
    status, _, stderr = finish("run", config, "train.steps=500", "seeds=[0]", "--out", copied)
    assert status == 2
    assert "  train.steps: 400, now 500" in stderr
    assert "  seeds: [0, 5], now [0]" in stderr


def test_another_environment_is_told(copied):
    manifest = copied / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"jax": "', '"jax": "0.0.1-', 1))
    status, _, stderr = finish("resume", copied)
    assert status == 0
    assert "Since this run began there has changed: jax 0.0.1-" in stderr


def test_two_at_once(config, tmp_path):
    first = start("run", config, "train.steps=100000", "--out", tmp_path / "run")
    at_step(tmp_path / "run", 40)
    status, _, stderr = finish("run", config, "train.steps=100000", "--out", tmp_path / "run")
    assert status == 2
    assert f"is in use by process {first.pid} on" in stderr
    first.send_signal(signal.SIGINT)
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=60)


def test_divergence_stops_that_encoding_alone(config, tmp_path):
    """A rate of 1e8 sends the loss to NaN; the table says so, and the status."""
    status, stdout, stderr = finish("run", config, "train.learning_rate=1e8", "--out", tmp_path / "run")
    assert (status, stderr) == (3, "")
    assert "diverged by step" in stdout
    result = store.read(tmp_path / "run")
    assert all(row["loss"] is None and row["diverged"] > 0 for row in result["rows"])


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
        for bit in (0, 5, 7):
            path.write_bytes(data[:i] + bytes([data[i] ^ (1 << bit)]) + data[i + 1 :])
            with pytest.raises(checkpoint.Damaged):
                checkpoint.load(folder, 3, tree, "me")
    for length in range(len(data)):
        path.write_bytes(data[:length])
        with pytest.raises(checkpoint.Damaged):
            checkpoint.load(folder, 3, tree, "me")


def test_equal_states_are_equal_files(saved, tmp_path):
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
        rows = files.read_rows(path, lambda rows: rows)
        assert rows == [{"a": 1}, {"a": 2}][: whole[:cut].count(b"\n")]
        assert path.read_bytes() == whole[: sum(len(line) for line in whole[:cut].splitlines(True) if line.endswith(b"\n"))]


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
