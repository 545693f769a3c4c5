"""A run that is stopped or damaged ends in the bytes of an uninterrupted one, or says why not."""

import json
import shutil

import pytest
from runs import FINETUNE, run
from watch import Watch

from experiments.analysis.table import Results
from experiments.study import directory as directories
from experiments.study import files, training_loop
from experiments.study.hooks import Stopped
from experiments.study.result import DirectoryError, read
from tests.soak.trials import contents


def checkpoints(folder):
    """The checkpoint files of a job, by step."""
    return {int(path.stem[11:]): path for path in sorted(folder.glob("checkpoint-*.safetensors"))}


@pytest.fixture(scope="module")
def half(config):
    """A run that was stopped at step 60 of 120."""
    with pytest.raises(Stopped):
        run(config, config.parent / "half", event="step", step=60)
    return config.parent / "half"


@pytest.fixture
def stopped(half, tmp_path):
    """A copy of it."""
    return shutil.copytree(half, tmp_path / "run")


@pytest.mark.parametrize(
    ("event", "step"),
    [("begin", 0), ("step", 4), ("step", 40), ("step", 116), ("evaluating", 0), ("end", 0)],
)
def test_a_run_stopped_anywhere_ends_in_the_same_bytes(config, whole, tmp_path, event, step):
    try:
        run(config, tmp_path / "run", event=event, step=step)
    except Stopped:
        assert not (tmp_path / "run" / "result.json").exists()
        assert run(config, tmp_path / "run").warnings == []
    assert contents(tmp_path / "run") == contents(whole)


def test_a_complete_run_is_not_run_again(config, whole):
    before = contents(whole)
    assert run(config, whole).events == []
    assert contents(whole) == before


@pytest.mark.parametrize(
    ("label", "event", "step"),
    [("rope", "end", 0), ("pi", "step", 4), ("pi", "step", 16), ("pi", "evaluating", 0)],
)
def test_a_stopped_finetune_ends_in_the_same_bytes(config, tuned, tmp_path, label, event, step):
    with pytest.raises(Stopped):
        run(config, tmp_path / "run", FINETUNE, event=event, label=label, step=step)
    assert run(config, tmp_path / "run", FINETUNE).warnings == []
    assert contents(tmp_path / "run") == contents(tuned)


def test_a_finetune_has_scores_on_its_way_from_the_end_of_training(tuned):
    results = Results.read(tuned)
    rope, pi = results["rope"], results["pi"]
    assert (rope.points, pi.points) == ([], [0, 10, 24])
    losses = [pi.cell(2, "loss", step).mean for step in (0, 10, 24)]
    assert len(set(losses)) == 3
    assert losses[2] < losses[0]
    assert pi.cell(2, "loss").mean == losses[2]  # after all steps, unless a step is given
    fitted = [{(row["seed"], row["fitted"]) for row in own.rows(1)} for own in (rope, pi)]
    assert fitted[0] == fitted[1]


def test_a_finetune_without_trusted_weights_to_start_from_says_so(config, tuned, tmp_path):
    run_again = shutil.copytree(tuned, tmp_path / "run")
    (run_again / "result.json").unlink()
    shutil.rmtree(run_again / "encodings" / "2")
    for path in checkpoints(run_again / "encodings" / "1").values():
        path.write_bytes(b"nonsense")
    lost = "the last checkpoint of 'rope', which others continue from, cannot be trusted"
    with pytest.raises(DirectoryError, match=lost):
        run(config, run_again, FINETUNE)


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "gone"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_used(config, whole, stopped, damage):
    (first, _), (_, path) = checkpoints(stopped / "encodings" / "1").items()
    data = path.read_bytes()
    path.unlink()
    if damage != "gone":
        flipped = data[:999] + bytes([data[999] ^ 1]) + data[1000:]
        path.write_bytes({"flipped": flipped, "cut": data[:-1], "empty": b""}[damage])
    shown = run(config, stopped)
    assert [str(path) in w for w in shown.warnings] == ([] if damage == "gone" else [True])
    steps = [step for event, label, step in shown.events if (event, label) == ("step", "rope")]
    assert min(steps) == first + 1
    assert contents(stopped) == contents(whole)


@pytest.mark.parametrize("gone", [False, True])
def test_without_a_checkpoint_left_it_says_so(config, stopped, gone):
    for path in checkpoints(stopped / "encodings" / "1").values():
        path.unlink() if gone else path.write_bytes(b"nonsense")
    with pytest.raises(DirectoryError, match="no checkpoint of 'rope' is left that can be trusted"):
        run(config, stopped)


def test_rows_past_the_checkpoint_are_cut(config, whole, stopped):
    path = stopped / "encodings" / "0" / "metrics.jsonl"
    files.append_rows(path, [{"encoding": "learned", "seed": 0, "step": 9999, "loss": 0.0}])
    with open(path, "ab") as file:
        file.write(b'{"half a row')
    run(config, stopped)
    assert contents(stopped) == contents(whole)


