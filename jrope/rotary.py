"""Rotary position embedding: a spectrum of frequencies, and one function that applies it.

RoPE turns each pair of features of a query or key by an angle proportional to its position,

    (x_a, x_b) -> (x_a cos t - x_b sin t, x_a sin t + x_b cos t),    t = position * frequency,

so that the score of a query and a key depends on the distance of their positions and not on the positions.
Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding", arXiv:2104.09864.
"""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.xla_metadata import set_xla_metadata

from jrope import phase

Layout = Literal["interleaved", "half"]
LAYOUTS = ("interleaved", "half")


@jax.tree_util.register_pytree_with_keys_class
@dataclass(frozen=True, eq=False)
class Spectrum:
    """How fast each pair of features turns with position: the data of a rotation, a pytree of arrays alone.

    Two spectra of one size are therefore interchangeable as arguments of a jitted function: one compiled program.

    Its leaves are made together, and the exact `turns` are what decides angles. To edit the `frequencies` of a spectrum that
    has them (by `jax.tree.map`, a cast, or an optimiser) changes no angle, and the gradient with respect to them is zero: make
    a new `Spectrum`. To learn frequencies, make it from traced ones inside the function that is differentiated:

        def loss(frequencies):
            return objective(rotate(q, positions, Spectrum(frequencies)))

        gradient = jax.grad(loss)(frequencies)

    Attributes:
      frequencies: [P], radians per position; float64 on the host, so that scalings lose nothing.
      amplitude: multiplies cos and sin (YaRN's and LongRoPE's attention factor), so that scores grow by its square.
      turns: uint32 [2, P], the same frequencies in exact fixed point (see `jrope.phase`), made here from `frequencies`.
        None if these are traced or learned: angles are then float32 products, and gradients flow to the frequencies.
      axes: P integers, the position axis that turns each pair (see `jrope.axes`); None where positions have one axis. It is
        part of a program, not data.

    Raises:
      ValueError: if the frequencies are not finite, or `axes` does not name an axis for every pair.
    """

    frequencies: Any
    amplitude: Any = 1.0
    axes: tuple[int, ...] | None = None
    turns: Any = field(init=False, repr=False)

    def __post_init__(self):
        concrete = phase.is_concrete(self.frequencies)
        if concrete:
            object.__setattr__(self, "frequencies", np.asarray(self.frequencies, np.float64))
            if not np.all(np.isfinite(self.frequencies)):
                raise ValueError(f"Spectrum: frequencies must be finite, got {self.frequencies}")
        if phase.is_concrete(self.amplitude):
            # an array, since libraries that split a pytree into arrays and the rest would make a number part of a program
            object.__setattr__(self, "amplitude", np.asarray(self.amplitude, np.float64))
        if self.axes is not None:
            object.__setattr__(self, "axes", tuple(int(axis) for axis in self.axes))
            pairs = self.frequencies.shape[-1]
            if len(self.axes) != pairs or min(self.axes) < 0:
                raise ValueError(f"Spectrum: axes must be {pairs} axis numbers from 0, one for each pair, got {self.axes}")
        object.__setattr__(self, "turns", phase.fixed_point(self.frequencies) if concrete else None)

    def scaled(self, frequencies, amplitude: Any = 1.0) -> "Spectrum":
        """This spectrum at other frequencies [P] and with `amplitude` times its own; pairs keep their axes."""
        return Spectrum(frequencies, self.amplitude * amplitude, self.axes)

    def along_one_axis(self) -> "Spectrum":
        """This spectrum for positions that are the same along all axes, as those of text are."""
        return Spectrum.tree_unflatten(None, (self.frequencies, self.amplitude, self.turns))

    def tree_flatten_with_keys(self):
        names = ("frequencies", "amplitude", "turns")
        return [(jax.tree_util.GetAttrKey(name), getattr(self, name)) for name in names], self.axes

    @classmethod
    def tree_unflatten(cls, axes, children):
        self = object.__new__(cls)  # leaves may be anything, tracers above all: nothing is checked or made again
        object.__setattr__(self, "axes", axes)
        for name, child in zip(("frequencies", "amplitude", "turns"), children, strict=True):
            object.__setattr__(self, name, child)
        return self


