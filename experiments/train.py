"""Training as a pure function of a seed: data made on device from (seed, step), seeds as a vmapped axis."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from experiments import compilation
from experiments.positions import Positions
from experiments.tasks import Task
from jrope import transformer
from jrope.encoding import Encoding
from jrope.transformer import TransformerConfig

SMALL = 1024  # tokens of a step


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
    """How a model is trained: hashable, so that it is a static argument of the jitted functions below.

    Attributes:
      model: gives the parameters; which encoding acts in it is an argument of its own, so that all that differ in arrays
        alone, such as the RoPE of several bases and scalings, are trained by one compiled program.
      stream: of random numbers that the data comes from: one for training, another for training that goes on from its end.
    """

    task: Task
    model: TransformerConfig
    positions: Positions
    length: int
    batch: int
    steps: int
    learning_rate: float
    warmup: int
    weight_decay: float
    stream: int = 1

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


@partial(jax.jit, static_argnums=0, compiler_options=compilation.QUICKLY)
def start(trainer: Trainer, seeds) -> State:
    """The state before the first step, for each of the seeds [S]."""
    keys = jax.vmap(lambda seed: jax.random.fold_in(jax.random.key(seed), 0))(seeds)
    return start_from(trainer, jax.vmap(partial(transformer.init, trainer.model))(keys))


@partial(jax.jit, static_argnums=0)
def start_from(trainer: Trainer, params) -> State:
    """The state before the first step of training that begins with these parameters, each with a leading axis [S]."""
    none = jnp.zeros(len(jax.tree.leaves(params)[0]))
    return State(none.astype(jnp.int32), params, jax.vmap(trainer.optimizer.init)(params), none, none.astype(jnp.int32))


@partial(jax.jit, static_argnums=0, donate_argnums=3, compiler_options=compilation.STEPS)
def advance(trainer: Trainer, encoding: Encoding, seeds, state: State, steps) -> tuple[State, jax.Array]:
    """`steps` more training steps of every seed, and the mean loss of each since the last report [S].

    The number of steps is traced: one program serves every chunk, the last and shorter one too.
    """
    graphdef = transformer.abstract(trainer.model)
    context = trainer.task.context(trainer.length)

    def loss(params, tokens, mask, positions):
        logits = transformer.apply(graphdef, params, tokens[:, :-1], positions, encoding=encoding)
        losses, answers = cross_entropy(logits, tokens, mask)
        return losses.sum() / answers.sum()

    def step(seed, state):
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed), trainer.stream), state.step)
        tokens, mask = trainer.task.sample(key, trainer.batch, trainer.length, training=True)
        positions = trainer.positions.sample(jax.random.fold_in(key, 0), context)
        value, gradients = jax.value_and_grad(loss)(state.params, tokens, mask, positions)
        updates, optimizer = trainer.optimizer.update(gradients, state.optimizer, state.params)
        params = optax.apply_updates(state.params, updates)
        return State(state.step + 1, params, optimizer, state.loss + value, state.summed + 1)

    def train(own):
        seed, state = own
        return jax.lax.fori_loop(0, steps, lambda _, state: step(seed, state), state)

    together = len(seeds) if vmapped(trainer, len(seeds)) else None
    state = jax.lax.map(train, (seeds, state), batch_size=together)
    return state, state.loss / state.summed


def vmapped(trainer: Trainer, seeds: int) -> bool:
    """Whether so many seeds train in one vmapped program rather than one after another.

    On an accelerator they always do. On CPUs that spares dispatch and keeps several cores busy while arrays are small; large
    ones go through the caches faster one by one, and a lone seed has nothing beside it (`python -m experiments.bench seeds`).
    """
    tokens = trainer.batch * trainer.task.context(trainer.length)
    return seeds > 1 and (tokens <= SMALL or jax.default_backend() != "cpu")
