"""A decoder-only transformer in Flax NNX that takes its positional encoding as a value.

Pre-norm, without dropout or biases. It asks the encoding its questions and never what kind it is. At its boundary it is
functional: `abstract` gives the structure, `init` the parameters, `apply` the logits, `decode` those of a few more tokens, all
for plain `jax.jit`, `jax.vmap` and `jax.grad`.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from jrope.attention import attending
from jrope.encoding import Encoding
from jrope.phase import is_concrete


@dataclass(frozen=True)
class TransformerConfig:
    """The shape of a `Transformer`.

    Attributes:
      vocabulary: number of token ids.
      encoding: any `jrope.Encoding`; the bare `Encoding()` is NoPE.
      features, layers, heads: the width D, the number of blocks, and of heads N of D / N features each.
      mlp_factor: the hidden width of each block's ReLU network, in units of `features`.
      causal: whether a token sees only those before it and itself.
    """

    vocabulary: int
    encoding: Encoding = field(default_factory=Encoding)
    features: int = 64
    layers: int = 2
    heads: int = 2
    mlp_factor: int = 2
    causal: bool = True

    def __post_init__(self):
        for name in ("vocabulary", "features", "layers", "heads", "mlp_factor"):
            if getattr(self, name) < 1:
                raise ValueError(f"TransformerConfig: {name} must be at least 1, got {getattr(self, name)}")
        if self.features % self.heads:
            raise ValueError(f"TransformerConfig: features ({self.features}) must be a multiple of heads ({self.heads})")

    @property
    def head_dim(self) -> int:
        return self.features // self.heads


class Cache(NamedTuple):
    """Keys and values of the tokens so far, in columns of which the first `used` are filled.

    Keys are kept as they were rotated. A spectrum that changes in mid-sequence therefore needs them turned on, by
    `jrope.rerotate`, which takes [..., S, N, H].
    """

    keys: tuple[jax.Array, ...]  # of each layer [B, N, S, H], as the products of attention read them
    values: tuple[jax.Array, ...]  # likewise
    positions: jax.Array  # [B, S], or [A, B, S] for ids of several axes
    real: jax.Array  # [B, S]: filled, and not padding
    used: jax.Array  # scalar


class Block(nnx.Module):
    """Attention and a ReLU network, each on a normalised copy of the residual stream, which is kept as [B*T, D]: the weight
    gradients of a dense layer are then plain matrix products, without the transposes that a [B, T, D] input costs."""

    def __init__(self, config: TransformerConfig, rngs: nnx.Rngs):
        d, hidden = config.features, config.features * config.mlp_factor
        self.config = config
        self.attention_norm, self.mlp_norm = nnx.RMSNorm(d, rngs=rngs), nnx.RMSNorm(d, rngs=rngs)
        self.qkv = nnx.Linear(d, 3 * d, use_bias=False, rngs=rngs)
        self.out = nnx.Linear(d, d, use_bias=False, rngs=rngs)
        self.up = nnx.Linear(d, hidden, use_bias=False, rngs=rngs)
        self.down = nnx.Linear(hidden, d, use_bias=False, rngs=rngs)

    def __call__(self, x, shape, rotation, attend, remember):
        """x [B*T, D] after this block, and the memory of keys and values, which `remember` gives with those to attend to."""
        heads = *shape, self.config.heads, self.config.head_dim
        q, k, v = (part.reshape(heads) for part in jnp.split(self.qkv(self.attention_norm(x)), 3, axis=-1))
        q, k = rotation(q, k)
        k, v, memory = remember(k, v)
        x = x + self.out(attend(q, k, v).reshape(x.shape))
        return x + self.down(jax.nn.relu(self.up(self.mlp_norm(x)))), memory


class Transformer(nnx.Module):
    """tokens [B, T] and their position ids [T] or [B, T] -> logits [B, T, vocabulary]."""

    def __init__(self, config: TransformerConfig, *, rngs: nnx.Rngs):
        self.config = config
        # of unit variance, beside sinusoids of variance 1/2: neither drowns the other. A `Learned` table is as large with
        # scale=1.0; at its default 0.02 it starts far below the tokens, and has to grow
        unit = jax.nn.initializers.normal(1.0)
        self.embedding = nnx.Embed(config.vocabulary, config.features, embedding_init=unit, rngs=rngs)
        self.blocks = nnx.List([Block(config, rngs) for _ in range(config.layers)])
        self.norm = nnx.RMSNorm(config.features, rngs=rngs)
        self.head = nnx.Linear(config.features, config.vocabulary, use_bias=False, rngs=rngs)
        encoding = config.encoding.init(
            rngs.params(), features=config.features, num_heads=config.heads, head_dim=config.head_dim
        )
        self.encoding = nnx.data(jax.tree.map(nnx.Param, encoding))

    def __call__(self, tokens, positions, *, encoding: Encoding | None = None, real=None) -> jax.Array:
        """Logits of the next token.

        Args:
          tokens: [B, T], integers.
          positions: [T], or [B, T] for position ids of their own in each row ([A, B, T] for ids of several axes).
          encoding: used in place of the config's, with the parameters that were trained for that one: how a model trained
            with one RoPE is run with another scaling. Its `arrays` may be traced.
          real: [B, T], false for padding, which no token sees; None where there is none.
        """
        encoding = self.config.encoding if encoding is None else encoding
        length = jnp.max(positions) + 1 if positions.size else 0
        keys = positions, 0, real
        logits, _ = self._forward(tokens, positions, keys, encoding, length, None, lambda memory, _, k, v: (k, v, memory))
        return logits

    def decode(self, tokens, positions, cache: Cache, *, encoding: Encoding | None = None, real=None):
        """Logits of the next token, from these tokens [B, T] and those in the cache; and the cache with these added.

        Args: as of a full pass. Rotated keys need one spectrum for all of a sequence: where the encoding's depends on the
        length (dynamic NTK, LongRoPE), give it as `encoding=config.encoding.at(head_dim=, length=)`.

        Raises:
          ValueError: if the cache is known to have too little room (NaN logits inside jit), or a length is needed.
        """
        capacity, (batch, count), start = cache.real.shape[1], tokens.shape, cache.used
        if is_concrete(start) and start + count > capacity:
            raise ValueError(f"decode: {count} more tokens do not fit in a cache of {capacity} columns, {start} of them used")
        encoding = self._of_any_length(capacity) if encoding is None else encoding
        positions = jnp.broadcast_to(positions, (*positions.shape[:-2], batch, count))
        real = jnp.ones((batch, count), bool) if real is None else real

        def put(columns, new, at, axis):
            return jax.lax.dynamic_update_slice(columns, new.astype(columns.dtype), [*at[:axis], start, *at[axis:]])

        def remember(memory, layer, k, v):  # an array for each layer, so that each is written and read in place
            new = [put(old[layer], x.swapaxes(1, 2), (0, 0, 0), 2) for old, x in zip(memory, (k, v), strict=True)]
            memory = [(*old[:layer], x, *old[layer + 1 :]) for old, x in zip(memory, new, strict=True)]
            return *(x.swapaxes(1, 2) for x in new), memory

        all_positions = put(cache.positions, positions, (0,) * (positions.ndim - 1), positions.ndim - 1)
        all_real = put(cache.real, real, (0,), 1)
        keys, memory = (all_positions, start, all_real), (cache.keys, cache.values)
        logits, (keys, values) = self._forward(tokens, positions, keys, encoding, capacity, memory, remember)
        logits = jnp.where(start + count <= capacity, logits, jnp.nan)
        return logits, Cache(keys, values, all_positions, all_real, start + count)

    def _of_any_length(self, capacity: int) -> Encoding:
        """The config's encoding, if it is the same at all lengths of a cache: its room says nothing about the sequence."""
        short, long = (self.config.encoding.at(head_dim=self.config.head_dim, length=n) for n in (None, capacity))
        if not all(map(np.array_equal, jax.tree.leaves(short), jax.tree.leaves(long))):
            raise ValueError(
                f"decode: the spectrum of {self.config.encoding} depends on the length of the sequence; give the one to use"
                " throughout, as encoding=config.encoding.at(head_dim=config.head_dim, length=...)"
            )
        return short

    def _forward(self, tokens, positions, keys, encoding, length, memory, remember):
        """Logits, and the memory after them.

        `keys` are the positions of all keys, which of them the first token is, and which are real. `remember` takes the
        memory, a layer and its new keys and values, and gives those to attend to, and the memory with the new ones.
        """
        config, (k_positions, start, real) = self.config, keys
        own = jax.tree.map(lambda p: p[...], self.encoding, is_leaf=lambda p: isinstance(p, nnx.Param))
        x = encoding.embed(own, self.embedding(tokens), positions).reshape((-1, config.features))
        rotation = encoding.rotation(own, positions, positions, head_dim=config.head_dim, length=length)
        shape = tokens.shape[0], config.heads, config.head_dim
        attend = attending(encoding, own, positions, k_positions, shape=shape, causal=config.causal, start=start, real=real)
        for layer, block in enumerate(self.blocks):
            x, memory = block(x, tokens.shape, rotation, attend, partial(remember, memory, layer))
        return self.head(self.norm(x)).reshape((*tokens.shape, config.vocabulary)), memory


