"""What an experiment means: the values of its sections, and its jobs.

A `label` is the name of an encoding in the config; a `multiple` is of the trained length.
"""

import dataclasses
from typing import Any

import jax

import jrope
from experiments.config import schema
from experiments.config.schema import Experiment, ExtendedEncoding, FineTune, Train
from experiments.config.values import DEFAULT_TYPES, Context, build, section
from experiments.tasks import Consecutive, Positions, Task
from experiments.training.job import EvaluatedEncoding, Evaluation, TrainingJob
from experiments.training.model import Model
from experiments.training.train import TrainConfig
from jrope.transformer import TransformerConfig


def training_jobs(experiment: Experiment) -> list[TrainingJob]:
    """The jobs, in the order of the config; those that others start from come first."""
    runs = enumerate(training_runs(experiment).items())
    jobs = [_job(experiment, index, label, labels) for index, (label, labels) in runs]
    return sorted(jobs, key=lambda job: job.parent is not None)


def training_runs(experiment: Experiment) -> dict[str, list[str]]:
    """The labels that are trained, each with all that are evaluated on its weights, itself first.

    An encoding that extends another is trained only where it is fine-tuned.
    """
    labels, tuned = experiment.encodings, experiment.finetune is not None
    runs = {label: [label] for label in labels if tuned or parent(experiment, label) == label}
    for label in labels:
        if label not in runs:
            runs[parent(experiment, label)].append(label)
    return runs


def parent(experiment: Experiment, label: str) -> str:
    """The label that is trained from scratch: itself, or the one it extends."""
    own = experiment.encodings[label]
    return own.extends if isinstance(own, ExtendedEncoding) else label


def trained_encoding(experiment: Experiment, label: str) -> schema.TrainedEncoding:
    """The section of the label that is trained from scratch."""
    own = experiment.encodings[parent(experiment, label)]
    assert isinstance(own, schema.TrainedEncoding)
    return own


def task(experiment: Experiment) -> Task:
    return build("task", experiment.task.task)


def length(experiment: Experiment, multiple: float) -> int:
    """In the task's own measure."""
    return round(multiple * experiment.task.length)


def context(experiment: Experiment, multiple: float) -> Context:
    own = task(experiment)
    return Context(*(own.context(length(experiment, m)) for m in (1, multiple)))


def sequences(experiment: Experiment, multiple: float) -> int:
    """How many sequences are evaluated, for each seed."""
    most, tokens = experiment.evaluate.sequences, experiment.evaluate.tokens
    longest = context(experiment, multiple).length
    return most if tokens is None else min(most, max(1, tokens // longest))


def training(experiment: Experiment, label: str) -> Train:
    """How a label is trained, or fine-tuned."""
    if experiment.finetune and parent(experiment, label) != label:
        return experiment.finetune
    own = trained_encoding(experiment, label).train or {}
    return section(Train, dataclasses.asdict(experiment.train) | own)


def trained_multiple(experiment: Experiment, label: str) -> float:
    """The length that a label is trained on, or fine-tuned on."""
    train = training(experiment, label)
    return train.multiple if isinstance(train, FineTune) else 1


def positions(experiment: Experiment, label: str) -> Positions:
    """What samples the position ids."""
    table = trained_encoding(experiment, label).positions
    return Consecutive() if table is None else build("positions", table)


def num_positions(experiment: Experiment, label: str, multiple: float) -> int:
    """Exclusive upper bound of the position ids."""
    return positions(experiment, label).num_positions(context(experiment, multiple).length)


def encoding(experiment: Experiment, label: str, multiple: float) -> jrope.Encoding:
    own, here = experiment.encodings[label], context(experiment, multiple)
    made = build("encoding", trained_encoding(experiment, label).encoding, here)
    if not isinstance(own, ExtendedEncoding):
        return made
    if own.scaling is not None:
        # weights are fine-tuned with one factor, and keep it at all lengths
        tuned = experiment.finetune
        tuned_for = context(experiment, tuned.multiple) if tuned else here
        made = dataclasses.replace(made, scaling=build("scaling", own.scaling, tuned_for))
    if own.window is not None:
        size = here.trained if own.window == "trained" else own.window
        made = jrope.Chain((made, jrope.Window(size)))
    return made


def bound_encoding(experiment: Experiment, label: str, multiple: float) -> jrope.Encoding:
    """The encoding bound to the size of a head and the number of positions."""
    head_dim = model(experiment, label).sizes["head_dim"]
    bound = num_positions(experiment, label, multiple)
    return encoding(experiment, label, multiple).bind(head_dim=head_dim, length=bound)


def model(experiment: Experiment, label: str) -> Model:
    """The model, with the encoding that it is trained with."""
    shared, own = experiment.model, trained_encoding(experiment, label).model or {}
    default = shared.get("type", DEFAULT_TYPES["model"])
    table = own if own.get("type", default) != default else shared | own
    trained = encoding(experiment, parent(experiment, label), 1)
    given = {"vocabulary": task(experiment).vocabulary, "encoding": trained}
    made = build("model", table, given=given)
    return (
        TransformerConfig(**given, **vars(made)) if isinstance(made, schema.Transformer) else made
    )


def has_parameters(model: Model) -> bool:
    """Whether the model's encoding has parameters."""
    init = jax.eval_shape(lambda key: model.encoding.init(key, **model.sizes), jax.random.key(0))
    return bool(jax.tree.leaves(init))


def train_config(experiment: Experiment, label: str) -> TrainConfig:
    train, trained = training(experiment, label), model(experiment, label)
    if not has_parameters(trained):  # one program for all of these
        trained = dataclasses.replace(trained, encoding=jrope.Encoding())  # type: ignore[type-var]
    names = ("batch", "steps", "learning_rate", "warmup", "weight_decay")
    options: dict[str, Any] = {name: getattr(train, name) for name in names}
    options["stream"] = 3 if isinstance(train, FineTune) else 1
    own_length = length(experiment, trained_multiple(experiment, label))
    own_positions = positions(experiment, label)
    return TrainConfig(task(experiment), trained, own_positions, own_length, **options)


def _job(experiment: Experiment, index: int, label: str, labels: list[str]) -> TrainingJob:
    train = training(experiment, label)
    tuned = isinstance(train, FineTune)
    steps = sorted(train.evaluate_at) if tuned else [train.steps]
    # the trained length comes first: it shows whether the model has learned
    multiples = sorted(experiment.evaluate.multiples, key=lambda multiple: multiple != 1)
    return TrainingJob(
        index,
        label,
        experiment.seeds,
        train_config(experiment, label),
        bound_encoding(experiment, label, trained_multiple(experiment, label)),
        train.report_every,
        tuple(_evaluation(experiment, labels, step, m) for step in steps for m in multiples),
        parent=parent(experiment, label) if tuned else None,
    )


def _evaluation(
    experiment: Experiment, labels: list[str], step: int, multiple: float
) -> Evaluation:
    encodings = []
    for label in labels:
        own = encoding(experiment, label, multiple)
        limit, used = own.position_limit, num_positions(experiment, label, multiple)
        if limit is None or used <= limit:
            own, limit = bound_encoding(experiment, label, multiple), None
        encodings.append(EvaluatedEncoding(label, own, limit))
    own_length, own_context = length(experiment, multiple), context(experiment, multiple).length
    count = sequences(experiment, multiple)
    return Evaluation(step, multiple, own_length, own_context, count, tuple(encodings))
