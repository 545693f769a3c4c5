"""A positional encoding as a value: three maps, each the identity unless the encoding acts there.

    positions  ->  embed(x)  ->  rotation(q, k)  ->  bias(scores)

A model asks every encoding the same three questions and knows nothing else about it. `Encoding()` answers all of them with
"nothing", which makes it NoPE; `Chain` composes encodings.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, ClassVar

import jax

from jrope.absolute import lookup, sinusoidal
from jrope.bias import alibi
from jrope.rotary import LAYOUTS, Layout, Spectrum, apply_rotary, rotation_tables, spectrum
from jrope.scaling import Scaling

Params = Any
Rotation = Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]


def _register(cls: type):
    """Makes an encoding class a pytree whose leaves are its `arrays` and whose structure is its other fields."""

    def flatten(encoding):
        static = tuple((f.name, getattr(encoding, f.name)) for f in dataclasses.fields(encoding) if f.name not in cls.arrays)
        return [getattr(encoding, name) for name in cls.arrays], static

    def unflatten(static, children):
        encoding = object.__new__(cls)
        for name, value in (*static, *zip(cls.arrays, children, strict=True)):
            object.__setattr__(encoding, name, value)
        return encoding

    jax.tree_util.register_pytree_node(cls, flatten, unflatten)


@dataclass(frozen=True)
class Encoding:
    """No positional encoding (NoPE), and the base of every other: override the maps where yours acts.

    Subclasses are frozen dataclasses, compared and hashed by their fields, and are JAX pytrees: the fields named in `arrays`
    are data that may change under one compiled program, the others are part of it.

    Kazemnejad et al. 2023, arXiv:2305.19466: a causal mask alone lets a decoder tell positions apart.
    """

    arrays: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        _register(cls)

    @property
    def limit(self) -> int | None:
        """How many positions, from 0, the encoding has a value for; None if there is no such limit."""
        return None

    def init(self, key, *, features: int, num_heads: int, head_dim: int) -> Params:
        """The trainable parameters, a pytree of arrays: the first argument of the three maps."""
        return {}

    def embed(self, params: Params, x, positions) -> jax.Array:
        """Token embeddings x [..., T, D] at positions [..., T], with what this encoding adds to them."""
        return x

    def rotation(self, params: Params, q_positions, k_positions, *, head_dim: int, length=None) -> Rotation:
        """A function of queries [..., T, N, H] and keys [..., S, K, H] that all layers of one forward pass share."""
        return lambda q, k: (q, k)

    def bias(self, params: Params, q_positions, k_positions, *, num_heads: int) -> jax.Array | None:
        """What is added to the scores, float32 [..., N, T, S]; None for nothing."""
        return None

    def at(self, *, head_dim: int, length: int) -> "Encoding":
        """This encoding for one head size and sequence length, with what it can make beforehand as `arrays`.

        All RoPE scalings become values of one type and shape, so that they share one compiled program.
        """
        return self


_register(Encoding)


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


@dataclass(frozen=True)
class Rope(Encoding):
    """Rotary position embedding, plain or scaled.

    Attributes:
      base: of the geometric spectrum (rope_theta).
      scaling: None, or a function of a spectrum such as `Linear`, `NTK`, `DynamicNTK` or `Yarn`.
      layout: which features form a pair, see `apply_rotary`.
      rotary_fraction: how much of each head rotates, its first int(head_dim * rotary_fraction) features.
    """

    base: float = 10_000.0
    scaling: Scaling | None = None
    layout: Layout = "interleaved"
    rotary_fraction: float = 1.0

    def __post_init__(self):
        if not self.base > 0:
            raise ValueError(f"Rope: base must be positive, got {self.base}")
        if self.layout not in LAYOUTS:
            raise ValueError(f"Rope: layout must be one of {LAYOUTS}, got {self.layout!r}")
        if not 0 < self.rotary_fraction <= 1:
            raise ValueError(f"Rope: rotary_fraction must be above 0 and at most 1, got {self.rotary_fraction}")

    def spectrum(self, head_dim: int, length=None) -> Spectrum:
        """The (scaled) spectrum for heads of this size; some scalings also need the current length."""
        plain = spectrum(int(head_dim * self.rotary_fraction), base=self.base)
        return plain if self.scaling is None else self.scaling(plain, length=length)

    def at(self, *, head_dim, length):
        return Rotary(self.spectrum(head_dim, length), self.layout)

    def rotation(self, params, q_positions, k_positions, *, head_dim, length=None):
        return Rotary(self.spectrum(head_dim, length), self.layout).rotation(
            params, q_positions, k_positions, head_dim=head_dim
        )


@dataclass(frozen=True, eq=False)
class Rotary(Encoding):
    """Rotation by a given spectrum, which is data: what `Rope` becomes for one head size and length."""

    spectrum: Spectrum
    layout: Layout = "interleaved"

    arrays: ClassVar[tuple[str, ...]] = ("spectrum",)

    def rotation(self, params, q_positions, k_positions, *, head_dim, length=None):
        q_tables = rotation_tables(q_positions, self.spectrum)
        k_tables = q_tables if k_positions is q_positions else rotation_tables(k_positions, self.spectrum)
        return lambda q, k: (
            apply_rotary(q, *q_tables, layout=self.layout),
            apply_rotary(k, *k_tables, layout=self.layout),
        )


@dataclass(frozen=True)
class Alibi(Encoding):
    """Attention with linear biases (`jrope.alibi`)."""

    def bias(self, params, q_positions, k_positions, *, num_heads):
        return alibi(q_positions, k_positions, num_heads=num_heads)


@dataclass(frozen=True)
class Chain(Encoding):
    """Encodings composed: embeddings and rotations in sequence, biases added.

    A monoid: `Chain(())` acts as `Encoding()`, and nesting does not matter.
    """

    encodings: tuple[Encoding, ...] = ()

    arrays: ClassVar[tuple[str, ...]] = ("encodings",)

    @property
    def limit(self):
        return min((e.limit for e in self.encodings if e.limit is not None), default=None)

    def init(self, key, *, features, num_heads, head_dim):
        keys = jax.random.split(key, max(len(self.encodings), 1))
        sizes = {"features": features, "num_heads": num_heads, "head_dim": head_dim}
        return {str(i): e.init(k, **sizes) for i, (e, k) in enumerate(zip(self.encodings, keys, strict=False))}

    def _parts(self, params):
        return ((e, params[str(i)]) for i, e in enumerate(self.encodings))

    def embed(self, params, x, positions):
        for encoding, own in self._parts(params):
            x = encoding.embed(own, x, positions)
        return x

    def rotation(self, params, q_positions, k_positions, *, head_dim, length=None):
        rotations = [
            encoding.rotation(own, q_positions, k_positions, head_dim=head_dim, length=length)
            for encoding, own in self._parts(params)
        ]

        def rotate(q, k):
            for rotation in rotations:
                q, k = rotation(q, k)
            return q, k

        return rotate

    def bias(self, params, q_positions, k_positions, *, num_heads):
        biases = (e.bias(own, q_positions, k_positions, num_heads=num_heads) for e, own in self._parts(params))
        acting = [bias for bias in biases if bias is not None]
        return reduce(add, acting) if acting else None

    def at(self, *, head_dim, length):
        return Chain(tuple(e.at(head_dim=head_dim, length=length) for e in self.encodings))
