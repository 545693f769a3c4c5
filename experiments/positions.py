"""Which position ids a sequence is given, in training and in evaluation."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

import jrope


@dataclass(frozen=True)
class Consecutive:
    """0, 1, 2, ..."""

    def reach(self, context: int) -> int:
        """Positions, from 0, that the ids of a context of so many tokens are among."""
        return context

    def sample(self, key, context: int) -> jax.Array:
        """Ids [context] of one sequence, ascending."""
        return jnp.arange(context)


@dataclass(frozen=True)
class Randomized:
    """A sorted sample of 0 .. over - 1, without replacement: training on short sequences meets all positions of long ones.

    Evaluated sequences are given a sample each, and a step of training one for its whole batch, as in Ruoss et al. 2023,
    arXiv:2305.16843.

    Attributes:
      over: how many positions there are to draw from, at least as many as the longest sequence has tokens.
    """

    over: int

    def __post_init__(self):
        if self.over < 1:
            raise ValueError(f"over must be at least 1, got {self.over}")

    def reach(self, context):
        if context > self.over:
            raise ValueError(
                f"positions.over: should be at least {context}, the tokens of the longest context, got {self.over}"
            )
        return self.over

    def sample(self, key, context):
        return jrope.randomized(key, context, self.over)


Positions = Consecutive | Randomized
POSITIONS: dict[str, type] = {"consecutive": Consecutive, "randomized": Randomized}
