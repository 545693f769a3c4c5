"""The forgetting gate of FoX: each token says how much of everything before it is forgotten."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from jrope import arguments, exact
from jrope.encoding import Encoding

__all__ = ["ForgettingGate", "forgetting"]


@arguments.checked(q_total="floating [..., N, T]", k_total="floating [..., N, S]")
def forgetting(q_total, k_total) -> jax.Array:
    """The bias of a forgetting gate, float32 [..., N, T, S].

        bias_ij = sum of log f_l over j < l <= i = c_i - c_j,    c_i = sum of log f_l over l <= i

    where f_l in (0, 1) is the gate of token l: the softmax weight of key j is multiplied by the
    gates of all tokens after it, up to the query. Keys after the query, which a causal mask hides,
    have the bias of the same distance: the paper defines no other.

    Lin et al. 2025, "Forgetting Transformer: Softmax Attention with a Forget Gate",
    arXiv:2503.02130.

    Args:
      q_total: [..., N, T] and k_total: [..., N, S], c at the queries and keys.
    """
    totals = (jnp.asarray(total, jnp.float32) for total in (q_total, k_total))
    q_total, k_total = exact.of_one_rank(*totals)
    return -jnp.abs(q_total[..., :, None] - k_total[..., None, :])


@dataclass(frozen=True)
class ForgettingGate(Encoding):
    """A gate for each token and head that scales down all keys before it (`jrope.forgetting`).

        f_t = sigmoid(w_h . x_t + b_h)

    of the layer's input x, with separate weights in each layer. The state of a token is the sum
    of log f up to it, in float32; padding does not forget. It needs no other encoding, and can be
    chained with one. As in the authors' code, b starts at 0, so that f starts near 1/2.
    """

    name: ClassVar[str] = "forgetting_gate"

    def init(self, key, *, features, num_heads, head_dim, num_layers):
        kernel = 0.02 * jax.random.normal(key, (num_layers, features, num_heads))
        return {"kernel": kernel, "bias": jnp.zeros((num_layers, num_heads))}

    def state(self, params, x, *, layer, last=None, token_mask=None):
        kernel, bias = (
            jnp.asarray(params[name][layer], jnp.float32) for name in ("kernel", "bias")
        )
        logits = jnp.einsum("...td,dn->...nt", x.astype(jnp.float32), kernel)
        log_gates = jax.nn.log_sigmoid(logits + bias.reshape((1,) * (x.ndim - 2) + (-1, 1)))
        if token_mask is not None:
            log_gates = jnp.where(token_mask[..., None, :], log_gates, 0.0)
        total = jnp.cumsum(log_gates, axis=-1)
        return total if last is None else last[..., None] + total

    def state_bias(self, params, q_state, k_state):
        return forgetting(q_state, k_state)
