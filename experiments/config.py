"""The schema of configs/*.toml. A config is the whole experiment; what it leaves out has the default written here.

Encodings, scalings and tasks are the library's own dataclasses, each named by `type`: their fields are the keys, and their
checks are the config's.
"""

import dataclasses
import math
import typing
from typing import Annotated, Any, Literal, NamedTuple

import pydantic
from pydantic import (
    AfterValidator,
    ConfigDict,
    Discriminator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Tag,
    model_validator,
)

import jrope
from experiments.tasks import TASKS, Task
from experiments.train import Trainer
from jrope.transformer import TransformerConfig

SCALINGS = {"linear": jrope.Linear, "ntk": jrope.NTK, "dynamic_ntk": jrope.DynamicNTK, "yarn": jrope.Yarn}
ENCODINGS = {
    "nope": jrope.Encoding,
    "sinusoidal": jrope.Sinusoidal,
    "learned": jrope.Learned,
    "rope": jrope.Rope,
    "alibi": jrope.Alibi,
}


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
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not (number or value == "match"):
        raise ValueError('should be a number, or "match" for evaluated / trained context')
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


def _typed(kind: str, name: str, cls: type, special: dict[Any, tuple], base: type[Typed] = Typed) -> Any:
    """The section model of one class; `special` has what to take for field types that are not TOML's."""
    fields: dict[str, Any] = {"type": (Literal[name], ...)}
    for f in dataclasses.fields(cls):
        default = ... if f.default is dataclasses.MISSING else f.default
        if f.name in TRAINED:
            fields[f.name] = (PositiveInt | None, None)
        elif f.name == "factor":
            fields[f.name] = (Factor, default)
        else:
            fields[f.name] = special.get(f.type, (f.type, default))
    model = pydantic.create_model(cls.__name__, __base__=base, **fields)
    CLASSES[model], TAGGED[f"<{kind} {name}>"] = cls, model
    return Annotated[model, Tag(f"<{kind} {name}>")]


def _one_of(kind: str, members: list, *, other: str | None = None) -> Any:
    """A section that is any of these models, told apart by `type`, or by the key `other` that its own model has."""

    def tag(section):
        if isinstance(section, Section):
            return next(name for name, model in TAGGED.items() if type(section) is model)
        if isinstance(section, dict):
            return f"<{kind} {other if other in section else section.get('type')}>"
        return None

    discriminator = Discriminator(tag, custom_error_type=f"no_{kind}", custom_error_message=f"not a known {kind}")
    return Annotated[typing.Union[tuple(members)], discriminator]  # noqa: UP007


_scaling = _one_of("scaling", [_typed("scaling", name, cls, {}) for name, cls in SCALINGS.items()])
_special = {jrope.Rope.__dataclass_fields__["scaling"].type: (_scaling | None, None)}
_encodings = [_typed("encoding", name, cls, _special) for name, cls in ENCODINGS.items()]
_special = {tuple[jrope.Encoding, ...]: (list[_one_of("encoding", _encodings)], ...)}
_encodings.append(_typed("encoding", "chain", jrope.Chain, _special))


class Extends(Section):
    """A scaling, tried on the model that was trained as another encoding of this config, without further training."""

    extends: str
    scaling: _scaling


TAGGED["<encoding extends>"] = Extends
_encodings.append(Annotated[Extends, Tag("<encoding extends>")])


class TaskSection(Typed):
    """The task, and the length it is trained on: the greatest, where lengths vary."""

    length: PositiveInt


class Model(Section):
    """The transformer's shape."""

    features: PositiveInt = 64
    layers: PositiveInt = 2
    heads: PositiveInt = 2
    mlp_factor: PositiveInt = 2


class Train(Section):
    """AdamW with a linear warm-up and a cosine decay; `report_every` steps come between two rows of metrics."""

    steps: PositiveInt
    batch: PositiveInt = 16
    learning_rate: PositiveFloat
    warmup: NonNegativeInt = 100
    weight_decay: NonNegativeFloat = 0.01
    report_every: PositiveInt = 100


class Evaluate(Section):
    """Lengths to evaluate, as multiples of the trained one, and how many sequences of each for each seed."""

    multiples: Annotated[list[PositiveFloat], Field(min_length=1)] = [1, 2, 4, 8]
    sequences: PositiveInt = 512


Seed = Annotated[int, Field(ge=0, lt=2**31)]
Label = Annotated[str, Field(min_length=1, max_length=60)]


class Experiment(Section):
    """A whole config."""

    title: Annotated[str, Field(min_length=1)]
    seeds: Annotated[list[Seed], Field(min_length=1)]
    task: _one_of("task", [_typed("task", name, cls, {}, TaskSection) for name, cls in TASKS.items()])
    model: Model = Model()
    train: Train
    evaluate: Evaluate = Evaluate()
    encodings: Annotated[dict[Label, _one_of("encoding", _encodings, other="extends")], Field(min_length=1)]

    def task_value(self) -> Task:
        return self.task.value(Context(1, 1))

    def context(self, multiple: float) -> Context:
        """The context at a multiple of the trained length."""
        task = self.task_value()
        return Context(task.context(self.task.length), task.context(self.length(multiple)))

    def length(self, multiple: float) -> int:
        """The length at a multiple of the trained one, in the task's own measure."""
        return round(multiple * self.task.length)

    def trained(self) -> dict[str, list[str]]:
        """The labels of the encodings that are trained, each with all that are evaluated on its weights, itself first."""
        groups = {label: [label] for label, section in self.encodings.items() if isinstance(section, Typed)}
        for label, section in self.encodings.items():
            if isinstance(section, Extends):
                groups[section.extends].append(label)
        return groups

    def encoding(self, label: str, multiple: float) -> jrope.Encoding:
        """The encoding of that label at a multiple of the trained length."""
        section = self.encodings[label]
        context = self.context(multiple)
        if isinstance(section, Extends):
            trained = self.encodings[section.extends].value(context)
            return dataclasses.replace(trained, scaling=section.scaling.value(context))
        return section.value(context)

    def trainer(self, label: str) -> Trainer:
        """How the model of that label is trained."""
        task = self.task_value()
        model = TransformerConfig(task.vocabulary, self.encoding(label, 1), **self.model.model_dump())
        options = self.train.model_dump(exclude={"report_every"})
        return Trainer(task, model, length=self.task.length, **options)
