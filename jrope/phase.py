"""Exact angles: an integer position times a frequency, modulo one turn, in 32-bit integer arithmetic.

The float32 product `position * frequency` loses one bit of the angle for every doubling of the position: at a million
tokens the cosine is wrong by 6e-2. Here a frequency is a 64-bit fixed-point fraction of a turn,

    F = round(2^64 * frequency / 2 pi),

kept as two uint32 words because JAX has no 64-bit integers by default. `F * position mod 2^64` wraps exactly where the
angle does, so no position is too large, and the phase difference of two positions depends on their distance alone.
"""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

# 1 / (2 pi) as a 192-bit fraction: more than the 64 bits kept plus the 53 of any float64 frequency.
_PER_TURN = 0x28BE60DB9391054A7F09D5F47D4D377036D8A5664F10E410
_CHUNK = 128  # positions at a time
_RADIANS = np.float32(2 * np.pi / 2**32)


def is_concrete(x) -> bool:
    """Whether the value of `x` can be read now, on the host, and not only inside a traced program."""
    return not isinstance(x, Tracer)


def fixed_point(frequencies: np.ndarray) -> np.ndarray:
    """The fixed-point turns per position of `frequencies` [P], radians per position: uint32 [2, P], high word first.

    Exact to half a unit of 2^-64 turn for the float64 value given: big integers on the host, not float64, do the product.
    """

    def turns(frequency: float) -> int:
        numerator, denominator = frequency.as_integer_ratio()
        return (((numerator * _PER_TURN) // (denominator << 127)) + 1) // 2 % 2**64

    words = [turns(float(f)) for f in np.ravel(frequencies)]
    high_low = np.array([[w >> 32 for w in words], [w & 0xFFFFFFFF for w in words]], np.uint32)
    return high_low.reshape((2, *np.shape(frequencies)))


def cos_sin(positions, frequencies, turns=None, axes=None) -> tuple[jax.Array, jax.Array]:
    """Cosine and sine of `positions[..., None] * frequencies`: two float32 arrays [..., P].

    Args:
      positions: [...], any integer dtype. Nothing wraps over the whole range of int32 and uint32, nor over int64 where that is
        a NumPy array or x64 is on; without x64, JAX itself cuts an int64 argument of a jitted function to int32. Floating
        positions take the float32 product, since they are no whole number of steps.
      frequencies: [P], radians per position.
      turns: uint32 [2, P], `fixed_point(frequencies)`. None, as for frequencies that are traced or learned, takes the
        float32 product, whose error grows as 6e-8 times the angle.
      axes: P integers; positions are then [A, ...], and pair i turns with `positions[axes[i]]`.

    With `turns` the error at position p is at most `1.2e-7 + 1.7e-19 |p|`, in radians: float32 trigonometry, and the rounding
    of the fixed point. Against a frequency of unlimited precision, its float64 rounding adds up to `1.1e-16 |p|`.
    """
    return _cos_sin(_words(positions, turns), frequencies, turns, axes)


def tables(positions, frequencies, turns=None, axes=None) -> tuple[jax.Array, jax.Array]:
    """`cos_sin`, for results that are used many times over: by every batch element, head and layer.

    XLA on CPUs would fuse the cosines into the loops that use them and make them anew for each use, several times the work of
    a rotation; a barrier does not keep it from that, but a loop of their own does. On an accelerator it is the loop that would
    cost more.
    """
    return _tables(_words(positions, turns), frequencies, turns, axes)


@partial(jax.jit, static_argnums=3)
def _tables(words, frequencies, turns, axes):
    def whole(*words):
        return _cos_sin(words, frequencies, turns, axes)

    def looped(*words):
        lead = words[0].shape[: words[0].ndim - len(shape)]  # (A,) with axes, else ()
        flat = [jnp.moveaxis(word.reshape(*lead, count), -1, 0) for word in words]
        chunk = min(_CHUNK, -(-count // 2))  # a loop of one turn would be none
        chunks = -(-count // chunk)
        padded = [jnp.pad(word, [(0, chunks * chunk - count)] + [(0, 0)] * len(lead)) for word in flat]
        rows = [word.reshape(chunks, chunk, *lead) for word in padded]
        made = jax.lax.map(lambda own: whole(*(jnp.moveaxis(word, 0, -1) for word in own)), rows)
        return tuple(table.reshape(chunks * chunk, -1)[:count].reshape(*shape, -1) for table in made)

    shape = words[0].shape[axes is not None :]
    count = math.prod(shape)
    return jax.lax.platform_dependent(*words, cpu=looped, default=whole) if count > 1 else whole(*words)


def _words(positions, turns) -> tuple[jax.Array, ...]:
    """What angles are made from: the words of exact positions, or float32 positions where angles are products."""
    exact = turns is not None and jnp.issubdtype(jnp.result_type(positions), jnp.integer)
    return split(positions) if exact else (jnp.asarray(positions, jnp.float32),)


def _cos_sin(words, frequencies, turns, axes) -> tuple[jax.Array, jax.Array]:
    def by_pair(word):  # [..., 1] where all pairs share a position, else [..., P]
        return word[..., None] if axes is None else jnp.moveaxis(word[np.array(axes)], 0, -1)

    lifted = (1,) * (words[0].ndim - (axes is not None)) + np.shape(frequencies)[-1:]
    if len(words) == 1:
        angle = by_pair(words[0]) * jnp.asarray(frequencies, jnp.float32).reshape(lifted)
        return jnp.cos(angle), jnp.sin(angle)
    high, low = map(by_pair, words)
    turns_high, turns_low = (jnp.asarray(word).reshape(lifted) for word in turns)
    return _trigonometry(*_reduce(_multiply(high, low, turns_high, turns_low)))


def split(positions) -> tuple[jax.Array, jax.Array]:
    """The two's complement 64-bit words of integer positions, uint32 (high, low)."""
    if not isinstance(positions, jax.Array):  # a NumPy int64 is split here, before JAX would truncate it
        wide = np.asarray(positions).astype(np.uint64)
        return jnp.asarray((wide >> 32).astype(np.uint32)), jnp.asarray(wide.astype(np.uint32))
    low = positions.astype(jnp.uint32)
    if positions.dtype.itemsize == 8:
        return (positions >> 32).astype(jnp.uint32), low
    if jnp.issubdtype(positions.dtype, jnp.unsignedinteger):
        return jnp.zeros_like(low), low
    return (positions.astype(jnp.int32) >> 31).astype(jnp.uint32), low  # the sign, repeated


def _multiply(high, low, turns_high, turns_low) -> jax.Array:
    """The high word of `turns * position mod 2^64`; the low word is below float32's resolution of an angle."""
    a0, a1 = low & 0xFFFF, low >> 16
    b0, b1 = turns_low & 0xFFFF, turns_low >> 16
    middle = a1 * b0 + ((a0 * b0) >> 16)  # 16-bit partial products never overflow a uint32
    carry = (a0 * b1 + (middle & 0xFFFF)) >> 16
    return a1 * b1 + (middle >> 16) + carry + turns_high * low + turns_low * high


def _reduce(phase) -> tuple[jax.Array, jax.Array]:
    """A phase in 2^-32 turns as (quarter turns mod 4, the rest in radians within [-pi/4, pi/4])."""
    quarter = (phase + jnp.uint32(1 << 29)) >> 30
    return quarter, (phase - (quarter << 30)).astype(jnp.int32).astype(jnp.float32) * _RADIANS


def _trigonometry(quarter, r) -> tuple[jax.Array, jax.Array]:
    """cos and sin of `quarter * pi/2 + r`.

    Minimax polynomials on [-pi/4, pi/4] (Cephes, sinf and cosf), accurate to 6e-8: plain products and sums, which do not
    depend on how good or how fast a backend's own cosine is.
    """
    z = r * r
    sin = r + r * z * (-1.6666654611e-1 + z * (8.3321608736e-3 - z * 1.9515295891e-4))
    cos = 1 - 0.5 * z + z * z * (4.166664568298827e-2 + z * (-1.388731625493765e-3 + z * 2.443315711809948e-5))
    odd = (quarter & 1) == 1
    cos, sin = jnp.where(odd, sin, cos), jnp.where(odd, cos, sin)
    return jnp.where(((quarter + 1) & 2) == 2, -cos, cos), jnp.where((quarter & 2) == 2, -sin, sin)
