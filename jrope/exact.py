"""Exact angles and distances of integer positions, in 32-bit integer arithmetic.

The float32 product `position * frequency` loses one bit of the angle for every doubling of the
position: at a million tokens the cosine is wrong by 6e-2. Here a frequency is a fixed-point number
of turns per position,

    F = round(2^128 * frequency / 2 pi),

kept as uint32 words because JAX has no 64-bit integers by default. `F * position mod 2^128` wraps
exactly where the angle does. So no position is too large, and the difference of two phases depends
on the distance of their positions only.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jrope import arguments, checks, lowering

WORDS = 5  # of a phase increment: whole turns (signed), then 128 bits of a turn
# 1 / (2 pi) and 2 pi in fixed point, with more bits than a word and a float64 mantissa together
_PER_TURN = 0x28BE60DB9391054A7F09D5F47D4D377036D8A5664F10E4107F9458EAF7AEF158  # 2^-256
_TURN = 0x6487ED5110B4611A62633145C06E0E68948127044533E63A0105DF531D89CD913  # 2^-256
_RADIANS = np.float32(2 * np.pi / 2**32)


def phase_increments(frequencies: np.ndarray) -> np.ndarray:
    """`frequencies` [P], radians per position, in turns per position: uint32 [5, P], high first.

    Exact to half a unit of 2^-128 turn for the float64 value given: any frequency above 1e-22 comes
    back from `frequencies` unchanged.

    Raises:
      ValueError: if a frequency is not finite, or is above 2^31 turns.
    """
    if not np.all(np.isfinite(frequencies)) or np.any(np.abs(frequencies) > 1e10):
        raise ValueError(
            f"Spectrum: frequencies must be finite and at most 1e10, got {frequencies}"
        )

    def turns(frequency: float) -> int:
        numerator, denominator = frequency.as_integer_ratio()
        return ((numerator * _PER_TURN) // (denominator << 127) + 1) // 2

    whole = [turns(float(f)) for f in frequencies]
    words = [[t >> shift & 0xFFFFFFFF for t in whole] for shift in range(128, -1, -32)]
    return np.array(words, np.uint32).reshape(WORDS, len(frequencies))


def frequencies(increments) -> np.ndarray:
    """Radians per position, float64 [P], of concrete phase increments."""

    def radians(words) -> float:
        turns = sum(int(word) << 32 * (WORDS - 1 - i) for i, word in enumerate(words))
        turns -= (turns >> 159) << 160  # two's complement
        return turns * _TURN / 2 ** (128 + 256)

    return np.array([radians(words) for words in np.asarray(increments).T], np.float64)


def difference(new, old) -> jax.Array:
    """`new - old` of phase increments, uint32 [5, P]; exact, also inside jit."""
    borrow, words = jnp.zeros(new.shape[1:], jnp.uint32), []
    for a, b in zip(new[::-1], old[::-1], strict=True):
        words.append(a - b - borrow)
        borrow = ((a < b) | ((a == b) & (borrow == 1))).astype(jnp.uint32)
    return jnp.stack(words[::-1])


@arguments.checked(positions="ids", increments="increments [W, P]")
def cos_sin(
    positions, increments, axes: tuple[int, ...] | None = None
) -> tuple[jax.Array, jax.Array]:
    """Cosine and sine of `position * frequency`: two float32 arrays [..., P].

    The error at position p is at most `1.2e-7 + 1.7e-19 |p|`: float32 trigonometry, and the
    rounding of the fixed point. The float64 rounding of the frequency adds up to `1.1e-16 |p|`.

    Args:
      positions: [...], any integer dtype. Nothing wraps over the range of int32 and uint32, nor
        over int64 where that is a NumPy array or x64 is on. (Without x64, JAX itself cuts an int64
        argument of a jitted function to int32.) Floating positions take the float32 product, since
        they are no whole number of steps.
      increments: uint32 [5, P], of `phase_increments`.
      axes: P integers; positions are then [A, ...], and pair i turns with `positions[axes[i]]`.
    """
    words, increments = _operands(positions, increments)
    return _cos_sin(words, increments, axes)


def tables(positions, increments, axes=None) -> tuple[jax.Array, jax.Array]:
    """`cos_sin`, for results that are used many times: by each sequence, head and layer.

    Args:
      positions, axes: as of `cos_sin`.
      increments: those of `cos_sin`; or floating [P], frequencies in radians per position: angles
        are then float32 products, with an error of 6e-8 times the angle, and have gradients.
    """
    return _tables(*_operands(positions, increments), axes)


@partial(jax.jit, static_argnums=2)
def _tables(words, increments, axes):
    def function(*words):
        return _cos_sin(words, increments, axes)

    return lowering.over_positions(function, words, axes=int(axes is not None))


def _operands(positions, increments):
    """The words of positions with increments; or float32 positions with float32 frequencies."""
    positions = checks.position_ids("positions", positions)
    exact = jnp.issubdtype(jnp.result_type(increments), jnp.unsignedinteger)
    if exact and jnp.issubdtype(jnp.result_type(positions), jnp.integer):
        return split(positions), increments
    positions = jnp.asarray(positions, jnp.float32)
    return (positions,), _float32(increments) if exact else jnp.asarray(increments, jnp.float32)


def _float32(increments) -> jax.Array:
    """The frequencies of increments, in float32."""
    increments = jnp.asarray(increments)
    is_negative = increments[0] >> 31 == 1
    # the magnitude first: the two's complement of a small negative number cancels in float32
    negated = difference(jnp.zeros_like(increments), increments)
    magnitude = jnp.where(is_negative, negated, increments)
    turns = sum(word.astype(jnp.float32) * 2.0 ** (-32 * i) for i, word in enumerate(magnitude))
    return np.float32(2 * np.pi) * jnp.where(is_negative, -turns, turns)


def _cos_sin(words, increments, axes) -> tuple[jax.Array, jax.Array]:
    def by_pair(word):  # [..., 1] where all pairs share a position, else [..., P]
        return word[..., None] if axes is None else jnp.moveaxis(word[np.array(axes)], 0, -1)

    lifted = (1,) * (words[0].ndim - (axes is not None)) + increments.shape[-1:]
    if len(words) == 1:
        angle = by_pair(words[0]) * increments.reshape(lifted)
        return jnp.cos(angle), jnp.sin(angle)
    high, low = map(by_pair, words)
    f_high, f_low = (word.reshape(lifted) for word in _fraction(jnp.asarray(increments)))
    return _trigonometry(*_reduce(_multiply(high, low, f_high, f_low)))


def _fraction(increments) -> tuple[jax.Array, jax.Array]:
    """The fraction of a turn, rounded to 64 bits."""
    _, high, low, rest, _ = increments
    rounded = low + (rest >> 31)
    return high + (rounded < low).astype(jnp.uint32), rounded


def split(positions) -> tuple[jax.Array, jax.Array]:
    """The two's complement 64-bit words of integer `checks.position_ids`, uint32 (high, low)."""
    if not isinstance(positions, jax.Array):  # JAX would cut a NumPy int64
        wide = np.asarray(positions).astype(np.uint64)
        return jnp.asarray((wide >> 32).astype(np.uint32)), jnp.asarray(wide.astype(np.uint32))
    low = positions.astype(jnp.uint32)
    if positions.dtype.itemsize == 8:
        return (positions >> 32).astype(jnp.uint32), low
    if jnp.issubdtype(positions.dtype, jnp.unsignedinteger):
        return jnp.zeros_like(low), low
    return (positions >> 31).astype(jnp.uint32), low  # the sign, repeated


