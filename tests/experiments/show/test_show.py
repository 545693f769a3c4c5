"""`show`: it prints the docstrings, and the numbers of the library."""

import io
import json
import math
import re
from dataclasses import dataclass
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import jrope
from experiments.__main__ import app
from experiments.config.section import ConfigError
from experiments.show import docstrings, encoding_stats
from experiments.show.chart import chart
from experiments.show.describe import describe
from experiments.show.parse_query import Sizes, Subject, parse_query
from jrope.huggingface import head_dims, layer_types

ROOT = Path(__file__).parents[3]
PUBLISHED = json.loads((ROOT / "tests" / "golden" / "rope_configs.json").read_text())
TRAINED = "original_max_position_embeddings"
CONFIGS = {entry["name"]: entry["config"] for entry in PUBLISHED}
NAMES = {**jrope.encoding_types(), **jrope.scaling_types()}


def shown(*subjects):
    console = Console(width=80, force_terminal=True, color_system=None, file=io.StringIO())
    for subject in subjects:
        describe(subject, console)
    return console.file.getvalue()


def show(*words, **sizes):
    return shown(*parse_query(words, Sizes(**sizes)))


def flat(text):
    """The text without its line breaks."""
    return " ".join(text.split())


@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_a_config_is_shown_with_its_docstring_and_fits_80_columns(name):
    text = show(name)
    assert max(map(len, text.splitlines())) <= 80
    first = re.split(r"(?<=[:.])\s", flat(NAMES[name].__doc__))[0]
    assert first in flat(text)
    papers = docstrings.about(NAMES[name]).papers
    # compositions have no paper, and dynamic NTK is from a post
    assert len(papers) == (name not in ("chain", "layers", "dynamic_ntk")), papers
    assert all(f"https://arxiv.org/abs/{paper}" in text for paper in papers)


def test_formulas_are_printed_as_they_are_written():
    formula = "g_i = f_i (1 - ramp_i) + (f_i / factor) ramp_i"
    assert f"\n        {formula}\n" in jrope.Yarn.__doc__
    assert f"\n    {formula}\n" in show("yarn")
    formulas = "\n\n        low = 1\n        high = 2\n\n    Text.\n\n    Raises:\n      x: y."
    assert docstrings.parse(f"First.{formulas}").blocks[1] == "    low = 1\n    high = 2"


@pytest.mark.parametrize("name", ["rope", "linear", "yarn"])
@pytest.mark.parametrize(
    ("base", "trained", "head_dim"),
    [(10_000.0, 4096, 64), (500_000.0, 8192, 128), (10.0, 7, 2)],
)
def test_slow_pairs_are_those_whose_wavelength_exceeds_the_trained_length(
    name, base, trained, head_dim
):
    text = show(name, f"base={base}", trained=trained, head_dim=head_dim)
    frequencies = jrope.spectrum(head_dim, base=base).frequencies
    slow = int((2 * math.pi / frequencies > trained).sum())
    assert f"{slow} of {head_dim // 2} pairs never" in flat(text)
    table = text[text.index("pair  ") :].splitlines()
    rows = [line for line in table if re.match(r" *\d+ ", line) and "pairs" not in line]
    flagged = [int(line.split()[0]) for line in rows if line.endswith("no full turn")]
    first = head_dim // 2 - slow
    assert [int(line.split()[0]) for line in rows if int(line.split()[0]) >= first] == flagged
    if slow:
        assert flagged[0] == first


def test_the_table_has_the_frequencies_of_the_library():
    (subject,) = parse_query(["yarn", "factor=8"], Sizes(trained=1024))
    yarn, plain = jrope.Yarn(8, 1024), jrope.spectrum(64)
    assert subject.encoding == jrope.Rope(scaling=yarn)
    assert subject.length == 8192
    bands = encoding_stats.bands(subject.encoding, subject)
    np.testing.assert_array_equal(bands.before, plain.frequencies)
    np.testing.assert_array_equal(bands.after, yarn(plain).frequencies)
    text = shown(subject)
    assert f"Amplitude {yarn.amplitude():.6g}" in flat(text)
    for i in encoding_stats.listed_pairs(bands, subject, all_of_them=False):
        ratio = bands.after[i] / bands.before[i]
        assert re.search(rf"^ *{i} .* {ratio:.4f}", text, re.MULTILINE)


def test_xpos_rotates_too():
    assert "9 of 32 pairs never complete a turn" in flat(show("xpos"))


