"""Training and evaluation as pure functions, and whole runs from the command line."""

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jrope
from experiments import evaluate, results, store, train
from experiments.positions import Consecutive, Randomized
from experiments.tasks import Copy, Lag
from jrope import transformer
from jrope.transformer import TransformerConfig

ROOT = Path(__file__).parent.parent
TINY = """
title = "A <b>tiny</b> run"
seeds = [0, 5]
[task]
type = "copy"
symbols = 24
length = 3
[model]
features = 16
[train]
steps = 12
batch = 4
learning_rate = 1e-2
warmup = 2
report_every = 5
[evaluate]
multiples = [1, 2]
sequences = 10
[encodings.learned]
type = "learned"
[encodings."</script><script>alert(1)</script>"]
type = "rope"
[encodings.pi]
extends = "</script><script>alert(1)</script>"
scaling = { type = "linear", factor = "match" }
"""


def trainer(encoding=None, **options):
    task = options.pop("task", Copy(symbols=12))
    model = TransformerConfig(task.vocabulary, encoding or jrope.Rope(), features=16)
    defaults = {"length": 3, "batch": 4, "steps": 20, "learning_rate": 1e-2, "warmup": 2, "weight_decay": 0.01}
    return train.Trainer(task, model, Consecutive(), **{**defaults, **options})


def advance(t, seeds, state, steps):
    return train.advance(t, t.model.encoding, seeds, state, steps)


def command(*arguments, cwd=ROOT, **options):
    environment = {**os.environ, "COLUMNS": "100", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, "-m", "experiments", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment,
        **options,
    )


def test_training_learns_and_any_split_into_chunks_is_the_same():
    seeds = jnp.array([0, 3], jnp.uint32)
    t = trainer(task=Copy(symbols=4, unique=False), steps=150)
    before = train.advance._cache_size()
    state, first = advance(t, seeds, train.start(t, seeds), 10)
    split, _ = advance(t, seeds, state, 10)
    whole, _ = advance(t, seeds, train.start(t, seeds), 20)
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(split), strict=True):
        np.testing.assert_array_equal(a, b)
    _, last = advance(t, seeds, split.reported(), 130)
    assert (last < 0.8 * first).all()
    assert train.advance._cache_size() == before + 1


def test_seeds_differ_and_each_is_what_it_would_be_alone():
    """Vmapped to rounding; in calls of their own, as on CPUs, bit for bit, however these are done."""
    t, seeds = trainer(), jnp.array([0, 3], jnp.uint32)
    alone, own = advance(t, seeds[1:], train.start(t, seeds[1:]), 5)
    assert len(train.apart(seeds, train.start(t, seeds))) == 2
    with ThreadPoolExecutor(2) as cores:
        for side_by_side in (map, cores.map):
            parts = train.apart(seeds, train.start(t, seeds))
            parts, losses = train.advance_each(t, t.model.encoding, parts, 5, side_by_side=side_by_side)
            assert losses[0] != losses[1] == own[0]
            for a, b in zip(jax.tree.leaves(train.joined([state for _, state in parts])), jax.tree.leaves(alone), strict=True):
                np.testing.assert_array_equal(a[1], b[0])
    together, losses = advance(t, seeds, train.start(t, seeds), 5)
    np.testing.assert_allclose(losses[1], own[0], rtol=1e-5)
    for a, b in zip(jax.tree.leaves(together.params), jax.tree.leaves(alone.params), strict=True):
        np.testing.assert_allclose(a[1], b[0], atol=1e-5)


def test_parts_are_trained_by_one_program():
    """Also when their states have come from the host, and when they come from the call before."""
    compiled = []

    def listen(event, _, **about):
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(about["fun_name"])

    t, seeds = trainer(steps=21), jnp.array([0, 3, 4], jnp.uint32)
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        parts = train.apart(seeds, train.start(t, seeds))
        for _ in range(3):
            parts, _ = train.advance_each(t, t.model.encoding, parts, 2)
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert len([name for name in compiled if "advance" in name]) == 1


def test_seeds_are_vmapped_on_accelerators(monkeypatch):
    t, seeds = trainer(), jnp.array([0, 3], jnp.uint32)
    state = train.start(t, seeds)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    ((own, whole),) = train.apart(seeds, state)
    assert len(own) == 2
    assert whole is state
    assert not train.vmapped(1)


def scores_of(t, params, encodings, *, seeds=(0,), length=4, sequences=7):
    shared = {"model": t.model, "task": t.task, "positions": t.positions, "length": length, "sequences": sequences}
    return evaluate.evaluate(jnp.array(seeds, jnp.uint32), params, encodings, **shared)


