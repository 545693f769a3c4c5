"""Attention: over one array of scores, over blocks, by a fused kernel, and under an encoding."""

from jrope.attention.blocked import blocked_attention
from jrope.attention.dense import attention
from jrope.attention.encoded import make_attention_fn

__all__ = ["attention", "blocked_attention", "make_attention_fn"]
