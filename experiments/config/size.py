"""How much memory an experiment needs, roughly: what the machines this is for do not have is refused before it is tried, and
what this one does not have ends in words."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import jax

from experiments.config.experiment import Experiment
from experiments.evaluate import TOGETHER

MOST = 128  # GiB
COPIES = 4  # of each parameter while it is trained: itself, its gradient, two moments
FLOAT = 4  # bytes


class OutOfMemory(Exception):
    """More memory was wanted than there is, and by what."""


@contextmanager
def telling_of_memory(what: str) -> Iterator[None]:
    """Turns JAX's and Python's errors of allocation into OutOfMemory."""
    try:
        yield
    except MemoryError:
        raise OutOfMemory(f"{what}: out of memory") from None
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        raise OutOfMemory(f"{what}: {str(error).splitlines()[0].rstrip('.')}") from None


def mistake(experiment: Experiment, label: str) -> str | None:
    """What is wrong with the size of what is trained as `label`, if it is too large on its batches, lengths and seeds."""
    parameters = len(experiment.seeds) * COPIES * FLOAT * (_weights(experiment, label) + _own(experiment, label))
    need = parameters + max(_training(experiment, label), _evaluation(experiment, label))
    if need <= MOST * 2**30:
        return None
    section = experiment.encodings[experiment.parent(label)]
    path = "model" if section.model is None else f"encodings.{experiment.parent(label)}.model"
    if _own(experiment, label) > _weights(experiment, label):
        path = f"encodings.{experiment.parent(label)}"
    remedy = "model, tables, train.batch, task.symbols, the lengths or the number of seeds should be smaller"
    return f"{path}: should need at most {MOST} GiB of memory, needs about {need / 2**30:.3g}; {remedy}"


def _weights(experiment: Experiment, label: str) -> int:
    """Parameters of one seed's transformer."""
    model, vocabulary = experiment.model_of(label), experiment.task_value().vocabulary
    block = (4 + 2 * model.mlp_factor) * model.features**2
    return 2 * vocabulary * model.features + model.layers * block


def _own(experiment: Experiment, label: str) -> int:
    """Parameters of one seed's encoding."""
    model, encoding = experiment.model_of(label), experiment.encoding(experiment.parent(label), 1)
    sizes = {"features": model.features, "num_heads": model.heads, "head_dim": model.features // model.heads}
    tables = jax.eval_shape(lambda: encoding.init(jax.random.key(0), **sizes))
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tables))


def _training(experiment: Experiment, label: str) -> int:
    """Bytes of attention scores and logits, of all layers and seeds, that a step keeps at most; CPUs train fewer at once."""
    model, batch = experiment.model_of(label), experiment.train_of(label).batch
    length = experiment.context(experiment.trained_multiple(label)).length
    a_token = model.layers * model.heads * length + experiment.task_value().vocabulary
    return FLOAT * len(experiment.seeds) * batch * length * a_token


def _evaluation(experiment: Experiment, label: str) -> int:
    """Bytes of the scores and logits of one layer for what is evaluated at once."""
    longest = max(experiment.context(multiple).length for multiple in experiment.evaluate.multiples)
    a_token = experiment.model_of(label).heads * longest + experiment.task_value().vocabulary
    return FLOAT * max(TOGETHER, longest) * a_token
