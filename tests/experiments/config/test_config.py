"""Configs: what comes with jrope is valid, and every mistake is reported with its path, value and remedy."""

import contextlib
import pickle
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jrope
from experiments.config import plan
from experiments.config.load import ConfigError, load, override, validate
from experiments.config.user_class import digests
from experiments.tasks import Consecutive, Randomized

ROOT = Path(__file__).parents[3]
CONFIGS = sorted((ROOT / "configs").glob("*.toml"))
QUICK = next(path for path in CONFIGS if path.stem == "quick")

GOOD = """
title = "t"
seeds = [0]
[task]
type = "sort"
length = 8
[train]
steps = 10
learning_rate = 1e-3
warmup = 2
[encodings.rope]
type = "rope"
[encodings.yarn]
extends = "rope"
scaling = { type = "yarn", factor = "match" }
"""


def validated(*overrides, text=GOOD):
    """A config with overrides."""
    data = tomllib.loads(text)
    for assignment in overrides:
        override(data, assignment)
    return validate(data)


def told(*overrides, text=GOOD):
    """The mistakes of a config, as lines."""
    with pytest.raises(ConfigError) as caught:
        validated(*overrides, text=text)
    return str(caught.value).splitlines()


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_configs_that_come_with_jrope(path):
    experiment = load(path)
    opening = path.read_text().split("\n\n")[0]
    assert f"run configs/{path.name}" in path.read_text()
    assert opening.startswith("# ")
    assert "# Time: " in path.read_text()
    assert validate(experiment.record()) == experiment


