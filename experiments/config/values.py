"""From a section of a config to a dataclass, or to every mistake in it.

A section of the schema becomes that dataclass. A section with a `type` means a value: a task,
an encoding, a scaling, a model. `type` is the name of one of jrope's classes or `module:Class`, and
the other keys are the fields of the class. Two kinds of field depend on the evaluation at hand: a
`factor` may be "match", and a trained length may be left out.
"""

import dataclasses
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import jrope
from experiments.config import schema
from experiments.config.schema import Transformer
from experiments.config.section import LARGEST, ConfigError, field_types, listed, unknown, validated
from experiments.config.user_class import user_class
from experiments.tasks import POSITIONS, TASKS
from experiments.text import plain, shown

# the classes of each kind of value, by their names in a config
TYPES: dict[str, Mapping[str, type]] = {
    "task": TASKS,
    "encoding": jrope.encoding_types(),
    "scaling": jrope.scaling_types(),
    "axes": jrope.axes_types(),
    "positions": POSITIONS,
    "model": {"transformer": Transformer},
}
DEFAULT_TYPES = {"model": "transformer"}
TRAINED_LENGTHS = ("original_length", "max_length")  # left out, they are the trained context


class Context(NamedTuple):
    """Tokens that a model reads: in training, and in the evaluation at hand."""

    trained: int
    length: int

    @property
    def factor(self) -> float:
        """What `factor = "match"` means: length over trained length, at least 1."""
        return max(self.length / self.trained, 1.0)


NOWHERE = Context(1024, 1024)  # for values that are the same in every context, and for checks


def section(
    cls: type,
    table: Any,
    context: Context = NOWHERE,
    *,
    given: Mapping[str, Any] = {},
    other_keys: Collection[str] = (),
) -> Any:
    """The dataclass whose fields are the keys of the table.

    Args:
      given: values of fields that a config cannot set, for a class that has them.
      other_keys: valid keys that are not fields, for messages.

    Raises:
      ConfigError: for every mistake.
    """
    fields, error = dict(field_types(cls)), ConfigError()
    made = {name: value for name, value in given.items() if fields.pop(name, None)}
    for kind in [name for name, hint in fields.items() if hint == schema.Inline]:
        del fields[kind]
        made[kind] = table
        if isinstance(table, dict):
            made[kind] = {key: value for key, value in table.items() if key not in fields}
            table = {key: value for key, value in table.items() if key in fields}
        with error.at():
            made[kind] = resolved(kind, made[kind], other_keys=fields)
    if not isinstance(table, dict):
        error.raise_if_any()
        raise ConfigError(f"should be a section with keys, got {shown(table)}")
    for key, value in table.items():
        with error.at(key):
            if key not in fields:
                raise ConfigError(unknown(key, [*other_keys, *fields], "key", got=False))
            made[key] = value  # stays, where it is invalid
            made[key] = _made(key, fields[key], value, context)
    try:
        instance = validated(cls, made)
    except ConfigError as invalid:
        found = {place[:1] for place, _ in error.mistakes} | ({()} if error.mistakes else set())
        error.mistakes += [new for new in invalid.mistakes if new[0][:1] not in found]
        raise error from None
    error.raise_if_any()
    return instance


def build(kind: str, table: Any, context: Context = NOWHERE, **options: Any) -> Any:
    """The value that a table means in one context; `options` are those of `section`.

    Raises:
      ConfigError: for every mistake.
    """
    cls, fields = class_of(kind, table), {key: v for key, v in table.items() if key != "type"}
    hints = field_types(cls)
    left_out = [name for name in TRAINED_LENGTHS if name in hints and name not in table]
    fields |= dict.fromkeys(left_out, context.trained)
    try:
        return section(cls, fields, context, **options)
    except ConfigError:
        raise
    except Exception as error:  # any, because a user's class checks its fields as it likes
        message = f"{cls.__name__} fails with {type(error).__name__}: {plain(str(error))}"
        raise ConfigError(message) from error


