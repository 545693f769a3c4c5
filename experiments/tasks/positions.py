"""Samplers of position ids, for training and evaluation."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

import jrope


@dataclass(frozen=True)
class Consecutive:
    """0, 1, 2, ..."""

    def num_positions(self, context: int) -> int:
        """Exclusive upper bound of the position ids for this context length."""
        return context

    def sample(self, key: jax.Array, context: int) -> jax.Array:
        """Ids [context] of one sequence, ascending."""
        return jnp.arange(context)


@dataclass(frozen=True)
class Randomized:
    """A sorted sample of 0 .. over - 1, without replacement.

    Training on short sequences then uses all positions of long ones. In evaluation each sequence
    has its own sample, in training each batch (Ruoss et al. 2023, arXiv:2305.16843).

    Attributes:
      over: number of positions to draw from, at least the tokens of the longest sequence.
    """

    over: int

    def __post_init__(self):
        if self.over < 1:
            raise ValueError(f"over must be at least 1, got {self.over}")

    def num_positions(self, context: int) -> int:
        """Exclusive upper bound of the position ids.

        Raises:
          ValueError: if the context is longer than `over`.
        """
        if context > self.over:
            raise ValueError(
                f"positions.over: should be at least {context}, the tokens of the longest context,"
                f" got {self.over}"
            )
        return self.over

    def sample(self, key: jax.Array, context: int) -> jax.Array:
        """Ids [context] of one sequence, ascending."""
        return jrope.randomized(key, context, self.over)


Positions = Consecutive | Randomized
POSITIONS: dict[str, type[Positions]] = {"consecutive": Consecutive, "randomized": Randomized}