@pytest.mark.parametrize(
    ("assignment", "line"),
    [
        (
            "encodings.yarn.scaling.facotr=2",
            "encodings.yarn.scaling.facotr: unknown key, did you mean 'factor'?",
        ),
        ("trian.steps=2", "trian: unknown key, did you mean 'train'?"),
        ("train.stpes=2", "train.stpes: unknown key, did you mean 'steps'?"),
        (
            "encodings.rope.layuot='half'",
            "encodings.rope.layuot: unknown key, did you mean 'layout'?",
        ),
        ("task.symbls=3", "task.symbls: unknown key, did you mean 'symbols'?"),
        (
            "encodings.x.type='roep'",
            "encodings.x.type: unknown encoding 'roep', did you mean 'rope'?",
        ),
        (
            "encodings.x.type='xyz'",
            "encodings.x.type: unknown encoding 'xyz', expected one of 'chain', 'layers'",
        ),
        (
            "encodings.yarn.scaling.type='yran'",
            "encodings.yarn.scaling.type: unknown scaling 'yran', did you mean 'yarn'?",
        ),
        ("task.type='srt'", "task.type: unknown task 'srt', did you mean 'sort'?"),
        (
            "encodings.yarn.extends='rop'",
            "encodings.yarn.extends: unknown trained encoding 'rop', did you mean 'rope'?",
        ),
        (
            "encodings.rope.layout='neox'",
            "encodings.rope.layout: should be 'interleaved' or 'half', got 'neox'",
        ),
        ("train.steps=-5", "train.steps: should be greater than 0, got -5"),
        ("train.steps=true", "train.steps: should be a valid integer, got True"),
        ("train.steps=1.5", "train.steps: should be a valid integer, got 1.5"),
        ("train.steps='9'", "train.steps: should be a valid integer, got '9'"),
        ("train.learning_rate=nan", "train.learning_rate: should be a finite number, got nan"),
        ("train.learning_rate=true", "train.learning_rate: should be a valid number, got True"),
        ("train.learning_rate=0", "train.learning_rate: should be greater than 0, got 0"),
        (
            "encodings.yarn.scaling.factor=nan",
            "encodings.yarn.scaling.factor: should be a number of at most",
        ),
        (
            "encodings.yarn.scaling.factor=true",
            "encodings.yarn.scaling.factor: should be a number of at most",
        ),
        (
            "encodings.yarn.scaling.factor=0.5",
            "encodings.yarn.scaling: Yarn: factor must be a finite number at least 1, got 0.5",
        ),
        (
            "encodings.rope.base=-1",
            "encodings.rope: Rope: base must be positive and finite, got -1",
        ),
        (
            "encodings.rope.rotary_fraction=0.01",
            "encodings.rope: spectrum: dim must be an even number of features, at least 2, got 0",
        ),
        (
            "encodings.x={type='learned', max_length=3}",
            "encodings.x: has a value for 3 positions, but training uses 18",
        ),
        (
            "encodings.x=3",
            "encodings.x: should be a section with a `type`, one of 'chain', 'layers'",
        ),
        (
            "encodings.x={scaling={type='yarn'}}",
            "encodings.x: needs a `type`, one of 'chain', 'layers'",
        ),
        (
            "encodings.rop.base=3",
            "'encodings.rop.base=3': unknown encoding 'rop', did you mean 'rope'?",
        ),
        ("encodings.x={type='alibi'}", None),
        ("seeds=[]", "seeds: List should have at least 1 item"),
        ("seeds=[1, 1]", "seeds: should all be different, got [1, 1]"),
        ("seeds=[-1]", "seeds.0: should be greater than or equal to 0, got -1"),
        ("seeds.x=1", "'seeds.x=1': seeds is a value, not a section with fields"),
        ("seeds", "'seeds': an override is written path.to.field=value"),
        ("task.shortest=9", "task: shortest should be at most the trained length, 8, got 9"),
        (
            "model.heads=5",
            "model: TransformerConfig: features (64) must be a multiple of heads (5)",
        ),
        ("evaluate.multiples=[2]", "evaluate.multiples: should have a 1"),
        (
            "evaluate.multiples=[1, 20]",
            "task: symbols should be at least 160, since they are all different",
        ),
        (
            "evaluate.multiples=[1, 0.01]",
            "evaluate.multiples: should make different lengths of at least 1, got [1.0, 0.01], which make [8, 0]",
        ),
        ("evaluate.multiples=[1, 1.01]", "evaluate.multiples: should make different lengths"),
        (
            "evaluate.multiples=[1, 1e6]",
            "evaluate.multiples: should need at most 16384 tokens of context",
        ),
        (
            "evaluate.multiples=[1, 1e300]",
            "evaluate.multiples.1: should be less than or equal to 1000000000",
        ),
        ("task={type='lag', length=3}", "task: a stream of length 3 has no answers at a lag of 6"),
        ("train.warmup=10", "train.warmup: should be less than train.steps, 10, got 10"),
        ("train.steps=1000000000000", "train.steps: should be less than or equal to 1000000000"),
        (f"task.length={10**400}", "task.length: should be less than or equal to 1000000000"),
        (
            f"encodings.yarn.scaling.factor={10**400}",
            "encodings.yarn.scaling.factor: should be a number of at most 1000000000",
        ),
        (f"encodings.rope.base={10**400}", "encodings.rope.base: should be"),
        ("task.length=1000000000", "evaluate.multiples: should need at most 16384 tokens"),
        ("title=5", "title: should be a valid string, got 5"),
        ("a b=1", "'a b=1': an override is written path.to.field=value"),
        ("encodings.\"a.b\".type='roep'", "encodings.a.b.type: unknown encoding 'roep'"),
        ("model.features=1000000", "model: should need at most 128 GiB of memory, needs about"),
        ("task.symbols=1000000000", "model: should need at most 128 GiB"),
        ("train.batch=1000000000", "model: should need at most 128 GiB"),
        (f"seeds={list(range(10**5))}", "model: should need at most 128 GiB"),
        ("model.layers=1000000", "model.layers: should be less than or equal to 256"),
        (
            "encodings.x={type='learned', max_length=1000000000}",
            "encodings.x: should need at most 128 GiB of memory",
        ),
        (
            "encodings.x={type='cope', max_positions=1000000000}",
            "encodings.x: should need at most 128 GiB of memory",
        ),
        (
            f"train.steps=0x{'f' * 5000}",
            "train.steps: should be less than or equal to 1000000000, got int too large",
        ),
        (f"task.type=0x{'f' * 5000}", "task.type: unknown task int too large to show"),
        ("encodings.\"a\\nb\".type='roep'", "encodings.a\\nb.type: unknown encoding 'roep'"),
        (f"train.steps={'9' * 5000}", "train.steps: should be a valid integer, got '999"),
        ("task.symbols=1", "task: symbols must be at least 2, got 1"),
    ],
)
def test_mistakes(assignment, line):
    if line is None:
        validated(assignment)
    elif line.startswith("'"):  # not even an override
        with pytest.raises(ConfigError) as caught:
            load(QUICK, [assignment])
        assert str(caught.value).startswith(line)
    else:
        assert any(given.startswith(line) for given in told(assignment)), told(assignment)