def test_the_counts_are_of_all_pairs():
    def summary(*words):
        (subject,) = parse_query(words, Sizes())
        return encoding_stats.summary(encoding_stats.bands(subject.encoding, subject), subject)

    assert summary("proportional").endswith("length 16384: 16 left as trained, 16 not turning.")
    ending = "23 left as trained, 9 slowed the most, to 0.25 of their frequency."
    assert summary("step", "factor=4").endswith(ending)


def test_biases_are_shown_by_distance_and_head():
    text = show("alibi", heads=4, trained=64)
    assert "Slopes of 4 heads: 0.25, 0.0625, 0.01562, 0.003906." in flat(text)
    assert re.search(r"^ *64 +-16 +-4 +-1 +-0\.25$", text, re.MULTILINE)
    window = show("window", "size=16")
    assert re.search(r"^ *16 +unseen", window, re.MULTILINE)
    assert re.search(r"^ *8 +0 ", window, re.MULTILINE)


def test_the_buckets_of_t5_are_found_in_its_bias():
    sizes = {"buckets": 8, "max_distance": 20}
    buckets = [int(jrope.t5_bucket(-distance, **sizes)) for distance in range(30)]
    changes = [i for i in range(1, 30) if buckets[i] != buckets[i - 1]]
    assert changes == [1, 2, 3, 4, 6, 9, 14]
    text = flat(show("t5", "buckets=8", "max_distance=20"))
    assert "Its bias changes only at the distances 1, 2, 3, 4, 6, 9, 14." in text
    assert "before any training" in text


def test_what_depends_on_more_than_distances_says_so():
    assert "depends on the content" in flat(show("cope"))
    assert "depends on the tokens from the key to the query" in flat(show("forgetting_gate"))
    wanted = "multiplied by 1 at position 0, 1 at position 4095, 1.167 at position 16383."
    assert wanted in flat(show("log_n"))
    assert "It has a value for 4096 positions, from 0, and none beyond." in flat(show("learned"))


def test_an_encoding_of_the_users_own_needs_no_line_in_show():
    @dataclass(frozen=True)
    class Slope(jrope.Encoding):
        """A slope of one for every head."""

        def bias(self, params, q_positions, k_positions, *, num_heads):
            distances = q_positions[:, None] - k_positions[None, :]
            return jnp.broadcast_to(-distances.astype(jnp.float32), (num_heads, *distances.shape))

    both = jrope.Chain((Slope(), jrope.Rope()))
    text = flat(shown(Subject("mine", both, 8, 8, 2, 16, 32)))
    assert "A slope of one for every head." in text
    assert "Slopes of 2 heads: 1, 1." in text
    assert "4 pairs never complete" in text


def test_fields_without_a_default_have_an_example():
    def examples(*words):
        (subject,) = parse_query(words, Sizes(trained=64, head_dim=4))
        return subject.encoding, subject.examples

    assert examples("window") == (jrope.Window(64), ("size",))
    assert examples("window", "size=8") == (jrope.Window(8), ())
    encoding, fields = examples("longrope")
    assert (encoding.scaling.short_factor, encoding.scaling.long_factor) == ((1, 1), (1, 4))
    assert fields == ("short_factor", "long_factor")
    assert encoding.scaling.factor == 4  # of lengths
    assert examples("proportional")[0].scaling.factor == 1
    assert "The value of size is only an example: set your own." in flat(show("window"))


@pytest.mark.parametrize("entry", PUBLISHED, ids=lambda entry: entry["name"])
def test_every_published_config_is_shown_with_its_own_frequencies(entry, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(entry["config"]))
    head_dim = entry["head_dim"] if entry["name"].startswith("gpt-oss") else None
    sizes = Sizes(length=entry["length"], head_dim=head_dim)
    found = parse_query([str(tmp_path / "config.json")], sizes)
    layer = entry["layer_type"] or ""
    subject = next(s for s in found if len(found) == 1 or layer in s.name)
    if isinstance(subject.encoding, jrope.Rope):
        assert subject.encoding == jrope.from_huggingface(entry["config"], entry["layer_type"])
        assert subject.head_dim == entry["head_dim"]


