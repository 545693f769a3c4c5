"""How much memory an experiment needs, roughly. One that no machine has is refused."""

import math

import jax

from experiments.config import plan
from experiments.config.schema import Experiment
from experiments.config.section import Mistake
from experiments.training.evaluate import TOKENS_PER_BATCH
from jrope.transformer import TransformerConfig

MAX_MEMORY_GIB = 128
COPIES = 4  # of each parameter in training: itself, its gradient, two moments
FLOAT = 4  # bytes


def mistake(experiment: Experiment, label: str) -> Mistake | None:
    """What is wrong with the size of a model, its batches, lengths and seeds together."""
    encoding, others = _parameters(experiment, label)
    parameters = len(experiment.seeds) * COPIES * FLOAT * (encoding + others)
    need = parameters + max(_training(experiment, label), _evaluation(experiment, label))
    if need <= MAX_MEMORY_GIB * 2**30:
        return None
    trained = ("encodings", plan.parent(experiment, label))
    place = (*(trained if plan.trained_encoding(experiment, label).model else ()), "model")
    if encoding > others:
        place = trained
    needs = f"should need at most {MAX_MEMORY_GIB} GiB of memory, needs about {need / 2**30:.3g}"
    smaller = "model, tables, train.batch, task.symbols, the lengths or the number of seeds"
    return place, f"{needs}; {smaller} should be smaller"


def _parameters(experiment: Experiment, label: str) -> tuple[int, int]:
    """Parameters of the encoding, and all others, of one seed."""
    model, key = plan.model(experiment, label), jax.random.key(0)
    encoding = _count(jax.eval_shape(lambda: model.encoding.init(key, **model.sizes)))
    if isinstance(model, TransformerConfig):  # by formula: tracing 256 layers takes half a minute
        block = (4 + 2 * model.mlp_ratio) * model.features**2
        return encoding, 2 * model.vocabulary * model.features + model.layers * block
    return encoding, _count(jax.eval_shape(model.init, key)) - encoding


def _count(params) -> int:
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(params))


def _training(experiment: Experiment, label: str) -> int:
    """Bytes of attention scores and logits, of all layers and seeds, that a step keeps at most."""
    model, batch = plan.model(experiment, label), plan.training(experiment, label).batch
    length = plan.context(experiment, plan.trained_multiple(experiment, label)).length
    scores = model.sizes["num_layers"] * model.sizes["num_heads"] * length
    return FLOAT * len(experiment.seeds) * batch * length * (scores + model.vocabulary)


def _evaluation(experiment: Experiment, label: str) -> int:
    """Bytes of the scores and logits of one layer for all tokens that are evaluated together."""
    model, multiples = plan.model(experiment, label), experiment.evaluate.multiples
    longest = max(plan.context(experiment, multiple).length for multiple in multiples)
    scores = model.sizes["num_heads"] * longest
    return FLOAT * max(TOKENS_PER_BATCH, longest) * (scores + model.vocabulary)
