"""From a config file and overrides to a valid `Experiment`, or to every mistake in it, each with path, value and remedy."""

import difflib
import tomllib
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pydantic

from experiments.config import size, traced
from experiments.config.experiment import EXTENDS, AnyEncoding, Experiment, Extends, FineTune
from experiments.config.imported import imports
from experiments.config.sections import OWN, TAGGED, Section, Typed
from experiments.config.sweep import expanded
from experiments.text import plain, shown

LONGEST_CONTEXT = 16_384  # tokens; beyond it, evaluation takes hours on the machines this is for


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
        data = expanded(data)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    try:
        experiment = Experiment.model_validate(data)
    except pydantic.ValidationError as error:
        raise ConfigError("\n".join(_line(e) for e in error.errors(include_url=False))) from None
    if mistakes := list(_mistakes(experiment)) or list(_mistakes_of_own(experiment)):
        raise ConfigError("\n".join(dict.fromkeys(mistakes)))
    return experiment


def _mistakes_of_own(experiment: Experiment):
    """What is wrong with what the config imports."""
    encodings = {label: section for label, section in experiment.encodings.items() if isinstance(section, Typed)}
    own = [label for label, section in encodings.items() if any(imports(section))]
    return traced.mistakes(experiment, own, task=any(imports(experiment.task)))


def encoding_section(data: dict[str, Any], overrides: Sequence[str]) -> Typed:
    """One encoding's section by itself, with fields set as in a config.

    Raises:
      ConfigError: naming everything that is wrong.
    """
    for override in overrides:
        _override(data, override)
    try:
        section = pydantic.TypeAdapter(AnyEncoding).validate_python(data)
    except pydantic.ValidationError as error:
        raise ConfigError("\n".join(_line(e).removeprefix("config: ") for e in error.errors(include_url=False))) from None
    if not isinstance(section, Typed):
        raise ConfigError(f"{EXTENDS}: only a config has other encodings to extend")
    return section


def unknown(name: Any, valid, what: str, *, got: bool = True) -> str:
    """`unknown key, did you mean 'factor'?`, or the whole list where nothing is near."""
    near = difflib.get_close_matches(name, list(valid), n=1) if isinstance(name, str) else []
    remedy = f"did you mean {near[0]!r}?" if near else f"expected one of {_listed(valid)}"
    return f"unknown {what}{f' {shown(name)}' if got else ''}, {remedy}"


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
    others = data.get("encodings")
    new = keys[0] == "encodings" and len(keys) > 2 and isinstance(others, dict) and keys[1] not in others
    if new and keys[2] not in ("type", "extends"):  # with which one begins
        raise ConfigError(f"{shown(override)}: {unknown(keys[1], others, 'encoding')}")
    for i, key in enumerate(keys[:-1]):
        data = data.setdefault(key, {})
        if not isinstance(data, dict):
            raise ConfigError(f"{shown(override)}: {'.'.join(keys[: i + 1])} is a value, not a section with fields")
    data[keys[-1]] = parsed["value"] if len(parsed) == 1 else text.strip()


def _mistakes(experiment: Experiment):
    """What the schema cannot see: how sections fit together."""
    task, multiples, tuned = experiment.task, experiment.evaluate.multiples, experiment.finetune
    if len(set(experiment.seeds)) < len(experiment.seeds):
        yield f"seeds: should all be different, got {experiment.seeds}"
    if 1 not in multiples:
        yield f"evaluate.multiples: should have a 1, which tells whether a model has learned, got {multiples}"
    if tuned is not None:
        yield from _mistakes_of_finetuning(tuned)
    lengths = [experiment.length(multiple) for multiple in multiples]
    trained = [task.length] if tuned is None else [task.length, experiment.length(tuned.multiple)]
    if min(lengths) < 1 or len(set(lengths)) < len(lengths):
        yield f"evaluate.multiples: should make different lengths of at least 1, got {multiples}, which make {lengths}"
    elif (longest := max(experiment.task_value().context(length) for length in (*lengths, *trained))) > LONGEST_CONTEXT:
        yield f"evaluate.multiples: should need at most {LONGEST_CONTEXT} tokens of context, got {multiples}: {longest}"
    else:
        try:
            for length in trained:
                experiment.task_value().check(length, lengths)
        except ValueError as error:
            yield f"task: {error} (evaluate.multiples of task.length, {task.length}, are {lengths})"
        for label, section in experiment.encodings.items():
            yield from _mistakes_of_encoding(experiment, label, section)


