"""The stored results are those of the code as it is: the numbers of short runs are the stored ones."""

import json
import shutil

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

from experiments import __main__ as main
from experiments.analysis import short_run, stored
from experiments.analysis.table import Results
from experiments.config.load import load
from experiments.config.plan import length, training_jobs
from experiments.status import BAD_INPUT
from experiments.study.bands import bands
from experiments.study.run_study import task_facts

NUMBERS = {"rope, loss of step 1": 5.0, "rope, accuracy at 1x": 0.25}


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="accelerators round to fewer bits")
@pytest.mark.parametrize("name", [p.parent.name for p in stored.STUDY.glob("*/short_run.json")])
def test_models_train_as_those_of_the_stored_result(name):
    then = json.loads((stored.STUDY / name / "short_run.json").read_text("utf-8"))
    changes = short_run.changes(then, short_run.short_run(stored.CONFIGS / f"{name}.toml"))
    remedy = f"python -m experiments reproduce {name} --store, then report --all"
    assert not changes, f"docs/study/{name} is not of this code: {remedy}\n" + "\n".join(changes)


def test_the_result_that_the_readme_shows_has_a_short_run():
    assert (stored.STUDY / "quick" / "short_run.json").exists()


@pytest.mark.parametrize("name", stored.names())
def test_what_no_training_decides_is_that_of_the_code_as_it_is(name):
    """The task, which models have fitted, the lengths of every row, the spectra."""
    results, experiment = stored.stored(name), load(stored.CONFIGS / f"{name}.toml")
    jobs = training_jobs(experiment)
    task = jobs[0].train.task
    assert results.task == task_facts(experiment.record(), jobs)
    from_scratch = [entry for entry in results.trained if not entry.points]
    for row in (row for entry in from_scratch for row in entry.rows(1)):
        assert row["fitted"] == task.fitted(row["metrics"])
    for row in results.data["rows"]:
        assert row["length"] == length(experiment, row["multiple"])
        assert row["context"] == task.context(row["length"])
    spectra = bands(jobs)
    assert spectra.keys() == results.data["bands"].keys()
    for label, stored_band in results.data["bands"].items():
        for key, value in stored_band.items():
            np.testing.assert_allclose(spectra[label][key], value, rtol=1e-7, err_msg=label)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, []),
        ({"rope, loss of step 1": 5.000004}, []),  # rounding
        ({"rope, accuracy at 1x": 0.255}, []),  # one of 200 answers
        ({"rope, loss of step 1": 5.0001}, ["rope, loss of step 1: 5.0001 now, 5.0 stored"]),
        ({"rope, accuracy at 1x": 0.27}, ["rope, accuracy at 1x: 0.27 now, 0.25 stored"]),
        ({"pi, loss at 2x": 5.0}, ["pi, loss at 2x: 5.0 now, None stored"]),
    ],
)
def test_a_change_is_named_and_rounding_is_not(change, found):
    assert short_run.changes(NUMBERS, NUMBERS | change) == found
    assert len(short_run.changes(NUMBERS | change, NUMBERS)) == len(found)


def test_reproduce_stores_a_new_run_with_the_numbers_of_a_short_run(tmp_path, monkeypatch):
    study, runs = tmp_path / "study", tmp_path / "runs"
    shutil.copytree(stored.STUDY / "quick", study / "quick")

    def run(_experiment, directory, *_):
        directory.mkdir(parents=True)
        text = (study / "quick" / "result.json").read_text("utf-8")
        (directory / "result.json").write_text(text.replace("quick.toml", "new.toml"), "utf-8")
        return Results.read(directory)

    monkeypatch.setattr(stored, "STUDY", study)
    monkeypatch.setattr(main, "_run", run)
    monkeypatch.setattr(short_run, "short_run", lambda config: {config.stem: 1.0})
    command = ["reproduce", "quick", "--store", "--out", str(runs)]
    done = CliRunner().invoke(main.app, command)
    assert (done.exit_code, done.stdout) == (0, "quick: matches the stored result\n")
    assert json.loads((study / "quick" / "short_run.json").read_text("utf-8")) == {"quick": 1.0}
    assert stored.stored("quick").data["command"].endswith("new.toml")
    for words, remedy in (
        ([], f"{runs}/quick is there, give another --out"),
        (["--seeds", "5"], "leave out --seeds"),
    ):
        done = CliRunner().invoke(main.app, [*command, *words])
        what = "stores new runs with the seeds of the configs"
        assert (done.exit_code, done.stderr) == (BAD_INPUT, f"--store: {what}: {remedy}\n")
