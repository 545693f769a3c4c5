"""The small transformer, under the name that users import: see `jrope.models.transformer`."""

from jrope.models.transformer import (
    Block,
    Cache,
    Transformer,
    TransformerConfig,
    abstract,
    apply,
    decode,
    empty_cache,
    init,
)

__all__ = [
    "Block",
    "Cache",
    "Transformer",
    "TransformerConfig",
    "abstract",
    "apply",
    "decode",
    "empty_cache",
    "init",
]
