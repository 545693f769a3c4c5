"""Models of one shape, as the users of other packages write them, each a PyTorch module of tokens [B, T] -> logits."""

from collections.abc import Mapping
from typing import Any

import jax
from flax import nnx

from experiments.bench.peers import as_torch, peer
from jrope.transformer import TransformerConfig


def by_hand(config: TransformerConfig, *, layout: str = "half", base: float = 10_000.0) -> Any:
    """The very transformer of `jrope.transformer` with RoPE, as one writes it in PyTorch for speed."""
    torch = peer("torch")
    nn, functional = torch.nn, torch.nn.functional
    d, heads, hidden = config.features, config.heads, config.features * config.mlp_factor

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention_norm, self.mlp_norm = nn.RMSNorm(d, eps=1e-6), nn.RMSNorm(d, eps=1e-6)
            self.qkv, self.out = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
            self.up, self.down = nn.Linear(d, hidden, bias=False), nn.Linear(hidden, d, bias=False)

        def forward(self, x, cos, sin):
            batch, length, _ = x.shape
            qkv = self.qkv(self.attention_norm(x)).view(batch, length, 3, heads, d // heads).permute(2, 0, 3, 1, 4)
            q, k, v = (_rotated(torch, qkv[0], cos, sin), _rotated(torch, qkv[1], cos, sin), qkv[2])
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, d))
            return x + self.down(torch.relu(self.up(self.mlp_norm(x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(config.vocabulary, d)
            self.blocks = nn.ModuleList([Block() for _ in range(config.layers)])
            self.norm, self.head = nn.RMSNorm(d, eps=1e-6), nn.Linear(d, config.vocabulary, bias=False)

        def forward(self, tokens):
            half = config.head_dim // 2
            frequencies = base ** (-torch.arange(half) / half)
            angles = torch.arange(tokens.shape[1])[:, None] * frequencies
            x, cos, sin = self.embedding(tokens), angles.cos(), angles.sin()
            for block in self.blocks:
                x = block(x, cos, sin)
            return self.head(self.norm(x))

    return Model()


def _rotated(torch, x, cos, sin):
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


def with_weights_of(model: Any, params: nnx.State) -> Any:
    """The model of `by_hand` with the weights of jrope's, whose dense layers it keeps transposed."""
    own = {}
    for path, leaf in jax.tree.leaves_with_path(nnx.to_pure_dict(params)):
        *names, last = (str(getattr(key, "key", "")) for key in path)
        own[".".join([*names, "weight"])] = as_torch(leaf.T if last == "kernel" else leaf).contiguous()
    model.load_state_dict(own)
    return model


def x_transformers(config: TransformerConfig, length: int, wrapper: Mapping[str, Any], **options: Any) -> Any:
    """x-transformers' decoder, as its README builds one, of the same width, depth and hidden width."""
    package = peer("x_transformers")
    layers = package.Decoder(
        dim=config.features,
        depth=config.layers,
        heads=config.heads,
        attn_dim_head=config.head_dim,
        ff_mult=config.mlp_factor,
        **options,
    )
    return package.TransformerWrapper(num_tokens=config.vocabulary, max_seq_len=length, attn_layers=layers, **wrapper)


def llama(config: TransformerConfig, length: int, **options: Any) -> Any:
    """transformers' Llama. Its network is gated, and has as many multiplications at two thirds of the hidden width."""
    transformers = peer("transformers")
    return transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=config.vocabulary,
            hidden_size=config.features,
            intermediate_size=2 * config.features * config.mlp_factor // 3,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            max_position_embeddings=length,
            bos_token_id=None,
            eos_token_id=None,
            pad_token_id=0,
            **options,
        )
    )
