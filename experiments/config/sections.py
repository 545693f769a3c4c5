"""Config sections made from frozen dataclasses: the fields are the keys, and the class's own checks are the config's.

A section names its class by `type`: a short name of one of jrope's, or the import path of the user's own, `module:Class`. Two
kinds of field mean something that only the evaluation at hand can tell: a `factor` may be "match", and a trained length may be
left out.
"""

import dataclasses
import typing
from typing import Annotated, Any, Literal, NamedTuple, Optional

import pydantic
from pydantic import AfterValidator, ConfigDict, Discriminator, Field, Tag, model_validator

LARGEST = 10**9  # of any number in a config: more is a slip, and what uses it would overflow
Count = Annotated[int, Field(gt=0, le=LARGEST)]


OWN = "module:Class"  # stands for the import path of the user's own class


class Context(NamedTuple):
    """Tokens that a model reads: in training, and in the evaluation at hand."""

    trained: int
    length: int

    @property
    def factor(self) -> float:
        """How many times the trained context, at least 1: what `factor = "match"` means."""
        return max(self.length / self.trained, 1.0)


class Section(pydantic.BaseModel):
    """A table of the config. Strict: a boolean is not a number, NaN and infinity are not rates, unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


def _factor(value):
    number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST
    if not (number or value == "match"):
        raise ValueError(f'should be a number of at most {LARGEST}, or "match" for evaluated / trained context')
    return value


Factor = Annotated[Any, AfterValidator(_factor)]
TRAINED = {"original_length", "max_length"}  # keys that may be left out, and then are the trained context
CLASSES: dict[type, type] = {}  # a section model -> the class it stands for
TAGGED: dict[str, type[Section]] = {}  # the tag that marks a section in the path of an error -> its model


class Typed(Section):
    """A table that stands for a value: `type` names its class, the other keys are its fields."""

    def value(self, context: Context) -> Any:
        """The value in one context."""
        fields = {f.name: _value(getattr(self, f.name), context) for f in dataclasses.fields(CLASSES[type(self)])}
        for name in TRAINED & fields.keys():
            fields[name] = context.trained if fields[name] is None else fields[name]
        if fields.get("factor") == "match":
            fields["factor"] = context.factor
        return CLASSES[type(self)](**fields)

    @model_validator(mode="after")
    def _fields_are_accepted(self):
        self.value(Context(1, 1))
        return self


def _value(field, context: Context):
    if isinstance(field, list):
        return tuple(_value(item, context) for item in field)
    return field.value(context) if isinstance(field, Typed) else field


def typed(kind: str, name: str, cls: type, special: dict[Any, tuple], base: type[Typed] = Typed) -> Any:
    """The section model of one class; `special` has what to take for field types that are not TOML's."""
    return tagged(kind, name, section_model(name, cls, special, base))


def tagged(kind: str, name: str, model: type[Section]) -> Any:
    """The section model as a member of `one_of`."""
    TAGGED[f"<{kind} {name}>"] = model
    return Annotated[model, Tag(f"<{kind} {name}>")]


def section_model(name: str, cls: type, special: dict[Any, tuple], base: type[Typed] = Typed) -> type[Typed]:
    """The section model whose `type` is the name, and whose other keys are the fields of the class."""
    fields: dict[str, Any] = {"type": (Literal[name], ...)}
    types = typing.get_type_hints(cls)
    for f in dataclasses.fields(cls):
        default = ... if f.default is dataclasses.MISSING else f.default
        if f.name in TRAINED:
            fields[f.name] = (Optional[Count], None)  # noqa: UP045
        elif f.name == "factor":
            fields[f.name] = (Factor, default)
        elif types[f.name] in (int, float):
            fields[f.name] = (Annotated[types[f.name], Field(ge=-LARGEST, le=LARGEST)], default)
        else:
            fields[f.name] = special.get(types[f.name], (types[f.name], default))
    model = pydantic.create_model(cls.__name__, __base__=base, **fields)
    CLASSES[model] = cls
    return model


def one_of(kind: str, members: list, *, other: str | None = None) -> Any:
    """A section that is any of these models, told apart by `type`, or by the key `other` that its own model has."""

    def tag(section):
        if isinstance(section, Section):
            return next(name for name, model in TAGGED.items() if type(section) is model)
        if isinstance(section, dict):
            name = other if other in section else section.get("type")
            return f"<{kind} {OWN if ':' in name else name}>" if isinstance(name, str) else None
        return None

    discriminator = Discriminator(tag, custom_error_type=f"no_{kind}", custom_error_message=f"not a known {kind}")
    return Annotated[typing.Union[tuple(members)], discriminator]  # noqa: UP007
