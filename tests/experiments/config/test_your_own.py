"""The user's own encoding and task: what docs/your-own.md shows, run."""

import re
import sys
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


BROKEN = """
class Undecorated(Ramp):
    more: float = 1.0

@dataclass(frozen=True)
class HeadsLast(Ramp):
    def bias(self, params, q_positions, k_positions, *, num_heads):
        return jnp.moveaxis(super().bias(params, q_positions, k_positions, num_heads=num_heads), -3, -1)

@dataclass(frozen=True)
class NoSuchParameter(Ramp):
    def bias(self, params, q_positions, k_positions, *, num_heads):
        return params["slopes"]

@dataclass(frozen=True)
class Forgetful(Ramp):
    def bias(self, params, q_positions, k_positions):
        return None

@dataclass(frozen=True)
class Speechless(Ramp):
    def embed(self, params, x, positions):
        x + 1

@dataclass(frozen=True)
class Single(Ramp):
    def rotation(self, params, q_positions, k_positions, *, head_dim, length=None):
        return lambda q, k: q

@dataclass(frozen=True)
class Short(Rotate):
    def sample(self, key, batch, length, *, training=False):
        tokens, mask = super().sample(key, batch, length, training=training)
        return tokens[:, 1:], mask
"""


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("encodings.ramp.strat=1", "encodings.ramp: strat: unknown key, did you mean 'start'?"),
        ("encodings.ramp.type='mine:Rmap'", "has no class 'Rmap', did you mean 'mine:Ramp'?"),
        ("encodings.ramp.type='mine.Ramp'", "unknown encoding 'mine.Ramp', did you mean 'mine:Ramp'?"),
        ("encodings.ramp.type='nowhere:Ramp'", "No module named 'nowhere'; modules are looked for in "),
        ("encodings.ramp.type='mine:Undecorated'", "'mine:Undecorated' should be a frozen dataclass"),
        (
            "encodings.ramp.type='mine:HeadsLast'",
            "ramp: bias should give [..., N, T, S], heads by queries by keys, here [2, 5, 7], gives [5, 7, 2]",
        ),
        ("encodings.ramp.type='mine:NoSuchParameter'", "encodings.ramp: bias fails with KeyError: 'slopes'"),
        (
            "encodings.ramp.type='mine:Forgetful'",
            "bias fails with TypeError: Forgetful.bias() got an unexpected",
        ),
        ("encodings.ramp.type='mine:Speechless'", "embed should give [..., T, D], as x, here [2, 5, 64], gives None"),
        ("encodings.ramp.type='mine:Single'", "rotation should give 2 of as q, as k; gives 1"),
        ("task.type='mine:Short'", "task: sample should give [B, context + 1] here [2, 27], gives [2, 26]"),
        ("encodings.rmap.start=1", "'encodings.rmap.start=1': unknown encoding 'rmap', did you mean 'ramp'?"),
    ],
)
def test_what_is_wrong_with_a_class_of_ones_own_is_told_before_training(mine, monkeypatch, override, told):
    (mine.parent / "mine.py").write_text(block("python") + BROKEN)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    with pytest.raises(load.ConfigError) as error:
        load.load(mine, [override])
    assert told in str(error.value)
    assert len(str(error.value).splitlines()) == 1
