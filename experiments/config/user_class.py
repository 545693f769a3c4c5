"""The user's own classes, which a config names by their import path: `type = "module:Class"`."""

import dataclasses
import difflib
import hashlib
import importlib
import inspect
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jrope
from experiments.config.schema import Experiment, TaskSection, TrainedEncoding
from experiments.config.section import ConfigError, check_fields, field_types
from experiments.tasks import Task

BASES: dict[str, type] = {"encoding": jrope.Encoding, "task": Task}
SECTIONS: dict[str, type] = {"encoding": TrainedEncoding, "task": TaskSection}


def user_class(kind: str, name: str) -> type:
    """The class with this import path, `module:Class`.

    Raises:
      ConfigError: if there is none, or it is not what this kind of section needs.
    """
    cls, base = _imported(name), BASES.get(kind, object)
    if not issubclass(cls, base):
        raise _error(f"{name!r} should be a subclass of {base.__module__}.{base.__name__}")
    is_dataclass = "__dataclass_params__" in vars(cls)
    if not (dataclasses.is_dataclass(cls) and (is_dataclass or not inspect.get_annotations(cls))):
        missing = "@dataclass(frozen=True) is missing before the class"
        raise _error(f"{name!r} should be a frozen dataclass: {missing}")
    try:
        check_fields(cls)
    except TypeError as error:
        raise _error(f"{name!r} has a field that no config can hold: {error}") from None
    reserved = {"type", *(field_types(SECTIONS[kind]) if kind in SECTIONS else ())}
    for field in reserved & field_types(cls).keys():
        raise _error(f"the field {field!r} of {name!r} has a name that a config needs")
    return cls


def digests(experiment: Experiment) -> dict[str, str]:
    """A digest of the file of each class of the user's own, by import path.

    The numbers of a run depend on these files too.
    """
    files = {
        name: Path(inspect.getfile(_imported(name))) for name in user_types(experiment.record())
    }
    return {
        name: hashlib.sha256(file.read_bytes()).hexdigest()[:16] for name, file in files.items()
    }


def user_types(data: Any) -> Iterator[str]:
    """The import paths in plain data."""
    if isinstance(data, dict):
        name = data.get("type")
        if isinstance(name, str) and ":" in name:
            yield name
        data = list(data.values())
    if isinstance(data, list):
        for item in data:
            yield from user_types(item)


def _imported(name: str) -> type:
    module, _, class_name = name.partition(":")
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        where = f"modules are looked for in {Path.cwd()} and among installed packages"
        raise _error(f"{name!r} cannot be imported: {error}; {where}") from None
    except Exception as error:  # any, because it is the user's code that runs
        message = f"{type(error).__name__}: {error}{_line(error)}"
        raise _error(f"{name!r} cannot be imported: {message}") from None
    classes = [key for key, value in vars(found).items() if isinstance(value, type)]
    if class_name not in classes:
        near = difflib.get_close_matches(class_name, classes, n=1)
        remedy = f", did you mean '{module}:{near[0]}'?" if near else ""
        missing = f"{found.__file__} has no class {class_name!r}{remedy}"
        raise _error(f"{name!r} cannot be imported: {missing}")
    return getattr(found, class_name)


def _error(message: str) -> ConfigError:
    return ConfigError(message, ("type",))


def _line(error: BaseException) -> str:
    """Where in the user's code an error was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "importlib" not in f.filename and f.filename != __file__]
    return f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
