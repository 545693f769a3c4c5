"""The schema of configs/*.toml: its sections as dataclasses, with the defaults of their keys."""

import dataclasses
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from experiments.config.section import LARGEST

# a section of the kind that its field is named for: `type` and the fields of the class it names
Table = Annotated[dict[str, Any], "a separate section"]
Inline = Annotated[dict[str, Any], "the other keys of this section"]
Overrides = dict[str, Any]  # keys that differ from a section that all encodings share
Count = Annotated[int, Field(gt=0, le=LARGEST)]
CountOrZero = Annotated[int, Field(ge=0, le=LARGEST)]
Positive = Annotated[float, Field(gt=0, le=LARGEST)]
PositiveOrZero = Annotated[float, Field(ge=0, le=LARGEST)]
Seed = Annotated[int, Field(ge=0, lt=2**31)]
Label = Annotated[str, Field(min_length=1, max_length=60)]


def _window(value: Any) -> Any:
    if value != "trained" and not (type(value) is int and 0 < value <= LARGEST):
        raise ValueError('should be a number of tokens, at least 1, or "trained"')
    return value


@dataclass(frozen=True)
class TaskSection:
    """The task, and the length it is trained on: the greatest one, where lengths vary."""

    length: Count
    task: Inline


@dataclass(frozen=True)
class Transformer:
    """The shape of the library's transformer."""

    features: Count = 64
    layers: Annotated[int, Field(gt=0, le=256)] = 2  # each is compiled separately
    heads: Count = 2
    mlp_ratio: Count = 2


@dataclass(frozen=True, kw_only=True)
class Train:
    """AdamW with a linear warm-up and a cosine decay."""

    steps: Count
    batch: Count = 16
    learning_rate: Positive
    warmup: CountOrZero = 100
    weight_decay: PositiveOrZero = 0.01
    report_every: Count = 100  # steps between two rows of metrics


@dataclass(frozen=True, kw_only=True)
class FineTune(Train):
    """Further training from the weights of another encoding, on longer sequences."""

    multiple: Positive  # of the trained length
    evaluate_at: Annotated[tuple[CountOrZero, ...], Field(min_length=1)]  # steps; 0 is zero-shot
    warmup: CountOrZero = 0
    report_every: Count = 50


@dataclass(frozen=True)
class Evaluate:
    """The lengths to evaluate, and how many sequences of each for each seed."""

    # of the trained length
    multiples: Annotated[tuple[Positive, ...], Field(min_length=1)] = (1.0, 2.0, 4.0, 8.0)
    sequences: Count = 512
    tokens: Count | None = None  # of context at most for each length: fewer long sequences


@dataclass(frozen=True)
class Swept:
    """What a sweep set in this one of the encodings that it made. Only jrope writes it."""

    of: str
    values: dict[str, bool | int | float | str]


@dataclass(frozen=True)
class TrainedEncoding:
    """An encoding that a model is trained with."""

    encoding: Inline
    model: Overrides | None = None
    train: Overrides | None = None
    positions: Table | None = None
    panel: Label | None = None  # the row of the figure that shows it
    swept: Swept | None = None


@dataclass(frozen=True)
class ExtendedEncoding:
    """Another encoding of the config, run or fine-tuned with another scaling or with a window."""

    extends: str
    scaling: Table | None = None
    # how many tokens each token sees, including itself; "trained" is the trained context
    window: Annotated[Any, AfterValidator(_window)] | None = None
    panel: Label | None = None
    swept: Swept | None = None


SECTIONS = (TaskSection, Train, FineTune, Evaluate, Swept)
Encodings = Annotated[dict[Label, TrainedEncoding | ExtendedEncoding], Field(min_length=1)]


@dataclass(frozen=True)
class Experiment:
    """A whole config: plain data. `experiments.config.plan` says what it means."""

    title: Annotated[str, Field(min_length=1)]
    seeds: Annotated[tuple[Seed, ...], Field(min_length=1)]
    task: TaskSection
    train: Train
    encodings: Encodings
    model: Table = field(default_factory=dict)
    finetune: FineTune | None = None
    evaluate: Evaluate = Evaluate()

    def record(self) -> dict[str, Any]:
        """The whole config with all defaults, as plain data that makes the same experiment."""
        record = _plain(dataclasses.asdict(self))
        record["task"] |= record["task"].pop("task")
        for section in record["encodings"].values():
            section |= section.pop("encoding", {})
        return record


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