@pytest.mark.parametrize("damage", ["cut", "changed", "not JSON"])
def test_a_checkpoint_past_the_metrics_is_not_used(config, whole, stopped, damage):
    folder = stopped / "encodings" / "1"
    path, ((first, _), (_, newest)) = folder / "metrics.jsonl", checkpoints(folder).items()
    lines = path.read_text().splitlines(keepends=True)
    row = next(i for i, line in enumerate(lines) if f'"step": {first + 4},' in line)
    changed = lines[row].replace('"seed": 0', '"seed": 1')
    lines[row] = {"cut": "", "changed": changed, "not JSON": '{"loss": NaN}\n'}[damage]
    path.write_text("".join(lines))
    (warning,) = run(config, stopped).warnings
    assert f"{newest} is not used" in warning
    assert contents(stopped) == contents(whole)


def test_another_config_is_refused_with_the_differences(config, stopped):
    with pytest.raises(DirectoryError) as caught:
        run(config, stopped, "train.steps=500", "seeds=[0]")
    assert "  train.steps: 120, now 500" in str(caught.value)
    assert "  seeds: [0, 5], now [0]" in str(caught.value)


def test_a_changed_environment_is_reported(config, stopped):
    path = stopped / "manifest.json"
    path.write_text(path.read_text().replace('"jax": "', '"jax": "0.0.1-', 1))
    (warning,) = run(config, stopped).warnings
    assert warning.startswith("The environment has changed since this run started: jax 0.0.1-")


def test_the_environment_names_the_processor():
    assert {"cpu", "jax", "cores", "XLA_FLAGS"} <= directories.environment().keys()


def test_the_manifest_lists_every_session(config, stopped):
    run(config, stopped)
    manifest = json.loads((stopped / "manifest.json").read_text())
    facts = ["ended", "environment", "host", "process", "started"]
    assert [sorted(session) for session in manifest["sessions"]] == [facts] * 2
    assert all(session["ended"] for session in manifest["sessions"])
    assert manifest["seeds"] == "one by one"
    assert manifest["config_sha256"] == directories.digest(manifest["config"])
    other = stopped.parent / "other"
    with directories.session(other, manifest["config"], "command", {}, "vmapped") as (new, _):
        assert new["seeds"] == "vmapped"


def test_a_manifest_with_another_config_is_refused(stopped):
    path = stopped / "manifest.json"
    path.write_text(path.read_text().replace('"steps": 120', '"steps": 130'))
    with pytest.raises(DirectoryError, match="config is not the one that the run began with"):
        directories.config_of(stopped)


def test_divergence_ends_only_that_encoding(config, whole, tmp_path):
    run(config, tmp_path / "run", "encodings.learned.train={learning_rate=1e8}")
    results = Results.read(tmp_path / "run")
    assert results.diverged == ["learned"]
    rows = read(tmp_path / "run")["rows"]
    for row in rows:
        if row["encoding"] == "learned":
            assert row["metrics"] == {}
            assert row["diverged"] > 0
            assert not row["fitted"]
    others = [row for row in read(whole)["rows"] if row["encoding"] != "learned"]
    assert [row for row in rows if row["encoding"] != "learned"] == others


def test_a_divergence_leaves_no_trace_of_stops(config, tmp_path):
    options = ["encodings.learned.train={learning_rate=1e8, report_every=60}"]
    with pytest.raises(Stopped):
        run(config, tmp_path / "stopped", *options, event="step", label="learned", step=1)
    for name in ("stopped", "whole"):
        run(config, tmp_path / name, *options)
    assert contents(tmp_path / "stopped") == contents(tmp_path / "whole")


@pytest.mark.parametrize("moment", ["begin", "step"])
def test_a_vanished_directory_is_a_disk_error_and_is_not_made_again(config, tmp_path, moment):
    class Vandal(Watch):
        def _record(self, event, label, step=0):
            if event == moment:
                shutil.rmtree(tmp_path / "run", ignore_errors=True)

    with pytest.raises(files.DiskError, match="No such file or directory"):
        run(config, tmp_path / "run", watch=Vandal)
    assert moment == "step" or not (tmp_path / "run").exists()


def test_calls_grow_to_about_a_second(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(training_loop.time, "monotonic", lambda: clock[0])
    sizes, chunk = [], training_loop.ChunkSize()
    for seconds_per_step in [4.0, *[1 / 256] * 5, 4.0]:
        sizes.append(chunk.steps)
        with chunk.timed(chunk.steps):
            clock[0] += seconds_per_step * chunk.steps
    assert (sizes, chunk.steps) == ([1, 1, 10, 100, 256, 256, 256], 1)