def _multiply(high, low, f_high, f_low) -> jax.Array:
    """The high word of `F * position mod 2^64`; float32 does not resolve the low one."""
    a0, a1 = low & 0xFFFF, low >> 16
    b0, b1 = f_low & 0xFFFF, f_low >> 16
    middle = a1 * b0 + ((a0 * b0) >> 16)  # 16-bit partial products never overflow a uint32
    carry = (a0 * b1 + (middle & 0xFFFF)) >> 16
    return a1 * b1 + (middle >> 16) + carry + f_high * low + f_low * high


def _reduce(phase) -> tuple[jax.Array, jax.Array]:
    """A phase in 2^-32 turns as (quarter turns mod 4, the rest in radians within [-pi/4, pi/4])."""
    quarter = (phase + jnp.uint32(1 << 29)) >> 30
    return quarter, (phase - (quarter << 30)).astype(jnp.int32).astype(jnp.float32) * _RADIANS


def _trigonometry(quarter, r) -> tuple[jax.Array, jax.Array]:
    """cos and sin of `quarter * pi/2 + r`.

    Minimax polynomials on [-pi/4, pi/4] (Cephes, sinf and cosf), accurate to 6e-8. They do not
    depend on how good or how fast a backend's own cosine is.
    """
    z = r * r
    sin = r + r * z * (-1.6666654611e-1 + z * (8.3321608736e-3 - z * 1.9515295891e-4))
    cos = (
        1
        - 0.5 * z
        + z * z * (4.166664568298827e-2 + z * (-1.388731625493765e-3 + z * 2.443315711809948e-5))
    )
    odd = (quarter & 1) == 1
    cos, sin = jnp.where(odd, sin, cos), jnp.where(odd, cos, sin)
    return jnp.where(((quarter + 1) & 2) == 2, -cos, cos), jnp.where((quarter & 2) == 2, -sin, sin)


