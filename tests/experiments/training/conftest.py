"""Small training configurations. Tests that need no more share these, and so their programs."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

import jrope
from experiments.tasks import Consecutive, Copy
from experiments.training.train import TrainConfig
from jrope.transformer import TransformerConfig


@dataclasses.dataclass(frozen=True)
class Bigram:
    """A model that is no transformer: the logits are a row of a table, chosen by the token."""

    vocabulary: int
    encoding: jrope.Encoding = dataclasses.field(default_factory=jrope.Encoding)

    @property
    def sizes(self):
        return {"features": 1, "num_heads": 1, "head_dim": 1, "num_layers": 1}

    def init(self, key):
        return {"table": jax.random.normal(key, (self.vocabulary, self.vocabulary))}

    def apply(self, params, tokens, positions, *, encoding=None):
        return params["table"][tokens]


def config_of(model, task, **options):
    defaults = {"length": 3, "batch": 4, "steps": 150, "learning_rate": 1e-2, "warmup": 2}
    options = {**defaults, "weight_decay": 0.01, **options}
    return TrainConfig(task, model, Consecutive(), **options)


@pytest.fixture(scope="session")
def transformer():
    """A config of the smallest transformer, with RoPE."""
    task = Copy(symbols=4, unique=False)
    model = TransformerConfig(task.vocabulary, jrope.Rope(), features=8, layers=1)
    return config_of(model, task)


@pytest.fixture(scope="session")
def bigram():
    """Makes the config of a bigram model for a task."""
    return lambda task, **options: config_of(Bigram(task.vocabulary), task, **options)


@pytest.fixture
def seeds():
    return jnp.array([0, 3], jnp.uint32)
