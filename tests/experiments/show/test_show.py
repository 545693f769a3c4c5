"""`show`: what the docstrings say, and numbers that are those of the library."""

import io
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import jrope
from experiments.__main__ import app
from experiments.config.experiment import ENCODINGS, SCALINGS
from experiments.config.load import ConfigError
from experiments.figures.encoding import encoding as plot
from experiments.show import anatomy, describe, docstrings
from experiments.show.subjects import Sizes, subjects
from jrope.huggingface import head_dims, layer_types

ROOT = Path(__file__).parent.parent
PUBLISHED = json.loads((ROOT / "tests" / "golden" / "rope_configs.json").read_text())
CONFIGS = {entry["name"]: entry["config"] for entry in PUBLISHED}


def told(*words, width=80, terminal=True, **sizes):
    console = Console(width=width, force_terminal=terminal, color_system=None, file=io.StringIO(), _environ={})
    for subject in subjects(words, Sizes(**sizes)):
        describe.describe(subject, console)
    return console.file.getvalue()


def flat(text):
    """The text without its line breaks."""
    return " ".join(text.split())


@pytest.mark.parametrize("name", [*ENCODINGS, *SCALINGS])
def test_every_name_of_a_config_is_told_with_its_docstring_and_fits_80_columns(name):
    text = told(name)
    assert max(map(len, text.splitlines())) <= 80
    cls = {**ENCODINGS, **SCALINGS}[name]
    first = re.split(r"(?<=[:.])\s", flat(cls.__doc__))[0]
    assert first in flat(text)
    papers = docstrings.about(cls).papers
    assert len(papers) == (name not in ("dynamic_ntk",)), papers  # emozilla's is a post, not a paper
    assert all(f"https://arxiv.org/abs/{paper}" in text for paper in papers)


def test_formulas_stand_as_they_are_written():
    formula = "g_i = f_i (1 - ramp_i) + (f_i / factor) ramp_i"
    assert f"\n    {formula}\n".replace("    ", "        ") in jrope.Yarn.__doc__
    assert f"\n        {formula}\n".replace("        ", "    ") in told("yarn")


@pytest.mark.parametrize("name", ["rope", "linear", "yarn"])
@pytest.mark.parametrize(("base", "trained", "head_dim"), [(10_000.0, 4096, 64), (500_000.0, 8192, 128), (10.0, 7, 2)])
def test_the_pairs_that_never_complete_a_turn_are_those_whose_wavelength_exceeds_the_trained_length(
    name, base, trained, head_dim
):
    text = told(name, f"base={base}", trained=trained, head_dim=head_dim)
    slow = int((2 * math.pi / np.asarray(jrope.spectrum(head_dim, base=base).frequencies) > trained).sum())
    assert f"{slow} of {head_dim // 2} pairs never" in flat(text)
    table = text[text.index("pair  ") :].splitlines()
    rows = [line for line in table if re.match(r" *\d+ ", line) and "pairs" not in line]
    flagged = [int(line.split()[0]) for line in rows if line.endswith("no full turn")]
    first = head_dim // 2 - slow
    assert [int(line.split()[0]) for line in rows if int(line.split()[0]) >= first] == flagged
    if slow:
        assert flagged[0] == first


def test_the_table_has_the_frequencies_of_the_library():
    (subject,) = subjects(["yarn", "factor=8"], Sizes(trained=1024))
    assert subject.encoding == jrope.Rope(scaling=jrope.Yarn(8, 1024))
    assert subject.length == 8192
    found = anatomy.bands(subject.encoding, subject)
    plain = jrope.spectrum(64)
    np.testing.assert_array_equal(found.before, plain.frequencies)
    np.testing.assert_array_equal(found.after, jrope.Yarn(8, 1024)(plain).frequencies)
    text = told("yarn", "factor=8", trained=1024)
    assert f"Amplitude {jrope.Yarn(8, 1024).amplitude():.6g}" in flat(text)
    for i in anatomy.listed(found, subject, every=False):
        assert re.search(rf"^ *{i} .* {found.after[i] / found.before[i]:.4f}", text, re.MULTILINE)


def test_the_counts_are_of_all_pairs():
    (subject,) = subjects(["proportional"], Sizes())
    sentence = anatomy.summary(anatomy.bands(subject.encoding, subject), subject)
    assert sentence.endswith("At length 16384: 16 left as trained, 16 not turning.")
    (subject,) = subjects(["step", "factor=4"], Sizes())
    sentence = anatomy.summary(anatomy.bands(subject.encoding, subject), subject)
    assert sentence.endswith("23 left as trained, 9 slowed the most, to 0.25 of their frequency.")


def test_biases_are_told_by_distance_and_head():
    text = told("alibi", heads=4, trained=64)
    assert "Slopes of 4 heads: 0.25, 0.0625, 0.01562, 0.003906." in flat(text)
    assert re.search(r"^ *64 +-16 +-4 +-1 +-0\.25$", text, re.MULTILINE)
    assert re.search(r"^ *16 +unseen", told("window", "size=16"), re.MULTILINE)
    assert re.search(r"^ *8 +0 ", told("window", "size=16"), re.MULTILINE)
    t5 = flat(told("t5", "buckets=8", "max_distance=20"))
    assert "Buckets start at the distances 0, 1, 2, 3, 4, 6, 9, 14." in t5
    starts = [i for i in range(30) if i == 0 or jrope.t5_bucket(-i, **T5_8) != jrope.t5_bucket(1 - i, **T5_8)]
    assert starts == [0, 1, 2, 3, 4, 6, 9, 14]
    assert "before any training" in t5