def _mistakes_of_finetuning(tuned: FineTune):
    points = tuned.evaluate_at
    if len(set(points)) < len(points) or max(points) != tuned.steps:
        yield (
            "finetune.evaluate_at: should be different numbers of steps, of which the greatest is finetune.steps,"
            f" {tuned.steps}, got {points}"
        )
    if tuned.warmup >= tuned.steps:
        yield f"finetune.warmup: should be less than finetune.steps, {tuned.steps}, got {tuned.warmup}"


def _mistakes_of_encoding(experiment: Experiment, label: str, section: Section):
    path = f"encodings.{plain(label)}"
    if isinstance(section, Extends):
        parent = experiment.encodings.get(section.extends)
        if not isinstance(parent, Typed):
            trained = [name for name, other in experiment.encodings.items() if isinstance(other, Typed)]
            yield f"{path}.extends: {unknown(section.extends, trained, 'trained encoding')}"
            return
        if section.scaling is not None and "scaling" not in type(parent).model_fields:
            yield f"{path}.scaling: {section.extends!r} has no scaling to replace"
            return
        if section.window is not None and experiment.has_parameters(section.extends):
            yield f"{path}.window: {section.extends!r} has parameters of its own, which a window would not find"
            return
    elif mistakes := list(_mistakes_of_training(experiment, label)):
        yield from mistakes
        return
    if (experiment.parent(label) == label or experiment.finetune) and (too_large := size.mistake(experiment, label)):
        yield too_large
        return
    longest = experiment.trained_multiple(label)
    try:
        for multiple in (*experiment.evaluate.multiples, longest):
            experiment.acting(label, multiple)
        limit, reach = experiment.encoding(label, longest).limit, experiment.reach(label, longest)
        if limit is not None and limit < reach:
            yield f"{path}: should have a value for all {reach} positions that it is trained on, but ends after {limit}"
    except (ValueError, OverflowError) as error:
        yield f"{path}: {error}"


def _mistakes_of_training(experiment: Experiment, label: str):
    """How a trained encoding's model and training fit together, where it says something of its own or not."""
    section, model, train = experiment.encodings[label], experiment.model_of(label), experiment.train_of(label)
    own = f"encodings.{plain(label)}."
    if train.warmup >= train.steps:
        path = f"{own if section.train else ''}train.warmup"
        yield f"{path}: should be less than train.steps, {train.steps}, got {train.warmup}"
    if model.features % model.heads:
        path = f"{own if section.model else ''}model.features"
        yield f"{path}: should be a multiple of model.heads, {model.heads}, got {model.features}"


def _line(error: Any) -> str:
    """One of pydantic's errors in jrope's words."""
    location, given, kind = error["loc"], error["input"], error["type"]
    path = ".".join(plain(str(part)) for part in location if part not in TAGGED) or "config"
    if kind == "extra_forbidden":
        return f"{path}: {unknown(location[-1], _model(location[:-1]).model_fields, 'key', got=False)}"
    if kind == "missing":
        return f"{path}: missing"
    if kind.startswith("no_"):
        return _untyped(path, kind.removeprefix("no_"), given)
    if kind in ("literal_error", "enum"):
        return f"{path}: should be {error['ctx']['expected']}, got {shown(given)}"
    if kind == "value_error":
        return f"{path}: {plain(str(error['ctx']['error']))}" + ("" if isinstance(given, dict) else f", got {shown(given)}")
    return f"{path}: {error['msg'].replace('Input should', 'should')}, got {shown(given)}"


def _untyped(path: str, kind: str, given: Any) -> str:
    """The error of a section that should say what it is by its `type`."""
    tags = [tag for tag, model in TAGGED.items() if tag.startswith(f"<{kind} ") and model is not Extends]
    names = [name for tag in tags if (name := tag.removeprefix(f"<{kind} ")[:-1]) != OWN]
    if not isinstance(given, dict):
        return f"{path}: should be a section with a `type`, one of {_listed(names)}, got {shown(given)}"
    if "type" not in given:
        return f"{path}: needs a `type`, one of {_listed(names)}"
    module, dot, name = given["type"].rpartition(".") if isinstance(given["type"], str) else ("", "", "")
    if dot:
        return f"{path}.type: unknown {kind} {shown(given['type'])}, did you mean '{plain(module)}:{plain(name)}'?"
    return f"{path}.type: {unknown(given['type'], names, kind)} (or a class of your own, as module:Class)"


def _model(location: tuple) -> type[Section]:
    """The section model at a place in the config."""
    model: type[Section] = Experiment
    for part in location:
        if part in TAGGED:
            model = TAGGED[part]
        elif part in model.model_fields:
            annotation = model.model_fields[part].annotation
            inner = [annotation, *typing.get_args(annotation)]  # `Section | None` is one too
            model = next((a for a in inner if isinstance(a, type) and issubclass(a, Section)), model)
    return model


def _listed(names) -> str:
    return ", ".join(repr(name) for name in names)