def test_all_mistakes_are_told_at_once():
    lines = told(
        "train.steps=-5",
        "encodings.yarn.scaling.facotr=2",
        "encodings.x.type='roep'",
        "model.heads=0",
    )
    assert len(lines) == 4
    assert (
        len(
            told("encodings.yarn.extends='rop'", "model.heads=5", "task.shortest=9", "seeds=[1, 1]")
        )
        == 4
    )


def test_a_scaling_cannot_extend_what_has_none():
    assert told("encodings.a.type='alibi'", "encodings.yarn.extends='a'") == [
        "encodings.yarn.scaling: 'a' has no scaling to replace"
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file"),
        (b"\xff\xfe", "not a text file in UTF-8"),
        (b"a = ", "not valid TOML"),
        (b"", "title: missing"),
    ],
)
def test_unreadable_files(content, words, tmp_path):
    path = tmp_path / "x.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=words):
        load(path)


def test_a_byte_order_mark_is_no_mistake(tmp_path):
    (tmp_path / "x.toml").write_text(GOOD, encoding="utf-8-sig")
    assert load(tmp_path / "x.toml") == validated()


def test_mistakes_of_a_section_and_of_those_in_it_are_told_together():
    scaling = "{type='yarn', facotr=2, beta_slow='x'}"
    assert told(f"encodings.x={{type='rope', scaling={scaling}, layuot='half', train=3}}") == [
        "encodings.x.scaling.facotr: unknown key, did you mean 'factor'?",
        "encodings.x.scaling.factor: missing",
        "encodings.x.scaling.beta_slow: should be a valid number, got 'x'",
        "encodings.x.layuot: unknown key, did you mean 'layout'?",
        "encodings.x.train: should be a valid dictionary, got 3",
    ]


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
PATHS = [
    "title",
    "seeds",
    "task",
    "task.type",
    "task.length",
    "model",
    "model.heads",
    "train.steps",
    "train.report_every",
]
PATHS += [
    "evaluate.multiples",
    "encodings",
    "encodings.rope",
    "encodings.yarn.scaling",
    "encodings.yarn.scaling.factor",
    "x",
]


@given(st.sampled_from(PATHS), json)
@settings(max_examples=200, deadline=None)
def test_any_value_anywhere_is_accepted_or_refused_in_words(path, value):
    data = tomllib.loads(GOOD)
    *parents, last = path.split(".")
    section = data
    for key in parents:
        section = section.setdefault(key, {})
    section[last] = value
    with contextlib.suppress(ConfigError):
        validate(data)


def test_match_means_evaluated_over_trained_context():
    experiment = load(QUICK)
    for multiple, factor in ((1, 1.0), (2, 50 / 26), (8, 194 / 26)):
        assert plan.encoding(experiment, "pi", multiple) == jrope.Rope(scaling=jrope.Linear(factor))
    assert plan.encoding(experiment, "yarn", 1).scaling.original_length == 26
    assert plan.encoding(experiment, "learned", 8) == jrope.Learned(max_length=26)


def test_every_scaling_can_be_named_in_a_config():
    public = [jrope.Linear, jrope.NTK, jrope.DynamicNTK, jrope.LongRope]
    public += [jrope.Yarn, jrope.Llama3, jrope.Step, jrope.Proportional]
    assert set(jrope.scaling_types().values()) == set(public)


def test_lists_of_a_config_are_tuples_of_a_value():
    data = tomllib.loads(GOOD)
    scaling = {
        "type": "longrope",
        "short_factor": [1] * 16,
        "long_factor": [4.5] * 16,
        "original_length": 26,
    }
    data["encodings"]["x"] = {
        "type": "rope",
        "scaling": scaling,
        "axes": {"type": "sections", "sections": [6, 10]},
    }
    got = plan.encoding(validate(data), "x", 1)
    assert got == jrope.Rope(
        scaling=jrope.LongRope((1.0,) * 16, (4.5,) * 16, 26), axes=jrope.Sections((6, 10))
    )
    data["encodings"]["x"]["axes"] = {"type": "axail"}
    with pytest.raises(
        ConfigError, match=r"encodings.x.axes.type: unknown axes 'axail', did you mean 'axial'"
    ):
        validate(data)


# fields without a default
NEED_FIELDS = {"learned", "window", "log_n", "layers"}


@pytest.mark.parametrize("name", sorted(jrope.encoding_types().keys() - NEED_FIELDS))
def test_every_encoding_can_be_named_in_a_config(name):
    data = tomllib.loads(GOOD)
    data["encodings"][name] = {"type": name}
    assert plan.encoding(validate(data), name, 1) == jrope.encoding_types()[name]()