def spectrum(dim: int, *, base: float = 10_000.0) -> Spectrum:
    """The geometric spectrum of RoPE, `frequencies[i] = base^(-2i/dim)` for `i < dim/2`, in radians per position.

    Args:
      dim: how many features rotate; even.
      base: the paper's 10,000; also called rope_theta. May be a traced scalar (to vmap or differentiate over bases): the
        frequencies are then float32, and so are the angles made from them.

    Raises:
      ValueError: if `dim` is odd or below 2, or `base` is not positive and finite.
    """
    if dim < 2 or dim % 2:
        raise ValueError(f"spectrum: dim must be an even number of features, at least 2, got {dim}")
    exponents = -np.arange(0, dim, 2, dtype=np.float64) / dim
    if not phase.is_concrete(base):
        return Spectrum(jnp.power(jnp.asarray(base, jnp.float32), exponents.astype(np.float32)))
    if not (np.isfinite(base) and base > 0):
        raise ValueError(f"spectrum: base must be positive and finite, got {base}")
    return Spectrum(np.float64(base) ** exponents)


def rotation_tables(positions, spectrum: Spectrum) -> tuple[jax.Array, jax.Array]:
    """`amplitude * cos` and `amplitude * sin` of every angle: positions [...] -> two float32 arrays [..., P].

    Make them once a forward pass and share them between queries, keys and layers with `apply_rotary`. A spectrum with `axes`
    takes positions [A, ...] with the axes in front, always: only `rotate`, which sees x, can tell text from them.

    Raises:
      ValueError: if the spectrum has axes that positions lack.
    """
    _check_axes(np.shape(positions), spectrum.axes)
    cos, sin = phase.tables(positions, spectrum.frequencies, spectrum.turns, spectrum.axes)
    amplitude = jnp.asarray(spectrum.amplitude, jnp.float32)
    return cos * amplitude, sin * amplitude


def apply_rotary(x, cos, sin, *, layout: Layout = "interleaved") -> jax.Array:
    """Rotates the first 2P features of every head by tables from `rotation_tables`; the others pass unchanged.

    Args:
      x: [..., T, N, H], floating, N heads of H features.
      cos, sin: [..., T, P], whose axes before P broadcast against those of x before N.
      layout: which features form pair i: "interleaved" takes (2i, 2i+1), as the paper, GPT-J and GLM do; "half" takes
        (i, i+P), as GPT-NeoX and Hugging Face's Llama checkpoints do. Scores are the same in either, weights are not.

    Returns:
      As x, in its dtype; computed in float32 (float64 for float64 x) and rounded once.

    Raises:
      ValueError: if the shapes do not fit or the layout is unknown.
      TypeError: if x is not floating.
    """
    x = jnp.asarray(x)
    pairs = cos.shape[-1]
    _check(x, cos.shape[:-1], pairs, layout)
    lead = (1,) * (x.ndim - 1 - cos.ndim) + cos.shape[:-1]
    dtype = jnp.promote_types(x.dtype, jnp.float32)
    cos, sin = (table.reshape((*lead, 1, pairs)).astype(dtype) for table in (cos, sin))
    rotating, rest = x[..., : 2 * pairs], x[..., 2 * pairs :]
    # LLVM unrolls a row of sixteen before it looks for vectors, and finds few: on CPUs a row has four numbers, or all where
    # they are converted
    whole = max(pairs, 1)
    row = 4 if pairs % 4 == 0 and x.dtype == dtype else whole
    on_cpu = partial(_rotated, layout=layout, row=row, apart=_taken_apart, together=_put_together)
    elsewhere = partial(_rotated, layout=layout, row=whole, apart=jax.lax.reshape, together=jax.lax.reshape)
    rotated = jax.lax.platform_dependent(rotating, cos, sin, cpu=on_cpu, default=elsewhere)
    return jnp.concatenate([rotated, rest], axis=-1) if rest.shape[-1] else rotated


