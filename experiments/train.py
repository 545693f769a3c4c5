"""Training as a pure function of a seed: data made on device from (seed, step), seeds as a vmapped axis."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from experiments.tasks import Task
from jrope import transformer
from jrope.transformer import TransformerConfig


class State(NamedTuple):
    """All that training carries from step to step; every leaf has a leading axis of seeds.

    The losses are summed here, and not by whoever reports them, so that the steps between two reports may be taken in any
    number of calls, with a stop in between.
    """

    step: jax.Array
    params: Any
    optimizer: Any
    loss: jax.Array  # summed since the last report
    summed: jax.Array  # over so many steps

    def reported(self) -> "State":
        """The state after a report of the mean loss."""
        return self._replace(loss=jnp.zeros_like(self.loss), summed=jnp.zeros_like(self.summed))


@dataclass(frozen=True)
class Trainer:
    """How one model is trained: hashable, so that it is a static argument of the two jitted functions below."""

    task: Task
    model: TransformerConfig
    length: int
    batch: int
    steps: int
    learning_rate: float
    warmup: int
    weight_decay: float

    @property
    def optimizer(self) -> optax.GradientTransformation:
        """AdamW after a linear warm-up, with a cosine decay to 1 % of the peak and gradients clipped at norm 1."""
        rate = optax.warmup_cosine_decay_schedule(0.0, self.learning_rate, self.warmup, self.steps, 0.01 * self.learning_rate)
        return optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rate, b2=0.98, weight_decay=self.weight_decay))


def cross_entropy(logits, tokens, mask) -> tuple[jax.Array, jax.Array]:
    """Loss in nats of each answer [B, T-1], zero elsewhere, and where the answers are."""
    answers = mask[:, 1:]
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:])
    return jnp.where(answers, losses, 0.0), answers


@partial(jax.jit, static_argnums=0)
def start(trainer: Trainer, seeds) -> State:
    """The state before the first step, for each of the seeds [S]."""

    def one(seed):
        params = transformer.init(trainer.model, jax.random.fold_in(jax.random.key(seed), 0))
        return State(jnp.int32(0), params, trainer.optimizer.init(params), jnp.float32(0), jnp.int32(0))

    return jax.vmap(one)(seeds)


@partial(jax.jit, static_argnums=0, donate_argnums=2)
def advance(trainer: Trainer, seeds, state: State, steps) -> tuple[State, jax.Array]:
    """`steps` more training steps of every seed, and the mean loss of each since the last report [S].

    The number of steps is traced: one program serves every chunk, the last and shorter one too.
    """
    graphdef = transformer.abstract(trainer.model)
    positions = jnp.arange(trainer.task.context(trainer.length))
    encoding = trainer.model.encoding.at(head_dim=trainer.model.head_dim, length=positions.size)

    def loss(params, tokens, mask):
        logits = transformer.apply(graphdef, params, tokens[:, :-1], positions, encoding=encoding)
        losses, answers = cross_entropy(logits, tokens, mask)
        return losses.sum() / answers.sum()

    def step(seed, state):
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), 1), state.step)
        tokens, mask = trainer.task.sample(key, trainer.batch, trainer.length, training=True)
        value, gradients = jax.value_and_grad(loss)(state.params, tokens, mask)
        updates, optimizer = trainer.optimizer.update(gradients, state.optimizer, state.params)
        params = optax.apply_updates(state.params, updates)
        return State(state.step + 1, params, optimizer, state.loss + value, state.summed + 1)

    state = jax.lax.fori_loop(0, steps, lambda _, state: jax.vmap(step)(seeds, state), state)
    return state, state.loss / state.summed
