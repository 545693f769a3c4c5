"""Sweeps: one section of a config that makes many encodings, one for each value of some keys.

    [encodings.yarn]
    extends = "rope"
    scaling = { type = "yarn", factor = "match" }
    sweep = { "scaling.beta_fast" = [2, 4, 8], "scaling.beta_slow" = [1, 2] }

makes six encodings, `yarn beta_fast=2 beta_slow=1` and so on. They are trained, evaluated and
stored like any others.
"""

import copy
import itertools
import math
from typing import Any

from experiments.config.section import ConfigError
from experiments.text import shown

MAX_SWEEP = 1000


def expanded(data: dict[str, Any]) -> dict[str, Any]:
    """The config with every sweep replaced by the encodings that it makes.

    Raises:
      ConfigError: if a sweep is not a table of lists.
    """
    encodings = data.get("encodings")
    if not isinstance(encodings, dict):
        return data
    all_of_them: dict[str, Any] = {}
    for label, section in encodings.items():
        swept = isinstance(section, dict) and "sweep" in section
        new = _each(label, section) if swept else {label: section}
        for twice in all_of_them.keys() & new.keys():
            message = f"makes an encoding {twice!r}, which there is already"
            raise ConfigError(message, ("encodings", label))
        all_of_them |= new
    return {**data, "encodings": all_of_them}


def _each(label: str, section: dict[str, Any]) -> dict[str, Any]:
    sweep, place = section["sweep"], ("encodings", label, "sweep")
    if not isinstance(sweep, dict) or not sweep:
        example = '{ "scaling.beta_fast" = [2, 4] }'
        message = f"should be a table of lists, such as {example}, got {shown(sweep)}"
        raise ConfigError(message, place)
    for key, values in sweep.items():
        scalars = isinstance(values, list) and values and all(map(_is_scalar, values))
        if not scalars or len(set(map(repr, values))) < len(values):
            message = f"should be a list of different values, got {shown(values)}"
            raise ConfigError(message, (*place, key))
    if (size := math.prod(map(len, sweep.values()))) > MAX_SWEEP:
        raise ConfigError(f"should make at most {MAX_SWEEP} encodings, makes {size}", place)
    made = {}
    for combination in itertools.product(*sweep.values()):
        values = dict(zip(sweep, combination, strict=True))
        own = copy.deepcopy({key: value for key, value in section.items() if key != "sweep"})
        for key, value in values.items():
            _set(own, key, value, (*place, key))
        named = (f"{key.rpartition('.')[2]}={value}" for key, value in values.items())
        made[" ".join([label, *named])] = {**own, "swept": {"of": label, "values": values}}
    return made


def _is_scalar(value: Any) -> bool:
    """Whether a value can be part of a name; Python does not write integers of 5,000 digits."""
    short = isinstance(value, int) and value.bit_length() <= 64
    return short or isinstance(value, bool | float | str)


def _set(section: dict[str, Any], key: str, value: Any, place: tuple[str, ...]):
    *parents, last = key.split(".")
    for name in parents:
        section = section.setdefault(name, {})
        if not isinstance(section, dict):
            raise ConfigError(f"{name!r} is a value, not a section with keys", place)
    section[last] = value
