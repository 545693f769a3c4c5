"""Encodings that bias the scores."""

from dataclasses import dataclass

from jrope.bias import alibi
from jrope.encoding import Encoding


@dataclass(frozen=True)
class Alibi(Encoding):
    """Attention with linear biases (`jrope.alibi`)."""

    def bias(self, params, q_positions, k_positions, *, num_heads):
        return alibi(q_positions, k_positions, num_heads=num_heads)
