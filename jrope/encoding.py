"""A positional encoding as a value: maps, each the identity unless the encoding acts there.

    positions  ->  embed(x)  ->  rotation(q, k)  ->  bias(scores), content_bias(scores)

A model asks every encoding the same questions and knows nothing else about it. `Encoding()` answers all of them with
"nothing", which makes it NoPE; `Chain` composes encodings. The encodings themselves stand by the map where they act, in
`encoding_absolute`, `encoding_rotary` and `encoding_bias`.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, ClassVar

import jax

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
        """The trainable parameters, a pytree of arrays: the first argument of each map."""
        return {}

    def embed(self, params: Params, x, positions) -> jax.Array:
        """Token embeddings x [..., T, D] at positions [..., T], with what this encoding adds to them."""
        return x

    def rotation(self, params: Params, q_positions, k_positions, *, head_dim: int, length=None) -> Rotation:
        """A function of queries [..., T, N, H] and keys [..., S, K, H] that all layers of one forward pass share."""
        return lambda q, k: (q, k)

    def bias(self, params: Params, q_positions, k_positions, *, num_heads: int) -> jax.Array | None:
        """What is added to the scores, float32 [..., N, T, S]; None for nothing. All layers share it."""
        return None

    def content_bias(self, params: Params, q, k, q_positions, k_positions, *, visible, scale) -> jax.Array | None:
        """What is added to the scores and depends on content, float32 [..., N, T, S]; None for nothing.

        Called in each layer with its rotated queries [..., T, N, H] and keys [..., S, N, H], whether a query sees a key
        (visible, bool [..., T, S]), and the scale of the scores.
        """
        return None

    def softmax_scale(self, head_dim: int) -> float:
        """What multiplies `q k^T` before the softmax: `head_dim^-0.5`, unless the encoding has a temperature there."""
        return head_dim**-0.5

    def at(self, *, head_dim: int, length: int | None = None) -> "Encoding":
        """This encoding for one head size and sequence length, with what it can make beforehand as `arrays`.

        All RoPE scalings become values of one type and shape, so that they share one compiled program.
        """
        return self


_register(Encoding)


def total(biases: Iterable[jax.Array | None]) -> jax.Array | None:
    """The sum of those biases [..., N, T, S] that are not None, aligned at their last axes; None if there are none."""
    acting = [bias for bias in biases if bias is not None]
    rank = max((bias.ndim for bias in acting), default=0)
    return reduce(add, (bias.reshape((1,) * (rank - bias.ndim) + bias.shape) for bias in acting)) if acting else None


@dataclass(frozen=True)
class Chain(Encoding):
    """Encodings composed: embeddings and rotations in sequence, biases added, softmax multipliers multiplied.

    A monoid: `Chain(())` acts as `Encoding()`, and nesting does not matter. A list of encodings becomes a tuple.

    Raises:
      TypeError: if `encodings` is not a tuple or list of encodings.
    """

    encodings: tuple[Encoding, ...] = ()

    arrays: ClassVar[tuple[str, ...]] = ("encodings",)

    def __post_init__(self):
        given = self.encodings
        if not (isinstance(given, list | tuple) and all(isinstance(encoding, Encoding) for encoding in given)):
            raise TypeError(f"Chain: encodings must be a tuple of encodings, got {given!r}")
        object.__setattr__(self, "encodings", tuple(given))

    @property
    def limit(self):
        return min((e.limit for e in self.encodings if e.limit is not None), default=None)

    def init(self, key, *, features, num_heads, head_dim):
        keys = jax.random.split(key, max(len(self.encodings), 1))
        sizes = {"features": features, "num_heads": num_heads, "head_dim": head_dim}
        own = {str(i): e.init(k, **sizes) for i, (e, k) in enumerate(zip(self.encodings, keys, strict=False))}
        return {i: params for i, params in own.items() if jax.tree.leaves(params)}  # a chain without any has those of NoPE

    def _parts(self, params):
        return ((e, params.get(str(i), {})) for i, e in enumerate(self.encodings))

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
        return total(e.bias(own, q_positions, k_positions, num_heads=num_heads) for e, own in self._parts(params))

    def content_bias(self, params, q, k, q_positions, k_positions, *, visible, scale):
        shared = {"visible": visible, "scale": scale}
        return total(e.content_bias(own, q, k, q_positions, k_positions, **shared) for e, own in self._parts(params))

    def softmax_scale(self, head_dim):
        return math.prod(e.softmax_scale(head_dim) * head_dim**0.5 for e in self.encodings) * head_dim**-0.5

    def at(self, *, head_dim, length=None):
        return Chain(tuple(e.at(head_dim=head_dim, length=length) for e in self.encodings))
