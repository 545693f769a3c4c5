"""Published models in the Hugging Face format: the encoding in a config.json, and pair layouts."""

from jrope.huggingface.config import from_huggingface, head_dims, layer_types
from jrope.huggingface.weights import to_half, to_interleaved

__all__ = ["from_huggingface", "head_dims", "layer_types", "to_half", "to_interleaved"]
