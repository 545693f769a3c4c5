"""A decoder-only transformer in Flax NNX that takes its positional encoding as a value.

Pre-norm, without dropout or biases. It calls every map of the encoding and never looks at the kind.
At its boundary it is functional: `init` gives the parameters, `apply` the logits, `decode` those of
a few more tokens, `abstract` the structure; all for plain `jax.jit`, `jax.vmap` and `jax.grad`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from jrope import checks
from jrope.attention import make_attention_fn
from jrope.encoding import Encoding

__all__ = [
    "Cache",
    "Transformer",
    "TransformerConfig",
    "abstract",
    "apply",
    "decode",
    "empty_cache",
    "init",
]


@dataclass(frozen=True)
class TransformerConfig:
    """The shape of a `Transformer`, with the functions of one.

    Attributes:
      vocabulary: number of token ids.
      encoding: any `jrope.Encoding`; the bare `Encoding()` is NoPE.
      features, layers, heads: the width D, the number of blocks, and N heads of D / N each.
      mlp_ratio: the hidden width of each block's ReLU network, over `features`.
      causal: whether a token sees only itself and those before it.

    Raises:
      ValueError: if a size is below 1, or features is not a multiple of heads.
    """

    vocabulary: int
    encoding: Encoding = field(default_factory=Encoding)
    features: int = 64
    layers: int = 2
    heads: int = 2
    mlp_ratio: int = 2
    causal: bool = True

    def __post_init__(self):
        for name in ("vocabulary", "features", "layers", "heads", "mlp_ratio"):
            checks.at_least("TransformerConfig", name, getattr(self, name), 1)
        if self.features % self.heads:
            sizes = f"features ({self.features}) must be a multiple of heads ({self.heads})"
            raise ValueError(f"TransformerConfig: {sizes}")

    @property
    def head_dim(self) -> int:
        return self.features // self.heads

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes that `Encoding.init` takes."""
        return {
            "features": self.features,
            "num_heads": self.heads,
            "head_dim": self.head_dim,
            "num_layers": self.layers,
        }

    def init(self, key) -> nnx.State:
        """`jrope.transformer.init` of this config."""
        return init(self, key)

    def apply(self, params: nnx.State, tokens, positions, **options) -> jax.Array:
        """`jrope.transformer.apply` with the structure of this config."""
        return apply(abstract(self), params, tokens, positions, **options)


class Cache(NamedTuple):
    """Keys and values of the tokens so far, in columns of which the first `used` are filled.

    Keys are stored rotated. A spectrum that changes in the middle of a sequence needs them rotated
    again by `jrope.rerotate`, which takes [..., S, N, H].
    """

    keys: tuple[
        jax.Array, ...
    ]  # of each layer [B, N, S, H], as the products of attention read them
    values: tuple[jax.Array, ...]  # likewise
    positions: jax.Array  # [B, S], or [A, B, S] for ids of several axes
    token_mask: jax.Array  # [B, S]: filled, and not padding
    used: jax.Array  # scalar
    states: tuple[
        Any, ...
    ]  # of each layer, what the encoding keeps of tokens: [B, ..., S], or None


class Block(nnx.Module):
    """Attention and a ReLU network, each on a normalised copy of the residual stream.

    The stream is kept as [B*T, D]: the weight gradients of a dense layer are then plain matrix
    products, without the transposes that a [B, T, D] input costs.
    """

    def __init__(self, config: TransformerConfig, rngs: nnx.Rngs):
        d, hidden = config.features, config.features * config.mlp_ratio
        self.config = config
        self.attention_norm, self.mlp_norm = nnx.RMSNorm(d, rngs=rngs), nnx.RMSNorm(d, rngs=rngs)
        self.qkv = nnx.Linear(d, 3 * d, use_bias=False, rngs=rngs)
        self.out = nnx.Linear(d, d, use_bias=False, rngs=rngs)
        self.up = nnx.Linear(d, hidden, use_bias=False, rngs=rngs)
        self.down = nnx.Linear(hidden, d, use_bias=False, rngs=rngs)

    def __call__(self, x, shape, rotation, attend, update_cache):
        """x [B*T, D] after this block, and the cache after it.

        `update_cache` takes the layer's input [B, T, D] and new keys and values, and returns the
        keys, values and states to attend to, the states of the queries, and the cache.
        """
        heads = *shape, self.config.heads, self.config.head_dim
        y = self.attention_norm(x)
        q, k, v = (part.reshape(heads) for part in jnp.split(self.qkv(y), 3, axis=-1))
        q, k = rotation(q, k)
        k, v, q_state, k_state, cache = update_cache(y.reshape(*shape, y.shape[-1]), k, v)
        x = x + self.out(attend(q, k, v, q_state, k_state).reshape(x.shape))
        return x + self.down(jax.nn.relu(self.up(self.mlp_norm(x)))), cache


