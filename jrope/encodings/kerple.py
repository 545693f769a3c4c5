"""KERPLE: learned kernels of the distance."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jrope import arguments, exact
from jrope.encoding import Encoding

__all__ = ["KerpleLog", "KerplePower", "kerple_log", "kerple_power"]


@arguments.checked(
    r1="real [N]", r2="real [N]", q_positions="ids [..., T]", k_positions="ids [..., S]"
)
def kerple_log(
    r1: ArrayLike, r2: ArrayLike, q_positions: ArrayLike, k_positions: ArrayLike
) -> jax.Array:
    """The logarithmic kernel: `-r1_h ln(1 + r2_h |q_position - k_position|)`.

    Float32 [..., N, T, S]. Chi et al. 2022, arXiv:2205.09921.

    Args:
      r1, r2: [N], positive.
      q_positions: [..., T] and k_positions: [..., S], position ids.
    """
    distances, r1, r2 = _aligned(r1, r2, q_positions, k_positions)
    return -r1 * jnp.log1p(r2 * distances)


@arguments.checked(
    r1="real [N]", r2="real [N]", q_positions="ids [..., T]", k_positions="ids [..., S]"
)
def kerple_power(
    r1: ArrayLike, r2: ArrayLike, q_positions: ArrayLike, k_positions: ArrayLike
) -> jax.Array:
    """The power kernel: `-r1_h |q_position - k_position|^r2_h`.

    Float32 [..., N, T, S]; r2 = 1 is ALiBi. Chi et al. 2022, arXiv:2205.09921.

    Args:
      r1, r2: [N], positive, and r2 at most 2: above, the kernel is not conditionally positive
        definite.
      q_positions: [..., T] and k_positions: [..., S], position ids.
    """
    distances, r1, r2 = _aligned(r1, r2, q_positions, k_positions)
    apart = distances > 0
    # the slope of 0^r2 is infinite for r2 < 1: a gradient by positions would be NaN
    return jnp.where(apart, -r1 * jnp.where(apart, distances, 1) ** r2, 0)


def _aligned(r1, r2, q_positions, k_positions):
    distances, _ = exact.distance(q_positions, k_positions)
    lifted, r1 = exact.align_heads(distances, r1)
    return lifted, r1, exact.align_heads(distances, r2)[1]


def _uniform(key, num_heads, highest):
    """r1 and r2, [N] each, uniform from the official code's floor up to `highest`."""
    pairs = zip(jax.random.split(key), highest, strict=True)
    return (jax.random.uniform(k, (num_heads,), minval=0.01, maxval=high) for k, high in pairs)


def _inverse_softplus(x):
    return jnp.log(jnp.expm1(x))


@dataclass(frozen=True)
class KerpleLog(Encoding):
    """KERPLE with the logarithmic kernel (`jrope.kerple_log`).

    As in the official code r1 starts uniform up to 2 and r2 up to 1. That code sets them to 0.01
    when a step takes them below. Here the trained numbers are their inverse softplus, so that they
    are always positive.
    """

    name: ClassVar[str] = "kerple_log"

    def init(self, key, *, features, num_heads, head_dim, num_layers):
        r1, r2 = _uniform(key, num_heads, (2.0, 1.0))
        return {"r1": _inverse_softplus(r1), "r2": _inverse_softplus(r2)}

    def bias(self, params, q_positions, k_positions, *, num_heads):
        r1, r2 = jax.nn.softplus(params["r1"]), jax.nn.softplus(params["r2"])
        return kerple_log(r1, r2, q_positions, k_positions)


@dataclass(frozen=True)
class KerplePower(Encoding):
    """KERPLE with the power kernel (`jrope.kerple_power`).

    As in the official code r1 starts uniform up to 1 and r2 up to 2. That code clips them to at
    least 0.01, and r2 to at most 2. Here the trained numbers are the inverse softplus of r1 and the
    logit of r2 / 2.
    """

    name: ClassVar[str] = "kerple_power"

    def init(self, key, *, features, num_heads, head_dim, num_layers):
        r1, r2 = _uniform(key, num_heads, (1.0, 2.0))
        return {"r1": _inverse_softplus(r1), "r2": jax.scipy.special.logit(r2 / 2)}

    def bias(self, params, q_positions, k_positions, *, num_heads):
        r1, r2 = jax.nn.softplus(params["r1"]), 2 * jax.nn.sigmoid(params["r2"])
        return kerple_power(r1, r2, q_positions, k_positions)
