"""An encoding of your own: a frozen dataclass that overrides the maps where it acts.

`Cycle` adds a learned number to each score, by the distance modulo a period. The transformer is
trained to continue sequences that repeat every four tokens. To predict the next token it must look
three tokens back, so the largest of the learned numbers is at distance 3.

    python examples/custom_encoding.py
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import optax

import jrope
from jrope.transformer import TransformerConfig

PERIOD, LENGTH, BATCH, VOCABULARY, STEPS = 4, 16, 32, 8, 150


@dataclass(frozen=True)
class Cycle(jrope.Encoding):
    """Adds table[h, (q_position - k_position) mod period] to the scores of head h."""

    period: int

    def init(self, key, *, num_heads, **sizes):
        return {"table": jnp.zeros((num_heads, self.period))}

    def bias(self, params, q_positions, k_positions, *, num_heads):
        distances = q_positions[..., :, None] - k_positions[..., None, :]
        return jnp.moveaxis(params["table"].T[distances % self.period], -1, -3)


def main():
    model, optimizer = TransformerConfig(VOCABULARY, Cycle(PERIOD), layers=1), optax.adam(1e-2)

    def loss_of(params, key):
        cycles = jax.random.randint(key, (BATCH, PERIOD), 0, VOCABULARY)
        tokens = jnp.tile(cycles, LENGTH // PERIOD)
        logits = model.apply(params, tokens, jnp.arange(LENGTH))[:, PERIOD - 1 : -1]
        return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, PERIOD:]).mean()

    @jax.jit
    def step(params, state, key):
        loss, gradients = jax.value_and_grad(loss_of)(params, key)
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(params, updates), state, loss

    params = jax.jit(model.init)(jax.random.key(0))
    state = jax.jit(optimizer.init)(params)
    for key in jax.random.split(jax.random.key(1), STEPS):
        params, state, loss = step(params, state, key)
    print(f"loss after training: {loss:.3f}; heads by distance mod {PERIOD}:")
    print(params["encoding"]["table"][...].round(2))


if __name__ == "__main__":
    main()