def _rotated(x, cos, sin, *, layout: Layout, row: int, apart, together) -> jax.Array:
    """x [..., N, 2P] turned by tables [..., 1, P], as [..., N, P, 2], or in the "half" layout as [..., N, 2, P / row, row]."""
    if layout == "interleaved":
        axis, before, after = -1, cos.shape[-1:], ()
    else:
        axis, before, after = -3, (), (cos.shape[-1] // row, row)
    cos, sin = (table.reshape((*table.shape[:-1], *before, 1, *after)) for table in (cos, sin))
    pair = apart(x, (*x.shape[:-1], *before, 2, *after)).astype(cos.dtype)
    # features beside each other are read and written in the order they lie in, which is what XLA on CPUs vectorises
    turned = pair * cos + jax.lax.rev(pair, (pair.ndim + axis,)) * jnp.concatenate([-sin, sin], axis)
    return together(turned.astype(x.dtype), x.shape)


def _put_together(pair, shape) -> jax.Array:
    """`pair.reshape(shape)`, of which XLA on CPUs, where alone this is used, does not make a part of the loop before it.

    That loop goes over the axes of its result. Over pairs, or rows of them, it is unrolled and vectorised; over all the
    features of a head, with indices divided, it takes up to four times as long, or ten in bfloat16.
    """
    with set_xla_metadata(inlineable="false"):
        return _reshape(pair, shape)


@partial(jax.jit, static_argnums=1)
def _reshape(x, shape):
    return jax.lax.reshape(x, shape)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def _taken_apart(x, shape) -> jax.Array:
    """`x.reshape(shape)`, whose transpose is `_put_together`: it ends the loop that makes a gradient."""
    return x.reshape(shape)


@_taken_apart.defjvp
def _taken_apart_jvp(shape, primals, tangents):
    return primals[0].reshape(shape), _put_together(tangents[0], shape)


def rotate(x, positions, spectrum: Spectrum, *, layout: Layout = "interleaved") -> jax.Array:
    """Rotates queries or keys to their positions.

    Args:
      x: [..., T, N, H], floating, N heads of H features.
      positions: [..., T], position ids; the axes broadcast against those of x before N. Integer positions have exact
        angles up to 2^31 and beyond (see `jrope.phase.cos_sin`); floating ones take the float32 product. For a spectrum
        with axes, positions of the rank of x less one are [A, ..., T], an id along each axis; those of a lower rank are
        text, whose position is the same along all axes.
      spectrum: of P pairs; where 2P < H only the first 2P features rotate (partial rotary).
      layout: "interleaved" or "half", see `apply_rotary`.

    Returns:
      As x, in its dtype, rounded once.

    Raises:
      ValueError: if the shapes do not fit or the layout is unknown.
      TypeError: if x is not floating, or `spectrum` is none: a scaling is to be called on one.
    """
    if not isinstance(spectrum, Spectrum):
        one = f"such as jrope.spectrum({np.shape(x)[-1]})"
        raise TypeError(f"rotate: spectrum must be a jrope.Spectrum, {one}, got {spectrum!r}")
    x, shape = jnp.asarray(x), np.shape(positions)
    if spectrum.axes is not None and len(shape) >= x.ndim - 1:
        _check_axes(shape, spectrum.axes)
        shape = shape[1:]
    else:
        spectrum = spectrum.along_one_axis()
    _check(x, shape, spectrum.frequencies.shape[-1], layout)
    return apply_rotary(x, *rotation_tables(positions, spectrum), layout=layout)


def rerotate(k, positions, old: Spectrum, new: Spectrum, *, layout: Layout = "interleaved") -> jax.Array:
    """Cached keys that were rotated by the spectrum `old`, as if they had been rotated by `new`.

    A rotation by the difference of the frequencies, and by the ratio of the amplitudes. A cache whose spectrum changes in
    mid-sequence (dynamic NTK, LongRoPE past its original length) needs it for every key: without it, old keys and new queries
    disagree about where everything is. Arguments as of `rotate`; the spectra must be concrete for exact angles.
    """
    between = Spectrum(new.frequencies - old.frequencies, new.amplitude / old.amplitude, new.axes)
    return rotate(k, positions, between, layout=layout)


def rope(x, positions, *, base: float = 10_000.0, layout: Layout = "interleaved") -> jax.Array:
    """RoPE in one call: `rotate` all features of x [..., T, N, H] by the plain spectrum of that base."""
    return rotate(x, positions, spectrum(x.shape[-1], base=base), layout=layout)


def _check_axes(shape, axes):
    if axes is not None and (not shape or shape[0] <= max(axes)):
        raise ValueError(f"positions of shape {shape} must be [A, ...] with at least {max(axes) + 1} axes in front")


def _check(x, positions_shape, pairs, layout):
    """The shape errors of `rotate` and `apply_rotary`, found before XLA words them."""
    if layout not in LAYOUTS:
        raise ValueError(f"layout must be one of {LAYOUTS}, got {layout!r}")
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise TypeError(f"x must be floating, got {x.dtype}")
    if x.ndim < 3:
        raise ValueError(f"x must be [..., T, N, H] (positions, heads, features), got shape {x.shape}")
    if 2 * pairs > x.shape[-1]:
        raise ValueError(f"the spectrum rotates {2 * pairs} features, but x of shape {x.shape} has {x.shape[-1]} a head")
    rows = x.shape[:-2]
    aligned = rows[len(rows) - len(positions_shape) :] if positions_shape else ()
    if len(positions_shape) > len(rows) or any(p not in (1, r) for p, r in zip(positions_shape, aligned, strict=True)):
        raise ValueError(f"positions of shape {positions_shape} do not broadcast to {rows}, the axes of x before heads")
