"""Broken configs and broken run directories end in words: a few of what `python -m experiments.soak` tries by the thousand."""

import threading

import pytest
from test_resume import CONFIG
from watch import Watch

from experiments import figures, files, report, run
from experiments.config import load
from experiments.soak import fuzz, fuzz_files
from experiments.text import plain, shown


def test_every_broken_config_is_run_able_or_refused_in_words(tmp_path):
    counts = fuzz.many(240, tmp_path / "broken.toml")
    assert counts["valid"] > 20
    assert counts["refused"] > 100


def test_what_every_section_compiles_can_be_built(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text(CONFIG)
    fuzz.build(load.load(path))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with a whole run and one that was stopped."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "c.toml").write_text(CONFIG)
    experiment = load.load(folder / "c.toml")
    for name, event in (("whole", None), ("stopped", "step")):
        stop = threading.Event()
        watch = Watch(stop, event, step=60)
        try:
            run.run(experiment, folder / name, lambda watch=watch: watch, "command", stop, print)
        except run.Stopped:
            assert name == "stopped"
    return folder


@pytest.mark.parametrize(("name", "command"), [("whole", "report"), ("stopped", "resume")])
def test_a_run_with_any_broken_file_ends_in_words(runs, name, command, monkeypatch):
    def rendered(result, directory, output=None):  # the report without its pictures, which take a second
        report.render(result, {"run": result}, figures.figures(result), files.read_lines(directory / "metrics.jsonl"))
        return directory

    monkeypatch.setattr(report, "write", rendered)
    counts = fuzz_files.many(12, runs / name, runs / "broken", [command])
    assert sum(counts.values()) >= 12


def test_names_do_nothing_to_a_terminal():
    assert plain("a\nb\x1b[2J\ud800é") == "a\\nb\\x1b[2J\\ud800é"
    assert shown(10**5000) == "int too large to show"
    assert len(shown("x" * 10**6)) < 300
