"""A decoder-only transformer in Flax NNX that takes its positional encoding as a value.

Pre-norm, without dropout or biases. It calls every map of the encoding and never looks at the kind.
At its boundary it is functional: `init` gives the parameters, `apply` the logits, `decode` those of
a few more tokens, `abstract` the structure; all for plain `jax.jit`, `jax.vmap` and `jax.grad`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from jrope import arguments, checks
from jrope.attention import make_attention_fn
from jrope.encoding import Encoding
from jrope.models.cache import Cache

__all__ = ["Transformer", "TransformerConfig", "abstract", "apply", "decode", "init"]


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
        arguments.check_fields(self)
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
        positions, token_mask = self._checked(
            "Transformer", encoding, tokens, positions, token_mask
        )
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
          TypeError, ValueError: as of a full pass; or if the cache is known not to hold the tokens
            (NaN logits inside jit), or a length is needed.
        """
        positions, token_mask = self._checked("decode", encoding, tokens, positions, token_mask)
        if not isinstance(cache, Cache):
            raise TypeError(f"decode: cache must be a Cache of empty_cache, got {cache!r}")
        (batch, count), start, capacity = tokens.shape, cache.used, cache.capacity
        cache.check_fits(self.config, batch)
        if checks.is_concrete(start) and start + count > capacity:
            room = f"a cache of {capacity} columns, {start} of them used"
            raise ValueError(f"decode: {count} more tokens do not fit in {room}")
        encoding = self._of_any_length(capacity) if encoding is None else encoding
        token_mask = jnp.ones((batch, count), bool) if token_mask is None else token_mask
        begun, positions, is_whole = cache.add_tokens(positions, token_mask)

        def update_cache(index, encoding, params, x, k, v):
            last = cache.last_state(index)
            state = encoding.state(params, x, layer=index, last=last, token_mask=token_mask)
            keys, values, states = written = cache.add_layer(index, k, v, state)
            return keys.swapaxes(1, 2), values.swapaxes(1, 2), state, states, written

        seen = (begun.positions, start, begun.token_mask)
        logits, written = self._forward(tokens, positions, seen, encoding, capacity, update_cache)
        keys, values, states = zip(*written, strict=True)
        cache = begun._replace(keys=keys, values=values, states=states, used=start + count)
        return jnp.where(is_whole, logits, jnp.nan), cache

    def _checked(self, owner: str, encoding, tokens, positions, token_mask):
        """Position ids and mask that fit tokens [B, T]: errors, found before XLA finds them."""
        if not isinstance(encoding, Encoding | None):
            raise TypeError(f"{owner}: encoding must be a jrope.Encoding, got {encoding!r}")
        if not (hasattr(tokens, "dtype") and jnp.issubdtype(tokens.dtype, jnp.integer)):
            given = getattr(tokens, "dtype", type(tokens).__name__)
            raise TypeError(f"{owner}: tokens must be an array of integers [B, T], got {given}")
        if tokens.ndim != 2:
            raise ValueError(f"{owner}: tokens must be [B, T], got shape {tokens.shape}")
        positions, (batch, count) = checks.position_ids("positions", positions), tokens.shape
        shape = positions.shape
        if shape[-1:] != (count,) or len(shape) > 3 or (shape[1:] and shape[-2] not in (1, batch)):
            wanted = f"[T] or [B, T] (or [A, B, T] for several axes) with B={batch} and T={count}"
            raise ValueError(f"{owner}: positions must be {wanted}, got shape {shape}")
        vocabulary = self.config.vocabulary
        if checks.is_concrete(tokens) and tokens.size:
            ids = checks.host(tokens)
            if ids.min() < 0 or ids.max() >= vocabulary:
                given = f"{ids.min()}..{ids.max()}"
                raise ValueError(f"{owner}: tokens must be within 0..{vocabulary - 1}, got {given}")
        if token_mask is None:
            return positions, None
        if jnp.shape(token_mask) != tokens.shape:
            shapes = f"{tokens.shape} like tokens, got shape {jnp.shape(token_mask)}"
            raise ValueError(f"{owner}: token_mask must be {shapes}")
        return positions, jnp.asarray(token_mask) != 0

    def _of_any_length(self, capacity: int) -> Encoding:
        """The config's encoding, if its spectrum is the same at every length of the cache."""
        bind = partial(self.config.encoding.bind, head_dim=self.config.head_dim)
        short, long = (jax.tree.leaves(bind(length=length)) for length in (1, capacity))
        if not all(map(np.array_equal, short, long)):
            raise ValueError(
                f"decode: the spectrum of {self.config.encoding} depends on the length of the"
                " sequence; give the one to use throughout, as"
                " encoding=config.encoding.bind(head_dim=config.head_dim, length=...)"
            )
        return bind(length=capacity)

    def _forward(self, tokens, positions, keys, encoding, length, update_cache: Callable):
        """Logits, and what `update_cache` returned of each layer.

        `keys` are the positions of all keys, the column of the first token, and the token mask.
        """
        config, (k_positions, start, token_mask) = self.config, keys
        is_param = {"is_leaf": lambda p: isinstance(p, nnx.Param)}
        params = jax.tree.map(lambda p: p[...], self.encoding, **is_param)
        x = encoding.embed(params, self.embedding(tokens), positions)
        if x.shape != (*tokens.shape, config.features):
            given = f"{x.shape} at positions {positions.shape}"
            raise ValueError(
                f"{encoding}: embeddings must be [B, T, {config.features}], got {given}"
            )
        x = x.reshape((-1, config.features))
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


@arguments.checked()
def abstract(config: TransformerConfig) -> nnx.GraphDef:
    """The structure of the model of this config, without its parameters."""
    return nnx.split(nnx.eval_shape(lambda: Transformer(config, rngs=nnx.Rngs(0))))[0]


@arguments.checked(key="any")
def init(config: TransformerConfig, key) -> nnx.State:
    """New parameters: a pytree, the same for the same key; jit it, and vmap it over keys."""
    return nnx.split(Transformer(config, rngs=nnx.Rngs(key)))[1]


def apply(graphdef: nnx.GraphDef, params: nnx.State, tokens, positions, **options) -> jax.Array:
    """Logits [B, T, vocabulary] of `Transformer.__call__`, as a pure function of the parameters."""
    return nnx.merge(graphdef, params)(tokens, positions, **options)


def decode(
    graphdef: nnx.GraphDef, params: nnx.State, tokens, positions, cache: Cache, **options
) -> tuple[jax.Array, Cache]:
    """`Transformer.decode` as a pure function: a prompt into an empty cache, or token by token."""
    return nnx.merge(graphdef, params).decode(tokens, positions, cache, **options)
