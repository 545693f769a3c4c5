"""jrope: positional encodings as pure JAX functions, and as values that a model takes.

Shapes are written with these letters:

    B  batch                      N  heads
    T  positions of queries       H  features of a head
    S  positions of keys          D  features of a token
    A  axes of positions          P  pairs of features that rotate, at most H / 2

Position ids are data: every function takes them, and none counts for itself.

Rotations
    spectrum(dim, base=)                     the frequencies of RoPE
    rotate(x, positions, spectrum)           turns queries or keys [..., T, N, H]
    rope(x, positions, base=)                both in one call
    rotation_tables, apply_rotary            the two halves of `rotate`, to share tables between layers
    Linear, NTK, DynamicNTK, LongRope        scalings: functions from a spectrum to a spectrum
    Yarn, Llama3, Step, Proportional         scalings by how often a band turns in the trained length
    Sections, Axial                          which of several position axes turns each pair: from a spectrum to a spectrum
Additions to the embeddings
    sinusoidal(positions, dim)               lookup(table, positions)
Biases on the scores
    alibi(q_positions, k_positions, num_heads=)      alibi_slopes(num_heads)
Encodings as values, for `jrope.transformer` or any model that asks for the same three maps
    Encoding (= NoPE), Sinusoidal, Learned, Rope, Rotary, Alibi, Chain
Published models
    from_huggingface(config, layer_type=)    the encoding of a config.json
    to_half, to_interleaved                  query and key weights from one pair layout to the other
"""

from jrope.absolute import lookup, sinusoidal
from jrope.axes import Axial, Sections
from jrope.bias import alibi, alibi_slopes
from jrope.encoding import Chain, Encoding
from jrope.encoding_absolute import Learned, Sinusoidal
from jrope.encoding_bias import Alibi
from jrope.encoding_rotary import Rope, Rotary
from jrope.huggingface import from_huggingface
from jrope.rotary import Spectrum, apply_rotary, rope, rotate, rotation_tables, spectrum
from jrope.scaling import NTK, DynamicNTK, Linear, LongRope
from jrope.scaling_bands import Llama3, Proportional, Step, Yarn
from jrope.weights import to_half, to_interleaved

__all__ = [
    "NTK",
    "Alibi",
    "Axial",
    "Chain",
    "DynamicNTK",
    "Encoding",
    "Learned",
    "Linear",
    "Llama3",
    "LongRope",
    "Proportional",
    "Rope",
    "Rotary",
    "Sections",
    "Sinusoidal",
    "Spectrum",
    "Step",
    "Yarn",
    "alibi",
    "alibi_slopes",
    "apply_rotary",
    "from_huggingface",
    "lookup",
    "rope",
    "rotate",
    "rotation_tables",
    "sinusoidal",
    "spectrum",
    "to_half",
    "to_interleaved",
]
