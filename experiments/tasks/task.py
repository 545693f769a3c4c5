"""A task: sequences of tokens that a model is trained and evaluated on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import numpy as np

from experiments.tasks.metrics import ACCURACY, LOSS, Metric


@dataclass(frozen=True)
class Task:
    """What a model is trained and evaluated on. A subclass defines `context` and `one`.

    The tokens are `symbols` symbols, with ids from 0, then BOS, SEP, EOS and PAD. A length is in
    the task's own measure: symbols of a string, or of a stream.

    Attributes:
      symbols: the size of the alphabet.
      metrics: of a row of results. Tables show the first, which ranks the encodings.
      by_position: names of the metrics that a row also has along the sequence.
    """

    symbols: int = 96

    metrics: ClassVar[tuple[Metric, ...]] = (ACCURACY, LOSS)
    by_position: ClassVar[tuple[str, ...]] = ("accuracy", "loss")

    def __post_init__(self):
        if self.symbols < 2:
            raise ValueError(f"symbols must be at least 2, got {self.symbols}")

    @property
    def vocabulary(self) -> int:
        """Number of token ids."""
        return self.symbols + 4

    @property
    def chance(self) -> float:
        """Token accuracy of random symbols."""
        return 1 / self.symbols

    @property
    def chance_loss(self) -> float:
        """Loss of random symbols, in nats per answer."""
        return float(np.log(self.symbols))

    @property
    def floor(self) -> float:
        """Loss of the best predictor, in nats per answer."""
        return 0.0

    def check(self, trained: int, evaluated: Sequence[int]):
        """Raises ValueError if there are no sequences of one of these lengths."""

    def context(self, length: int) -> int:
        """Number of tokens that a model reads of a sequence of this length: all but the last."""
        raise NotImplementedError

    def fitted(self, metrics: Mapping[str, float]) -> bool:
        """Whether a model with these metrics at the trained length has learned the task."""
        return metrics["accuracy"] >= 0.99

    def fitted_means(self) -> str:
        """`fitted` in words."""
        return "accuracy of at least 99 %"

    def data(self) -> Any:
        """Arrays that sequences are drawn from; () for none.

        They reach `one` as its argument `data`. A sampler must not call this method: a compiled
        program would then hold the arrays as constants.
        """
        return ()

    def one(self, key: jax.Array, length: int, data: Any) -> tuple[jax.Array, jax.Array]:
        """One sequence: tokens [context + 1], and whether each is an answer, to be predicted."""
        raise NotImplementedError

    def one_in_training(
        self, key: jax.Array, length: int, data: Any
    ) -> tuple[jax.Array, jax.Array]:
        """One sequence of at most this length, padded to it."""
        return self.one(key, length, data)

    def sample(
        self, key: jax.Array, batch: int, length: int, *, data: Any = (), training: bool = False
    ) -> tuple[jax.Array, jax.Array]:
        """A batch of sequences.

        Args:
          key: a JAX random key; the same key gives the same batch.
          batch: number of sequences B.
          length: of every sequence; in training, of the longest.
          data: what `data()` returns.
          training: whether lengths are drawn as in training.

        Returns:
          Tokens int32 [B, context(length) + 1], and a mask bool of that shape, true for answers.
        """
        one = self.one_in_training if training else self.one
        return jax.vmap(lambda k: one(k, length, data))(jax.random.split(key, batch))