@pytest.mark.parametrize("a_call", [10, 10_000])
def test_evaluation_against_a_plain_loop(a_call, monkeypatch):
    monkeypatch.setattr(evaluate, "A_CALL", 3 * a_call)  # in parts of 2 sequences, or all in one
    t, seeds = trainer(), jnp.array([0], jnp.uint32)
    params = train.start(t, seeds).params
    scores = scores_of(t, params, [t.model.encoding])
    graphdef, one = transformer.abstract(t.model), jax.tree.map(lambda p: p[0], params)
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seeds[0]), 2), 4)
    right, losses = [], []
    for index in range(7):
        tokens, mask = (np.asarray(part)[0] for part in t.task.sample(jax.random.fold_in(key, index), 1, 4))
        logits = np.asarray(transformer.apply(graphdef, one, tokens[None, :-1], jnp.arange(10)))[0]
        logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        right.append((logits.argmax(-1) == tokens[1:])[mask[1:]])
        losses.append(-logp[np.arange(10), tokens[1:]][mask[1:]])
    expected = [np.mean(right), np.mean(np.all(right, -1)), np.mean(losses), np.mean(right, 0), np.mean(losses, 0)]
    for got, wanted in zip(scores, expected, strict=True):
        np.testing.assert_allclose(got[0, 0], wanted, rtol=1e-5)