def test_those_with_fields_that_must_be_given_can_be_named_too():
    assert plan.encoding(validated("encodings.x={type='learned'}"), "x", 1) == jrope.Learned(18)
    assert plan.encoding(validated("encodings.x={type='window', size=3}"), "x", 1) == jrope.Window(
        3
    )


def test_encodings_may_be_chained_and_differ_by_layer():
    chain = "{type='chain', encodings=[{type='learned'}, {type='alibi'}]}"
    both = f"encodings.x={{type='layers', encodings=[{chain}, {{type='nope'}}], pattern=[0, 0, 1]}}"
    assert told(both)[0].startswith("encodings.x: Layers: ")  # an embedding acts before all layers
    experiment = validated(both.replace("learned", "log_n"))
    chained = jrope.Chain((jrope.LogN(18), jrope.Alibi()))
    layers = jrope.Layers((chained, jrope.Encoding()), (0, 0, 1))
    assert plan.encoding(experiment, "x", 2) == layers
    assert validate(experiment.record()) == experiment
    assert told(both.replace("alibi", "alibbi")) == [
        "encodings.x.encodings.0.encodings.1.type: unknown encoding 'alibbi', did you mean 'alibi'?"
        " (or a class of your own, as module:Class)"
    ]


def test_fields_of_encodings_are_checked():
    data = tomllib.loads(GOOD)
    given = {
        "t5": {"type": "t5", "buckets": 8, "max_distance": 30},
        "hard": {"type": "hard_alibi", "windowed_heads": 1},
    }
    data["encodings"] |= given
    assert plan.encoding(validate(data), "t5", 2) == jrope.T5(buckets=8, max_distance=30)
    assert told("encodings.x={type='t5', buckets=8, max_distance=4}")[0].startswith(
        "encodings.x: T5: max_distance must be"
    )
    assert told("encodings.x={type='xpos', scale_base=0.1}") == [
        "encodings.x: has a value for 6 positions, but training uses 18"
    ]


def test_an_encoding_may_have_training_and_a_model_of_its_own():
    experiment = validated(
        "encodings.x={type='nope', train.steps=77, model.heads=4, model.layers=3}"
    )
    own, other = plan.train_config(experiment, "x"), plan.train_config(experiment, "rope")
    assert (own.steps, own.model.heads, own.model.layers) == (77, 4, 3)
    assert (other.steps, other.model.heads, other.model.layers) == (experiment.train.steps, 2, 2)
    assert own.learning_rate == other.learning_rate
    assert told("encodings.x={type='nope', model.heads=7}")[0].startswith(
        "encodings.x.model: TransformerConfig: features (64) must be a multiple of heads (7)"
    )
    assert told("encodings.x={type='nope', train.steps=2}")[0].startswith(
        "encodings.x.train.warmup: should be less than"
    )
    assert told("encodings.x={type='nope', train.stesp=7}") == [
        "encodings.x.train.stesp: unknown key, did you mean 'steps'?"
    ]
    assert told("encodings.x={type='nope', train.steps=0}")[0].startswith(
        "encodings.x.train.steps: should be greater than 0"
    )


def test_position_ids_drawn_at_random():
    at = "encodings.x={type='rope', positions={type='randomized', over=%d}}"
    experiment = validated(at % 300)
    assert plan.positions(experiment, "x") == Randomized(300)
    assert plan.positions(experiment, "rope") == Consecutive()
    assert plan.num_positions(experiment, "x", 2) == 300
    assert told(at % 20) == [
        "encodings.x: positions.over: should be at least 34, the tokens of the longest context, got 20"
    ]
    assert told("encodings.x={type='learned', positions={type='randomized', over=300}}") == [
        "encodings.x: has a value for 18 positions, but training uses 300"
    ]