def resolved(kind: str, table: Any, *, other_keys: Collection[str] = ()) -> schema.Table:
    """The table with all defaults, if it is valid.

    Raises:
      ConfigError: for every mistake.
    """
    given = {"vocabulary": 2, "encoding": jrope.Encoding()} if kind == "model" else {}
    return _filled(table, build(kind, table, given=given, other_keys=other_keys), skip=given)


def class_of(kind: str, table: Any) -> type:
    """The class that a table names.

    Raises:
      ConfigError: if it names none.
    """
    known = TYPES[kind]
    choices = f"a `type`, one of {listed(known)}"
    if not isinstance(table, dict):
        raise ConfigError(f"should be a section with {choices}, got {shown(table)}")
    name = table.get("type", DEFAULT_TYPES.get(kind))
    if name is None:
        raise ConfigError(f"needs {choices}")
    if not isinstance(name, str) or not (name in known or set(":.") & set(name)):
        message = f"{unknown(name, known, kind)} (or a class of your own, as module:Class)"
        raise ConfigError(message, ("type",))
    if name not in known and ":" not in name:
        module, _, cls = name.rpartition(".")
        remedy = f"did you mean '{plain(module)}:{plain(cls)}'?"
        raise ConfigError(f"unknown {kind} {shown(name)}, {remedy}", ("type",))
    return known.get(name) or user_class(kind, name)


def _made(name: str, hint: Any, value: Any, context: Context) -> Any:
    """The value of a field, made of what a table has for it."""
    if hint in (schema.Table, schema.Table | None):
        return resolved(name, value)
    if hint == schema.Encodings and isinstance(value, dict):
        return _each(_encoding_section, value)
    for cls in (hint, *typing.get_args(hint)):
        if cls in schema.SECTIONS:
            return section(cls, value)
    if (kind := _kind(hint)) is not None and typing.get_origin(hint) is not tuple:
        return build(kind, value, context)
    if kind is not None and isinstance(value, list):
        made = _each(lambda table: build(kind, table, context), dict(enumerate(value)))
        return list(made.values())
    if name == "factor":
        return _factor(value, context)
    if hint in (int, float) and isinstance(value, int | float) and abs(value) > LARGEST:
        raise ConfigError(f"should be between -{LARGEST} and {LARGEST}, got {shown(value)}")
    return value


def _kind(hint: Any) -> str | None:
    """The kind of value, or of a list of values, that a field of this type holds."""
    rope = field_types(jrope.Rope)
    kinds = [(rope[kind], kind) for kind in ("scaling", "axes")]
    kinds += [(jrope.Encoding, "encoding"), (tuple[jrope.Encoding, ...], "encoding")]
    return next((kind for known, kind in kinds if known == hint), None)


def _each(function: Callable[[Any], Any], values: Mapping[Any, Any]) -> dict[Any, Any]:
    error, made = ConfigError(), {}
    for key, value in values.items():
        with error.at(key):
            made[key] = function(value)
    error.raise_if_any()
    return made


def _encoding_section(table: Any) -> Any:
    extends = isinstance(table, dict) and "extends" in table
    return section(schema.ExtendedEncoding if extends else schema.TrainedEncoding, table)


def _factor(value: Any, context: Context) -> float:
    if value == "match":
        return context.factor
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (number and abs(value) <= LARGEST):
        allowed = f'a number of at most {LARGEST}, or "match" for evaluated / trained context'
        raise ConfigError(f"should be {allowed}, got {shown(value)}")
    return value


def _filled(table: Any, value: Any, skip: Collection[str] = ()) -> Any:
    """A table with the defaults of what was made of it, as far as they are plain data."""
    if isinstance(table, list) and any(isinstance(inner, dict) for inner in table):
        return list(map(_filled, table, value))
    if not (isinstance(table, dict) and dataclasses.is_dataclass(value)):
        return table
    full = {key: _filled(inner, getattr(value, key, inner)) for key, inner in table.items()}
    for field in dataclasses.fields(value):
        name, default = field.name, field.default
        if name not in (*table, *skip, *TRAINED_LENGTHS) and _is_plain(default):
            full[name] = list(default) if isinstance(default, tuple) else default
    return full


def _is_plain(value: Any) -> bool:
    items = value if isinstance(value, tuple) else (value,)
    return all(isinstance(item, bool | int | float | str) for item in items)
