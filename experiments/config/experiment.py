"""The schema of configs/*.toml. A config is the whole experiment; what it leaves out has the default written here."""

# pyright: reportInvalidTypeForm=false
# (some sections are made from the library's classes, where a type checker expects a type that is written out)

import dataclasses
from typing import Annotated, Any, Literal, Optional

import jax
from pydantic import Field, create_model

import jrope
from experiments.config.imported import imported
from experiments.config.sections import LARGEST, Context, Count, Section, Typed, one_of, tagged, typed
from experiments.positions import POSITIONS, Consecutive, Positions
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
EXTENDS = "extends"  # the key of a section that runs the weights of another
AXES = {"sections": jrope.Sections, "axial": jrope.Axial}
ENCODINGS = {
    "nope": jrope.Encoding,
    "sinusoidal": jrope.Sinusoidal,
    "learned": jrope.Learned,
    "rope": jrope.Rope,
    "xpos": jrope.XPos,
    "alibi": jrope.Alibi,
    "hard_alibi": jrope.HardAlibi,
    "window": jrope.Window,
    "sandwich": jrope.Sandwich,
    "t5": jrope.T5,
    "kerple_log": jrope.KerpleLog,
    "kerple_power": jrope.KerplePower,
    "fire": jrope.Fire,
    "cope": jrope.Cope,
}


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


class FineTune(Section):
    """Further training, of the weights of another encoding, on sequences of up to `multiple` times the trained length.

    Scores are kept after each of the steps in `evaluate_at`, of which 0 is zero-shot.
    """

    multiple: Annotated[float, Field(gt=0, le=LARGEST)]
    steps: Count
    evaluate_at: Annotated[list[Annotated[int, Field(ge=0, le=LARGEST)]], Field(min_length=1)]
    batch: Count = 16
    learning_rate: Annotated[float, Field(gt=0, le=LARGEST)]
    warmup: Annotated[int, Field(ge=0, le=LARGEST)] = 0
    weight_decay: Annotated[float, Field(ge=0, le=LARGEST)] = 0.01
    report_every: Count = 50


def _some_of(section: type[Section]) -> Any:
    """A section with any of the keys of this one, which say what is different."""
    fields: dict[str, Any] = {
        name: (Optional[Annotated[field.annotation, *field.metadata]], None)  # noqa: UP045
        for name, field in section.model_fields.items()
    }
    return create_model(f"SomeOf{section.__name__}", __base__=Section, **fields)


Label = Annotated[str, Field(min_length=1, max_length=60)]


class Swept(Section):
    """What a sweep set in this one of the encodings that it made: written by jrope itself, where a config says `sweep`."""

    of: str
    values: dict[str, bool | int | float | str]


class Trained(Typed):
    """An encoding that a model is trained with, and what that model needs of its own to fit the trained length.

    `panel` names the row of the figure that it is drawn in.
    """

    model: _some_of(Model) | None = None
    train: _some_of(Train) | None = None
    positions: one_of("positions", [typed("positions", name, cls, {}) for name, cls in POSITIONS.items()]) | None = None
    panel: Label | None = None
    swept: Swept | None = None


_lists: dict[Any, tuple] = {tuple[float, ...]: (list[float], ...), tuple[int, ...]: (list[int], ...)}
_scaling = one_of("scaling", [typed("scaling", name, cls, _lists) for name, cls in SCALINGS.items()])
_axes = one_of("axes", [typed("axes", name, cls, _lists) for name, cls in AXES.items()])
_hints = {f.name: f.type for f in dataclasses.fields(jrope.Rope)}
_rope: dict[Any, tuple] = {_hints["scaling"]: (_scaling | None, None), _hints["axes"]: (_axes | None, None)}


def _encodings(kind: str, base: type[Typed]) -> list:
    return [*(typed(kind, name, cls, _rope, base) for name, cls in ENCODINGS.items()), imported(kind, jrope.Encoding, base)]


_links: dict[Any, tuple] = {tuple[jrope.Encoding, ...]: (list[one_of("link", _encodings("link", Typed))], ...)}


class Extends(Section):
    """The model that was trained as another encoding of this config, run with another scaling or with a window.

    Without further training, unless the config says how to fine-tune. Without either it is the trained encoding itself.
    `window` is how many tokens each sees, its own included; "trained" stands for the trained context.
    """

    extends: str
    scaling: _scaling | None = None
    window: Count | Literal["trained"] | None = None
    panel: Label | None = None
    swept: Swept | None = None


Multiples = Annotated[list[Annotated[float, Field(gt=0, le=LARGEST)]], Field(min_length=1)]


class Evaluate(Section):
    """Lengths to evaluate, as multiples of the trained one, and how many sequences of each for each seed.

    With `tokens`, fewer of the long ones, so that no length has more than so many tokens of context.
    """

    multiples: Multiples = Field(default_factory=lambda: [1, 2, 4, 8])
    sequences: Count = 512
    tokens: Count | None = None


Seed = Annotated[int, Field(ge=0, lt=2**31)]


_own_task = imported("task", Task, TaskSection)
_members = [
    *_encodings("encoding", Trained),
    typed("encoding", "chain", jrope.Chain, _links, Trained),
    tagged("encoding", EXTENDS, Extends),
]
AnyEncoding = one_of("encoding", _members, other=EXTENDS)


