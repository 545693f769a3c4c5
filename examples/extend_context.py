"""Extending a context: trained weights, run on longer sequences under other spectra of RoPE.

A small transformer is trained to continue sequences of 32 tokens that repeat every 6 tokens. Then
it continues longer ones, without more training. The table has its loss on the last 16 tokens, which
rises past the trained length. NTK-aware scaling helps. Linear scaling hurts, because it blurs the
short distances that this task needs. This is one seed: `python -m experiments` measures several.

    python examples/extend_context.py
"""

import jax
import jax.numpy as jnp
import optax

import jrope
from jrope.transformer import TransformerConfig

PERIOD, TRAINED, LENGTHS, VOCABULARY, STEPS = 6, 32, (32, 64, 128), 16, 300
MODEL = TransformerConfig(VOCABULARY, features=32, layers=2, heads=2)
SCALINGS = {"plain": lambda factor: None, "ntk": jrope.NTK, "linear": jrope.Linear}


def loss_of(params, key, encoding, length):
    cycles = jax.random.randint(key, (16, PERIOD), 0, VOCABULARY)
    tokens = jnp.tile(cycles, length // PERIOD + 1)[:, :length]
    logits = MODEL.apply(params, tokens, jnp.arange(length), encoding=encoding)[:, -17:-1]
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, -16:]).mean()


@jax.jit
def step(params, state, key, encoding):
    gradients = jax.grad(loss_of)(params, key, encoding, TRAINED)
    updates, state = optax.adam(3e-3).update(gradients, state)
    return optax.apply_updates(params, updates), state


def bind(scaling):
    return jrope.Rope(scaling=scaling).bind(head_dim=MODEL.head_dim)


def main():
    params = jax.jit(MODEL.init)(jax.random.key(0))
    state = jax.jit(optax.adam(3e-3).init)(params)
    for key in jax.random.split(jax.random.key(1), STEPS):
        params, state = step(params, state, key, bind(None))

    evaluate = jax.jit(loss_of, static_argnames="length")  # a program for each length
    print("length ", *(f"{length:6}" for length in LENGTHS))
    for name, make in SCALINGS.items():
        print(f"{name:7}", end="")
        for length in LENGTHS:
            encoding = bind(make(length / TRAINED))
            print(f"{evaluate(params, jax.random.key(2), encoding, length=length):7.2f}", end="")
        print()


if __name__ == "__main__":
    main()
