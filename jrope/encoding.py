"""A positional encoding as a value: maps, each the identity unless the encoding acts there.

    positions ->  embed(x)  ->  rotation(q, k)  ->  bias(scores)           once a forward pass
    layer's x ->               state(x)         ->  state_bias(scores)     in each layer
                               q, k             ->  content_bias(scores)   in each layer

A model calls every map and never looks at the kind. `Encoding()` leaves everything unchanged, which
makes it NoPE. `Chain` composes encodings, and `Layers` gives each layer its own. The encodings
themselves are in `jrope.encodings`, one file each.
"""

import dataclasses
import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add, mul
from typing import Any, ClassVar

import jax

Params = Any
State = Any
Rotation = Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]


def _register(cls: type):
    """Makes an encoding class a pytree: `arrays` are leaves, other fields are structure."""

    def flatten(encoding):
        fields = dataclasses.fields(encoding)
        static = tuple(
            (f.name, getattr(encoding, f.name)) for f in fields if f.name not in cls.arrays
        )
        return [getattr(encoding, name) for name in cls.arrays], static

    def unflatten(static, children):
        encoding = object.__new__(cls)
        for name, value in (*static, *zip(cls.arrays, children, strict=True)):
            object.__setattr__(encoding, name, value)
        return encoding

    jax.tree_util.register_pytree_node(cls, flatten, unflatten)


@dataclass(frozen=True)
class Encoding:
    """No positional encoding (NoPE), and the base class: override the maps where yours acts.

    Subclasses are frozen dataclasses, compared and hashed by their fields, and are JAX pytrees.
    The fields named in `arrays` are data that may change under one compiled program; the others
    are part of the program.

    Kazemnejad et al. 2023, arXiv:2305.19466: with a causal mask and no encoding, a decoder can
    still tell positions apart.
    """

    name: ClassVar[str] = "nope"  # in configs; each encoding that a config can name has its own
    arrays: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        for old, new in {"at": "bind", "limit": "position_limit"}.items():
            if old in vars(cls):  # nothing calls it any more
                raise TypeError(f"{cls.__name__}: {old} is now called {new}: override that")
        _register(cls)

    @property
    def position_limit(self) -> int | None:
        """The number of positions, from 0, that the encoding has a value for; None for no limit."""
        return None

    def init(self, key, *, features: int, num_heads: int, head_dim: int, num_layers: int) -> Params:
        """The trainable parameters, a pytree of arrays: the first argument of each map.

        They serve all layers. Where each layer has its own, stack them: [num_layers, ...].
        """
        return {}

    def embed(self, params: Params, x, positions) -> jax.Array:
        """Token embeddings x [..., T, D] at positions [..., T], with what this encoding adds."""
        return x

    def rotation(
        self, params: Params, q_positions, k_positions, *, head_dim: int, length=None
    ) -> Rotation:
        """A function of queries [..., T, N, H] and keys [..., S, K, H], shared by all layers.

        `length` is the current length of the sequence, which some scalings of RoPE need.
        """
        return lambda q, k: (q, k)

    def query_scale(self, params: Params, positions) -> jax.Array | None:
        """What multiplies each query's scores, float32 [..., T]; None for nothing."""
        return None

    def softmax_scale(self, head_dim: int) -> float:
        """What multiplies `q k^T`: `head_dim^-0.5`, unless the encoding has a temperature there."""
        return head_dim**-0.5

    def bias(self, params: Params, q_positions, k_positions, *, num_heads: int) -> jax.Array | None:
        """What is added to the scores, float32 [..., N, T, S]; None for nothing.

        Shared by all layers. Called for all queries and keys, or for blocks of them.
        """
        return None

    def state(self, params: Params, x, *, layer: int, last: State = None, token_mask=None) -> State:
        """What a layer keeps of each token, made from the layer's input; None for nothing.

        A cache stores it next to keys and values.

        Args:
          x: [B, T, D], the input of the layer's attention.
          layer: the index of the layer.
          last: the state of the token before the first, without the token axis. At the start it is
            None in a full pass, and zeros in an empty cache: both must give the same state.
          token_mask: [B, T], false for padding; None where there is none.

        Returns:
          A pytree of arrays [B, ..., T], tokens last.
        """
        return None

    def state_bias(self, params: Params, q_state: State, k_state: State) -> jax.Array | None:
        """What the states add to the scores, float32 [B, N, T, S]; None for nothing.

        Called in each layer, for all queries and keys or for blocks of them.
        """
        return None

    def content_bias(
        self, params: Params, q, k, q_positions, k_positions, *, layer: int, mask, scale
    ) -> jax.Array | None:
        """What queries and keys add to the scores, float32 [..., N, T, S]; None for nothing.

        Where it is None in one layer, it must be None in all: layers that differ need `Layers`.
        Called in each layer with its rotated queries [..., T, N, H] and keys [..., S, N, H], the
        mask (bool [..., T, S], whether a query sees a key) and the scale of the scores.
        """
        return None

    def layer(self, params: Params, index: int) -> "tuple[Encoding, Params]":
        """The encoding that acts in one layer, and its parameters; itself unless layers differ."""
        return self, params

    def variant(self, index: int) -> Hashable:
        """A key that is the same for layers with the same encoding, which then share its tables."""
        return None

    def bind(self, *, head_dim: int, length: int | None = None) -> "Encoding":
        """This encoding for one head size and sequence length, with its tables' data as `arrays`.

        All scalings of RoPE become values of one type and shape: they share one compiled program.
        """
        return self

    def at(self, *, head_dim: int, length: int | None = None) -> "Encoding":
        """The former name of `bind`."""
        return self.bind(head_dim=head_dim, length=length)

    @property
    def limit(self) -> int | None:
        """The former name of `position_limit`."""
        return self.position_limit


