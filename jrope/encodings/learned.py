"""The learned absolute encoding: a trained vector for each position, added to the embeddings."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jrope import arguments, checks
from jrope.encoding import Encoding

__all__ = ["Learned", "lookup"]

Mode = Literal["nan", "clip"]
MODES = ("nan", "clip")


@arguments.checked(table="floating [L, D]", positions="ids")
def lookup(table: jax.Array, positions: ArrayLike, *, mode: Mode = "nan") -> jax.Array:
    """Rows of a learned table [max_length, dim] at positions [...], as [..., dim] in its dtype.

    A learned encoding has no value outside its table. There the result is NaN inside jit, where
    nothing can be raised, and an error outside. An index of -1 never means the last row, as it does
    in plain indexing.
    Gehring et al. 2017, arXiv:1705.03122.

    Args:
      table: [max_length, dim].
      positions: [...], integers.
      mode: "nan" as above; or "clip": positions before the table have its first row, and those
        after it the last, with gradients.

    Raises:
      IndexError: if the mode is "nan" and a concrete position is outside the table.
      TypeError: if positions are not integers.
      ValueError: if the mode is unknown.
    """
    rows, ids = table.shape[0], checks.host(positions)
    if not jnp.issubdtype(ids.dtype, jnp.integer):
        raise TypeError(f"lookup: positions must be integers, got {ids.dtype}")
    if mode == "clip":
        return table[jnp.asarray(ids.clip(0, rows - 1))]
    if checks.is_concrete(ids) and ids.size:
        low, high = ids.min(), ids.max()
        if low < 0 or high >= rows:
            allowed = f"within 0..{rows - 1}, the rows of the table"
            raise IndexError(f"lookup: positions must be {allowed}, got {low}..{high}")
    inside = (ids >= 0) & (ids < rows)
    values = table[jnp.where(inside, ids, 0)]
    return jnp.where(inside[..., None], values, jnp.full((), jnp.nan, table.dtype))


@dataclass(frozen=True)
class Learned(Encoding):
    """A trained vector for each position, added to the embeddings (`jrope.lookup`).

    Attributes:
      max_length: rows of the table.
      scale: standard deviation of the initial table. The default is that of GPT-2 in transformers,
        whose token embeddings are as small. Those of `jrope.transformer` have unit variance: 1.0
        starts at their size.
      mode: "nan": beyond the table the encoding has no value (NaN under jit, an error outside);
        "clip": it has that of the nearest row.
    """

    name: ClassVar[str] = "learned"

    max_length: int
    scale: float = 0.02
    mode: Mode = "nan"

    def __post_init__(self):
        arguments.check_fields(self)
        checks.at_least("Learned", "max_length", self.max_length, 1)
        checks.at_least("Learned", "scale", self.scale, 0)
        checks.one_of("Learned", "mode", self.mode, MODES)

    @property
    def position_limit(self):
        return None if self.mode == "clip" else self.max_length

    def init(self, key, *, features, num_heads, head_dim, num_layers):
        return {"table": self.scale * jax.random.normal(key, (self.max_length, features))}

    def embed(self, params, x, positions):
        vectors = lookup(params["table"], positions, mode=self.mode)
        return x + jnp.expand_dims(vectors, range(x.ndim - vectors.ndim)).astype(x.dtype)