@arguments.checked(q_positions="ids [..., T]", k_positions="ids [..., S]")
def distance(q_positions, k_positions) -> tuple[jax.Array, jax.Array]:
    """`|q_position - k_position|`, and whether the key is after the query: arrays [..., T, S].

    The int32 difference of two int32 positions may wrap (2^31 - 1 and -1 are 2^31 apart). Here
    64-bit words are subtracted, and the distance is a uint32. It is exact for all int32 and uint32
    positions, and for int64 NumPy positions less than 2^32 apart; farther ones saturate at
    2^32 - 1. Floating positions give the float32 distance.

    Args:
      q_positions: [..., T] and k_positions: [..., S].
    """
    q_positions, k_positions = of_one_rank(q_positions, k_positions)
    if not all(jnp.issubdtype(ids.dtype, jnp.integer) for ids in (q_positions, k_positions)):
        q, k = (jnp.asarray(positions, jnp.float32) for positions in (q_positions, k_positions))
        signed = q[..., :, None] - k[..., None, :]
        return jnp.abs(signed), signed < 0
    q_high, q_low = (word[..., :, None] for word in split(q_positions))
    k_high, k_low = (word[..., None, :] for word in split(k_positions))
    signed_q, signed_k = q_high.astype(jnp.int32), k_high.astype(jnp.int32)
    after = (signed_k > signed_q) | ((signed_k == signed_q) & (k_low > q_low))
    low = jnp.where(after, k_low - q_low, q_low - k_low)
    borrow = jnp.where(after, k_low < q_low, q_low < k_low).astype(jnp.uint32)
    high = jnp.where(after, k_high - q_high, q_high - k_high) - borrow
    return jnp.where(high == 0, low, jnp.uint32(0xFFFFFFFF)), after


def of_one_rank(*arrays):
    """The arrays with axes of 1 in front, up to the rank of the largest."""
    rank = max(map(np.ndim, arrays))
    return [x.reshape((1,) * (rank - x.ndim) + x.shape) for x in arrays]


def align_heads(distances, per_head) -> tuple[jax.Array, jax.Array]:
    """distances [..., T, S] and a number per head [N], in the rank of a bias [..., N, T, S]."""
    lifted = jnp.asarray(distances, jnp.float32)[..., None, :, :]
    per_head = jnp.asarray(per_head, jnp.float32)
    return lifted, per_head.reshape((1,) * (lifted.ndim - 3) + (-1, 1, 1))
