"""jrope: positional encodings as pure JAX functions, and as values that a model takes.

Shapes are written with these letters:

    B  batch                      N  heads
    T  positions of queries       H  features of a head
    S  positions of keys          D  features of a token
    A  axes of positions          P  pairs of features that rotate, at most H / 2

Position ids are data: every function takes them as an argument.

    jrope.positions     makes them: from masks, segments, lengths, grids, at random
    jrope.spectrum      how fast each pair of features of RoPE turns
    jrope.scalings      functions from a spectrum to a spectrum, one file each
    jrope.encoding      a positional encoding as a value
    jrope.composition   several encodings as one: composed, or by layer
    jrope.encodings     one file for each encoding: its function, its value, its paper
    jrope.attention     attention over one array of scores, or over blocks
    jrope.huggingface   the encoding of a published model
    jrope.models        a transformer that takes an encoding (imports flax; import it by name)

`encoding_types()`, `scaling_types()` and `axes_types()` list what a config can name. A new file of
`encodings` or `scalings` is exported by one line below, and is found from there everywhere.
"""

# ruff: noqa: F401, F403

from collections.abc import Mapping

from jrope.attention import blocked_attention
from jrope.composition import Chain, Layers
from jrope.encoding import Encoding
from jrope.encodings.alibi import *
from jrope.encodings.cope import *
from jrope.encodings.fire import *
from jrope.encodings.forgetting import *
from jrope.encodings.kerple import *
from jrope.encodings.learned import *
from jrope.encodings.log_n import *
from jrope.encodings.rope import *
from jrope.encodings.sandwich import *
from jrope.encodings.sinusoidal import *
from jrope.encodings.t5 import *
from jrope.encodings.window import *
from jrope.encodings.xpos import *
from jrope.huggingface import from_huggingface, to_half, to_interleaved
from jrope.positions import (
    coupled,
    from_lengths,
    from_mask,
    from_segments,
    grid,
    randomized,
    zigzag,
)
from jrope.scalings.axes import *
from jrope.scalings.linear import *
from jrope.scalings.llama3 import *
from jrope.scalings.longrope import *
from jrope.scalings.ntk import *
from jrope.scalings.proportional import *
from jrope.scalings.step import *
from jrope.scalings.yarn import *
from jrope.spectrum import LearnedSpectrum, Spectrum, spectrum


def encoding_types() -> Mapping[str, type[Encoding]]:
    """The encodings that a config can name, by name."""
    found = [v for v in globals().values() if isinstance(v, type) and issubclass(v, Encoding)]
    return {cls.name: cls for cls in found if "name" in vars(cls)}


def scaling_types() -> Mapping[str, type]:
    """The scalings of RoPE that a config can name, by name."""
    return {v.name: v for v in _of_package("jrope.scalings.") if v not in axes_types().values()}


def axes_types() -> Mapping[str, type]:
    """What a config can name that says which position axis turns each pair, by name."""
    return {v.name: v for v in _of_package("jrope.scalings.axes")}


def _of_package(prefix: str) -> list:
    found = [
        v for v in globals().values() if isinstance(v, type) and v.__module__.startswith(prefix)
    ]
    return [cls for cls in found if "name" in vars(cls)]