class Experiment(Section):
    """A whole config."""

    title: Annotated[str, Field(min_length=1)]
    seeds: Annotated[list[Seed], Field(min_length=1)]
    task: one_of("task", [*(typed("task", name, cls, {}, TaskSection) for name, cls in TASKS.items()), _own_task])
    model: Model = Model()
    train: Train
    finetune: FineTune | None = None
    evaluate: Evaluate = Evaluate()
    encodings: Annotated[dict[Label, AnyEncoding], Field(min_length=1)]

    def record(self) -> dict[str, Any]:
        """The whole config, defaults and all, as plain data that makes this experiment again."""
        return self.model_dump(exclude_none=True)

    def task_value(self) -> Task:
        return self.task.value(Context(1, 1))

    def context(self, multiple: float) -> Context:
        """The context at a multiple of the trained length."""
        task = self.task_value()
        return Context(task.context(self.task.length), task.context(self.length(multiple)))

    def length(self, multiple: float) -> int:
        """The length at a multiple of the trained one, in the task's own measure."""
        return round(multiple * self.task.length)

    def sequences(self, multiple: float) -> int:
        """How many sequences are evaluated at a multiple of the trained length."""
        sequences, tokens = self.evaluate.sequences, self.evaluate.tokens
        return sequences if tokens is None else min(sequences, max(1, tokens // self.context(multiple).length))

    def parent(self, label: str) -> str:
        """The label of the encoding that was trained from scratch: the label itself, or the one it extends."""
        section = self.encodings[label]
        return section.extends if isinstance(section, Extends) else label

    def stages(self) -> dict[str, list[str]]:
        """The labels that training happens for, each with all that are evaluated on its weights, itself first.

        What extends an encoding is a stage of its own where it is fine-tuned, and one of the encoding's own else.
        """
        tuned = self.finetune is not None
        stages = {label: [label] for label in self.encodings if tuned or self.parent(label) == label}
        for label in self.encodings:
            if label not in stages:
                stages[self.parent(label)].append(label)
        return stages

    def finetuning(self, label: str) -> FineTune | None:
        """How the encoding is trained further; None if it is not."""
        return self.finetune if self.parent(label) != label else None

    def trained_multiple(self, label: str) -> float:
        """The length that a model is trained on, or trained further, as a multiple of the trained one."""
        tuned = self.finetuning(label)
        return tuned.multiple if tuned else 1

    def points(self, label: str) -> list[int]:
        """After which steps of its training an encoding is evaluated."""
        tuned = self.finetuning(label)
        return sorted(tuned.evaluate_at) if tuned else [self.train_of(label).steps]

    def positions(self, label: str) -> Positions:
        section = self.encodings[self.parent(label)].positions
        return Consecutive() if section is None else section.value(Context(1, 1))

    def model_of(self, label: str) -> Model:
        return _with(self.model, self.encodings[self.parent(label)].model)

    def train_of(self, label: str) -> Train | FineTune:
        """How the model of that label is trained, or trained further."""
        return self.finetuning(label) or _with(self.train, self.encodings[self.parent(label)].train)

    def encoding(self, label: str, multiple: float) -> jrope.Encoding:
        """The encoding of that label at a multiple of the trained length."""
        section, context = self.encodings[label], self.context(multiple)
        encoding = self.encodings[self.parent(label)].value(context)
        if isinstance(section, Extends) and section.scaling is not None:
            # weights are fine-tuned under one factor, and keep it at all lengths
            tuned_for = self.context(self.finetune.multiple) if self.finetune else context
            encoding = dataclasses.replace(encoding, scaling=section.scaling.value(tuned_for))
        if isinstance(section, Extends) and section.window is not None:
            size = context.trained if section.window == "trained" else section.window
            encoding = jrope.Chain((encoding, jrope.Window(size)))
        return encoding

    def reach(self, label: str, multiple: float) -> int:
        """Positions, from 0, that the ids of a sequence are among."""
        return self.positions(label).reach(self.context(multiple).length)

    def acting(self, label: str, multiple: float) -> jrope.Encoding:
        """The same with what depends on head size and length made beforehand, as arrays."""
        model = self.model_of(label)
        length = self.reach(label, multiple)
        return self.encoding(label, multiple).at(head_dim=model.features // model.heads, length=length)

    def trainer(self, label: str) -> Trainer:
        """How the model of that label is trained."""
        options = self.train_of(label).model_dump(exclude={"report_every", "multiple", "evaluate_at"})
        length = self.length(self.trained_multiple(label))
        stream = 3 if self.finetuning(label) else 1
        return Trainer(self.task_value(), self._model(label), self.positions(label), length, **options, stream=stream)

    def _model(self, label: str) -> TransformerConfig:
        """The transformer, with the encoding where it has parameters: else one model serves all encodings."""
        encoding = self.encoding(self.parent(label), 1) if self.has_parameters(label) else jrope.Encoding()
        return TransformerConfig(self.task_value().vocabulary, encoding, **self.model_of(label).model_dump())

    def has_parameters(self, label: str) -> bool:
        """Whether the encoding that was trained has parameters of its own."""
        model = self.model_of(label)
        sizes = {"features": model.features, "num_heads": model.heads, "head_dim": model.features // model.heads}
        encoding = self.encoding(self.parent(label), 1)
        return bool(jax.tree.leaves(jax.eval_shape(lambda key: encoding.init(key, **sizes), jax.random.key(0))))


def _with(section: Any, own: Section | None) -> Any:
    """The section with what an encoding says of its own."""
    return section if own is None else section.model_copy(update=own.model_dump(exclude_none=True))
