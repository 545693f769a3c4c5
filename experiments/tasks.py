"""Synthetic tasks: pure samplers of token sequences, with a mask over the tokens that the model is asked for.

A sampler is written for one sequence and lifted over a batch. Its ids are `symbols` symbols from 0, then BOS, SEP, EOS, PAD.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp


@dataclass(frozen=True)
class Task:
    """What a model is trained and evaluated on. A task's length is its own measure: symbols of a string, or of a stream.

    Attributes:
      symbols: the size of the alphabet.
    """

    symbols: int = 96

    def __post_init__(self):
        if self.symbols < 2:
            raise ValueError(f"symbols must be at least 2, got {self.symbols}")

    @property
    def vocabulary(self) -> int:
        return self.symbols + 4

    @property
    def chance(self) -> float:
        """Token accuracy of answering a symbol at random."""
        return 1 / self.symbols

    @property
    def floor(self) -> float:
        """The loss of the best predictor, in nats per answer."""
        return 0.0

    def check(self, trained: int, evaluated: Sequence[int]):
        """Raises ValueError if there are no sequences of one of these lengths."""

    def context(self, length: int) -> int:
        """Tokens that the model reads for a sequence of this length: all but the last."""
        raise NotImplementedError

    def fitted(self, exact_match: float, loss: float) -> bool:
        """Whether these scores at the trained length are those of a model that has learned the task."""
        return exact_match >= 0.99

    def fitted_means(self) -> str:
        """`fitted`, in words."""
        return "exact match of at least 99 %"

    def one(self, key, length: int) -> tuple[jax.Array, jax.Array]:
        """One sequence: tokens [context + 1] and whether each is an answer, to be predicted from those before it."""
        raise NotImplementedError

    def one_in_training(self, key, length: int) -> tuple[jax.Array, jax.Array]:
        """A sequence of at most this length, padded to it."""
        return self.one(key, length)

    def sample(self, key, batch: int, length: int, *, training: bool = False) -> tuple[jax.Array, jax.Array]:
        """A batch of sequences.

        Args:
          key: a JAX random key; the same key gives the same batch.
          batch: number of sequences B.
          length: of every sequence or, in training, of the longest.
          training: whether lengths are drawn as in training.

        Returns:
          tokens int32 [B, context(length) + 1] and mask bool of that shape, true where a token is an answer.
        """
        one = self.one_in_training if training else self.one
        return jax.vmap(lambda k: one(k, length))(jax.random.split(key, batch))


@dataclass(frozen=True)
class Transduction(Task):
    """A string, then an answer of the same length: `BOS x1 .. xn SEP y1 .. yn EOS`, padded; y and EOS are the answers.

    Attributes:
      unique: whether the symbols of a string are all different.
      shortest: in training, lengths are uniform from this one to the trained length.
    """

    unique: bool = True
    shortest: int = 1

    def __post_init__(self):
        super().__post_init__()
        if self.shortest < 1:
            raise ValueError(f"shortest must be at least 1, got {self.shortest}")

    def check(self, trained, evaluated):
        if self.shortest > trained:
            raise ValueError(f"shortest should be at most the trained length, {trained}, got {self.shortest}")
        for length in evaluated if self.unique else ():
            if length > self.symbols:
                raise ValueError(
                    f"symbols should be at least {length}, since they are all different in a string of that length, got"
                    f" {self.symbols}"
                )

    def context(self, length):
        return 2 * length + 2

    def answer(self, x, n) -> jax.Array:
        """The answer to the first n symbols of x [length]; what follows the n-th does not matter."""
        raise NotImplementedError

    def one(self, key, length):
        return self._padded(key, length, length)

    def one_in_training(self, key, length):
        size_key, key = jax.random.split(key)
        return self._padded(key, jax.random.randint(size_key, (), self.shortest, length + 1), length)

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


@dataclass(frozen=True)
class Lag(Task):
    """A stream that repeats itself: `x_t = x_(t-lag)`, but with probability `noise` a fresh symbol.

    With lag 3: `7 2 9 7 2 9 7 4 9 7 4 9`. The answers are all tokens after the first `lag`; the best any model can do is
    the entropy of that choice.

    Attributes:
      lag: how far back a token looks.
      noise: how often it does not.
    """

    symbols: int = 32
    lag: int = 6
    noise: float = 0.1

    def __post_init__(self):
        super().__post_init__()
        if self.lag < 1:
            raise ValueError(f"lag must be at least 1, got {self.lag}")
        if not 0 <= self.noise <= 1:
            raise ValueError(f"noise must be between 0 and 1, got {self.noise}")

    def check(self, trained, evaluated):
        for length in (trained, *evaluated):
            if length < self.lag:
                raise ValueError(f"a stream of length {length} has no answers at a lag of {self.lag}")

    def context(self, length):
        return length

    @property
    def floor(self):
        fresh = self.noise / self.symbols
        again = 1 - self.noise + fresh
        return -again * math.log(again) - (self.symbols - 1) * (fresh * math.log(fresh) if fresh else 0)

    def fitted(self, exact_match, loss):
        return loss <= self.floor + 0.05

    def fitted_means(self):
        return f"loss within 0.05 nats of the best possible, {self.floor:.3f}"

    def one(self, key, length):
        fresh_key, value_key = jax.random.split(key)
        rows = -(-(length + 1) // self.lag)
        shape = (rows, self.lag)  # read along a column, a stream of lag 1
        fresh = jax.random.bernoulli(fresh_key, self.noise, shape).at[0].set(True)
        row = jax.lax.cummax(jnp.where(fresh, jnp.arange(rows)[:, None], 0), axis=0)
        values = jax.random.randint(value_key, shape, 0, self.symbols, dtype=jnp.int32)
        tokens = jnp.take_along_axis(values, row, axis=0).reshape(-1)[: length + 1]
        return tokens, jnp.arange(length + 1) >= self.lag


TASKS: dict[str, type[Task]] = {"copy": Copy, "reverse": Reverse, "sort": Sort, "lag": Lag}
