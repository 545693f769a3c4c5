"""jrope: positional encodings as pure JAX functions, and as values that a model takes.

Shapes are written with these letters:

    B  batch                      N  heads
    T  positions of queries       H  features of a head
    S  positions of keys          D  features of a token
    A  axes of positions          P  pairs of features that rotate, at most H / 2

Position ids are data: every function takes them, and none counts for itself. `jrope.positions` makes them:
    from_mask, from_segments, from_lengths   padding and packed documents
    zigzag, grid                             context parallelism, images
    randomized, coupled                      training for longer contexts, corresponding tokens

Rotations
    spectrum(dim, base=)                     the frequencies of RoPE
    rotate(x, positions, spectrum)           turns queries or keys [..., T, N, H]
    rope(x, positions, base=)                both in one call
    rotation_tables, apply_rotary            the two halves of `rotate`, to share tables between layers
    rerotate(k, positions, old, new)         turns cached keys from one spectrum to another
    xpos(q, k, q_positions, k_positions)     rotation with a decay by distance
Functions from a spectrum to a spectrum
    Linear, NTK, DynamicNTK, LongRope        scalings
    Yarn, Llama3, Step                       scalings by how often a band turns in the trained length
    Proportional                             only the fastest bands turn
    Sections, Axial                          which of several position axes turns each pair
Additions to the embeddings
    sinusoidal(positions, dim)               lookup(table, positions)
Biases on the scores [..., N, T, S], of (q_positions, k_positions)
    alibi, alibi_slopes, windowed, sandwich  functions of the distance alone
    t5, t5_bucket, kerple_log, kerple_power  learned functions of the distance
    fire                                     a learned function of the distance and the query's position
    cope                                     a learned function of the content between
Attention
    blocked_attention(q, k, v, bias=, ...)   over blocks of keys, with biases made a block at a time
Encodings as values, for `jrope.transformer` or any model that asks for the same maps
    Encoding (= NoPE), Chain                 nothing, and one after another
    Sinusoidal, Learned                      added to the embeddings
    Rope, Rotary, XPos                       rotations
    Alibi, HardAlibi, Window, Sandwich       biases
    T5, KerpleLog, KerplePower, Fire, Cope   learned biases
Published models
    from_huggingface(config, layer_type=)    the encoding of a config.json
    to_half, to_interleaved                  query and key weights from one pair layout to the other
"""

from jrope.absolute import lookup, sinusoidal
from jrope.axes import Axial, Sections
from jrope.bias import alibi, alibi_slopes, sandwich, windowed
from jrope.bias_learned import fire, kerple_log, kerple_power, t5, t5_bucket
from jrope.blocked import blocked_attention
from jrope.cope import cope
from jrope.encoding import Chain, Encoding
from jrope.encoding_absolute import Learned, Sinusoidal
from jrope.encoding_bias import T5, Alibi, Cope, Fire, HardAlibi, KerpleLog, KerplePower, Sandwich, Window
from jrope.encoding_rotary import Rope, Rotary, XPos
from jrope.huggingface import from_huggingface
from jrope.positions import coupled, from_lengths, from_mask, from_segments, grid, randomized, zigzag
from jrope.rotary import Spectrum, apply_rotary, rerotate, rope, rotate, rotation_tables, spectrum
from jrope.scaling import NTK, DynamicNTK, Linear, LongRope
from jrope.scaling_bands import Llama3, Proportional, Step, Yarn
from jrope.weights import to_half, to_interleaved
from jrope.xpos import xpos, xpos_scale

__all__ = [
    "NTK",
    "T5",
    "Alibi",
    "Axial",
    "Chain",
    "Cope",
    "DynamicNTK",
    "Encoding",
    "Fire",
    "HardAlibi",
    "KerpleLog",
    "KerplePower",
    "Learned",
    "Linear",
    "Llama3",
    "LongRope",
    "Proportional",
    "Rope",
    "Rotary",
    "Sandwich",
    "Sections",
    "Sinusoidal",
    "Spectrum",
    "Step",
    "Window",
    "XPos",
    "Yarn",
    "alibi",
    "alibi_slopes",
    "apply_rotary",
    "blocked_attention",
    "cope",
    "coupled",
    "fire",
    "from_huggingface",
    "from_lengths",
    "from_mask",
    "from_segments",
    "grid",
    "kerple_log",
    "kerple_power",
    "lookup",
    "randomized",
    "rerotate",
    "rope",
    "rotate",
    "rotation_tables",
    "sandwich",
    "sinusoidal",
    "spectrum",
    "t5",
    "t5_bucket",
    "to_half",
    "to_interleaved",
    "windowed",
    "xpos",
    "xpos_scale",
    "zigzag",
]
