"""From a config file and overrides to a valid `Experiment`, or to every mistake in it."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.config import check
from experiments.config.schema import Experiment
from experiments.config.section import ConfigError, unknown
from experiments.config.sweep import expanded
from experiments.config.values import section
from experiments.text import plain, shown, shown_path

__all__ = ["ConfigError", "load", "override", "validate"]


def load(path: Path, overrides: Sequence[str] = ()) -> Experiment:
    """Reads, overrides and validates a config.

    Raises:
      ConfigError: for every mistake.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{shown_path(path)}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{shown_path(path)}: not a text file in UTF-8") from None
    except (ValueError, RecursionError) as error:  # ValueError also for a number of 5,000 digits
        raise ConfigError(f"{shown_path(path)}: not valid TOML: {plain(str(error))}") from None
    for assignment in overrides:
        override(data, assignment)
    return validate(data)


def validate(data: dict[str, Any]) -> Experiment:
    """The experiment of a parsed config, valid as far as can be known before training.

    Raises:
      ConfigError: for every mistake in keys and values; if there is none, for every mistake in how
        they fit together.
    """
    error = ConfigError()
    try:
        experiment = section(Experiment, {"model": {}} | expanded(data))
        error.mistakes += check.mistakes(experiment)
    except RecursionError:
        raise ConfigError("config: its sections are nested too deep") from None
    error.raise_if_any()
    return experiment


def override(data: dict[str, Any], assignment: str):
    """Sets `path.to.field=value`, written as in TOML; the value may also be a bare string.

    Raises:
      ConfigError: if it is not of that form, or the path leads through a value.
    """
    try:
        assignment.encode()
    except UnicodeEncodeError:  # bytes that the locale cannot read, such as ä in that of LC_ALL=C
        remedy = "set it in the config file, or use a locale of UTF-8, such as LC_ALL=C.UTF-8"
        raise ConfigError(f"{shown(assignment)}: not text in this locale; {remedy}") from None
    path, equals, text = assignment.partition("=")
    keys = _keys(path)
    if not equals or not keys:
        form = "an override is written path.to.field=value, such as train.steps=500"
        raise ConfigError(f"{shown(assignment)}: {form}")
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        parsed = {}
    labels = data.get("encodings")
    if keys[0] == "encodings" and len(keys) > 2 and isinstance(labels, dict):
        known = keys[1] in labels or keys[2] in ("type", "extends")  # with which a new one begins
        if not known:
            raise ConfigError(f"{shown(assignment)}: {unknown(keys[1], labels, 'encoding')}")
    for i, key in enumerate(keys[:-1]):
        data = data.setdefault(key, {})
        if not isinstance(data, dict):
            message = f"{'.'.join(keys[: i + 1])} is a value, not a section with fields"
            raise ConfigError(f"{shown(assignment)}: {message}")
    data[keys[-1]] = parsed["value"] if len(parsed) == 1 else text.strip()


def _keys(path: str) -> list[str]:
    """The keys of a dotted path; none if it is not one."""
    try:
        keys, table = [], tomllib.loads(f"{path} = 0")
        while isinstance(table, dict):
            ((key, table),) = table.items()
            keys.append(key)
    except (ValueError, RecursionError):
        return []
    return keys
