"""Sweeps: one encoding of a config that stands for many, one for each value of some of its keys.

    [encodings.yarn]
    extends = "rope"
    scaling = { type = "yarn", factor = "match" }
    sweep = { "scaling.beta_fast" = [2, 4, 8], "scaling.beta_slow" = [1, 2] }

makes six encodings, `yarn beta_fast=2 beta_slow=1` and so on. They are trained, evaluated and stored like any others.
"""

import copy
import itertools
from typing import Any

from experiments.text import plain, shown

LARGEST_SWEEP = 1000


def expanded(data: dict[str, Any]) -> dict[str, Any]:
    """The config with every sweep made into the encodings that it stands for.

    Raises:
      ValueError: with path and value, if a sweep is not a table of lists.
    """
    encodings = data.get("encodings")
    if not isinstance(encodings, dict):
        return data
    found: dict[str, Any] = {}
    for label, section in encodings.items():
        new = _each(label, section) if isinstance(section, dict) and "sweep" in section else {label: section}
        for twice in found.keys() & new.keys():
            raise ValueError(f"encodings.{plain(label)}: makes an encoding {twice!r}, which there is already")
        found |= new
    return {**data, "encodings": found}


def _each(label: str, section: dict[str, Any]) -> dict[str, Any]:
    sweep, path = section["sweep"], f"encodings.{plain(label)}.sweep"
    if not isinstance(sweep, dict) or not sweep:
        raise ValueError(f'{path}: should be a table of lists, such as {{ "scaling.beta_fast" = [2, 4] }}, got {shown(sweep)}')
    for key, values in sweep.items():
        scalars = isinstance(values, list) and values and all(map(_is_scalar, values))
        if not scalars or len(set(map(repr, values))) < len(values):
            raise ValueError(f"{path}.{plain(key)}: should be a list of different values, got {shown(values)}")
    if (size := _product(sweep)) > LARGEST_SWEEP:
        raise ValueError(f"{path}: should make at most {LARGEST_SWEEP} encodings, makes {size}")
    found = {}
    for combination in itertools.product(*sweep.values()):
        values = dict(zip(sweep, combination, strict=True))
        own = copy.deepcopy({key: value for key, value in section.items() if key != "sweep"})
        for key, value in values.items():
            _set(own, key, value, path)
        name = " ".join([label, *(f"{key.rpartition('.')[2]}={value}" for key, value in values.items())])
        found[name] = {**own, "swept": {"of": label, "values": values}}
    return found


def _is_scalar(value: Any) -> bool:
    """Whether a value can be a part of a name: no table or list, and no integer of more digits than Python writes."""
    return isinstance(value, bool | float | str) or (isinstance(value, int) and value.bit_length() <= 64)


def _product(sweep: dict[str, list]) -> int:
    size = 1
    for values in sweep.values():
        size *= len(values)
    return size


def _set(section: dict[str, Any], key: str, value: Any, path: str):
    *parents, last = key.split(".")
    for name in parents:
        section = section.setdefault(name, {})
        if not isinstance(section, dict):
            raise ValueError(f"{path}.{plain(key)}: {name!r} is a value, not a section with keys")
    section[last] = value
