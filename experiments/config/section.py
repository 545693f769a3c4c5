"""Mistakes in a config, and the validation of one dataclass by pydantic."""

import dataclasses
import difflib
import typing
from collections.abc import Iterable
from contextlib import contextmanager
from functools import cache
from typing import Annotated, Any

from pydantic import ConfigDict, GetPydanticSchema, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from experiments.text import plain, shown

LARGEST = 10**9  # of all numbers: what uses a larger one would overflow
STRICT = ConfigDict(strict=True, allow_inf_nan=False)  # True is not a number, "2" is not 2
Place = tuple[str | int, ...]  # such as ("train", "steps")
Mistake = tuple[Place, str]


class ConfigError(Exception):
    """What is wrong in a config: places and messages."""

    def __init__(self, message: str = "", place: Place = ()):
        super().__init__()
        self.mistakes: list[Mistake] = [(place, message)] if message else []

    def __str__(self):
        # an empty key has no name to show
        lines = (
            (".".join(plain(str(part)) for part in place) or "config" * bool(place), message)
            for place, message in self.mistakes
        )
        return "\n".join(dict.fromkeys(": ".join(filter(None, line)) for line in lines))

    @contextmanager
    def at(self, *place: str | int):
        """Collects what is wrong at this place."""
        try:
            yield
        except ConfigError as error:
            self.mistakes += [((*place, *inner), message) for inner, message in error.mistakes]
        except (ValueError, OverflowError) as error:
            self.mistakes.append((place, str(error)))

    def raise_if_any(self):
        if self.mistakes:
            raise self


def validated(cls: type, values: dict[str, Any]) -> Any:
    """The dataclass with these values of its fields; lists become tuples.

    Raises:
      ConfigError: for every mistake.
    """
    try:
        return _adapter(cls).validate_python({key: _tuples(value) for key, value in values.items()})
    except ValidationError as invalid:
        error = ConfigError()
        for found in invalid.errors(include_url=False):
            if found["type"] != "too_short" or not found["input"]:  # else its items are invalid
                place = tuple(part for part in found["loc"] if part != "[key]")
                error.mistakes.append((place, _message(found)))
        raise error from None


@cache
def field_types(cls: type) -> dict[str, Any]:
    """The types of the fields that a dataclass is made with."""
    hints = typing.get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.init}


def check_fields(cls: type):
    """Raises TypeError if the dataclass has a field that no config can hold."""
    try:
        _adapter(cls)
    except (NameError, TypeError, PydanticUserError) as error:
        raise TypeError(str(error).partition("\n")[0]) from None


def unknown(name: Any, valid: Iterable[str], what: str, *, got: bool = True) -> str:
    """`unknown key, did you mean 'factor'?`, or with the whole list if no name is near."""
    near = difflib.get_close_matches(name, list(valid), n=1) if isinstance(name, str) else []
    remedy = f"did you mean {near[0]!r}?" if near else f"expected one of {listed(valid)}"
    return f"unknown {what}{f' {shown(name)}' if got else ''}, {remedy}"


def listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


@cache
def _adapter(cls: Any) -> TypeAdapter:
    from_dict = Annotated[cls, GetPydanticSchema(_from_dict)]
    # Optional, since pydantic takes no config next to a dataclass itself
    return TypeAdapter(from_dict | None, config=STRICT)  # type: ignore[operator]


def _from_dict(cls: type, handler) -> Any:
    """The schema of a dataclass whose fields are strict. A strict dataclass would refuse a dict."""
    schema = handler(cls)
    handler.resolve_ref_schema(schema)["strict"] = False
    return schema


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _message(error: Any) -> str:
    """One of pydantic's errors in jrope's words."""
    given = error["input"]
    got = f", got {shown(list(given) if isinstance(given, tuple) else given)}"
    match error["type"]:
        case "missing":
            return "missing"
        case "literal_error":
            return f"should be {error['ctx']['expected']}{got}"
        case "value_error":
            return plain(str(error["ctx"]["error"])) + ("" if isinstance(given, dict) else got)
    message = error["msg"].replace("Input should", "should")
    return message.replace("tuple", "list").replace("Tuple", "List") + got
