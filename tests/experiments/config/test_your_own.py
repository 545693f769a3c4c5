"""The user's own encoding, tasks and model: what docs/your-own.md shows, run."""

import re
import sys
import threading
import tomllib
from pathlib import Path

import jax
import numpy as np
import pytest
from watch import Watch

from experiments.config import load, plan
from experiments.study.result import read
from experiments.study.run_study import run_study

PAGE = (Path(__file__).parents[3] / "docs" / "your-own.md").read_text()


def block(language):
    return "\n\n".join(re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))


@pytest.fixture
def mine(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(block("python"))
    (tmp_path / "mine.toml").write_text(block("toml"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine", raising=False)  # that of another test
    return tmp_path / "mine.toml"


SMALL = [
    "train.steps=4",
    "train.warmup=1",
    "train.report_every=2",
    "evaluate.multiples=[1]",
    "evaluate.sequences=4",
    "seeds=[0]",
    "model={features=8, layers=1}",
]


def test_the_page_runs_and_a_changed_file_is_told(mine):
    experiment = load.load(mine, [*SMALL, "task.length=4", "encodings.alibi.train.steps=6"])
    go = [experiment, mine.parent / "run", lambda: Watch(threading.Event()), "command"]
    result = run_study(*go, threading.Event(), print)
    labels = {"ramp", "alibi", "ramp_and_rope", "one_layer"}
    assert {row["encoding"] for row in result["rows"]} == labels
    assert all(np.isfinite(row["metrics"]["loss"]) for row in result["rows"])
    assert {"mine:Ramp", "mine:Rotate", "mine:OneLayer"} <= result["environment"].keys()
    (mine.parent / "mine.py").write_text(block("python") + "\n# changed\n")
    (mine.parent / "run" / "result.json").unlink()
    warnings = []
    run_study(*go, threading.Event(), warnings.append)
    assert len(warnings) == 1
    assert "mine:Ramp" in warnings[0]
    (mine.parent / "mine.py").unlink()
    assert read(mine.parent / "run")["rows"]  # a reader imports nothing


def test_the_task_of_the_page_answers_as_it_says(mine):
    task = plan.task(load.load(mine))
    tokens, mask = task.sample(jax.random.key(0), 3, 5)
    for row in np.asarray(tokens):
        np.testing.assert_array_equal(row[7:12], np.roll(row[1:6], -2))
    assert mask.sum() == 3 * 6


def test_a_task_with_data_of_its_own_runs(mine):
    (mine.parent / "text").write_bytes(bytes(range(200)))
    task = {"type": "mine:NextByte", "path": str(mine.parent / "text"), "length": 5}
    encodings = {"ramp": {"type": "mine:Ramp"}}
    data = tomllib.loads(block("toml")) | {"task": task, "encodings": encodings}
    for override in [*SMALL, "evaluate.multiples=[1, 2]"]:
        load.override(data, override)
    experiment = load.validate(data)
    sampler = plan.task(experiment)
    tokens, _ = sampler.sample(jax.random.key(0), 3, 5, data=sampler.data())
    np.testing.assert_array_equal(np.diff(tokens), 1)
    stop = threading.Event()
    result = run_study(experiment, mine.parent / "run", lambda: Watch(stop), "command", stop, print)
    names = {"loss", "accuracy", "perplexity"}
    assert [row["metrics"].keys() for row in result["rows"]] == [names, names]


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
    def sample(self, key, batch, length, **options):
        tokens, mask = super().sample(key, batch, length, **options)
        return tokens[:, 1:], mask
"""


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("encodings.ramp.strat=1", "encodings.ramp.strat: unknown key, did you mean 'start'?"),
        ("encodings.ramp.type='mine:Rmap'", "has no class 'Rmap', did you mean 'mine:Ramp'?"),
        (
            "encodings.ramp.type='mine.Ramp'",
            "unknown encoding 'mine.Ramp', did you mean 'mine:Ramp'?",
        ),
        (
            "encodings.ramp.type='nowhere:Ramp'",
            "No module named 'nowhere'; modules are looked for in ",
        ),
        (
            "encodings.ramp.type='mine:Undecorated'",
            "'mine:Undecorated' should be a frozen dataclass",
        ),
        (
            "encodings.ramp.type='mine:HeadsLast'",
            "ramp: bias should give [..., N, T, S], heads by queries by keys, here [2, 5, 7], gives [5, 7, 2]",
        ),
        (
            "encodings.ramp.type='mine:NoSuchParameter'",
            "encodings.ramp: bias fails with KeyError: 'slopes'",
        ),
        (
            "encodings.ramp.type='mine:Forgetful'",
            "bias fails with TypeError: Forgetful.bias() got an unexpected",
        ),
        (
            "encodings.ramp.type='mine:Speechless'",
            "embed should give [..., T, D], as x, here [2, 5, 64], gives None",
        ),
        ("encodings.ramp.type='mine:Single'", "rotation should give 2 of as q, as k; gives 1"),
        (
            "task.type='mine:Short'",
            "task: sample should give [B, context + 1] here [2, 27], gives [2, 26]",
        ),
        (
            "encodings.rmap.start=1",
            "'encodings.rmap.start=1': unknown encoding 'rmap', did you mean 'ramp'?",
        ),
    ],
)
def test_what_is_wrong_with_a_class_of_ones_own_is_told_before_training(
    mine, monkeypatch, override, told
):
    (mine.parent / "mine.py").write_text(block("python") + BROKEN)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    with pytest.raises(load.ConfigError) as error:
        load.load(mine, [override])
    assert told in str(error.value)
    assert len(str(error.value).splitlines()) == 1


MODEL = """
from dataclasses import dataclass

import jax
import jax.numpy as jnp

import jrope
from experiments.tasks import Randomized


@dataclass(frozen=True)
class OneLayer:
    vocabulary: int
    encoding: jrope.Encoding
    width: int = 8

    def __post_init__(self):
        if self.width < 2:
            raise ValueError(f"OneLayer: width must be at least 2, got {self.width}")

    @property
    def sizes(self):
        return {"features": self.width, "num_heads": 1, "head_dim": self.width, "num_layers": 1}

    def init(self, key):
        table = jax.random.normal(key, (self.vocabulary, self.width))
        return {"table": table, "encoding": self.encoding.init(key, **self.sizes)}

    def apply(self, params, tokens, positions, *, encoding=None):
        encoding, own = encoding or self.encoding, params["encoding"]
        x = encoding.embed(own, params["table"][tokens], positions)
        rotate = encoding.rotation(own, positions, positions, head_dim=self.width)
        q, k = rotate(x[..., None, :], x[..., None, :])
        bias = encoding.bias(own, positions, positions, num_heads=1)
        out = jax.nn.dot_product_attention(q, k, x[..., None, :], bias=bias, is_causal=True)
        return (x + out[..., 0, :]) @ params["table"].T


class Wide(OneLayer):
    def apply(self, params, tokens, positions, *, encoding=None):
        return params["table"][tokens]


class Sizeless(OneLayer):
    sizes = {"features": 8}


@dataclass(frozen=True)
class Halved:
    factor: float

    def __call__(self, spectrum, *, length=None):
        return jrope.Linear(self.factor / 2 + 1)(spectrum)


@dataclass(frozen=True)
class NoLength(Halved):
    def __call__(self, spectrum):
        return spectrum


@dataclass(frozen=True)
class Backwards(Randomized):
    def sample(self, key, context):
        return super().sample(key, context)[::-1, None]
"""


def test_a_model_a_scaling_and_position_ids_of_ones_own(mine, monkeypatch):
    only_ramp, *_ = block("toml").partition("[encodings.alibi]")
    mine.write_text(only_ramp)
    (mine.parent / "parts.py").write_text(MODEL)
    monkeypatch.delitem(sys.modules, "parts", raising=False)
    own = [*SMALL, "model={type='parts:OneLayer', width=4}", "task.length=4"]
    own += ["evaluate.multiples=[1, 2]"]
    own += ["encodings.half={extends='rope', scaling={type='parts:Halved', factor='match'}}"]
    own += [
        "encodings.rope={type='rope', model.width=6, positions={type='parts:Randomized', over=30}}"
    ]
    experiment = load.load(mine, own)
    assert plan.model(experiment, "ramp").width == 4
    assert plan.model(experiment, "half").sizes["head_dim"] == 6
    assert load.validate(experiment.record()) == experiment
    go = [experiment, mine.parent / "run", lambda: Watch(threading.Event()), "command"]
    result = run_study(*go, threading.Event(), print)
    assert all(np.isfinite(row["metrics"]["loss"]) for row in result["rows"])
    assert {"parts:OneLayer", "parts:Halved"} <= result["environment"].keys()
    for override, line in {
        "model.wdith=3": "model.wdith: unknown key, did you mean 'width'?",
        "model.vocabulary=3": "model.vocabulary: unknown key, expected one of 'width'",
        "model.width=1": "model: OneLayer: width must be at least 2, got 1",
        "encodings.ramp.model.width='x'": "encodings.ramp.model.width: should be a valid integer, got 'x'",
        "model.type='parts:Wide'": "model: apply should give [B, T, vocabulary] here [2, 5, 100], gives [2, 5, 4]",
        "model.type='parts:Sizeless'": "model: sizes fails with KeyError: 'num_heads'",
        "model.type='parts.OneLayer'": "unknown model 'parts.OneLayer', did you mean 'parts:OneLayer'?",
        "encodings.half.scaling.type='parts:NoLength'": "encodings.half: fails with TypeError: NoLength.__call__()",
        "encodings.rope.positions.type='parts:Backwards'": "positions: sample should give [context] here [10]",
    }.items():
        with pytest.raises(load.ConfigError, match=re.escape(line)):
            load.load(mine, [*own, override])
    other = load.load(mine, [*own, "encodings.ramp.model={type='transformer', heads=4}"])
    assert plan.model(other, "ramp").features == 64
