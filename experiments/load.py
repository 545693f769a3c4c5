"""From a config file and overrides to a valid `Experiment`, or to every mistake in it, each with path, value and remedy."""

import difflib
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pydantic

from experiments import size
from experiments.config import Experiment, Extends
from experiments.sections import TAGGED, Section
from experiments.text import plain, shown

LONGEST_CONTEXT = 16_384  # tokens; beyond it, dense attention does not fit the memory of the machines this is for


class ConfigError(Exception):
    """What is wrong with a config, one line for each mistake."""


def load(path: Path, overrides: Sequence[str] = ()) -> Experiment:
    """Reads, overrides and validates a config.

    Raises:
      ConfigError: naming everything that is wrong.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not a text file in UTF-8") from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is a ValueError of its own
        raise ConfigError(f"{path}: not valid TOML: {plain(str(error))}") from None
    for override in overrides:
        _override(data, override)
    return validate(data)


def validate(data: dict[str, Any]) -> Experiment:
    """The experiment of a parsed config, valid to the last detail that can be known before training.

    Raises:
      ConfigError: naming everything that is wrong.
    """
    try:
        experiment = Experiment.model_validate(data)
    except pydantic.ValidationError as error:
        raise ConfigError("\n".join(_line(e) for e in error.errors(include_url=False))) from None
    if mistakes := list(_mistakes(experiment)):
        raise ConfigError("\n".join(mistakes))
    return experiment


def _override(data: dict[str, Any], override: str):
    """Sets `path.to.field=value`; path and value are written as in TOML, or the value is a bare string."""
    path, equals, text = override.partition("=")
    try:
        keys, section = [], tomllib.loads(f"{path} = 0")
        while isinstance(section, dict):
            ((key, section),) = section.items()
            keys.append(key)
    except (ValueError, RecursionError):
        keys = []
    if not equals or not keys:
        raise ConfigError(f"{shown(override)}: an override is written path.to.field=value, such as train.steps=500")
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        parsed = {}
    for i, key in enumerate(keys[:-1]):
        data = data.setdefault(key, {})
        if not isinstance(data, dict):
            raise ConfigError(f"{shown(override)}: {'.'.join(keys[: i + 1])} is a value, not a section with fields")
    data[keys[-1]] = parsed["value"] if len(parsed) == 1 else text.strip()


def _mistakes(experiment: Experiment):
    """What the schema cannot see: how sections fit together."""
    task, model, train, multiples = experiment.task, experiment.model, experiment.train, experiment.evaluate.multiples
    if len(set(experiment.seeds)) < len(experiment.seeds):
        yield f"seeds: should all be different, got {experiment.seeds}"
    if train.warmup >= train.steps:
        yield f"train.warmup: should be less than train.steps, {train.steps}, got {train.warmup}"
    if model.features % model.heads:
        yield f"model.features: should be a multiple of model.heads, {model.heads}, got {model.features}"
    if 1 not in multiples:
        yield f"evaluate.multiples: should have a 1, which tells whether a model has learned, got {multiples}"
    lengths = [experiment.length(multiple) for multiple in multiples]
    if min(lengths) < 1 or len(set(lengths)) < len(lengths):
        yield f"evaluate.multiples: should make different lengths of at least 1, got {multiples}, which make {lengths}"
    elif (longest := max(experiment.context(multiple).length for multiple in (1, *multiples))) > LONGEST_CONTEXT:
        yield f"evaluate.multiples: should need at most {LONGEST_CONTEXT} tokens of context, got {multiples}: {longest}"
    elif too_large := size.mistake_of_model(experiment):
        yield too_large
    else:
        try:
            experiment.task_value().check(task.length, lengths)
        except ValueError as error:
            yield f"task: {error}"
        for label, section in experiment.encodings.items():
            yield from _mistakes_of_encoding(experiment, label, section)


def _mistakes_of_encoding(experiment: Experiment, label: str, section: Section):
    path = f"encodings.{plain(label)}"
    if isinstance(section, Extends):
        parent = experiment.encodings.get(section.extends)
        if parent is None or isinstance(parent, Extends):
            trained = [name for name, other in experiment.encodings.items() if not isinstance(other, Extends)]
            yield f"{path}.extends: {_unknown(section.extends, trained, 'trained encoding')}"
            return
        if "scaling" not in type(parent).model_fields:
            yield f"{path}.extends: {section.extends!r} is of type {parent.type!r}, which has no scaling"
            return
    head_dim = experiment.model.features // experiment.model.heads
    try:
        for multiple in experiment.evaluate.multiples:
            encoding = experiment.encoding(label, multiple)
            encoding.at(head_dim=head_dim, length=experiment.context(multiple).length)
        if too_large := size.mistake_of_tables(experiment, experiment.encoding(label, 1)):
            yield f"{path}: {too_large}"
        limit, trained = experiment.encoding(label, 1).limit, experiment.context(1).trained
        if limit is not None and limit < trained:
            yield f"{path}: should have a value for all {trained} tokens of the trained context, but ends after {limit}"
    except (ValueError, OverflowError) as error:
        yield f"{path}: {error}"


def _line(error: Any) -> str:
    """One of pydantic's errors in jrope's words."""
    location, given, kind = error["loc"], error["input"], error["type"]
    path = ".".join(plain(str(part)) for part in location if part not in TAGGED) or "config"
    if kind == "extra_forbidden":
        return f"{path}: {_unknown(location[-1], _model(location[:-1]).model_fields, 'key', got=False)}"
    if kind == "missing":
        return f"{path}: missing"
    if kind.startswith("no_"):
        return _untyped(path, kind.removeprefix("no_"), given)
    if kind in ("literal_error", "enum"):
        return f"{path}: should be {error['ctx']['expected']}, got {shown(given)}"
    if kind == "value_error":
        return f"{path}: {error['ctx']['error']!s}" + ("" if isinstance(given, dict) else f", got {shown(given)}")
    return f"{path}: {error['msg'].replace('Input should', 'should')}, got {shown(given)}"


def _untyped(path: str, kind: str, given: Any) -> str:
    """The error of a section that should say what it is by its `type`."""
    tags = [tag for tag, model in TAGGED.items() if tag.startswith(f"<{kind} ") and model is not Extends]
    names = [tag.removeprefix(f"<{kind} ")[:-1] for tag in tags]
    if not isinstance(given, dict):
        return f"{path}: should be a section with a `type`, one of {_listed(names)}, got {shown(given)}"
    if "type" not in given:
        return f"{path}: needs a `type`, one of {_listed(names)}"
    return f"{path}.type: {_unknown(given['type'], names, kind)}"


def _model(location: tuple) -> type[Section]:
    """The section model at a place in the config."""
    model: type[Section] = Experiment
    for part in location:
        if part in TAGGED:
            model = TAGGED[part]
        elif part in model.model_fields:
            section = model.model_fields[part].annotation
            model = section if isinstance(section, type) and issubclass(section, Section) else model
    return model


def _unknown(name: Any, valid, what: str, *, got: bool = True) -> str:
    """`unknown key, did you mean 'factor'?`, or the whole list where nothing is near."""
    near = difflib.get_close_matches(name, list(valid), n=1) if isinstance(name, str) else []
    remedy = f"did you mean {near[0]!r}?" if near else f"expected one of {_listed(valid)}"
    return f"unknown {what}{f' {shown(name)}' if got else ''}, {remedy}"


def _listed(names) -> str:
    return ", ".join(repr(name) for name in names)
