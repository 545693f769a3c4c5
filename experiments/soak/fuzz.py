"""Configs and files, broken in every way: each must be run-able or refused in words. The tests try some, the soak many.

Nothing here lists sections or fields: what can be broken is read from the configs that come with jrope and from the schema.
"""

import copy
import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import hypothesis
import jax
import jax.numpy as jnp
from hypothesis import HealthCheck
from hypothesis import strategies as st

from experiments.config.experiment import Experiment
from experiments.config.load import ConfigError, load, validate
from experiments.evaluate import draw, sums
from experiments.text import plain
from experiments.train import advance, start

FOLDER = Path(__file__).parents[2] / "configs"
SCHEMA = Experiment.model_json_schema()
HOSTILE = ["match", "../../x", "a\nb", "<script>alert(1)</script>", "\x1b[2J", "'\"`", "a.b"]
HUGE = [2**31, 2**63, 10**18, -(10**9), 1e300, 5e-324]
LITERALS = ["nan", "-1", "0", "3", "1e400", "9" * 5000, "0x" + "f" * 5000, "[1, 2]", "{}", "[" * 5000, "{a.b=1}", "1979-05-27"]
PIECES = [b"", b"[", b"]", b"{", b"\n", b'"', b"=", b".", b"0", b"NaN", b"9" * 5000, b"[" * 5000, b"\xff"]

_text = st.text(max_size=8) | st.sampled_from(HOSTILE)
_number = st.integers(-2, 20) | st.floats() | st.sampled_from(HUGE)
_unprintable = st.builds(pow, st.just(10), st.just(4999))  # has more digits than Python writes
_scalar = st.none() | st.booleans() | _number | _unprintable | _text
anything = st.recursive(
    _scalar | st.dates() | st.datetimes(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=5,
)
shipped = st.sampled_from(sorted(FOLDER.glob("*.toml")))
parsed = shipped.map(lambda path: tomllib.loads(path.read_text(encoding="utf-8")))


def from_schema(schema: dict[str, Any]) -> st.SearchStrategy:
    """Values that the JSON schema of a config allows: most of them nearly make sense."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return st.deferred(lambda: from_schema(SCHEMA["$defs"][name]))
    if choices := schema.get("anyOf") or schema.get("oneOf"):
        return st.one_of(*map(from_schema, choices))
    if "const" in schema or "enum" in schema:
        return st.sampled_from(schema.get("enum") or [schema["const"]])
    match schema.get("type"):
        case "object" if "properties" in schema:
            fields = {name: from_schema(field) for name, field in schema["properties"].items()}
            needed = set(schema.get("required", ()))
            optional = {name: field for name, field in fields.items() if name not in needed}
            return st.fixed_dictionaries({name: fields[name] for name in fields if name in needed}, optional=optional)
        case "object":
            values = (
                from_schema(schema["additionalProperties"])
                if isinstance(schema.get("additionalProperties"), dict)
                else _scalar
            )
            return st.dictionaries(_text.filter(bool), values, min_size=1, max_size=3)
        case "array":
            return st.lists(from_schema(schema.get("items", {})), min_size=schema.get("minItems", 0), max_size=4)
        case "integer":
            return st.integers(max(schema.get("minimum", 1), 1), 40)
        case "number":
            return st.sampled_from([1e-3, 0.01, 0.1, 0.5, 1, 2, 4, 8.0])
        case "boolean":
            return st.booleans()
        case "string":
            return _text.filter(bool)
        case "null":
            return st.none()
        case _:
            return st.sampled_from(["match", 1.5, 2, 4])


@st.composite
def generated(draw):
    """A config made from the schema, or a shipped one with a section made so."""
    made, data = draw(from_schema(SCHEMA)), draw(parsed)
    part = draw(st.sampled_from([None, *made]))
    return made if part is None else {**data, part: made[part]}


@st.composite
def mutated(draw, value: Any, values=anything):
    """The value, a tree of dictionaries and lists, changed in one to four places."""
    value = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, 4))):
        places = list(_places(value))
        if not places:
            break
        # drawn by number: hypothesis would look at all that each place holds
        (container, key), (other, its) = (places[draw(st.integers(0, len(places) - 1))] for _ in range(2))
        change = draw(st.sampled_from(["delete", "replace", "add", "graft", "nudge", "rename"]))
        if change == "delete":
            del container[key]
        elif change == "graft":
            container[key] = copy.deepcopy(other[its])
        elif change == "nudge" and type(number := container[key]) in (int, float):
            container[key] = draw(st.sampled_from([number + 1, -number, number * 2, number // 2]))
        elif change == "add" and isinstance(container, dict):
            container[draw(_text)] = draw(values)
        elif change == "rename" and isinstance(container, dict):
            container[draw(_text | st.just(key[:-1]))] = container.pop(key)
        else:
            container[key] = draw(values)
    return value


def _places(value: Any):
    """Every place in a tree of dictionaries and lists, as its container and key."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


@st.composite
def corrupted(draw, data: bytes):
    """The bytes with a few cut, changed, repeated or put in."""
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(data)))
        end = begin + draw(st.sampled_from([0, 0, 1, 2, 20, len(data)]))
        piece = st.sampled_from([*PIECES, 2 * data[begin:end]]) | st.binary(max_size=3)
        data = data[:begin] + draw(piece) + data[end:]
    return data


