"""A stream whose tokens follow from those before them."""

import math
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from experiments.tasks.metrics import ACCURACY, LOSS, PERPLEXITY, Metric
from experiments.tasks.task import Task


@dataclass(frozen=True)
class Lag(Task):
    """A stream that repeats itself: `x_t = x_(t-lag)`, or with probability `noise` a fresh symbol.

    With lag 3: `7 2 9 7 2 9 7 4 9 7 4 9`. The answers are all tokens after the first `lag`. The
    smallest possible loss is the entropy of that choice.

    Attributes:
      lag: how far back a token looks.
      noise: how often it does not.
    """

    symbols: int = 32
    lag: int = 6
    noise: float = 0.1

    metrics: ClassVar[tuple[Metric, ...]] = (ACCURACY, LOSS, PERPLEXITY)

    def __post_init__(self):
        super().__post_init__()
        if self.lag < 1:
            raise ValueError(f"lag must be at least 1, got {self.lag}")
        if not 0 <= self.noise <= 1:
            raise ValueError(f"noise must be between 0 and 1, got {self.noise}")

    def check(self, trained, evaluated):
        for length in (trained, *evaluated):
            if length < self.lag:
                raise ValueError(
                    f"a stream of length {length} has no answers at a lag of {self.lag}"
                )

    def context(self, length):
        return length

    @property
    def floor(self):
        fresh = self.noise / self.symbols
        again = 1 - self.noise + fresh
        others = (self.symbols - 1) * (fresh * math.log(fresh) if fresh else 0)
        return -again * math.log(again) - others

    def fitted(self, metrics):
        return metrics["loss"] <= self.floor + 0.05

    def fitted_means(self):
        return f"loss within 0.05 nats of the best possible, {self.floor:.3f}"

    def one(self, key, length, data):
        fresh_key, value_key = jax.random.split(key)
        rows = -(-(length + 1) // self.lag)
        shape = (rows, self.lag)  # each column is a stream of lag 1
        fresh = jax.random.bernoulli(fresh_key, self.noise, shape).at[0].set(True)
        row = jax.lax.cummax(jnp.where(fresh, jnp.arange(rows)[:, None], 0), axis=0)
        values = jax.random.randint(value_key, shape, 0, self.symbols, dtype=jnp.int32)
        tokens = jnp.take_along_axis(values, row, axis=0).reshape(-1)[: length + 1]
        return tokens, jnp.arange(length + 1) >= self.lag
