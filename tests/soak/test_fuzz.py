"""Broken configs and run directories end in words: a few of what `python -m tests.soak` tries."""

import threading
from types import SimpleNamespace

import pytest
from watch import Watch

from experiments.analysis import figures
from experiments.config.load import load
from experiments.study.hooks import Stopped
from experiments.study.run_study import run_study
from experiments.text import plain, shown
from tests.soak import fuzz_configs, fuzz_files
from tests.soak.trials import CONFIG

# the programs of tests/experiments/study
SMALL = ["model.features=8", "model.layers=1", "train.steps=120"]


def test_every_broken_config_is_valid_or_refused_in_words(tmp_path):
    counts = fuzz_configs.fuzz(240, tmp_path / "broken.toml")
    assert counts["valid"] > 20
    assert counts["refused"] > 100


def test_what_every_section_compiles_can_be_built(tmp_path):
    (tmp_path / "c.toml").write_text(CONFIG)
    fuzz_configs.build(load(tmp_path / "c.toml", SMALL))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with a whole run and one that was stopped."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "c.toml").write_text(CONFIG)
    experiment = load(folder / "c.toml", SMALL)
    for name, event in (("whole", None), ("stopped", "step")):
        stop = threading.Event()
        watch = Watch(stop, event, step=20)
        try:
            run_study(experiment, folder / name, lambda watch=watch: watch, "command", stop, print)
        except Stopped:
            assert name == "stopped"
    return folder


@pytest.mark.parametrize(
    ("name", "command", "count"), [("whole", "report", 6), ("stopped", "resume", 8)]
)
def test_a_run_with_any_broken_file_ends_in_words(runs, name, command, count, monkeypatch):
    explorable, nothing = figures.explorable, SimpleNamespace(to_dict=dict)

    def one_scale(*of, linear):
        """The chart of each metric; the same data on a linear axis are left to the soak trials."""
        return nothing if linear else explorable(*of, linear=False)

    # charts take a second
    monkeypatch.setattr(figures, "save", lambda *_: None)
    monkeypatch.setattr(figures, "explorable", one_scale)
    counts = fuzz_files.fuzz(count, runs / name, runs / "broken", [command])
    assert sum(counts.values()) >= count


def test_names_do_nothing_to_a_terminal():
    assert plain("a\nb\x1b[2J\ud800é") == "a\\nb\\x1b[2J\\ud800é"
    assert shown(10**5000) == "int too large to show"
    assert len(shown("x" * 10**6)) < 300
