"""How the sections of a config fit together, which the schema cannot say."""

import dataclasses
from collections.abc import Iterator

from experiments.config import plan, size, trace
from experiments.config.schema import Experiment, ExtendedEncoding, TrainedEncoding
from experiments.config.section import ConfigError, Mistake, field_types, unknown
from experiments.config.user_class import user_types
from experiments.config.values import class_of

MAX_CONTEXT = 16_384  # tokens; evaluation of longer ones takes hours on a small machine


def mistakes(experiment: Experiment) -> Iterator[Mistake]:
    """Every mistake in a config whose sections are valid each by itself."""
    task, multiples = plan.task(experiment), list(experiment.evaluate.multiples)
    place = ("evaluate", "multiples")
    if len(set(experiment.seeds)) < len(experiment.seeds):
        yield ("seeds",), f"should all be different, got {list(experiment.seeds)}"
    if 1 not in multiples:
        yield place, f"should have a 1, to check that a model has learned, got {multiples}"
    yield from _of_finetuning(experiment)
    if message := trace.failure("context", task.context, experiment.task.length):
        yield ("task",), message
        return
    tuned = [experiment.finetune.multiple] if experiment.finetune else []
    trained, lengths = ([plan.length(experiment, m) for m in ms] for ms in ([1, *tuned], multiples))
    longest = max(task.context(length) for length in (*lengths, *trained))
    if min(lengths) < 1 or len(set(lengths)) < len(lengths):
        rule = "should make different lengths of at least 1"
        yield place, f"{rule}, got {multiples}, which make {lengths}"
    elif longest > MAX_CONTEXT:
        rule = f"should need at most {MAX_CONTEXT} tokens of context"
        yield place, f"{rule}, got {multiples}: {longest}"
    else:
        yield from _of_task(experiment, trained, lengths)
        yield from _of_encodings(experiment)


def _of_finetuning(experiment: Experiment) -> Iterator[Mistake]:
    if (tuned := experiment.finetune) is None:
        return
    steps, allowed = list(tuned.evaluate_at), f"finetune.steps, {tuned.steps}"
    if len(set(steps)) < len(steps) or max(steps) != tuned.steps:
        rule = f"should be different numbers of steps, of which the greatest is {allowed}"
        yield ("finetune", "evaluate_at"), f"{rule}, got {steps}"
    if tuned.warmup >= tuned.steps:
        yield ("finetune", "warmup"), f"should be less than {allowed}, got {tuned.warmup}"


def _of_task(experiment: Experiment, trained: list[int], lengths: list[int]) -> Iterator[Mistake]:
    task = plan.task(experiment)
    try:
        for length in trained:
            task.check(length, lengths)
    except ValueError as error:
        of = f"evaluate.multiples of task.length, {experiment.task.length}, are {lengths}"
        yield ("task",), f"{error} ({of})"
        return
    if any(user_types(experiment.task.task)):
        for message in trace.mistakes_of_task(task, experiment.task.length):
            yield ("task",), message


def _of_encodings(experiment: Experiment) -> Iterator[Mistake]:
    invalid: set[str] = set()
    for label in sorted(experiment.encodings, key=lambda k: plan.parent(experiment, k) != k):
        own = experiment.encodings[label]
        if isinstance(own, ExtendedEncoding):
            found = list(_of_extended(experiment, label, own))
        else:
            found = list(_of_trained(experiment, label, own))
        if not found and plan.parent(experiment, label) not in invalid:
            found = list(_of_values(experiment, label))
        yield from found
        if found:
            invalid.add(label)


def _of_extended(experiment: Experiment, label: str, own: ExtendedEncoding) -> Iterator[Mistake]:
    place, parent = ("encodings", label), experiment.encodings.get(own.extends)
    if not isinstance(parent, TrainedEncoding):
        trained = [k for k, v in experiment.encodings.items() if isinstance(v, TrainedEncoding)]
        yield (*place, "extends"), unknown(own.extends, trained, "trained encoding")
    elif own.scaling and "scaling" not in field_types(class_of("encoding", parent.encoding)):
        yield (*place, "scaling"), f"{own.extends!r} has no scaling to replace"


def _of_trained(experiment: Experiment, label: str, own: TrainedEncoding) -> Iterator[Mistake]:
    """How the model and the training of an encoding fit together."""
    place, error = ("encodings", label), ConfigError()
    with error.at(*(place if own.train else ()), "train"):
        train = plan.training(experiment, label)
        if train.warmup >= train.steps:
            rule = f"should be less than train.steps, {train.steps}"
            raise ConfigError(f"{rule}, got {train.warmup}", ("warmup",))
    with error.at(*(place if own.model else ()), "model"):
        plan.model(experiment, label)
    yield from error.mistakes
    if not error.mistakes and any(user_types([experiment.model, dataclasses.asdict(own)])):
        yield from ((place, message) for message in trace.mistakes_of_label(experiment, label))


def _of_values(experiment: Experiment, label: str) -> Iterator[Mistake]:
    """Whether an encoding has a value at each length, and memory is enough for its model."""
    place, own, error = ("encodings", label), experiment.encodings[label], ConfigError()
    trained, extends = plan.trained_multiple(experiment, label), plan.parent(experiment, label)
    windowed = isinstance(own, ExtendedEncoding) and own.window is not None
    if windowed and plan.has_parameters(plan.model(experiment, label)):
        message = f"{extends!r} has parameters, which are lost under a window"
        yield (*place, "window"), message
        return
    if (extends == label or experiment.finetune) and (found := size.mistake(experiment, label)):
        yield found
        return
    try:
        with error.at(*place):
            for multiple in (*experiment.evaluate.multiples, trained):
                plan.bound_encoding(experiment, label, multiple)
            limit = plan.encoding(experiment, label, trained).position_limit
            used = plan.num_positions(experiment, label, trained)
            if limit is not None and limit < used:
                raise ConfigError(f"has a value for {limit} positions, but training uses {used}")
    except Exception as failed:
        if not any(user_types(dataclasses.asdict(own))):
            raise
        yield place, f"fails with {type(failed).__name__}: {failed}"
    yield from error.mistakes