def test_a_sweep_stands_for_one_encoding_for_each_value():
    experiment = validated(
        "encodings.yarn.sweep={'scaling.beta_fast'=[2.0, 8.0], 'scaling.beta_slow'=[0.5, 1.0]}"
    )
    labels = [label for label in experiment.encodings if label.startswith("yarn")]
    assert labels[:2] == ["yarn beta_fast=2.0 beta_slow=0.5", "yarn beta_fast=2.0 beta_slow=1.0"]
    assert len(labels) == 4
    assert plan.encoding(experiment, labels[0], 2).scaling == jrope.Yarn(
        34 / 18, 18, beta_fast=2.0, beta_slow=0.5
    )
    assert experiment.encodings[labels[0]].swept.values == {
        "scaling.beta_fast": 2.0,
        "scaling.beta_slow": 0.5,
    }
    assert validate(experiment.record()) == experiment
    bases = validated("encodings.x={type='rope', sweep={base=[10.0, 100.0]}}")
    assert plan.encoding(bases, "x base=10.0", 1) == jrope.Rope(10.0)
    separator = {"rope": {"type": "rope", "sweep": {"base": [1.0], "\x1e": None}}}
    with pytest.raises(
        ConfigError,
        match=r"^encodings\.rope\.sweep\.\\x1e: should be a list of different values, got None$",
    ):
        validate(validated().record() | {"encodings": separator})
    endless = validated().record() | {
        "encodings": {"rope": {"type": "rope", "sweep": {"base": [10**4999, 2]}}}
    }
    with pytest.raises(
        ConfigError,
        match=r"^encodings\.rope\.sweep\.base: should be a list of .*, got list too large",
    ):
        validate(endless)
    assert told("encodings.rope.sweep={base=3}") == [
        "encodings.rope.sweep.base: should be a list of different values, got 3"
    ]
    assert told("encodings.rope.sweep={base=[3.0, 3.0]}")[0].startswith(
        "encodings.rope.sweep.base: should be a list of diff"
    )
    assert told("encodings.rope.sweep=3")[0].startswith(
        "encodings.rope.sweep: should be a table of lists"
    )
    assert told("encodings.rope.sweep={'base.x'=[1, 2]}", "encodings.rope.base=3.0") == [
        "encodings.rope.sweep.base.x: 'base' is a value, not a section with keys"
    ]
    assert (
        "makes at most"
        not in told("encodings.rope.sweep={base=[10.0], layout=['half'], bsae=[1]}")[0]
    )
    assert told(f"encodings.rope.sweep={{base={[float(i) for i in range(1, 1002)]}}}")[0].endswith(
        "makes 1001"
    )


FINETUNE = "finetune={multiple=2, steps=30, evaluate_at=[0, 10, 30], learning_rate=1e-3}"


def test_what_extends_an_encoding_may_be_finetuned():
    experiment = validated(
        FINETUNE, "evaluate.multiples=[1, 4]", "encodings.plain={extends='rope'}", "task.symbols=96"
    )
    assert plan.training_runs(experiment) == {label: [label] for label in experiment.encodings}
    steps = {
        job.label: sorted({e.step for e in job.evaluations})
        for job in plan.training_jobs(experiment)
    }
    assert steps["yarn"] == [0, 10, 30]
    assert steps["rope"] == [experiment.train.steps]
    tuned = plan.train_config(experiment, "yarn")
    assert (tuned.length, tuned.steps, tuned.stream) == (2 * experiment.task.length, 30, 3)
    # one factor, that of the length it is tuned on, at all lengths
    assert [plan.encoding(experiment, "yarn", m).scaling.factor for m in (1, 4)] == [
        plan.context(experiment, 2).factor
    ] * 2
    assert plan.encoding(experiment, "plain", 4) == jrope.Rope()
    assert told(FINETUNE.replace("30]", "20]"))[0].startswith(
        "finetune.evaluate_at: should be different numbers of steps"
    )
    assert told(FINETUNE.replace("multiple=2", "multiple=2000"))[0].startswith(
        "evaluate.multiples: should need at most 16384"
    )
    assert told(FINETUNE[:-1] + ", warmup=30}") == [
        "finetune.warmup: should be less than finetune.steps, 30, got 30"
    ]


def test_long_lengths_may_have_fewer_sequences():
    experiment = validated("evaluate.tokens=100", "evaluate.sequences=9")
    assert [plan.context(experiment, multiple).length for multiple in (0.5, 1, 2)] == [10, 18, 34]
    assert [plan.sequences(experiment, multiple) for multiple in (0.5, 1, 2, 8)] == [9, 5, 2, 1]
    assert plan.sequences(validated(), 8) == 512


def test_a_window_is_a_control():
    experiment = validated("encodings.cropped={extends='rope', window='trained'}")
    assert plan.encoding(experiment, "cropped", 2) == jrope.Chain((jrope.Rope(), jrope.Window(18)))
    assert plan.encoding(
        validated("encodings.cropped={extends='rope', window=5}"), "cropped", 1
    ).encodings[1] == jrope.Window(5)
    assert told("encodings.t5={type='t5'}", "encodings.x={extends='t5', window=5}") == [
        "encodings.x.window: 't5' has parameters, which are lost under a window"
    ]


