"""The study's training step in bare JAX: the same data, model and optimiser, with neither Flax nor values for encodings."""

from functools import partial

import jax
import jax.numpy as jnp
import optax

import jrope
from experiments.train import Trainer, cross_entropy
from jrope.attention import attention


def logits(params, tokens, *, heads: int):
    """Of the transformer with RoPE and these parameters, the nested dicts and lists of jrope's own."""
    batch, length = tokens.shape
    x = params["embedding"]["embedding"][tokens].reshape(batch * length, -1)
    shape = batch, length, heads, x.shape[-1] // heads
    cos, sin = jrope.rotation_tables(jnp.arange(length), jrope.spectrum(shape[-1]))
    visible = jnp.tri(length, dtype=bool)
    for _, block in sorted(params["blocks"].items()):
        qkv = (_normalised(x, block["attention_norm"]) @ block["qkv"]["kernel"]).reshape(batch, length, 3, *shape[2:])
        q, k = (jrope.apply_rotary(qkv[:, :, i], cos, sin) for i in range(2))
        mixed = attention(q, k, qkv[:, :, 2], visible=visible).reshape(x.shape)
        x = x + mixed @ block["out"]["kernel"]
        hidden = jax.nn.relu(_normalised(x, block["mlp_norm"]) @ block["up"]["kernel"])
        x = x + hidden @ block["down"]["kernel"]
    return (_normalised(x, params["norm"]) @ params["head"]["kernel"]).reshape(batch, length, -1)


def _normalised(x, norm):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * norm["scale"][None]


@partial(jax.jit, static_argnums=0, donate_argnums=(2, 3))
def advance(trainer: Trainer, seed, params, optimizer, steps):
    """`steps` training steps of one seed from step 0; the sum of losses, the parameters and the optimiser's state."""

    def loss(params, tokens, mask):
        losses, answers = cross_entropy(logits(params, tokens[:, :-1], heads=trainer.model.heads), tokens, mask)
        return losses.sum() / answers.sum()

    def step(i, carry):
        total, params, optimizer = carry
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), trainer.stream), i)
        tokens, mask = trainer.task.sample(key, trainer.batch, trainer.length, training=True)
        value, gradients = jax.value_and_grad(loss)(params, tokens, mask)
        updates, optimizer = trainer.optimizer.update(gradients, optimizer, params)
        return total + value, optax.apply_updates(params, updates), optimizer

    return jax.lax.fori_loop(0, steps, step, (jnp.float32(0), params, optimizer))
