"""Models of one shape: jrope's, and PyTorch modules that map tokens [B, T] to logits."""

from collections.abc import Mapping
from typing import Any

import jax
from flax import nnx

import jrope
from benchmarks.peers import as_torch, peer
from experiments.tasks import Consecutive, Copy
from experiments.training.train import TrainConfig
from jrope.transformer import TransformerConfig

TASK = Copy(symbols=96)
NOPE = jrope.Encoding()


def train_config(
    features: int,
    batch: int,
    context: int,
    encoding: jrope.Encoding = NOPE,
    **options: Any,
) -> TrainConfig:
    """Training a model of two layers, with heads of 32 features, on `context` tokens."""
    shape = {"features": features, "layers": 2, "heads": max(1, features // 32)}
    return TrainConfig(
        task=TASK,
        model=TransformerConfig(TASK.vocabulary, encoding, **shape, **options),
        positions=Consecutive(),
        length=(context - 2) // 2,
        batch=batch,
        steps=1000,
        learning_rate=1e-3,
        warmup=10,
        weight_decay=0.1,
    )


def shape_of(config: TrainConfig) -> TransformerConfig:
    """The model of `train_config`."""
    assert isinstance(config.model, TransformerConfig)
    return config.model


def by_hand(config: TransformerConfig, *, base: float = 10_000.0) -> Any:
    """The transformer of jrope with RoPE (half layout), written in PyTorch for speed."""
    torch = peer("torch")
    nn, functional = torch.nn, torch.nn.functional
    d, heads, hidden = config.features, config.heads, config.features * config.mlp_ratio

    def rotate(x, cos, sin):
        first, second = x.chunk(2, -1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention_norm = nn.RMSNorm(d, eps=1e-6)
            self.mlp_norm = nn.RMSNorm(d, eps=1e-6)
            self.qkv, self.out = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
            self.up = nn.Linear(d, hidden, bias=False)
            self.down = nn.Linear(hidden, d, bias=False)

        def forward(self, x, cos, sin):
            batch, length, _ = x.shape
            qkv = self.qkv(self.attention_norm(x)).view(batch, length, 3, heads, d // heads)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, d))
            return x + self.down(torch.relu(self.up(self.mlp_norm(x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(config.vocabulary, d)
            self.blocks = nn.ModuleList([Block() for _ in range(config.layers)])
            self.norm = nn.RMSNorm(d, eps=1e-6)
            self.head = nn.Linear(d, config.vocabulary, bias=False)

        def forward(self, tokens):
            half = config.head_dim // 2
            frequencies = base ** (-torch.arange(half) / half)
            angles = torch.arange(tokens.shape[1])[:, None] * frequencies
            x, cos, sin = self.embedding(tokens), angles.cos(), angles.sin()
            for block in self.blocks:
                x = block(x, cos, sin)
            return self.head(self.norm(x))

    return Model()


def load_weights(model: Any, params: nnx.State) -> Any:
    """The model of `by_hand` with jrope's weights; PyTorch keeps dense layers transposed."""
    weights = {}
    for path, leaf in jax.tree.leaves_with_path(nnx.to_pure_dict(params)):
        *names, last = (str(getattr(key, "key", "")) for key in path)
        leaf = leaf.T if last == "kernel" else leaf
        weights[".".join([*names, "weight"])] = as_torch(leaf).contiguous()
    model.load_state_dict(weights)
    return model


def x_transformers(
    config: TransformerConfig, length: int, wrapper: Mapping[str, Any], **options: Any
) -> Any:
    """x-transformers' decoder of the same width, depth and hidden width."""
    package = peer("x_transformers")
    layers = package.Decoder(
        dim=config.features,
        depth=config.layers,
        heads=config.heads,
        attn_dim_head=config.head_dim,
        ff_mult=config.mlp_ratio,
        **options,
    )
    return package.TransformerWrapper(
        num_tokens=config.vocabulary, max_seq_len=length, attn_layers=layers, **wrapper
    )


def llama(config: TransformerConfig, length: int) -> Any:
    """transformers' Llama; its gated network has as many products at 2/3 of the hidden width."""
    transformers = peer("transformers")
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=config.vocabulary,
            hidden_size=config.features,
            intermediate_size=2 * config.features * config.mlp_ratio // 3,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            max_position_embeddings=length,
            bos_token_id=None,
            eos_token_id=None,
            pad_token_id=0,
        )
    )
