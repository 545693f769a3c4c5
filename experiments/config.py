"""The schema of configs/*.toml. A config is the whole experiment; what it leaves out has the default written here."""

# pyright: reportInvalidTypeForm=false
# (some sections are made from the library's classes, where a type checker expects a type that is written out)

import dataclasses
from typing import Annotated, Any

from pydantic import Field, Tag

import jrope
from experiments.sections import LARGEST, TAGGED, Context, Count, Section, Typed, one_of, typed
from experiments.tasks import TASKS, Task
from experiments.train import Trainer
from jrope.transformer import TransformerConfig

SCALINGS = {
    "linear": jrope.Linear,
    "ntk": jrope.NTK,
    "dynamic_ntk": jrope.DynamicNTK,
    "yarn": jrope.Yarn,
    "llama3": jrope.Llama3,
    "longrope": jrope.LongRope,
    "proportional": jrope.Proportional,
    "step": jrope.Step,
}
AXES = {"sections": jrope.Sections, "axial": jrope.Axial}
ENCODINGS = {
    "nope": jrope.Encoding,
    "sinusoidal": jrope.Sinusoidal,
    "learned": jrope.Learned,
    "rope": jrope.Rope,
    "xpos": jrope.XPos,
    "alibi": jrope.Alibi,
    "hard_alibi": jrope.HardAlibi,
    "sandwich": jrope.Sandwich,
    "t5": jrope.T5,
    "kerple_log": jrope.KerpleLog,
    "kerple_power": jrope.KerplePower,
    "fire": jrope.Fire,
    "cope": jrope.Cope,
}

_lists: dict[Any, tuple] = {tuple[float, ...]: (list[float], ...), tuple[int, ...]: (list[int], ...)}
_scaling = one_of("scaling", [typed("scaling", name, cls, _lists) for name, cls in SCALINGS.items()])
_axes = one_of("axes", [typed("axes", name, cls, _lists) for name, cls in AXES.items()])
_rope = {f.name: f.type for f in dataclasses.fields(jrope.Rope)}
_special: dict[Any, tuple] = {_rope["scaling"]: (_scaling | None, None), _rope["axes"]: (_axes | None, None)}
_encodings = [typed("encoding", name, cls, _special) for name, cls in ENCODINGS.items()]
_special = {tuple[jrope.Encoding, ...]: (list[one_of("encoding", _encodings)], ...)}
_encodings.append(typed("encoding", "chain", jrope.Chain, _special))


class Extends(Section):
    """A scaling, tried on the model that was trained as another encoding of this config, without further training."""

    extends: str
    scaling: _scaling


TAGGED["<encoding extends>"] = Extends
_encodings.append(Annotated[Extends, Tag("<encoding extends>")])


class TaskSection(Typed):
    """The task, and the length it is trained on: the greatest, where lengths vary."""

    length: Count


class Model(Section):
    """The transformer's shape."""

    features: Count = 64
    layers: Annotated[int, Field(gt=0, le=256)] = 2  # each is compiled on its own
    heads: Count = 2
    mlp_factor: Count = 2


class Train(Section):
    """AdamW with a linear warm-up and a cosine decay; `report_every` steps come between two rows of metrics."""

    steps: Count
    batch: Count = 16
    learning_rate: Annotated[float, Field(gt=0, le=LARGEST)]
    warmup: Annotated[int, Field(ge=0, le=LARGEST)] = 100
    weight_decay: Annotated[float, Field(ge=0, le=LARGEST)] = 0.01
    report_every: Count = 100


Multiples = Annotated[list[Annotated[float, Field(gt=0, le=LARGEST)]], Field(min_length=1)]


class Evaluate(Section):
    """Lengths to evaluate, as multiples of the trained one, and how many sequences of each for each seed."""

    multiples: Multiples = Field(default_factory=lambda: [1, 2, 4, 8])
    sequences: Count = 512


Seed = Annotated[int, Field(ge=0, lt=2**31)]
Label = Annotated[str, Field(min_length=1, max_length=60)]


class Experiment(Section):
    """A whole config."""

    title: Annotated[str, Field(min_length=1)]
    seeds: Annotated[list[Seed], Field(min_length=1)]
    task: one_of("task", [typed("task", name, cls, {}, TaskSection) for name, cls in TASKS.items()])
    model: Model = Model()
    train: Train
    evaluate: Evaluate = Evaluate()
    encodings: Annotated[dict[Label, one_of("encoding", _encodings, other="extends")], Field(min_length=1)]

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