def test_members_of_a_published_encoding_are_shown(tmp_path):
    """A window next to a scaled RoPE, and layers of one type that differ."""
    path = tmp_path / "config.json"
    sizes = {"head_dim": 64, "num_hidden_layers": 4, "rope_theta": 1e4}
    config = {"model_type": "mistral", **sizes, "sliding_window": 8}
    config["rope_scaling"] = {"type": "yarn", "factor": 4.0, TRAINED: 2048}
    path.write_text(json.dumps(config))
    (subject,) = parse_query([str(path)], Sizes())
    assert (subject.trained, subject.length) == (2048, 8192)
    assert subject.encoding.encodings[1] == jrope.Window(8)
    path.write_text(json.dumps({"model_type": "smollm3", **sizes}))
    (subject,) = parse_query([str(path)], Sizes(length=64))
    text = flat(shown(subject))
    assert "An encoding that differs by layer." in text
    assert "64 of the 64 features of a head rotate." in text


def test_layer_types_differ_and_the_trained_length_has_a_source(tmp_path):
    path = tmp_path / "config.json"

    def subjects(name):
        path.write_text(json.dumps(CONFIGS[name]))
        return parse_query([str(path)], Sizes())

    names = [subject.name for subject in subjects("gemma-3-27b full_attention")]
    assert names == [f"config.json, {kind}_attention layers" for kind in ("full", "sliding")]
    nope, rope = subjects("llama-4-scout (low=high=1)")
    assert nope.encoding == jrope.Encoding()
    assert isinstance(rope.encoding, jrope.Rope)
    text = flat(shown(*subjects("llama-3.1-8b")))
    assert "Trained length 8192: that of its scaling." in text
    turns = "29 of 64 pairs never complete a turn within the 8192 positions of training."
    assert f"{turns} At length 131072:" in text
    scale = "Softmax scale 0.135234 = 192^-0.5 × 1.87385."
    assert scale in flat(shown(*subjects("deepseek-v3 / r1")))
    assert layer_types(CONFIGS["llama-3.1-8b"]) == (None,)
    gemma = CONFIGS["gemma-4-26b/31b full_attention"]
    assert head_dims(gemma, "full_attention") == (512, 512)
    assert head_dims(gemma, "sliding_attention") == (256, 256)


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
def test_mistakes_are_explained_in_words(words, message, monkeypatch):
    monkeypatch.chdir(ROOT)
    with pytest.raises(ConfigError) as error:
        parse_query(words, Sizes())
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not readable as JSON"),
        ("[1]", "config must be a dict"),
        ('{"model_type": "new"}', "model_type='new' is not known"),
        ('{"model_type": "llama"}', "give --head-dim"),
        (
            '{"model_type": "llama", "head_dim": 64, "max_position_embeddings": "x"}',
            "max_position_embeddings='x' must be",
        ),
        ('{"model_type": "llama", "text_config": 3}', "text_config=3 must be a dict"),
    ],
)
def test_mistakes_in_a_published_config_are_explained_in_words(content, message, tmp_path):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ConfigError) as error:
        parse_query([str(tmp_path / "config.json")], Sizes())
    assert message in str(error.value)


def invoke(*words):
    return CliRunner().invoke(app, ["show", *map(str, words)])


def test_the_command_ends_with_the_plot_and_with_status_2_on_bad_input(tmp_path):
    path = tmp_path / "new" / "yarn.svg"
    done = invoke("scaling", "yarn", "--trained", "64", "--out", path)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1] == str(path)
    svg = path.read_text()
    labels = ("wavelength / trained context", "at length 256", "pairs never complete a turn")
    assert all(words in svg for words in labels)
    for words in (
        ["yran"],
        ["rope", "--head-dim", 3],
        ["yarn", "--out", "yarn.txt"],
        ["alibi", "--trained", 10**9],
    ):
        done = invoke(*words)
        assert (done.exit_code, type(done.exception)) == (2, SystemExit), done.output
    assert all(name in invoke().stdout for name in NAMES)


def test_what_a_plot_has():
    def points(*words):
        drawn = chart(parse_query(words, Sizes(trained=64, heads=3)))
        return drawn and json.dumps(drawn.to_dict())

    assert all(f'"head": "head {h}"' in points("alibi") for h in range(3))
    assert "head sees nothing farther" in points("window", "size=5")
    assert "head sees nothing farther" not in points("alibi")
    assert '"kept": 0.0' in points("proportional")  # pairs that do not turn are drawn too
    assert "frequency after scaling" not in points("rope")
    assert "The vectors that it adds to the embeddings." in points("sinusoidal")
    assert points("nope") is None
