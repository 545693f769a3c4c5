"""The training step of `experiments` in plain JAX: no Flax, no values for encodings."""

from functools import partial

import jax
import jax.numpy as jnp
import optax

import jrope
from experiments.training.train import TrainConfig, cross_entropy
from jrope.attention import attention


def logits(params, tokens, *, heads: int):
    """Of the transformer with RoPE; `params` are nested dicts of the parameters of jrope's."""
    batch, length = tokens.shape
    x = params["embedding"]["embedding"][tokens].reshape(batch * length, -1)
    shape = batch, length, 3, heads, x.shape[-1] // heads
    cos, sin = jrope.rotation_tables(jnp.arange(length), jrope.spectrum(shape[-1]))
    mask = jnp.tri(length, dtype=bool)
    for _, block in sorted(params["blocks"].items()):
        qkv = (_normalise(x, block["attention_norm"]) @ block["qkv"]["kernel"]).reshape(shape)
        q, k = (jrope.apply_rotary(qkv[:, :, i], cos, sin) for i in range(2))
        x = x + attention(q, k, qkv[:, :, 2], mask=mask).reshape(x.shape) @ block["out"]["kernel"]
        hidden = jax.nn.relu(_normalise(x, block["mlp_norm"]) @ block["up"]["kernel"])
        x = x + hidden @ block["down"]["kernel"]
    logits = _normalise(x, params["norm"]) @ params["head"]["kernel"]
    return logits.reshape(batch, length, -1)


def _normalise(x, norm):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * norm["scale"][None]


@partial(jax.jit, static_argnums=0, donate_argnums=(2, 3))
def train_steps(config: TrainConfig, seed, params, optimizer, steps):
    """Trains one seed from step 0; returns the sum of losses, parameters and optimiser state."""

    def loss(params, tokens, mask):
        predicted = logits(params, tokens[:, :-1], heads=config.model.sizes["num_heads"])
        losses, answers = cross_entropy(predicted, tokens, mask)
        return losses.sum() / answers.sum()

    def step(i, carry):
        total, params, optimizer = carry
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), config.stream), i)
        tokens, mask = config.task.sample(key, config.batch, config.length, training=True)
        value, gradients = jax.value_and_grad(loss)(params, tokens, mask)
        updates, optimizer = config.optimizer.update(gradients, optimizer, params)
        return total + value, optax.apply_updates(params, updates), optimizer

    return jax.lax.fori_loop(0, steps, step, (jnp.float32(0), params, optimizer))