_register(Encoding)


def sum_biases(biases: Iterable[jax.Array | None]) -> jax.Array | None:
    """The sum of the biases [..., N, T, S] that are not None, aligned at their last axes."""
    given = [bias for bias in biases if bias is not None]
    rank = max((bias.ndim for bias in given), default=0)
    aligned = (bias.reshape((1,) * (rank - bias.ndim) + bias.shape) for bias in given)
    return reduce(add, aligned) if given else None


def _checked(owner: str, encodings: Any) -> tuple[Encoding, ...]:
    are = isinstance(encodings, list | tuple) and all(isinstance(e, Encoding) for e in encodings)
    if not are:
        raise TypeError(f"{owner}: encodings must be a tuple of encodings, got {encodings!r}")
    return tuple(encodings)


def _init_each(encodings, key, sizes) -> dict[str, Params]:
    """The parameters of each encoding under its index, without those that have none."""
    keys = jax.random.split(key, max(len(encodings), 1))
    own = {
        str(i): e.init(k, **sizes) for i, (e, k) in enumerate(zip(encodings, keys, strict=False))
    }
    return {i: params for i, params in own.items() if jax.tree.leaves(params)}


def _smallest_limit(encodings: Iterable[Encoding]) -> int | None:
    return min((e.position_limit for e in encodings if e.position_limit is not None), default=None)


