"""A positional encoding as a value: maps, each the identity unless the encoding acts there.

    positions ->  embed(x)  ->  rotation(q, k)  ->  bias(scores)           once a forward pass
    layer's x ->               state(x)         ->  state_bias(scores)     in each layer
                               q, k             ->  content_bias(scores)   in each layer

A model calls every map and never looks at the kind. `Encoding()` leaves everything unchanged, which
makes it NoPE. The encodings themselves are in `jrope.encodings`, one file each; `jrope.composition`
makes one of several.
"""

import dataclasses
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax

from jrope import arguments, serialization

Params = Any
State = Any
Rotation = Callable[[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]


def _register(cls: type):
    """Makes an encoding class a pytree: `arrays` are leaves, other fields are structure.

    `jax.export` can then store programs with such arguments.
    """

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
    serialization.register(cls, unflatten)


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

    @arguments.checked()
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
