"""Log-n scaling: scores grow with the position of the query, so that attention stays as sharp."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from jrope import arguments, checks
from jrope.encoding import Encoding

__all__ = ["LogN", "log_n"]


@arguments.checked(positions="ids")
def log_n(positions, *, original_length: int) -> jax.Array:
    """What multiplies the scores of a query, float32 [..., T] by its position.

        max(1, ln(position + 1) / ln(original_length))

    Among n keys, the entropy of a softmax stays bounded if scores grow with ln n.
    Chiang and Cholak 2022, arXiv:2202.12172; the form of Qwen, with positions from 0.

    Args:
      positions: [..., T], position ids.
      original_length: the trained length, at least 2: nothing changes within it.

    Raises:
      ValueError: if original_length is below 2.
    """
    checks.at_least("log_n", "original_length", original_length, 2)
    count = jnp.maximum(jnp.asarray(positions, jnp.float32) + 1, 1)
    return jnp.maximum(jnp.log(count) / np.log(original_length), 1.0).astype(jnp.float32)


@dataclass(frozen=True)
class LogN(Encoding):
    """A softmax that sharpens with the query's position, past the trained length (`jrope.log_n`).

    Chain it with an encoding that says where tokens are.

    Attributes:
      original_length: the trained length, at least 2.
    """

    name: ClassVar[str] = "log_n"

    original_length: int

    def __post_init__(self):
        arguments.check_fields(self)
        checks.at_least("LogN", "original_length", self.original_length, 2)

    def query_scale(self, params, positions):
        return log_n(positions, original_length=self.original_length)