@dataclass(frozen=True)
class Chain(Encoding):
    """Encodings composed: embeddings and rotations in sequence, biases added, scales multiplied.

    A monoid: `Chain(())` acts as `Encoding()`, and nesting does not matter. A list becomes a tuple.

    Attributes:
      encodings: in the order in which they act.

    Raises:
      TypeError: if `encodings` is not a tuple or list of encodings.
    """

    name: ClassVar[str] = "chain"
    arrays: ClassVar[tuple[str, ...]] = ("encodings",)

    encodings: tuple[Encoding, ...] = ()

    def __post_init__(self):
        object.__setattr__(self, "encodings", _checked("Chain", self.encodings))

    @property
    def position_limit(self):
        return _smallest_limit(self.encodings)

    def init(self, key, **sizes):
        return _init_each(self.encodings, key, sizes)

    def _parts(self, params):
        return [(e, params.get(str(i), {})) for i, e in enumerate(self.encodings)]

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

    def query_scale(self, params, positions):
        scales = [encoding.query_scale(own, positions) for encoding, own in self._parts(params)]
        given = [scale for scale in scales if scale is not None]
        return reduce(mul, given) if given else None

    def softmax_scale(self, head_dim):
        return (
            math.prod(e.softmax_scale(head_dim) * head_dim**0.5 for e in self.encodings)
            * head_dim**-0.5
        )

    def bias(self, params, q_positions, k_positions, *, num_heads):
        parts = self._parts(params)
        return sum_biases(
            e.bias(own, q_positions, k_positions, num_heads=num_heads) for e, own in parts
        )

    def state(self, params, x, *, layer, last=None, token_mask=None):
        parts, last = self._parts(params), last or [None] * len(self.encodings)
        options = {"layer": layer, "token_mask": token_mask}
        made = [
            e.state(own, x, last=before, **options)
            for (e, own), before in zip(parts, last, strict=True)
        ]
        return tuple(made) if jax.tree.leaves(made) else None

    def state_bias(self, params, q_state, k_state):
        if q_state is None:
            return None
        parts = zip(self._parts(params), q_state, k_state, strict=True)
        return sum_biases(e.state_bias(own, q, k) for (e, own), q, k in parts)

    def content_bias(self, params, q, k, q_positions, k_positions, *, layer, mask, scale):
        options = {"layer": layer, "mask": mask, "scale": scale}
        parts = self._parts(params)
        return sum_biases(
            e.content_bias(own, q, k, q_positions, k_positions, **options) for e, own in parts
        )

    def layer(self, params, index):
        own = [encoding.layer(params, index) for encoding, params in self._parts(params)]
        return Chain(tuple(e for e, _ in own)), {
            str(i): params for i, (_, params) in enumerate(own)
        }

    def variant(self, index):
        return tuple(e.variant(index) for e in self.encodings)

    def bind(self, *, head_dim, length=None):
        return Chain(tuple(e.bind(head_dim=head_dim, length=length) for e in self.encodings))


@dataclass(frozen=True)
class Layers(Encoding):
    """An encoding that differs by layer.

        Layers((Rope(), Encoding()), pattern=(0, 0, 0, 1))    no position in every fourth layer

    Layers of one member share its tables and parameters; equal members share nothing.
    An encoding that adds to the embeddings acts before all layers: chain it with `Layers`.

    Attributes:
      encodings: the members.
      pattern: which member acts in each of the first layers; then it repeats. None for one after
        another.

    Raises:
      TypeError: if `encodings` is not a tuple or list of encodings; or from a map that differs by
        layer, if it is called without `layer(params, index)` first.
      ValueError: if a member adds to the embeddings, or the pattern does not use every member.
    """

    name: ClassVar[str] = "layers"
    arrays: ClassVar[tuple[str, ...]] = ("encodings",)

    encodings: tuple[Encoding, ...]
    pattern: tuple[int, ...] | None = None

    def __post_init__(self):
        object.__setattr__(self, "encodings", _checked("Layers", self.encodings))
        count = len(self.encodings)
        pattern = range(count) if self.pattern is None else self.pattern
        object.__setattr__(self, "pattern", tuple(pattern))
        if not count or {*pattern} != {*range(count)}:
            allowed = f"use every index of the {count} encodings"
            raise ValueError(f"Layers: pattern must {allowed}, got {self.pattern}")
        for encoding in filter(_embeds, self.encodings):
            raise ValueError(
                f"Layers: {encoding} adds to the embeddings, which all layers share: chain it"
            )

    @property
    def position_limit(self):
        return _smallest_limit(self.encodings)

    def init(self, key, **sizes):
        return _init_each(self.encodings, key, sizes)

    def _member(self, index: int) -> int:
        return self.pattern[index % len(self.pattern)]  # type: ignore[index]

    def layer(self, params, index):
        member = self._member(index)
        return self.encodings[member].layer(params.get(str(member), {}), index)

    def variant(self, index):
        member = self._member(index)
        return member, self.encodings[member].variant(index)

    def bind(self, *, head_dim, length=None):
        return Layers(
            tuple(e.bind(head_dim=head_dim, length=length) for e in self.encodings), self.pattern
        )

    def _refuse(self, *_, **__):
        raise TypeError("Layers: its maps differ by layer: take layer(params, index) first")

    rotation = query_scale = softmax_scale = bias = state = state_bias = content_bias = _refuse


def _embeds(encoding: Encoding) -> bool:
    if isinstance(encoding, Chain):
        return any(map(_embeds, encoding.encodings))
    return type(encoding).embed is not Encoding.embed
