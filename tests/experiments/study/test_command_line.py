"""Whole runs from the command line: files, messages and statuses."""

import json
import re
import subprocess
import sys
import threading

import jax
import pytest
from runs import CONFIG, ROOT
from typer.testing import CliRunner

from experiments import __main__ as main
from experiments import signals
from experiments.analysis import figures
from experiments.analysis.table import Results
from experiments.study import result
from experiments.training import train

HOSTILE = "</script><script>alert(1)</script>"
HOSTILE_CONFIG = (
    CONFIG.replace('"soak"', '"A <b>tiny</b> run"')
    .replace("[encodings.rope]", f'[encodings."{HOSTILE}"]')
    .replace('extends = "rope"', f'extends = "{HOSTILE}"')
)


@pytest.fixture(autouse=True)
def at_root(monkeypatch):
    monkeypatch.chdir(ROOT)
    # the handlers of this process are pytest's
    monkeypatch.setattr(signals, "stop_event", lambda _: threading.Event())


def command(*words):
    return CliRunner().invoke(main.app, [str(word) for word in words])


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A whole run, and how its command ended."""
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "tiny.toml").write_text(HOSTILE_CONFIG)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signals, "stop_event", lambda _: threading.Event())
        done = command(
            "run", folder / "tiny.toml", "train.report_every=50", "--out", folder / "run"
        )
    assert done.exit_code == 0, done.output
    return folder / "run", done


def test_a_run_writes_everything_and_ends_with_the_report(tiny):
    directory, done = tiny
    assert done.stdout.splitlines()[-1] == str(directory / "report.html")
    assert done.stderr == ""
    names = {"encodings", "lock", "manifest.json", "metrics.jsonl", "results.jsonl", "result.json"}
    names |= {"figure.svg", "figure.pdf", "figure.png", "bands.svg", "bands.pdf", "report.html"}
    got = {path.name for path in directory.iterdir()}
    assert names <= got
    assert all("position" in name or "along" in name for name in got - names)
    assert re.search(r"learned +\d+/120 steps +loss \d\.\d+ +\d+ steps/s +\d+ s left", done.stdout)
    assert "token accuracy in %" in done.stdout
    assert "Not fitted to the trained length in every seed" in done.stdout


def test_the_results_table(tiny):
    directory, _ = tiny
    results = Results.read(directory)
    data = results.data
    assert data["config"]["train"]["report_every"] == 50
    assert {"jax", "jaxlib", "flax", "python", "cpu", "cores"} <= data["environment"].keys()
    assert len(data["rows"]) == 3 * 2 * 2
    lines = [json.loads(line) for line in (directory / "results.jsonl").read_text().splitlines()]
    assert lines == data["rows"]
    text = (directory / "metrics.jsonl").read_text()
    reports = [json.loads(line) for line in text.splitlines()]
    trained = [label for label in results.labels if label != "pi"]
    assert [(m["encoding"], m["step"], m["seed"]) for m in reports] == [
        (label, step, seed) for label in trained for step in (50, 100, 120) for seed in (0, 5)
    ]
    learned, rope, pi = results
    assert rope.cell(1, "loss") == pi.cell(1, "loss")  # a factor of one
    assert rope.cell(2, "loss") != pi.cell(2, "loss")
    assert learned.cell(2, "accuracy") is None
    assert (learned.limit, rope.limit) == (8, None)
    assert [metric.name for metric in results.metrics] == ["accuracy", "exact_match", "loss"]
    for row in data["rows"]:
        assert 0 <= row["metrics"].get("accuracy", 0) <= 1
        assert row["fitted"] is False
    assert list(data["bands"]) == [HOSTILE, "pi"]
    ratios = [
        pi / rope
        for rope, pi in zip(*(band["frequencies"] for band in data["bands"].values()), strict=True)
    ]
    assert ratios == pytest.approx([8 / 14] * 2)


def test_the_figure_ends_a_learned_line_and_draws_no_noise(tiny):
    spec = figures.extrapolation(Results.read(tiny[0])).to_dict()
    text = json.dumps(spec)
    assert "learned has a value for 8 positions only: its line ends there." in text
    layers = spec["hconcat"][0]["layer"]
    areas = (layer for layer in layers if layer.get("mark", {}).get("type") == "area")
    points = next(areas)["data"]["values"]
    assert {p["length"] for p in points if p["encoding"] == "learned"} == {3}
    assert {p["length"] for p in points if p["encoding"] == "pi"} == {3, 6}
    assert not any(p["fitted"] for p in points)
    svg = (tiny[0] / "figure.svg").read_text()
    for words in ("trained length", "chance", "no value beyond", "token accuracy"):
        assert words in svg


def test_names_are_text_in_the_report(tiny):
    html = (tiny[0] / "report.html").read_text()
    assert "<script>alert" not in html
    assert "<b>tiny</b>" not in html
    assert "A &lt;b&gt;tiny&lt;/b&gt; run" in html
    assert not re.search(r'(src|href)="?https?:', html)
    assert html.count("only 0 of 2") == 3 * 3  # encodings x tables
    assert html.count("fitted in 0 of 2 seeds") == 2  # the sentence about the two trained ones


def test_report_draws_it_all_again_from_stored_results(tiny):
    directory, _ = tiny
    figure = (directory / "figure.svg").read_bytes()
    for name in ("figure.svg", "report.html", "metrics.jsonl"):
        (directory / name).unlink()
    done = command("report", directory)
    assert done.exit_code == 0, done.output
    assert (directory / "figure.svg").read_bytes() == figure
    assert done.stdout.splitlines()[-1] == str(directory / "report.html")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda r: [], "should hold an object, holds list"),
        (lambda r: {**r, "format": 1}, "has format 1, but this version of jrope reads format 2"),
        (lambda r: {k: v for k, v in r.items() if k != "task"}, "task: Field required"),
        (lambda r: {**r, "task": {**r["task"], "metrics": []}}, "task.metrics: List should have"),
        (lambda r: {**r, "rows": []}, "rows at 1x are missing"),
        (
            lambda r: {**r, "rows": [{**r["rows"][0], "metrics": {"loss": "x"}}]},
            "rows.0.metrics.loss",
        ),
        (lambda r: {**r, "config": {"title": 1}}, "not the result of a run: title"),
    ],
)
def test_a_damaged_result_is_refused_in_words(tiny, damage, words, tmp_path):
    damaged = damage(json.loads((tiny[0] / "result.json").read_text()))
    (tmp_path / "result.json").write_text(json.dumps(damaged))
    with pytest.raises(result.DirectoryError, match=re.escape(words)):
        result.read(tmp_path)


def test_a_full_disk_and_too_little_memory_have_their_own_statuses(tmp_path, monkeypatch):
    def use_all(*_):
        raise jax.errors.JaxRuntimeError(f"RESOURCE_EXHAUSTED: {allocation}")

    allocation = "Out of memory allocating 64000000000 bytes."
    config = tmp_path / "tiny.toml"
    config.write_text(CONFIG)
    (tmp_path / "file").write_text("")
    nowhere = tmp_path / "file" / "run"
    done = command("run", config, "--out", nowhere)
    assert (done.exit_code, done.stderr) == (4, f"{nowhere}: Not a directory\n")
    monkeypatch.setattr(train, "train_steps", use_all)
    done = command("run", config, "--out", tmp_path / "run")
    assert done.exit_code == 5
    assert f"RESOURCE_EXHAUSTED: {allocation} What was saved before is whole" in done.stderr
    assert done.stderr.startswith(("encodings.learned: ", "encodings.rope: "))
    assert f"continue with: python -m experiments resume {tmp_path / 'run'}" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["run", "configs/quick.toml", "encodings.yarn.scaling.facotr=2"],
            "encodings.yarn.scaling.facotr: unknown key, did you mean 'factor'?",
        ),
        (["run", "configs/qick.toml"], "configs/qick.toml: No such file or directory"),
        (
            ["run", "configs/quick.toml", "--out", "configs"],
            "configs is not empty, and not the directory of a run",
        ),
        (["run", "configs/quick.toml", "--out", "README.md"], "README.md is a file"),
        (
            ["validate", "configs/quick.toml", "train.steps=nan"],
            "train.steps: should be a valid integer",
        ),
        (["report", "configs"], "configs: no result.json: not the directory of a run"),
        (["resume", "configs"], "configs: no manifest.json: not the directory of a run"),
    ],
)
def test_bad_input_ends_with_a_message_and_status_2(words, message):
    done = command(*words)
    assert done.exit_code == 2
    assert message in done.stderr
    assert isinstance(done.exception, SystemExit)  # and no traceback


def test_help_and_list_do_not_import_jax():
    code = """
import sys
from experiments.__main__ import app
for words in (["--help"], ["run", "--help"], ["list"]):
    try:
        app(words)
    except SystemExit as end:
        assert not end.code
    assert "jax" not in sys.modules and "altair" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    configs = (ROOT / "configs").glob("*.toml")
    assert all(str(path.relative_to(ROOT)) in done.stdout for path in configs)


def test_validate_says_what_a_config_will_do():
    done = command("validate", "configs/quick.toml")
    assert done.exit_code == 0
    assert "3 encodings to train, 6 to evaluate, 5 seeds" in done.stdout
