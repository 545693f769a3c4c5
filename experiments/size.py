"""How much memory an experiment needs, roughly: what the machines this is for do not have is refused before it is tried."""

import math

import jax

from experiments.config import Experiment
from experiments.evaluate import TOKENS
from jrope.encoding import Encoding

MOST = 128  # GiB
COPIES = 4  # of each parameter while it is trained: itself, its gradient, two moments


def mistake_of_model(experiment: Experiment) -> str | None:
    """What is wrong with the model's size, if it is too large on its batches and seeds."""
    scores = max(_scores(experiment, multiple) for multiple in (1, *experiment.evaluate.multiples))
    need = len(experiment.seeds) * (_weights(experiment) + scores)
    remedy = "; model, train.batch, task.symbols, the lengths or the number of seeds should be smaller"
    return f"model: {_told(need)}{remedy}" if need > MOST * 2**30 else None


def mistake_of_tables(experiment: Experiment, encoding: Encoding) -> str | None:
    """What is wrong with the size of an encoding's own parameters, if they are too many."""
    model = experiment.model
    shape = {"features": model.features, "num_heads": model.heads, "head_dim": model.features // model.heads}
    tables = jax.eval_shape(lambda: encoding.init(jax.random.key(0), **shape))
    need = COPIES * 4 * len(experiment.seeds) * sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(tables))
    return _told(need) if need > MOST * 2**30 else None


def _told(need: int) -> str:
    return f"should need at most {MOST} GiB of memory, needs about {need / 2**30:.3g}"


def _weights(experiment: Experiment) -> int:
    """Bytes of one seed's transformer in training."""
    model, vocabulary = experiment.model, experiment.task_value().vocabulary
    block = (4 + 2 * model.mlp_factor) * model.features**2
    return COPIES * 4 * (2 * vocabulary * model.features + model.layers * block)


def _scores(experiment: Experiment, multiple: float) -> int:
    """Bytes of one seed's attention scores and logits at a multiple of the trained length: in training, all layers'."""
    length, vocabulary = experiment.context(multiple).length, experiment.task_value().vocabulary
    batch, layers = max(1, TOKENS // length), 1
    if multiple == 1:
        batch, layers = max(batch, experiment.train.batch), experiment.model.layers
    return 4 * batch * length * (layers * experiment.model.heads * length + vocabulary)
