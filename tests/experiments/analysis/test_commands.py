"""`report` and `reproduce` on the command line, with stored results."""

from copy import deepcopy

import pytest
from typer.testing import CliRunner

from experiments import __main__ as main
from experiments.analysis import figures
from experiments.analysis.stored import STUDY, stored
from experiments.analysis.table import Results
from experiments.status import BAD_INPUT, DIFFERENT


def command(*words):
    return CliRunner().invoke(main.app, [str(word) for word in words])


def test_report_compares_runs_of_one_task(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "save", lambda charts, directory: None)  # takes seconds
    runs = [STUDY / "beta_copy", STUDY / "extend"]
    done = command("report", *runs, "--out", tmp_path / "both")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == str(tmp_path / "both" / "report.html")
    assert "extend: yarn_fitted" in done.stdout
    assert "beta_copy: rope_base base=10.0" in (tmp_path / "both" / "report.html").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["report"], "give either directories of runs or --all"),
        (["report", "--all", "x"], "give either directories of runs or --all"),
        (["report", "configs"], "configs: no result.json: not the directory of a run"),
        (["report", STUDY / "copy", STUDY / "sort"], "sort: cannot be compared with the first run"),
        (["reproduce", "quik"], "'quik': no stored result; expected one of beta, beta_copy, copy"),
    ],
)
def test_bad_input_is_named(words, message):
    done = command(*words)
    assert done.exit_code == BAD_INPUT
    assert message in done.stderr


def test_reproduce_names_what_does_not_match(monkeypatch, tmp_path):
    new = Results(deepcopy(stored("quick").data))
    monkeypatch.setattr(main, "_run", lambda *_: new)
    done = command("reproduce", "quick", "--seeds", "5,6", "--out", tmp_path)
    assert (done.exit_code, done.stdout) == (0, "quick: matches the stored result\n")
    for row in new.data["rows"]:
        if row["encoding"] == "rope" and row["multiple"] == 2:
            row["metrics"]["accuracy"] = 0.25
    done = command("reproduce", "quick", "--out", tmp_path)
    assert done.exit_code == DIFFERENT
    assert done.stdout.startswith("quick: rope at 2x: 25.0 (25–25) now, 81.8 (81–83) stored\n")
