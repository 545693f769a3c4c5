"""Encodings that add a vector for each position to the embeddings."""

from dataclasses import dataclass

import jax

from jrope.absolute import lookup, sinusoidal
from jrope.encoding import Encoding


def _add(x, vectors) -> jax.Array:
    """x [..., T, D] plus a vector for each position [T, D] or [..., T, D], in the dtype of x."""
    return x + vectors.reshape((1,) * (x.ndim - vectors.ndim) + vectors.shape).astype(x.dtype)


@dataclass(frozen=True)
class Sinusoidal(Encoding):
    """Sines and cosines of the position, added to the embeddings (`jrope.sinusoidal`)."""

    base: float = 10_000.0

    def embed(self, params, x, positions):
        return _add(x, sinusoidal(positions, x.shape[-1], base=self.base))


@dataclass(frozen=True)
class Learned(Encoding):
    """A trained vector for each of `max_length` positions, added to the embeddings (`jrope.lookup`).

    Attributes:
      max_length: rows of the table; beyond them the encoding has no value (NaN under jit, an error outside).
      scale: standard deviation of the initial table, GPT-2's by default.
    """

    max_length: int
    scale: float = 0.02

    def __post_init__(self):
        if self.max_length < 1:
            raise ValueError(f"Learned: max_length must be at least 1, got {self.max_length}")
        if not self.scale >= 0:
            raise ValueError(f"Learned: scale must be at least 0, got {self.scale}")

    @property
    def limit(self):
        return self.max_length

    def init(self, key, *, features, num_heads, head_dim):
        return {"table": self.scale * jax.random.normal(key, (self.max_length, features))}

    def embed(self, params, x, positions):
        return _add(x, lookup(params["table"], positions))
