"""Encodings, one file each: the function, the value that a model takes, its paper and its checks.

Biases take position ids `q_positions` [..., T] and `k_positions` [..., S] and return float32
[..., N, T, S], to be added to the scaled scores before the softmax. Their distances are exact over
all of int32 and uint32 (`jrope.exact.distance`): a shift of all positions changes nothing, and a
decoding step gives a row of the whole.
"""
