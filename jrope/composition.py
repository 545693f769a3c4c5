"""Encodings of encodings: `Chain` composes several, and `Layers` gives each layer its own."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add, mul
from typing import Any, ClassVar

import jax

from jrope import arguments
from jrope.encoding import Encoding, Params


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
        arguments.check_fields(self)
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