class Transformer(nnx.Module):
    """tokens [B, T] and their position ids [T] or [B, T] -> logits [B, T, vocabulary]."""

    def __init__(self, config: TransformerConfig, *, rngs: nnx.Rngs):
        self.config = config
        # of unit variance, next to sinusoids of variance 1/2: neither hides the other. A `Learned`
        # table is as large with scale=1.0; at its default 0.02 it starts far below the tokens
        unit = jax.nn.initializers.normal(1.0)
        self.embedding = nnx.Embed(
            config.vocabulary, config.features, embedding_init=unit, rngs=rngs
        )
        self.blocks = nnx.List([Block(config, rngs) for _ in range(config.layers)])
        self.norm = nnx.RMSNorm(config.features, rngs=rngs)
        self.head = nnx.Linear(config.features, config.vocabulary, use_bias=False, rngs=rngs)
        encoding = config.encoding.init(rngs.params(), **config.sizes)
        self.encoding = nnx.data(jax.tree.map(nnx.Param, encoding))

    @checks.renamed(real="token_mask")
    def __call__(self, tokens, positions, *, encoding: Encoding | None = None, token_mask=None):
        """Logits of the next token, [B, T, vocabulary].

        Args:
          tokens: [B, T], integers.
          positions: [T], or [B, T] where rows differ; [A, B, T] for ids of several axes.
          encoding: used instead of the config's, with the parameters that were trained for that
            one: how a model trained with one RoPE runs with another scaling. Its `arrays` may be
            traced.
          token_mask: [B, T], false for padding, which no token sees; None where there is none.
        """
        encoding = self.config.encoding if encoding is None else encoding
        ids = checks.host(positions)  # concrete inside jit, where they can be
        length = ids.max() + 1 if ids.size else 0

        def no_cache(index, encoding, params, x, k, v):
            state = encoding.state(params, x, layer=index, token_mask=token_mask)
            return k, v, state, state, None

        logits, _ = self._forward(
            tokens, positions, (positions, 0, token_mask), encoding, length, no_cache
        )
        return logits

    @checks.renamed(real="token_mask")
    def decode(
        self, tokens, positions, cache: Cache, *, encoding: Encoding | None = None, token_mask=None
    ):
        """Logits of the next token, from these tokens [B, T] and the cache; and the new cache.

        Rotated keys need one spectrum for a whole sequence. Where it depends on the length (dynamic
        NTK, LongRoPE), give it as `encoding=config.encoding.bind(head_dim=, length=)`.

        Args: as of a full pass.

        Raises:
          ValueError: if the cache is known to have too little room (NaN logits inside jit), or a
            length is needed.
        """
        capacity, (batch, count), start = cache.token_mask.shape[1], tokens.shape, cache.used
        if checks.is_concrete(start) and start + count > capacity:
            room = f"a cache of {capacity} columns, {start} of them used"
            raise ValueError(f"decode: {count} more tokens do not fit in {room}")
        encoding = self._of_any_length(capacity) if encoding is None else encoding
        positions = jnp.broadcast_to(positions, (*positions.shape[:-2], batch, count))
        token_mask = jnp.ones((batch, count), bool) if token_mask is None else token_mask

        def write(columns, new, axis):
            at = [0] * new.ndim
            at[axis] = start
            return jax.lax.dynamic_update_slice(columns, new.astype(columns.dtype), at)

        def read_last(columns):  # zeros at the start, when nothing is written
            return jax.lax.dynamic_index_in_dim(
                columns, jnp.maximum(start - 1, 0), -1, keepdims=False
            )

        def update_cache(index, encoding, params, x, k, v):
            keys, values = (
                write(columns[index], new.swapaxes(1, 2), 2)
                for columns, new in ((cache.keys, k), (cache.values, v))
            )
            last = jax.tree.map(read_last, cache.states[index])
            q_state = encoding.state(params, x, layer=index, last=last, token_mask=token_mask)
            k_state = jax.tree.map(partial(write, axis=-1), cache.states[index], q_state)
            return (
                keys.swapaxes(1, 2),
                values.swapaxes(1, 2),
                q_state,
                k_state,
                (keys, values, k_state),
            )

        all_positions = write(cache.positions, positions, -1)
        all_masks = write(cache.token_mask, token_mask, 1)
        seen = (all_positions, start, all_masks)
        logits, written = self._forward(tokens, positions, seen, encoding, capacity, update_cache)
        logits = jnp.where(start + count <= capacity, logits, jnp.nan)
        keys, values, states = zip(*written, strict=True)
        return logits, Cache(keys, values, all_positions, all_masks, start + count, states)

    def _of_any_length(self, capacity: int) -> Encoding:
        """The config's encoding, if its spectrum is the same at every length of the cache."""
        bind = partial(self.config.encoding.bind, head_dim=self.config.head_dim)
        short, long = (jax.tree.leaves(bind(length=length)) for length in (None, capacity))
        if not all(map(np.array_equal, short, long)):
            raise ValueError(
                f"decode: the spectrum of {self.config.encoding} depends on the length of the"
                " sequence; give the one to use throughout, as"
                " encoding=config.encoding.bind(head_dim=config.head_dim, length=...)"
            )
        return bind(length=None)

    def _forward(self, tokens, positions, keys, encoding, length, update_cache: Callable):
        """Logits, and what `update_cache` returned of each layer.

        `keys` are the positions of all keys, the column of the first token, and the token mask.
        """
        config, (k_positions, start, token_mask) = self.config, keys
        is_param = {"is_leaf": lambda p: isinstance(p, nnx.Param)}
        params = jax.tree.map(lambda p: p[...], self.encoding, **is_param)
        x = encoding.embed(params, self.embedding(tokens), positions).reshape((-1, config.features))
        shape, shared, written = (tokens.shape[0], config.heads, config.head_dim), {}, []
        for index, block in enumerate(self.blocks):
            own, own_params = encoding.layer(params, index)
            variant = encoding.variant(index)
            if variant not in shared:
                shared[variant] = (
                    own.rotation(
                        own_params, positions, positions, head_dim=config.head_dim, length=length
                    ),
                    make_attention_fn(
                        own,
                        own_params,
                        positions,
                        k_positions,
                        shape=shape,
                        causal=config.causal,
                        start=start,
                        token_mask=token_mask,
                    ),
                )
            rotation, attend = shared[variant]
            update = partial(update_cache, index, own, own_params)
            x, cache = block(x, tokens.shape, rotation, partial(attend, layer=index), update)
            written.append(cache)
        return self.head(self.norm(x)).reshape((*tokens.shape, config.vocabulary)), written


