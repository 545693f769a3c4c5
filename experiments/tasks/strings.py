"""A string, then an answer that follows from it."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from experiments.tasks.metrics import ACCURACY, EXACT_MATCH, LOSS, Metric
from experiments.tasks.task import Task


@dataclass(frozen=True)
class Transduction(Task):
    """A string and an answer of the same length: `BOS x1 .. xn SEP y1 .. yn EOS`, then PAD.

    The answers that a model predicts are y and EOS. A subclass defines `answer`.

    Attributes:
      unique: whether the symbols of a string are all different.
      shortest: in training, lengths are uniform from this one to the trained length.
    """

    unique: bool = True
    shortest: int = 1

    metrics: ClassVar[tuple[Metric, ...]] = (ACCURACY, EXACT_MATCH, LOSS)

    def __post_init__(self):
        super().__post_init__()
        if self.shortest < 1:
            raise ValueError(f"shortest must be at least 1, got {self.shortest}")

    def check(self, trained, evaluated):
        if self.shortest > trained:
            raise ValueError(
                f"shortest should be at most the trained length, {trained}, got {self.shortest}"
            )
        for length in evaluated if self.unique else ():
            if length > self.symbols:
                raise ValueError(
                    f"symbols should be at least {length}, since they are all different in a string"
                    f" of that length, got {self.symbols}"
                )

    def context(self, length):
        return 2 * length + 2

    def fitted(self, metrics):
        return metrics["exact_match"] >= 0.99

    def fitted_means(self):
        return "exact match of at least 99 %"

    def answer(self, x: jax.Array, n: jax.Array | int) -> jax.Array:
        """The answer to the first n symbols of x [length]; what follows them does not matter."""
        raise NotImplementedError

    def one(self, key, length, data):
        return self._padded(key, length, length)

    def one_in_training(self, key, length, data):
        size_key, key = jax.random.split(key)
        return self._padded(
            key, jax.random.randint(size_key, (), self.shortest, length + 1), length
        )

    def _padded(self, key, n, length):
        """A sequence of length n, which may be traced, padded to `length`."""
        if self.unique:
            x = jnp.argsort(jax.random.bits(key, (self.symbols,)))[:length]
        else:
            x = jax.random.randint(key, (length,), 0, self.symbols)
        y = self.answer(x, n)
        bos, sep, eos, pad = range(self.symbols, self.symbols + 4)
        t = jnp.arange(2 * length + 3)
        tokens = jnp.select(
            [t == 0, t <= n, t == n + 1, t <= 2 * n + 1, t == 2 * n + 2],
            [bos, x[(t - 1) % length], sep, y[(t - n - 2) % length], eos],
            pad,
        )
        return tokens.astype(jnp.int32), (t >= n + 2) & (t <= 2 * n + 2)


class Copy(Transduction):
    """Repeat the string: `BOS 7 2 9 SEP 7 2 9 EOS`."""

    def answer(self, x, n):
        return x


class Reverse(Transduction):
    """Repeat the string backwards: `BOS 7 2 9 SEP 9 2 7 EOS`."""

    def answer(self, x, n):
        return x[(n - 1 - jnp.arange(x.shape[0])) % x.shape[0]]


class Sort(Transduction):
    """Order the string: `BOS 7 2 9 SEP 2 7 9 EOS`."""

    def answer(self, x, n):
        return jnp.sort(jnp.where(jnp.arange(x.shape[0]) < n, x, self.symbols))
