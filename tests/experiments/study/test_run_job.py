"""A job is plain data, which another process can do; and the rows that it makes."""

import dataclasses
import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
from runs import ENVIRONMENT, FINETUNE, ROOT

from experiments.config.load import load
from experiments.config.plan import training_jobs
from experiments.study.hooks import Hooks, Stopped
from experiments.study.result import read
from experiments.study.rows import blank_rows, with_scores
from experiments.study.run_job import run_job
from experiments.tasks import Copy, Lag, Scores
from tests.soak.trials import contents

WORKER = """
import pickle, sys
from pathlib import Path
from experiments.study.run_job import run_job
from experiments.training import compilation
compilation.use_cache()
jobs = {job.label: job for job in pickle.load(sys.stdin.buffer)}
rows = [run_job(job, Path(sys.argv[1]), parent=jobs.get(job.parent)) for job in jobs.values()]
assert not any(name.startswith("experiments.config") for name in sys.modules)
print(sum(map(len, rows)))
"""


@pytest.fixture(scope="module")
def jobs(config):
    return training_jobs(load(config, [FINETUNE]))


@pytest.fixture
def directory(tmp_path):
    """The directory of a run without jobs so far."""
    (tmp_path / "encodings").mkdir()
    return tmp_path


def test_another_process_does_the_jobs_to_the_same_bytes(jobs, tuned, directory):
    owner = json.loads((tuned / "manifest.json").read_text())["config_sha256"]
    sent = pickle.dumps([dataclasses.replace(job, config_sha256=owner) for job in jobs])
    assert pickle.loads(sent)[0].train == jobs[0].train
    options = {"cwd": ROOT, "env": ENVIRONMENT, "timeout": 100}
    command = [sys.executable, "-c", WORKER, str(directory)]
    done = subprocess.run(command, input=sent, capture_output=True, **options)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode().split()[-1] == str(len(read(tuned)["rows"]))
    of_jobs = {name: data for name, data in contents(tuned).items() if "encodings" in name}
    assert contents(directory) == of_jobs


def test_a_stopped_job_says_so(jobs, directory):
    hooks = Hooks()
    hooks.stop.set()
    with pytest.raises(Stopped):
        run_job(jobs[0], directory, hooks)


def test_a_job_without_its_parent_is_refused(jobs, directory):
    learned, rope, pi = jobs
    for parent in (None, learned, dataclasses.replace(rope, seeds=(5,))):
        with pytest.raises(ValueError, match=r"'pi' starts from 'rope' with seeds \(0, 5\), got"):
            run_job(pi, directory, parent=parent)


def scores(losses):
    right = np.arange(len(losses), dtype=float)
    return Scores(right, np.array(losses) * 40.0, np.full(len(losses), 40.0), 8.0, 40)


def row_of(job, scores):
    return with_scores(job, blank_rows(job, job.evaluations[0])[0], 7, scores)


def test_a_row_has_the_metrics_of_its_task_and_16_parts(jobs):
    row = row_of(jobs[0], scores(np.linspace(0.0, 1.0, 33)))
    assert row["metrics"] == pytest.approx({"accuracy": 0.4, "exact_match": 0.2, "loss": 0.5})
    assert {name: len(values) for name, values in row["by_position"].items()} == {
        "accuracy": 16,
        "loss": 16,
    }
    assert row["by_position"]["accuracy"][0] == 0.025  # (0 + 1 + 2) / 120
    assert row["by_position"]["loss"] == sorted(row["by_position"]["loss"])
    assert list(map(len, row_of(jobs[0], scores([1.0]))["by_position"].values())) == [1, 1]


@pytest.mark.parametrize("task", [Copy(), Lag()])
def test_scores_that_are_no_number_are_not_in_a_row(jobs, task):
    job = dataclasses.replace(jobs[0], train=dataclasses.replace(jobs[0].train, task=task))
    diverged = row_of(job, scores([1.0, np.nan]))
    assert (diverged["metrics"], diverged["diverged"], diverged["fitted"]) == ({}, 7, False)
    huge = row_of(job, scores([1.0, 3000.0]))  # exp of it is infinite
    assert "perplexity" not in huge["metrics"]
    assert huge["metrics"]["loss"] == 1500.5
    json.dumps(huge, allow_nan=False)
