"""Broken configs: each is valid or refused in words.

Nothing here lists fields: they come from the shipped configs and from the dataclasses.
"""

import dataclasses
import json
import re
import tomllib
import typing
from collections import Counter
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from types import UnionType
from typing import Any

import jax
import jax.numpy as jnp
from hypothesis import strategies as st

import jrope
from experiments.config.load import load, validate
from experiments.config.plan import training_jobs
from experiments.config.schema import Experiment, TaskSection, Train, TrainedEncoding
from experiments.config.section import ConfigError
from experiments.config.values import TYPES
from experiments.text import plain
from experiments.training.evaluate import draw_sequences, sum_scores
from experiments.training.job import TrainingJob
from experiments.training.train import init_state, train_steps
from tests.soak.damage import corrupted, mutated, scalars, try_many, words

FOLDER = Path(__file__).parents[2] / "configs"
LITERALS = ["nan", "-1", "0", "3", "1e400", "9" * 5000, "0x" + "f" * 5000]
LITERALS += ["[1, 2]", "{}", "[" * 5000, "{a.b=1}", "1979-05-27"]


def read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))


shipped = st.sampled_from(sorted(FOLDER.glob("*.toml")))
parsed = shipped.map(read)
text = shipped.flatmap(lambda path: corrupted(path.read_bytes()))
overridden = shipped.flatmap(lambda path: st.tuples(st.just(path), overrides(read(path))))


@cache
def section(cls: type) -> st.SearchStrategy:
    """Tables with the fields of a dataclass."""
    hints, required, optional = typing.get_type_hints(cls), {}, {}
    for field in dataclasses.fields(cls):
        values = from_type(hints[field.name])
        if field.name in TYPES and not dataclasses.is_dataclass(hints[field.name]):
            values = table(field.name)
        if field.name == "train" and cls is not Experiment:
            values = section(Train)
        has_default = {field.default, field.default_factory} != {dataclasses.MISSING}
        (optional if has_default else required)[field.name] = values
    made = st.fixed_dictionaries(required, optional=optional)
    inlined = {TaskSection: "task", TrainedEncoding: "encoding"}.get(cls)
    return made.map(lambda own: own.pop(inlined) | own) if inlined else made


def table(kind: str) -> st.SearchStrategy:
    """Tables with a `type` and the fields of its class."""

    def of_class(name: str, cls: type):
        return section(cls).map(lambda fields: {"type": name, **fields})

    return st.deferred(lambda: st.one_of(*(of_class(*item) for item in TYPES[kind].items())))


def from_type(hint: Any) -> st.SearchStrategy:
    """Values that a field of a config may have: most of them nearly make sense."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is jrope.Encoding:
        return table("encoding")
    if dataclasses.is_dataclass(hint):
        return section(hint)
    if origin in (typing.Union, UnionType):
        return st.one_of(*map(from_type, arguments))
    if origin is typing.Literal:
        return st.sampled_from(arguments)
    if origin is tuple:
        return st.lists(from_type(arguments[0]), max_size=4)
    if origin is dict:
        values = scalars if arguments[1] is Any else from_type(arguments[1])
        return st.dictionaries(words.filter(bool), values, min_size=1, max_size=3)
    plain_values = {
        int: st.integers(1, 40),
        float: st.sampled_from([1e-3, 0.01, 0.1, 0.5, 1, 2, 4, 8.0]),
        bool: st.booleans(),
        str: words.filter(bool),
        type(None): st.none(),
    }
    return plain_values.get(hint, st.sampled_from(["match", "trained", 1.5, 2, 4]))


@st.composite
def generated(draw):
    """A config made from the schema, or a shipped one with one such section."""
    made, data = draw(section(Experiment)), draw(parsed)
    part = draw(st.sampled_from([None, *made]))
    return made if part is None else {**data, part: made[part]}


@st.composite
def overrides(draw, data: dict[str, Any]):
    """Command-line overrides of a config: sensible ones, and others."""
    paths = [(path, value) for path, value in _fields(data) if all(map(str.isidentifier, path))]
    fields = st.sampled_from([(".".join(path), value) for path, value in paths])
    same = fields.map(lambda field: f"{field[0]}={json.dumps(field[1])}")
    other = st.builds("{0[0]}={1}".format, fields, st.sampled_from(LITERALS) | words)
    return draw(st.lists(same | other | st.text(max_size=12), min_size=1, max_size=3))


def _fields(value: Any, *path: str):
    """Every leaf of a tree of dictionaries, with its path."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _fields(inner, *path, key)
    else:
        yield path, value


def verdict(data: dict[str, Any]) -> Experiment | None:
    """The experiment of a parsed config; None if it is refused, each line with path and reason."""
    try:
        return validate(data)
    except ConfigError as error:
        sections = (field.name for field in dataclasses.fields(Experiment))
        names = ("config", *sections, *(plain(str(key)) for key in data if key))
        for line in str(error).splitlines():
            assert line.startswith(names), line
            assert re.search(r": .", line), line
        return None


def verdict_of_file(path: Path, overrides: Sequence[str] = ()) -> Experiment | None:
    """The same of a file: its path or an override may be in the place of a config's path."""
    try:
        return load(path, overrides)
    except ConfigError as error:
        for line in str(error).splitlines():
            assert re.search(r".: .", line), line
        return None


def fuzz(count: int, path: Path) -> Counter[str]:
    """Of this many broken configs, how many are refused and valid; builds every 20th valid one."""
    counts: Counter[str] = Counter()

    def judge(experiment: Experiment | None):
        counts["valid" if experiment else "refused"] += 1
        if experiment and counts["valid"] % 20 == 0:
            build(experiment)
            counts["built"] += 1

    def judge_text(data: bytes):
        path.write_bytes(data)
        judge(verdict_of_file(path))

    ways = [
        (generated(), lambda data: judge(verdict(data))),
        (parsed.flatmap(mutated), lambda data: judge(verdict(data))),
        (text, judge_text),
        (overridden, lambda given: judge(verdict_of_file(*given))),
    ]
    for strategy, check in ways:
        try_many(check, strategy, count // len(ways))
    return counts


def build(experiment: Experiment):
    """Traces what a run compiles: initialisation, training and evaluation of each job."""
    for job in training_jobs(experiment):
        _build(job)


def _build(job: TrainingJob):
    config, data = job.train, jax.eval_shape(job.train.task.data)
    seeds = jax.ShapeDtypeStruct((len(job.seeds),), jnp.uint32)
    number = jax.ShapeDtypeStruct((), jnp.int32)
    state = init_state.eval_shape(config, seeds)
    after, losses = train_steps.eval_shape(config, job.encoding, data, seeds, state, number)
    assert (after, losses.shape) == (state, seeds.shape)
    for evaluation in (job.evaluations[0], job.evaluations[-1]):
        shared = {"task": config.task, "positions": config.positions, "length": evaluation.length}
        drawn = draw_sequences.eval_shape(seeds, number, data, count=2, **shared)
        used = jax.ShapeDtypeStruct((2,), bool)
        for evaluated in evaluation.encodings:
            if evaluated.limit is None:
                stacked = jax.tree.map(lambda leaf: jnp.stack([leaf]), evaluated.encoding)
                score = partial(sum_scores, encodings=1, model=config.model)
                jax.eval_shape(score, state.params, stacked, drawn, used)
