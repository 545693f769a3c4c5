"""A decoder-only transformer in Flax NNX that takes its positional encoding as a value.

Pre-norm, without dropout or biases. It asks the encoding its questions and never what kind it is. At its boundary it
is functional: `abstract` gives the structure, `init` the parameters, `apply` the logits, for plain `jax.jit`, `jax.vmap` and
`jax.grad`.
"""

from dataclasses import dataclass, field
from functools import partial

import jax
import jax.numpy as jnp
from flax import nnx

from jrope.attention import attention
from jrope.encoding import Encoding, total


@dataclass(frozen=True)
class TransformerConfig:
    """The shape of a `Transformer`.

    Attributes:
      vocabulary: number of token ids.
      encoding: any `jrope.Encoding`; the bare `Encoding()` is NoPE.
      features, layers, heads: the width D, the number of blocks, and of heads N of D / N features each.
      mlp_factor: the hidden width of each block's ReLU network, in units of `features`.
      causal: whether a position sees only those before it and itself.
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

    def __call__(self, x, shape, rotation, bias, content_bias):
        config = self.config
        qkv = self.qkv(self.attention_norm(x)).reshape((*shape, 3, config.heads, config.head_dim))
        q, k = rotation(qkv[..., 0, :, :], qkv[..., 1, :, :])
        bias = total([bias, content_bias(q, k, scale=config.head_dim**-0.5)])
        mixed = attention(q, k, qkv[..., 2, :, :], bias=bias, causal=config.causal)
        x = x + self.out(mixed.reshape(x.shape))
        return x + self.down(jax.nn.relu(self.up(self.mlp_norm(x))))


class Transformer(nnx.Module):
    """tokens [B, T] and their position ids [T] or [B, T] -> logits [B, T, vocabulary]."""

    def __init__(self, config: TransformerConfig, *, rngs: nnx.Rngs):
        self.config = config
        # of unit variance, as sinusoids are: what an encoding adds neither drowns the tokens nor is drowned by them
        unit = jax.nn.initializers.normal(1.0)
        self.embedding = nnx.Embed(config.vocabulary, config.features, embedding_init=unit, rngs=rngs)
        self.blocks = nnx.List([Block(config, rngs) for _ in range(config.layers)])
        self.norm = nnx.RMSNorm(config.features, rngs=rngs)
        self.head = nnx.Linear(config.features, config.vocabulary, use_bias=False, rngs=rngs)
        encoding = config.encoding.init(
            rngs.params(), features=config.features, num_heads=config.heads, head_dim=config.head_dim
        )
        self.encoding = nnx.data(jax.tree.map(nnx.Param, encoding))

    def __call__(self, tokens, positions, *, encoding: Encoding | None = None) -> jax.Array:
        """Logits of the next token.

        Args:
          tokens: [B, T], integers.
          positions: [T], or [B, T] for position ids of their own in each row.
          encoding: used in place of the config's, with the parameters that were trained for that one: how a model trained
            with one RoPE is run with another scaling. Its `arrays` may be traced.
        """
        config = self.config
        encoding = config.encoding if encoding is None else encoding
        own = jax.tree.map(lambda p: p[...], self.encoding, is_leaf=lambda p: isinstance(p, nnx.Param))
        x = encoding.embed(own, self.embedding(tokens), positions).reshape((-1, config.features))
        length = jnp.max(positions) + 1 if positions.size else 0
        rotation = encoding.rotation(own, positions, positions, head_dim=config.head_dim, length=length)
        bias = encoding.bias(own, positions, positions, num_heads=config.heads)
        content_bias = partial(encoding.content_bias, own, q_positions=positions, k_positions=positions)
        for block in self.blocks:
            x = block(x, tokens.shape, rotation, bias, content_bias)
        return self.head(self.norm(x)).reshape((*tokens.shape, config.vocabulary))


def abstract(config: TransformerConfig) -> nnx.GraphDef:
    """The structure of the model of this config, without its parameters."""
    return nnx.split(nnx.eval_shape(lambda: Transformer(config, rngs=nnx.Rngs(0))))[0]


def init(config: TransformerConfig, key) -> nnx.State:
    """Fresh parameters: a pytree, the same for the same key; jit it, and vmap it over keys."""
    return nnx.split(Transformer(config, rngs=nnx.Rngs(key)))[1]


def apply(graphdef: nnx.GraphDef, params: nnx.State, tokens, positions, *, encoding: Encoding | None = None) -> jax.Array:
    """Logits [B, T, vocabulary] of `Transformer.__call__`, as a pure function of the parameters."""
    return nnx.merge(graphdef, params)(tokens, positions, encoding=encoding)
