"""How `jax.export` stores jrope's values, which are part of the structure of a program's arguments.

A stored program has the name of each value's type, and the fields that are not arrays as JSON: a
person can read them, and reading them runs no code of the file, as unpickling would. A type is
found by its name among the modules that are already imported.
"""

import dataclasses
import json
import sys
from collections.abc import Callable
from typing import Any

from jax import export

from jrope import checks

_unflattens: dict[str, list[Callable]] = {}  # of each definition of a type, by name


def register(cls: type, unflatten: Callable):
    """Registers a pytree type, whose structure is made of fields that `to_json` takes.

    A name that is defined again, as by a notebook's cell, is stored with a number. All of its
    numbers are read as its latest definition.
    """
    name = _name(cls)
    definitions = _unflattens.setdefault(name, [])
    definitions.append(unflatten)
    export.register_pytree_node_serialization(
        cls,
        serialized_name=name if len(definitions) == 1 else f"{name}#{len(definitions)}",
        serialize_auxdata=lambda aux: json.dumps(to_json(cls.__name__, aux)).encode(),
        deserialize_auxdata=lambda text: from_json(json.loads(text)),
        from_children=lambda aux_data, children: definitions[-1](aux_data, children),
    )


def to_json(owner: str, value: Any) -> Any:
    """A number, a string, None, a tuple or a dataclass of them, as what JSON has.

    Raises:
      TypeError: if it is or holds anything else.
    """
    value = checks.number(value)
    if value is None or isinstance(value, str | int | float):
        return value
    if type(value) is tuple:
        return [to_json(owner, item) for item in value]
    cls = type(value)
    if dataclasses.is_dataclass(value) and _find(_name(cls)) is cls:
        fields = {name: to_json(owner, getattr(value, name)) for name in _field_names(cls)}
        return {"type": _name(cls), "fields": fields}
    raise TypeError(
        f"{owner}: a field holds {value!r}, which jax.export cannot store. It stores numbers,"
        " strings, tuples, and dataclasses that a module defines. Export a function that closes"
        " over the encoding, or takes its bind(head_dim=, length=), whose spectrum is an array"
    )


def from_json(stored: Any) -> Any:
    """The value that `to_json` stored; equal to it.

    Raises:
      ValueError: if it has a type that no imported module defines, or that has other fields.
    """
    if isinstance(stored, list):
        return tuple(map(from_json, stored))
    if not isinstance(stored, dict):
        return stored
    cls = _find(stored["type"])
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        module = stored["type"].split(":")[0]
        raise ValueError(
            f"jrope: the program has a {stored['type']}, which is not defined here: import"
            f" {module}, or define it, before jax.export.deserialize"
        )
    given, known = (sorted(names) for names in (stored["fields"], _field_names(cls)))
    if given != known:
        raise ValueError(
            f"jrope: the program has a {stored['type']} with the fields {given}, but here it has"
            f" {known}: read it with the version that stored it, or export it again"
        )
    value = object.__new__(cls)
    for name, field in stored["fields"].items():
        object.__setattr__(value, name, from_json(field))
    return value


def _field_names(cls: type) -> list[str]:
    return [field.name for field in dataclasses.fields(cls)]


def _name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _find(name: str) -> Any:
    """What an imported module has under this name; None if there is nothing."""
    module, _, path = name.partition(":")
    found = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found