def abstract(config: TransformerConfig) -> nnx.GraphDef:
    """The structure of the model of this config, without its parameters."""
    return nnx.split(nnx.eval_shape(lambda: Transformer(config, rngs=nnx.Rngs(0))))[0]


def init(config: TransformerConfig, key) -> nnx.State:
    """New parameters: a pytree, the same for the same key; jit it, and vmap it over keys."""
    return nnx.split(Transformer(config, rngs=nnx.Rngs(key)))[1]


def apply(graphdef: nnx.GraphDef, params: nnx.State, tokens, positions, **options) -> jax.Array:
    """Logits [B, T, vocabulary] of `Transformer.__call__`, as a pure function of the parameters."""
    return nnx.merge(graphdef, params)(tokens, positions, **options)


def empty_cache(
    config: TransformerConfig, batch: int, capacity: int, *, axes: int | None = None
) -> Cache:
    """A cache with room for `capacity` tokens in each row.

    `axes` is A where position ids have several axes.
    """

    def columns():  # separate arrays, so that a cache can be donated
        shape = (batch, config.heads, capacity, config.head_dim)
        return tuple(jnp.zeros(shape) for _ in range(config.layers))

    def state(index):
        params = config.encoding.init(jax.random.key(0), **config.sizes)
        encoding, own = config.encoding.layer(params, index)
        return encoding.state(own, jnp.zeros((batch, capacity, config.features)), layer=index)

    def zeros(index):
        shapes = jax.eval_shape(lambda: state(index))
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)

    shape = (batch, capacity) if axes is None else (axes, batch, capacity)
    return Cache(
        columns(),
        columns(),
        jnp.zeros(shape, jnp.int32),
        jnp.zeros((batch, capacity), bool),
        jnp.int32(0),
        tuple(map(zeros, range(config.layers))),
    )


def decode(
    graphdef: nnx.GraphDef, params: nnx.State, tokens, positions, cache: Cache, **options
) -> tuple[jax.Array, Cache]:
    """`Transformer.decode` as a pure function: a prompt into an empty cache, or token by token."""
    return nnx.merge(graphdef, params).decode(tokens, positions, cache, **options)
