"""Config sections of the user's own classes, named by their import path: `type = "module:Class"`."""

import dataclasses
import hashlib
import importlib
import inspect
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import pydantic
from pydantic import ConfigDict

from experiments.config.sections import OWN, Section, Typed, section_model, tagged


class Imported(Typed):
    """A table that stands for a value of the class that `type` names; the other keys are its fields."""

    model_config = ConfigDict(extra="allow")
    type: str
    kind: ClassVar[Any] = object  # what the class must derive from

    def value(self, context):
        try:
            section = _section(self.type, self._class()).model_validate({"type": self.type, **(self.model_extra or {})})
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False)[0]
            place, given = ".".join(map(str, first["loc"])), "" if first["type"] == "missing" else f", got {first['input']!r}"
            raise ValueError(f"{place}: {first['msg'].replace('Input should', 'should')}{given}") from None
        return section.value(context)

    def _class(self) -> Any:
        module, _, name = self.type.partition(":")
        try:
            cls = getattr(importlib.import_module(module), name)
        except Exception as error:  # of any kind, since it is the user's code that runs
            raise ValueError(f"type: {self.type!r} cannot be imported: {error!r}") from None
        kind = type(self).kind
        if not (isinstance(cls, type) and issubclass(cls, kind)):
            raise ValueError(f"type: {self.type!r} should be a subclass of {kind.__module__}.{kind.__name__}")
        return cls

    def source(self) -> Path:
        """The file that the class is written in."""
        return Path(inspect.getfile(self._class()))


@cache
def _section(name: str, cls: Any) -> type[Typed]:
    for f in dataclasses.fields(cls):
        if f.name in Imported.model_fields:
            raise ValueError(f"type: the field {f.name!r} of {name!r} has a name that a config needs")
    try:
        return section_model(name, cls, {})
    except (NameError, TypeError, pydantic.errors.PydanticUserError) as error:
        raise ValueError(f"type: {name!r} has a field that no config can hold: {error}") from None


def imported(kind: str, cls: type, base: type[Typed] = Typed) -> Any:
    """The section model of the user's own subclasses of `cls`."""
    model = type("Imported", (Imported, base), {"kind": cls, "model_config": Imported.model_config, "__module__": __name__})
    return tagged(kind, OWN, model)


def digests(section: Any) -> dict[str, str]:
    """A digest of the file of every class that a section imports, by import path: a run's numbers depend on them too."""
    found = {}
    if isinstance(section, Imported):
        found[section.type] = hashlib.sha256(section.source().read_bytes()).hexdigest()[:16]
    inner = section.__dict__ if isinstance(section, Section) else section
    for value in inner.values() if isinstance(inner, dict) else inner if isinstance(inner, list) else ():
        found |= digests(value)
    return found
