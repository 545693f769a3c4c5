"""Config sections of the user's own classes, named by their import path: `type = "module:Class"`."""

import dataclasses
import difflib
import hashlib
import importlib
import inspect
import traceback
from collections.abc import Iterator
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
            raise ValueError(_told(error.errors(include_url=False)[0], _section(self.type, self._class()))) from None
        return section.value(context)

    def _class(self) -> Any:
        module, _, name = self.type.partition(":")
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError as error:
            where = f"modules are looked for in {Path.cwd()}, where the command is run, and among installed packages"
            raise ValueError(f"type: {self.type!r} cannot be imported: {error}; {where}") from None
        except Exception as error:  # of any kind, since it is the user's code that runs
            told = f"{type(error).__name__}: {error}{_line(error)}"
            raise ValueError(f"type: {self.type!r} cannot be imported: {told}") from None
        kind, names = type(self).kind, [n for n, value in vars(found).items() if isinstance(value, type)]
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            remedy = f", did you mean '{module}:{near[0]}'?" if near else ""
            raise ValueError(f"type: {self.type!r} cannot be imported: {found.__file__} has no class {name!r}{remedy}")
        cls = getattr(found, name)
        if not (isinstance(cls, type) and issubclass(cls, kind)):
            raise ValueError(f"type: {self.type!r} should be a subclass of {kind.__module__}.{kind.__name__}")
        return cls

    def source(self) -> Path:
        """The file that the class is written in."""
        return Path(inspect.getfile(self._class()))


def _line(error: BaseException) -> str:
    """Where in the user's own code an error was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "importlib" not in frame.filename and frame.filename != __file__]
    return f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""


def _told(error: Any, model: type[Section]) -> str:
    """One of pydantic's errors about a field of the user's class."""
    place = ".".join(map(str, error["loc"]))
    if error["type"] == "extra_forbidden":
        fields = [field for field in model.model_fields if field != "type"]
        near = difflib.get_close_matches(place, fields, n=1)
        remedy = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(map(repr, fields)) or 'none'}"
        return f"{place}: unknown key, {remedy} (the keys are the fields of a dataclass)"
    given = "" if error["type"] == "missing" else f", got {error['input']!r}"
    return f"{place}: {error['msg'].replace('Input should', 'should')}{given}"


@cache
def _section(name: str, cls: Any) -> type[Typed]:
    if inspect.get_annotations(cls) and "__dataclass_params__" not in vars(cls):  # fields, or so they were meant
        raise ValueError(f"type: {name!r} should be a frozen dataclass: @dataclass(frozen=True) is missing before the class")
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


def imports(section: Any) -> Iterator[Imported]:
    """All that a section imports."""
    if isinstance(section, Imported):
        yield section
    inner = section.__dict__ if isinstance(section, Section) else section
    for value in inner.values() if isinstance(inner, dict) else inner if isinstance(inner, list) else ():
        yield from imports(value)


def digests(section: Any) -> dict[str, str]:
    """A digest of the file of every class that a section imports, by import path: a run's numbers depend on them too."""
    return {own.type: hashlib.sha256(own.source().read_bytes()).hexdigest()[:16] for own in imports(section)}
