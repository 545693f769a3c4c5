"""Rotary position embedding (RoPE).

RoPE turns each pair of features of a query or key by an angle proportional to its position,

    (x_a, x_b) -> (x_a cos t - x_b sin t, x_a sin t + x_b cos t),    t = position * frequency,

so that the score of a query and a key depends on the distance of their positions only.
Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding", arXiv:2104.09864.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np

from jrope import arguments, checks, exact, lowering
from jrope.encoding import Encoding
from jrope.scalings.axes import Axial, Sections
from jrope.spectrum import LearnedSpectrum, Scaling, Spectrum, spectrum

__all__ = ["Rope", "Rotary", "apply_rotary", "rerotate", "rope", "rotate", "rotation_tables"]

Layout = Literal["interleaved", "half"]
LAYOUTS = ("interleaved", "half")


@arguments.checked(positions="ids")
def rotation_tables(positions, spectrum: Spectrum | LearnedSpectrum) -> tuple[jax.Array, jax.Array]:
    """`amplitude * cos` and `amplitude * sin` of every angle: positions [...] -> two [..., P].

    Make them once a forward pass and share them between queries, keys and layers with
    `apply_rotary`. A spectrum with `axes` always takes positions [A, ...], with the axes in front:
    only `rotate`, which sees x, can distinguish them from those of text.

    Raises:
      ValueError: if the spectrum has axes that positions lack.
    """
    _check_axes(positions.shape, spectrum.axes)
    cos, sin = exact.tables(positions, spectrum.angle_operand, spectrum.axes)
    amplitude = jnp.asarray(spectrum.amplitude, jnp.float32)
    return cos * amplitude, sin * amplitude


@arguments.checked(x="floating [..., T, N, H]", cos="floating", sin="floating")
def apply_rotary(x, cos, sin, *, layout: Layout = "interleaved") -> jax.Array:
    """Rotates the first 2P features of every head by `rotation_tables`; the others pass unchanged.

    Args:
      x: [..., T, N, H], floating, N heads of H features.
      cos, sin: [..., T, P], whose axes before P broadcast against those of x before N.
      layout: which features form pair i. "interleaved" takes (2i, 2i+1), as the paper, GPT-J and
        GLM do; "half" takes (i, i+P), as GPT-NeoX and Hugging Face's Llama checkpoints do. Scores
        are the same in either, weights are not.

    Returns:
      As x, in its dtype; computed in float32 (float64 for float64 x) and rounded once.

    Raises:
      ValueError: if the shapes do not fit or the layout is unknown.
      TypeError: if x is not floating.
    """
    x = jnp.asarray(x)
    if not cos.ndim or cos.shape != sin.shape:
        shapes = f"{cos.shape} and {sin.shape}"
        raise ValueError(f"apply_rotary: cos and sin must be [..., T, P], got {shapes}")
    pairs = cos.shape[-1]
    _check(x, cos.shape[:-1], pairs, layout)
    dtype = jnp.promote_types(x.dtype, jnp.float32)
    shape = (*(1,) * (x.ndim - 1 - cos.ndim), *cos.shape[:-1], 1, pairs)
    cos, sin = (table.reshape(shape).astype(dtype) for table in (cos, sin))
    rotating, rest = x[..., : 2 * pairs], x[..., 2 * pairs :]
    rotated = lowering.over_pairs(_turn, rotating, cos, sin, interleaved=layout == "interleaved")
    return jnp.concatenate([rotated, rest], axis=-1) if rest.shape[-1] else rotated


def _turn(pairs, cos, sin, axis) -> jax.Array:
    """(x_a, x_b) -> (x_a cos - x_b sin, x_b cos + x_a sin), the two of a pair along `axis`."""
    return pairs * cos + jnp.flip(pairs, axis) * jnp.concatenate([-sin, sin], axis)


@arguments.checked(x="floating [..., T, N, H]", positions="ids", spectrum="any")
def rotate(
    x, positions, spectrum: Spectrum | LearnedSpectrum, *, layout: Layout = "interleaved"
) -> jax.Array:
    """Rotates queries or keys to their positions.

    Args:
      x: [..., T, N, H], floating, N heads of H features.
      positions: [..., T], position ids; their axes broadcast against those of x before N. Integer
        positions have exact angles up to 2^31 and beyond (see `jrope.exact.cos_sin`), floating ones
        take the float32 product. For a spectrum with axes, positions of the rank of x less one are
        [A, ..., T], an id along each axis; those of a lower rank are text, whose position is the
        same along all axes.
      spectrum: of P pairs; where 2P < H only the first 2P features rotate (partial rotary).
      layout: "interleaved" or "half", see `apply_rotary`.

    Returns:
      As x, in its dtype, rounded once.

    Raises:
      ValueError: if the shapes do not fit or the layout is unknown.
      TypeError: if x is not floating, or `spectrum` is not a spectrum: a scaling is called on one.
    """
    if not isinstance(spectrum, Spectrum | LearnedSpectrum):
        example = f"such as jrope.spectrum({np.shape(x)[-1]})"
        raise TypeError(f"rotate: spectrum must be a jrope.Spectrum, {example}, got {spectrum!r}")
    x, shape = jnp.asarray(x), positions.shape
    if spectrum.axes is not None and len(shape) >= x.ndim - 1:
        _check_axes(shape, spectrum.axes)
        shape = shape[1:]
    else:
        spectrum = spectrum.with_axes(None)
    _check(x, shape, spectrum.num_pairs, layout)
    return apply_rotary(x, *rotation_tables(positions, spectrum), layout=layout)


@arguments.checked(k="floating [..., T, N, H]", positions="ids")
def rerotate(
    k,
    positions,
    old: Spectrum | LearnedSpectrum,
    new: Spectrum | LearnedSpectrum,
    *,
    layout: Layout = "interleaved",
) -> jax.Array:
    """Cached keys that were rotated by the spectrum `old`, as if they had been rotated by `new`.

    A rotation by the difference of the frequencies, and by the ratio of the amplitudes. A cache
    whose spectrum changes in the middle of a sequence (dynamic NTK, LongRoPE past its original
    length) needs it for every key: otherwise old keys and new queries disagree about positions.

    Args:
      k, positions, layout: as of `rotate`.
      old, new: two spectra of one kind, size and axes.

    Raises:
      TypeError: if they are not of one kind.
      ValueError: if their sizes or axes differ.
    """
    if type(old) is not type(new):
        kinds = f"{type(old).__name__} and {type(new).__name__}"
        raise TypeError(f"rerotate: old and new must be spectra of one kind, got {kinds}")
    if (old.num_pairs, old.axes) != (new.num_pairs, new.axes):
        each = (f"{s.num_pairs} pairs with axes {s.axes}" for s in (old, new))
        given = " and ".join(each)
        raise ValueError(f"rerotate: old and new must have the same pairs and axes, got {given}")
    return rotate(k, positions, new.minus(old), layout=layout)  # type: ignore[arg-type]


@arguments.checked(x="floating [..., T, N, H]", positions="ids")
def rope(x, positions, *, base: float = 10_000.0, layout: Layout = "interleaved") -> jax.Array:
    """RoPE in one call: `rotate` all features of x [..., T, N, H] by the spectrum of that base."""
    return rotate(x, positions, spectrum(x.shape[-1], base=base), layout=layout)


def _check_axes(shape, axes):
    if axes is not None and (not shape or shape[0] <= max(axes)):
        least = max(axes) + 1
        raise ValueError(
            f"positions of shape {shape} must be [A, ...] with at least {least} axes in front"
        )


def _check(x, shape, pairs, layout):
    """The errors of `rotate` and `apply_rotary`, found before XLA finds them."""
    if 2 * pairs > x.shape[-1]:
        features = f"x of shape {x.shape} has {x.shape[-1]} a head"
        raise ValueError(f"the spectrum rotates {2 * pairs} features, but {features}")
    rows = x.shape[:-2]
    aligned = rows[len(rows) - len(shape) :] if shape else ()
    if len(shape) > len(rows) or any(p not in (1, r) for p, r in zip(shape, aligned, strict=True)):
        before = f"{rows}, the axes of x before heads"
        raise ValueError(f"positions of shape {shape} do not broadcast to {before}")


@dataclass(frozen=True)
class Rope(Encoding):
    """Rotary position embedding, plain or scaled.

    The score of a query and a key depends on the distance of their positions only: each pair of
    features turns by an angle proportional to its position (`jrope.rotate`).

    Attributes:
      base: of the geometric spectrum (rope_theta). A traced one, to vmap or differentiate over
        bases, has float32 angles.
      scaling: None, or a function of a spectrum such as `Linear`, `NTK`, `DynamicNTK` or `Yarn`.
      layout: which features form a pair, see `apply_rotary`.
      rotary_fraction: how much of each head rotates, its first int(head_dim * rotary_fraction)
        features.
      softmax_multiplier: multiplies `head_dim^-0.5` in `softmax_scale`. Models with multi-head
        latent attention (DeepSeek V2 and V3) put YaRN's temperature there,
        `(0.1 mscale_all_dim ln(factor) + 1)^2`. It is not part of the spectrum's amplitude: a model
        that has both uses both.
      axes: None, or `Sections` or `Axial` for positions of several axes [A, ..., T]; applied after
        the scaling.

    Raises:
      ValueError: if a field is out of its range; from `bind` and `rotation`, if the scaling depends
        on the length of the sequence and none is given.
    """

    name: ClassVar[str] = "rope"

    base: float = 10_000.0
    scaling: Scaling | None = None
    layout: Layout = "interleaved"
    rotary_fraction: float = 1.0
    softmax_multiplier: float = 1.0
    axes: Sections | Axial | None = None

    def __post_init__(self):
        if isinstance(self.scaling, str | type):
            wanted = "None or a value such as jrope.Yarn(factor=4.0, original_length=4096)"
            raise TypeError(f"Rope: scaling must be {wanted}, got {self.scaling!r}")
        arguments.check_fields(self)
        checks.positive("Rope", "base", self.base)
        checks.one_of("Rope", "layout", self.layout, LAYOUTS)
        if not 0 < self.rotary_fraction <= 1:
            raise ValueError(
                f"Rope: rotary_fraction must be above 0 and at most 1, got {self.rotary_fraction}"
            )
        checks.positive("Rope", "softmax_multiplier", self.softmax_multiplier)

    @arguments.checked()
    def spectrum(self, head_dim: int, length: float | None = None) -> Spectrum | LearnedSpectrum:
        """The spectrum, scaled, for heads of this size.

        Some scalings depend on the length of the sequence; None is any up to the trained length.
        """
        made = spectrum(int(head_dim * self.rotary_fraction), base=self.base)
        made = made if self.scaling is None else self.scaling(made, length=length)
        return made if self.axes is None else self.axes(made)

    @arguments.checked()
    def softmax_scale(self, head_dim: int):
        return head_dim**-0.5 * self.softmax_multiplier

    def bind(self, *, head_dim, length=None):
        if length is None and getattr(self.scaling, "depends_on_length", False):
            raise ValueError(
                f"Rope: {self.scaling} depends on the length of the sequence: give length="
            )
        return Rotary(self.spectrum(head_dim, length), self.layout, self.softmax_multiplier)

    def rotation(self, params, q_positions, k_positions, *, head_dim, length=None):
        bound = self.bind(head_dim=head_dim, length=length)
        return bound.rotation(params, q_positions, k_positions, head_dim=head_dim)


@dataclass(frozen=True)
class Rotary(Encoding):
    """Rotation by a given spectrum, which is data: `Rope` bound to one head size and length."""

    spectrum: Spectrum | LearnedSpectrum
    layout: Layout = "interleaved"
    softmax_multiplier: float = 1.0

    arrays: ClassVar[tuple[str, ...]] = ("spectrum",)

    def __post_init__(self):
        arguments.check_fields(self)

    @arguments.checked()
    def softmax_scale(self, head_dim: int):
        return head_dim**-0.5 * self.softmax_multiplier

    def rotation(self, params, q_positions, k_positions, *, head_dim, length=None):
        if self.spectrum.axes is not None:  # only the rank of q distinguishes axes from rows
            return lambda q, k: (
                rotate(q, q_positions, self.spectrum, layout=self.layout),
                rotate(k, k_positions, self.spectrum, layout=self.layout),
            )
        q_tables = rotation_tables(q_positions, self.spectrum)
        k_tables = q_tables
        if k_positions is not q_positions:
            k_tables = rotation_tables(k_positions, self.spectrum)
        return lambda q, k: (
            apply_rotary(q, *q_tables, layout=self.layout),
            apply_rotary(k, *k_tables, layout=self.layout),
        )