@pytest.mark.parametrize("tokens", [1, 130, 970, 3000, 5000, 100_000])
@pytest.mark.parametrize("sequences", [1, 7, 512])
def test_calls_of_an_evaluation(sequences, tokens):
    count = evaluate.of_a_call(sequences, tokens)
    calls = -(-sequences // count)
    assert count == 1 or count * tokens <= evaluate.A_CALL
    assert sequences <= calls * count < 2 * sequences + 1
    for encodings in (1, 3, 4):
        batch, most = evaluate.at_once(count, encodings * tokens), max(1, evaluate.TOGETHER // (encodings * tokens))
        assert count % batch == 0
        assert min(count, most) / 2 < batch <= most


def test_all_scalings_are_evaluated_side_by_side_by_one_program_and_each_as_if_alone():
    t, seeds = trainer(task=Lag(symbols=8)), (0, 3)
    params = train.start(t, jnp.array(seeds, jnp.uint32)).params
    before = evaluate.sums._cache_size()
    scalings = (None, jrope.Linear(2.0), jrope.NTK(2.0), jrope.DynamicNTK(1.0, 4), jrope.Yarn(2.0, 16))
    encodings = [jrope.Rope(scaling=scaling).at(head_dim=8, length=32) for scaling in scalings]
    together = scores_of(t, params, encodings, seeds=seeds, length=32)
    assert evaluate.sums._cache_size() == before + 1
    assert together.accuracy.shape == (5, 2)
    assert together.loss_along.shape == (5, 2, 16)
    assert len(set(together.loss[:, 0])) == 5
    for i, encoding in enumerate(encodings):
        alone = scores_of(t, params, [encoding], seeds=seeds, length=32)
        for part, own in zip(together, alone, strict=True):
            np.testing.assert_allclose(part[i], own[0], rtol=1e-5)


def test_all_bases_are_trained_by_one_program():
    task, seeds = Copy(symbols=12), jnp.array([0], jnp.uint32)
    shared = {"length": 3, "batch": 4, "steps": 20, "learning_rate": 1e-2, "warmup": 2, "weight_decay": 0.01}
    t = train.Trainer(task, TransformerConfig(task.vocabulary, features=16), Consecutive(), **shared)
    before = train.advance._cache_size()
    losses = [
        float(train.advance(t, jrope.Rope(base=base).at(head_dim=8, length=8), seeds, train.start(t, seeds), 5)[1][0])
        for base in (100.0, 10_000.0)
    ]
    assert losses[0] != losses[1]
    assert train.advance._cache_size() == before + 1


def test_randomised_positions_are_new_at_each_step_and_one_draw_for_a_batch():
    positions = Randomized(over=30)
    first, second = (np.asarray(positions.sample(jax.random.key(i), 10)) for i in range(2))
    assert (np.diff(first) > 0).all()
    assert first.max() < 30
    assert (first != second).any()
    assert positions.reach(10) == 30
    with pytest.raises(ValueError, match=r"positions.over: should be at least 31, the tokens of the longest context, got 30"):
        positions.reach(31)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A whole run of a tiny config, from the command line."""
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "tiny.toml").write_text(TINY)
    done = command("run", folder / "tiny.toml", "train.batch=3", "--out", folder / "run")
    assert done.returncode == 0, done.stderr
    return folder / "run", done


def test_a_run_writes_everything_and_ends_with_the_report(tiny):
    directory, done = tiny
    assert done.stdout.splitlines()[-1] == str(directory / "report.html")
    assert done.stderr == ""
    names = {"encodings", "lock", "manifest.json", "metrics.jsonl", "results.jsonl", "result.json"}
    names |= {"figure.svg", "figure.pdf", "figure.png", "along.svg", "along.pdf", "bands.svg", "bands.pdf", "report.html"}
    assert {path.name for path in directory.iterdir()} == names
    assert re.search(r"learned +10/12 steps +loss \d\.\d+ +\d+ steps/s +\d+ s left", done.stdout)
    assert "token accuracy in %" in done.stdout
    assert "Not fitted" in done.stdout


def test_the_results_table(tiny):
    directory, _ = tiny
    result = store.read(directory)
    assert result["config"]["train"]["batch"] == 3
    assert {"jax", "jaxlib", "flax", "python", "cores"} <= result["environment"].keys()
    assert len(result["rows"]) == 3 * 2 * 2
    lines = [json.loads(line) for line in (directory / "results.jsonl").read_text().splitlines()]
    assert len(lines) == len(result["rows"])
    assert all(row in lines for row in result["rows"])
    metrics = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    assert {(m["encoding"], m["seed"], m["step"]) for m in metrics} == {
        (label, seed, step) for label in results.labels(result) if label != "pi" for seed in (0, 5) for step in (5, 10, 12)
    }
    rope, pi = (results.cell(result, label, 1, "loss") for label in results.labels(result)[1:])
    assert rope == pi  # a factor of one
    assert results.cell(result, "pi", 2, "loss") != results.cell(result, results.labels(result)[1], 2, "loss")
    assert results.cell(result, "learned", 2, "accuracy") is None
    assert results.limit(result, "learned") == 8
    for row in result["rows"]:
        assert row["accuracy"] is None or 0 <= row["accuracy"] <= 1
        assert row["fitted"] is False


def test_the_figure_ends_a_learned_line_and_draws_no_noise(tiny):
    from experiments import figures

    spec = figures.extrapolation(store.read(tiny[0])).to_dict()
    text = json.dumps(spec)
    assert "learned has a value for 8 positions alone: its line ends with its table." in text
    layers = spec["hconcat"][0]["layer"]
    points = next(layer["data"]["values"] for layer in layers if layer.get("mark", {}).get("type") == "area")
    assert {p["length"] for p in points if p["encoding"] == "learned"} == {3}
    assert all(not p["fitted"] for p in points)
    assert {p["length"] for p in points if p["encoding"] == "pi"} == {3, 6}
    svg = (tiny[0] / "figure.svg").read_text()
    for words in ("trained length", "chance, which is a random symbol", "no value beyond", "token accuracy"):
        assert words in svg


def test_names_are_text_in_the_report(tiny):
    html = (tiny[0] / "report.html").read_text()
    assert "<script>alert" not in html
    assert "<b>tiny</b>" not in html
    assert "A &lt;b&gt;tiny&lt;/b&gt; run" in html
    assert not re.search(r'(src|href)="?https?:', html)
    assert html.count("unfitted: 0 of 2") == 3 * 3  # encodings x tables
    assert html.count("(0 of 2 seeds)") == 2  # the sentence about the two trained ones


def test_report_draws_it_all_again_from_stored_results(tiny):
    directory, _ = tiny
    figure = (directory / "figure.svg").read_bytes()
    for name in ("figure.svg", "report.html", "metrics.jsonl"):
        (directory / name).unlink()
    done = command("report", directory)
    assert done.returncode == 0, done.stderr
    assert (directory / "figure.svg").read_bytes() == figure
    assert done.stdout.splitlines()[-1] == str(directory / "report.html")


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda r: [], "should hold an object, holds list"),
        (lambda r: {**r, "format": 99}, "has format 99, but this version of jrope reads format 1"),
        (lambda r: {k: v for k, v in r.items() if k != "task"}, "task: Field required"),
        (lambda r: {**r, "rows": []}, "rows at 1x are missing"),
        (lambda r: {**r, "rows": [{**r["rows"][0], "loss": "x"}]}, "rows.0.loss"),
        (lambda r: {**r, "config": {"title": 1}}, "not the result of a run: title"),
    ],
)
def test_a_damaged_result_is_refused_in_words(tiny, damage, words, tmp_path):
    damaged = damage(json.loads((tiny[0] / "result.json").read_text()))
    (tmp_path / "result.json").write_text(json.dumps(damaged))
    with pytest.raises(store.StoreError, match=re.escape(words)):
        store.read(tmp_path)


def test_a_directory_of_something_else_is_refused():
    done = command("run", ROOT / "configs" / "quick.toml", "--out", ROOT / "configs")
    assert done.returncode == 2
    assert "is not empty, and not the directory of a run" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["run", "configs/quick.toml", "encodings.yarn.scaling.facotr=2"],
            "encodings.yarn.scaling.facotr: unknown key, did you mean 'factor'?",
        ),
        (["run", "configs/qick.toml"], "configs/qick.toml: No such file or directory"),
        (["validate", "configs/quick.toml", "train.steps=nan"], "train.steps: should be a valid integer"),
        (["report", "configs"], "configs: no result.json: not the directory of a run"),
    ],
)
def test_bad_input_ends_with_a_message_and_status_2(arguments, words):
    done = command(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["list"]], ids=" ".join)
def test_help_and_list_do_not_import_jax(arguments):
    code = f"""
import sys
from experiments.__main__ import app
try:
    app({arguments})
finally:
    assert "jax" not in sys.modules and "altair" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_list_names_every_config():
    listed = command("list").stdout
    assert all(str(path.relative_to(ROOT)) in listed for path in (ROOT / "configs").glob("*.toml"))


def test_validate_says_what_a_config_will_do():
    done = command("validate", "configs/quick.toml")
    assert done.returncode == 0
    assert "3 encodings to train, 6 to evaluate, 5 seeds" in done.stdout