def abstract(config: TransformerConfig) -> nnx.GraphDef:
    """The structure of the model of this config, without its parameters."""
    return nnx.split(nnx.eval_shape(lambda: Transformer(config, rngs=nnx.Rngs(0))))[0]


def init(config: TransformerConfig, key) -> nnx.State:
    """Fresh parameters: a pytree, the same for the same key; jit it, and vmap it over keys."""
    return nnx.split(Transformer(config, rngs=nnx.Rngs(key)))[1]


def apply(graphdef: nnx.GraphDef, params: nnx.State, tokens, positions, **options) -> jax.Array:
    """Logits [B, T, vocabulary] of `Transformer.__call__`, as a pure function of the parameters."""
    return nnx.merge(graphdef, params)(tokens, positions, **options)


def empty_cache(config: TransformerConfig, batch: int, capacity: int, *, axes: int | None = None) -> Cache:
    """A cache with room for `capacity` tokens in each row; `axes` is A where position ids have several axes."""

    def columns():  # arrays of their own each, so that a cache can be donated
        return tuple(jnp.zeros((batch, config.heads, capacity, config.head_dim)) for _ in range(config.layers))

    positions = jnp.zeros((batch, capacity) if axes is None else (axes, batch, capacity), jnp.int32)
    return Cache(columns(), columns(), positions, jnp.zeros((batch, capacity), bool), jnp.int32(0))


def decode(graphdef: nnx.GraphDef, params: nnx.State, tokens, positions, cache: Cache, **options) -> tuple[jax.Array, Cache]:
    """`Transformer.decode` as a pure function: a prompt into an empty cache (prefill), or a token at a time."""
    return nnx.merge(graphdef, params).decode(tokens, positions, cache, **options)