T5_8 = {"buckets": 8, "max_distance": 20}


@pytest.mark.parametrize("entry", PUBLISHED, ids=lambda entry: entry["name"])
def test_every_published_config_is_shown_with_its_own_frequencies(entry, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(entry["config"]))
    sizes = Sizes(length=entry["length"], head_dim=entry["head_dim"] if entry["name"].startswith("gpt-oss") else None)
    found = subjects([str(tmp_path / "config.json")], sizes)
    subject = next(s for s in found if len(found) == 1 or (entry["layer_type"] or "") in s.name)
    if isinstance(subject.encoding, jrope.Rope):
        assert subject.encoding == jrope.from_huggingface(entry["config"], entry["layer_type"])
        assert subject.head_dim == entry["head_dim"]


def test_layer_types_are_told_apart_and_the_trained_length_has_a_source(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIGS["gemma-3-27b full_attention"]))
    names = [subject.name for subject in subjects([str(path)], Sizes())]
    assert names == ["config.json, full_attention layers", "config.json, sliding_attention layers"]
    path.write_text(json.dumps(CONFIGS["llama-4-scout (low=high=1)"]))
    nope, rope = subjects([str(path)], Sizes())
    assert nope.encoding == jrope.Encoding()
    assert isinstance(rope.encoding, jrope.Rope)
    path.write_text(json.dumps(CONFIGS["llama-3.1-8b"]))
    text = flat(told(str(path)))
    assert "Trained length 8192: that of its scaling." in text
    assert "29 of 64 pairs never complete a turn within the 8192 positions of training. At length 131072:" in text
    path.write_text(json.dumps(CONFIGS["deepseek-v3 / r1"]))
    assert "Softmax scale 0.135234 = 192^-0.5 × 1.87385." in flat(told(str(path)))
    assert layer_types(CONFIGS["llama-3.1-8b"]) == (None,)
    assert head_dims(CONFIGS["gemma-4-26b/31b full_attention"], "full_attention") == (512, 512)
    assert head_dims(CONFIGS["gemma-4-26b/31b full_attention"], "sliding_attention") == (256, 256)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["yran"], "unknown encoding or scaling 'yran', did you mean 'yarn'?"),
        (["encoding", "ropes"], "did you mean 'rope'?"),
        (["yarn", "facto=3"], "scaling.facto: unknown key, did you mean 'factor'?"),
        (["rope", "base=-1"], "Rope: base must be positive and finite, got -1.0"),
        (["yarn", "factor"], "an override is written path.to.field=value"),
        (["missing.json"], "missing.json: No such file or directory"),
        (["configs/quick.toml"], "an experiment's config"),
        (["tests"], "tests: Is a directory"),
        (["no.such:Encoding"], "cannot be imported"),
    ],
)
def test_mistakes_are_told_in_words(words, message, monkeypatch):
    monkeypatch.chdir(ROOT)
    with pytest.raises(ConfigError, match=re.escape(message)):
        subjects(words, Sizes())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not readable as JSON"),
        ("[1]", "config must be a dict"),
        ('{"model_type": "new"}', "model_type='new' is not known"),
        ('{"model_type": "llama"}', "give --head-dim"),
        ('{"model_type": "llama", "head_dim": 64, "max_position_embeddings": "x"}', "max_position_embeddings='x' must be"),
        ('{"model_type": "llama", "text_config": 3}', "text_config=3 must be a dict"),
    ],
)
def test_mistakes_in_a_published_config_are_told_in_words(content, message, tmp_path):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ConfigError, match=re.escape(message)):
        subjects([str(tmp_path / "config.json")], Sizes())


def invoke(*words):
    return CliRunner().invoke(app, ["show", *map(str, words)])


def test_the_command_ends_with_the_plot_and_with_status_2_on_bad_input(tmp_path):
    done = invoke("scaling", "yarn", "--trained", "64", "--out", tmp_path / "new" / "yarn.svg")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == str(tmp_path / "new" / "yarn.svg")
    svg = (tmp_path / "new" / "yarn.svg").read_text()
    assert all(words in svg for words in ("wavelength / trained context", "at length 256", "pairs never complete a turn"))
    for words in (["yran"], ["rope", "--head-dim", 3], ["yarn", "--out", "yarn.txt"], ["alibi", "--trained", 10**9]):
        done = invoke(*words)
        assert (done.exit_code, type(done.exception)) == (2, SystemExit), done.output
    assert all(name in invoke().stdout for name in (*ENCODINGS, *SCALINGS))


def test_what_a_plot_has():
    def points(*words):
        chart = plot(subjects(words, Sizes(trained=64, heads=3)))
        return chart and json.dumps(chart.to_dict())

    assert all(f'"head": "head {h}"' in points("alibi") for h in range(3))
    assert "head sees nothing farther" in points("window", "size=5")
    assert "head sees nothing farther" not in points("alibi")
    assert '"kept": 0.0' in points("proportional")  # pairs that do not turn are drawn too
    assert "frequency after scaling" not in points("rope")
    assert "What is added to the embeddings." in points("sinusoidal")
    assert points("nope") is None