text = shipped.flatmap(lambda path: corrupted(path.read_bytes()))


@st.composite
def overrides(draw, data: dict[str, Any]):
    """Command-line overrides of a config, near to what makes sense and far from it."""
    fields = [(".".join(path), value) for path, value in _fields(data) if all(map(str.isidentifier, path))]
    same = st.sampled_from(fields).map(lambda field: f"{field[0]}={json.dumps(field[1])}")
    other = st.builds("{0[0]}={1}".format, st.sampled_from(fields), st.sampled_from(LITERALS) | _text)
    return draw(st.lists(same | other | st.text(max_size=12), min_size=1, max_size=3))


def _fields(value: Any, *path: str):
    """Every value in a tree of dictionaries that is none itself, with its path."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _fields(inner, *path, key)
    else:
        yield path, value


overridden = shipped.flatmap(lambda path: st.tuples(st.just(path), overrides(tomllib.loads(path.read_text(encoding="utf-8")))))


def verdict(data: dict[str, Any]) -> Experiment | None:
    """The experiment of a parsed config, or None where every line of the refusal has a path that begins in it and a reason."""
    try:
        return validate(data)
    except ConfigError as error:
        names = ("config", *SCHEMA["properties"], *(plain(str(key)) for key in data if key))
        for line in str(error).splitlines():
            assert line.startswith(names), line
            assert re.search(r": .", line), line
        return None


def verdict_of_file(path: Path, overrides: Sequence[str] = ()) -> Experiment | None:
    """The same of a file, whose refusal may also begin with the file's path or the override."""
    try:
        return load(path, overrides)
    except ConfigError as error:
        for line in str(error).splitlines():
            assert re.search(r".: .", line), line
        return None


def many(count: int, path: Path) -> Counter[str]:
    """How many of so many broken configs were refused and how many valid. Every 20th of these is built."""
    counts: Counter[str] = Counter()

    def judge(experiment: Experiment | None):
        counts["valid" if experiment else "refused"] += 1
        if experiment and counts["valid"] % 20 == 0:
            build(experiment)
            counts["built"] += 1

    def judge_text(data: bytes):
        path.write_bytes(data)
        judge(verdict_of_file(path))

    for strategy, check in (
        (generated(), lambda data: judge(verdict(data))),
        (parsed.flatmap(mutated), lambda data: judge(verdict(data))),
        (text, judge_text),
        (overridden, lambda given: judge(verdict_of_file(*given))),
    ):
        tried(check, strategy, count // 4)
    return counts


FEW = 500


def tried(check: Callable[[Any], None], strategy: st.SearchStrategy, count: int):
    """Checks so many examples; one that fails is reduced to its simplest form and raised."""
    settings = hypothesis.settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=count < FEW,  # a test-suite tries the same ones each time
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    settings(hypothesis.given(strategy)(check))()


def build(experiment: Experiment):
    """Traces what a run of a valid config compiles: starting, training, evaluation at the least and the greatest length."""
    seeds = jax.ShapeDtypeStruct((len(experiment.seeds),), jnp.uint32)
    steps = jax.ShapeDtypeStruct((), jnp.int32)
    for label, members in experiment.stages().items():
        trainer = experiment.trainer(label)
        state = start.eval_shape(trainer, seeds)
        encoding = experiment.acting(label, experiment.trained_multiple(label))
        after, losses = advance.eval_shape(trainer, encoding, seeds, state, steps)
        assert (after, losses.shape) == (state, seeds.shape)
        for member, multiple in product(members, {1, max(experiment.evaluate.multiples)}):
            limit = experiment.encoding(member, multiple).limit
            if limit is None or experiment.reach(member, multiple) <= limit:
                shared = {"task": trainer.task, "positions": trainer.positions, "length": experiment.length(multiple)}
                drawn = draw.eval_shape(seeds, steps, count=2, **shared)
                stacked = jax.tree.map(lambda leaf: jnp.stack([leaf]), experiment.acting(member, multiple))
                score = partial(sums, encodings=1, model=trainer.model)
                jax.eval_shape(score, state.params, stacked, drawn, jax.ShapeDtypeStruct((2,), bool))
