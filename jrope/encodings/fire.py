"""FIRE: a small network of the distance relative to the query's position."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from jrope import arguments, checks, exact
from jrope.encoding import Encoding

__all__ = ["Fire", "fire"]


_PARAMS = ("c", "multiplier", "hidden_kernel", "hidden_bias", "out_kernel", "out_bias")


@arguments.checked(q_positions="ids [..., T]", k_positions="ids [..., S]")
def fire(
    params: dict[str, jax.Array],
    q_positions: ArrayLike,
    k_positions: ArrayLike,
    *,
    threshold: float = 512.0,
) -> jax.Array:
    """FIRE: a small network of the distance relative to the query's position, both in logarithm.

        bias = f(psi(|q_position - k_position|) / psi(max(q_position, L)))
        psi(x) = ln(1 + |c| x)

    Float32 [..., N, T, S], with f an MLP 1 -> hidden (ReLU) -> N, c learned and
    `L = |multiplier| * threshold`. Causal distances are mapped into [0, 1] at any length
    (progressive interpolation). Keys after the query have the bias of the same distance before it,
    which may exceed 1; a causal mask hides them. Where q_position is above L, a shift of all
    positions changes the bias, as intended. Positions count from 0; below 0 only L acts.

    The formula is that of Li et al. 2023, arXiv:2310.04418. `|c|`, `|L|`, L's learned multiplier
    and the 1e-6 in the denominator (needed only where c or L is 0) follow public PyTorch
    re-implementations. It was not compared with the authors' runs.

    Args:
      params: a dict of c [], multiplier [], hidden_kernel [hidden], hidden_bias [hidden],
        out_kernel [hidden, N] and out_bias [N].
      q_positions: [..., T] and k_positions: [..., S], position ids.
      threshold: L before it is multiplied.
    """
    if missing := [name for name in _PARAMS if name not in params]:
        raise ValueError(f"fire: params must have {', '.join(_PARAMS)}, got none of {missing}")
    params = jax.tree.map(lambda p: jnp.asarray(p, jnp.float32), params)
    distances = exact.distance(q_positions, k_positions)[0].astype(jnp.float32)
    c, least = jnp.abs(params["c"]), jnp.abs(params["multiplier"] * threshold)
    farthest = jnp.maximum(jnp.asarray(q_positions, jnp.float32), least)[..., :, None]
    distances, farthest = exact.of_one_rank(distances, farthest)
    x = jnp.log1p(c * distances) / (jnp.log1p(c * farthest) + 1e-6)

    def lifted(vector):
        return vector.reshape((1,) * x.ndim + (-1,))

    hidden = x[..., None] * lifted(params["hidden_kernel"]) + lifted(params["hidden_bias"])
    out = jnp.dot(jax.nn.relu(hidden), params["out_kernel"], precision="highest")
    return jnp.moveaxis(out + lifted(params["out_bias"]), -1, -3)


@dataclass(frozen=True)
class Fire(Encoding):
    """A network of the distance relative to the query's position (`jrope.fire`).

    It starts in the default initialisation of PyTorch.

    Attributes:
      hidden: width of the network.
      c: initial slope within the logarithm.
      threshold: initial L. Distances are relative to the query's position where that is above L,
        and to L elsewhere.
    """

    name: ClassVar[str] = "fire"

    hidden: int = 32
    c: float = 0.1
    threshold: float = 512.0

    def __post_init__(self):
        arguments.check_fields(self)
        checks.at_least("Fire", "hidden", self.hidden, 1)
        checks.positive("Fire", "c", self.c)
        checks.positive("Fire", "threshold", self.threshold)

    def init(self, key, *, features, num_heads, head_dim, num_layers):
        def uniform(key, fan_in, *shape):
            return jax.random.uniform(key, shape, minval=-(fan_in**-0.5), maxval=fan_in**-0.5)

        keys = jax.random.split(key, 4)
        return {
            "c": jnp.float32(self.c),
            "multiplier": jnp.float32(1.0),
            "hidden_kernel": uniform(keys[0], 1, self.hidden),
            "hidden_bias": uniform(keys[1], 1, self.hidden),
            "out_kernel": uniform(keys[2], self.hidden, self.hidden, num_heads),
            "out_bias": uniform(keys[3], self.hidden, num_heads),
        }

    def bias(self, params, q_positions, k_positions, *, num_heads):
        return fire(params, q_positions, k_positions, threshold=self.threshold)
