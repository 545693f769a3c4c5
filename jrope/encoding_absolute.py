"""Encodings that add a vector for each position to the embeddings."""

from dataclasses import dataclass

import jax
import numpy as np

from jrope.absolute import LOOKUP_MODES, SINUSOIDAL_LAYOUTS, LookupMode, SinusoidalLayout, lookup, sinusoidal
from jrope.encoding import Encoding


def _add(x, vectors) -> jax.Array:
    """x [..., T, D] plus a vector for each position [T, D] or [..., T, D], in the dtype of x."""
    return x + vectors.reshape((1,) * (x.ndim - vectors.ndim) + vectors.shape).astype(x.dtype)


@dataclass(frozen=True)
class Sinusoidal(Encoding):
    """Sines and cosines of the position, added to the embeddings (`jrope.sinusoidal`).

    Attributes:
      base: of the frequencies.
      layout: "interleaved" (the paper) or "concatenated".
      endpoint: whether the last frequency is exactly 1 / base, as in tensor2tensor and its heirs.
    """

    base: float = 10_000.0
    layout: SinusoidalLayout = "interleaved"
    endpoint: bool = False

    def __post_init__(self):
        if not (np.isfinite(self.base) and self.base > 0):
            raise ValueError(f"Sinusoidal: base must be positive and finite, got {self.base}")
        if self.layout not in SINUSOIDAL_LAYOUTS:
            raise ValueError(f"Sinusoidal: layout must be one of {SINUSOIDAL_LAYOUTS}, got {self.layout!r}")

    def embed(self, params, x, positions):
        options = {"base": self.base, "layout": self.layout, "endpoint": self.endpoint}
        return _add(x, sinusoidal(positions, x.shape[-1], **options))


@dataclass(frozen=True)
class Learned(Encoding):
    """A trained vector for each of `max_length` positions, added to the embeddings (`jrope.lookup`).

    Attributes:
      max_length: rows of the table.
      scale: standard deviation of the initial table. The default is that of GPT-2 in transformers, whose token embeddings
        start as small; beside those of `jrope.transformer`, of unit variance, it starts as a whisper, and 1.0 as their equal.
      mode: "nan": beyond the table the encoding has no value (NaN under jit, an error outside); "clip": it has that of the
        nearest row.
    """

    max_length: int
    scale: float = 0.02
    mode: LookupMode = "nan"

    def __post_init__(self):
        if self.max_length < 1:
            raise ValueError(f"Learned: max_length must be at least 1, got {self.max_length}")
        if not self.scale >= 0:
            raise ValueError(f"Learned: scale must be at least 0, got {self.scale}")
        if self.mode not in LOOKUP_MODES:
            raise ValueError(f"Learned: mode must be one of {LOOKUP_MODES}, got {self.mode!r}")

    @property
    def limit(self):
        return None if self.mode == "clip" else self.max_length

    def init(self, key, *, features, num_heads, head_dim):
        return {"table": self.scale * jax.random.normal(key, (self.max_length, features))}

    def embed(self, params, x, positions):
        return _add(x, lookup(params["table"], positions, mode=self.mode))