MINE = """
import dataclasses
import jax
import jrope
from experiments.tasks import Copy


@dataclasses.dataclass(frozen=True)
class Wave(jrope.Encoding):
    height: float = 1.0

    def embed(self, params, x, positions):
        wave = self.height * jax.numpy.sin(positions)[..., None]
        return x + wave.reshape((1,) * (x.ndim - wave.ndim) + wave.shape)


class Twice(Copy):
    pass


class Stranger:
    pass


@dataclasses.dataclass(frozen=True)
class Shapeless(jrope.Encoding):
    table: jax.Array | None = None
"""


def test_classes_of_the_users_own_by_import_path(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "users_own.py").write_text(MINE)
    import users_own  # type: ignore

    experiment = validated(
        "encodings.w={type='users_own:Wave', height=2.0, train.steps=500}",
        "task.type='users_own:Twice'",
    )
    assert plan.encoding(experiment, "w", 1) == users_own.Wave(2.0)
    assert plan.train_config(experiment, "w").steps == 500
    assert isinstance(plan.task(experiment), users_own.Twice)
    assert validate(experiment.record()) == experiment
    found = digests(experiment)
    assert set(found) == {"users_own:Wave", "users_own:Twice"}
    assert len(set(found.values())) == 1
    chained = validated(
        "encodings.c={type='chain', encodings=[{type='users_own:Wave'}, {type='alibi'}]}"
    )
    assert plan.encoding(chained, "c", 1) == jrope.Chain((users_own.Wave(), jrope.Alibi()))
    for section, line in {
        "{type='users_own:Wave', height='x'}": "encodings.w.height: should be a valid number, got 'x'",
        "{type='users_own:Wave', hieght=1}": "encodings.w.hieght: unknown key, did you mean 'height'?",
        "{type='users_own:Nothing'}": "encodings.w.type: 'users_own:Nothing' cannot be imported: ",
        "{type='no_such:Thing'}": "encodings.w.type: 'no_such:Thing' cannot be imported: No module named 'no_such'",
        "{type=':'}": "encodings.w.type: ':' cannot be imported: ValueError",
        "{type='users_own:Stranger'}": "encodings.w.type: 'users_own:Stranger' should be a subclass of jrope.encoding",
        "{type='users_own:Twice'}": "encodings.w.type: 'users_own:Twice' should be a subclass of jrope.encoding",
        "{type='users_own:Shapeless'}": "encodings.w.type: 'users_own:Shapeless' has a field that no config can hold",
    }.items():
        assert told(f"encodings.w={section}")[0].startswith(line), told(f"encodings.w={section}")


def test_jobs_are_plain_data_with_parents_first():
    others = (
        "encodings.learned.type='learned'",
        "encodings.a={extends='learned'}",
        "task.symbols=96",
    )
    experiment = validated(*others, "evaluate.multiples=[4, 1]")
    jobs = plan.training_jobs(experiment)
    assert [(job.index, job.label, job.parent) for job in jobs] == [
        (0, "rope", None),
        (1, "learned", None),
    ]
    first, learned = (job.evaluations for job in jobs)
    assert [(e.step, e.multiple, e.length, e.context) for e in first] == [
        (10, 1, 8, 18),
        (10, 4, 32, 66),
    ]
    assert [e.label for e in first[0].encodings] == ["rope", "yarn"]
    assert [(e.label, e.limit) for e in learned[1].encodings] == [("learned", 18), ("a", 18)]
    assert (
        jobs[0].train.model.encoding == jrope.Encoding()
    )  # which all encodings without parameters share
    assert jobs[1].train.model.encoding == jrope.Learned(18)
    others = ("encodings.t5.type='t5'", "encodings.a={extends='t5'}", "task.symbols=96")
    tuned = plan.training_jobs(validated(FINETUNE, *others))
    assert [(job.index, job.label, job.parent) for job in tuned] == [
        (0, "rope", None),
        (2, "t5", None),
        (1, "yarn", "rope"),
        (3, "a", "t5"),
    ]
    assert [job.train.stream for job in tuned] == [1, 1, 3, 3]
    assert {e.step for e in tuned[2].evaluations} == {0, 10, 30}
    for job in (*jobs, *tuned):
        again = pickle.loads(pickle.dumps(job))
        assert again.train == job.train
        assert [e.context for e in again.evaluations] == [e.context for e in job.evaluations]
