"""The user's own encoding and task: what docs/your-own.md shows, run."""

import re
import threading
from pathlib import Path

import jax
import numpy as np
import pytest
from watch import Watch

from experiments import run, store
from experiments.config import load

PAGE = (Path(__file__).parent.parent / "docs" / "your-own.md").read_text()


def block(language):
    (found,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    return found


@pytest.fixture
def mine(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(block("python"))
    (tmp_path / "mine.toml").write_text(block("toml"))
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path / "mine.toml"


SMALL = [
    "train.steps=4",
    "train.warmup=1",
    "train.report_every=2",
    "evaluate.multiples=[1, 2]",
    "evaluate.sequences=4",
    "seeds=[0]",
]


def test_the_page_runs_and_a_changed_file_is_told(mine):
    experiment = load.load(mine, [*SMALL, "model.features=16", "task.length=4", "encodings.alibi.train.steps=6"])
    go = [experiment, mine.parent / "run", lambda: Watch(threading.Event()), "command"]
    result = run.run(*go, threading.Event(), print)
    assert {row["encoding"] for row in result["rows"]} == {"ramp", "alibi", "ramp_and_rope"}
    assert all(np.isfinite(row["loss"]) for row in result["rows"])
    assert {"mine:Ramp", "mine:Rotate"} <= result["environment"].keys()
    (mine.parent / "mine.py").write_text(block("python") + "\n# changed\n")
    (mine.parent / "run" / "result.json").unlink()
    warnings = []
    run.run(*go, threading.Event(), warnings.append)
    assert len(warnings) == 1
    assert "mine:Ramp" in warnings[0]
    (mine.parent / "mine.py").unlink()
    assert store.read(mine.parent / "run")["rows"]  # a reader imports nothing


def test_the_task_of_the_page_answers_as_it_says(mine):
    task = load.load(mine).task_value()
    tokens, mask = task.sample(jax.random.key(0), 3, 5)
    for row in np.asarray(tokens):
        np.testing.assert_array_equal(row[7:12], np.roll(row[1:6], -2))
    assert mask.sum() == 3 * 6
