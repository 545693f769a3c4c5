"""Training as a pure function of a seed: data made on device from (seed, step), seeds as a vmapped axis or side by side."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from experiments import compilation
from experiments.positions import Positions
from experiments.tasks import Task
from jrope import transformer
from jrope.encoding import Encoding
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


Part = tuple[jax.Array | np.ndarray, State]  # what one call of `advance` trains: some of the seeds, and their state


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


@partial(jax.jit, static_argnums=0, donate_argnums=3)
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

    # a lone seed has no axis of its own in the program
    state = jax.lax.map(train, (seeds, state), batch_size=len(seeds) if len(seeds) > 1 else None)
    return state, state.loss / state.summed


def vmapped(seeds: int) -> bool:
    """Whether so many seeds train in one vmapped program, as they do on accelerators.

    On CPUs each is a call of its own, and calls go side by side: a core is full with one seed, and a program of all of them
    makes poor use of several cores (`python -m experiments.bench seeds`). A seed is then trained the same beside others.
    """
    return seeds > 1 and jax.default_backend() != "cpu"


def apart(seeds, state: State) -> list[Part]:
    """The seeds [S] and their state in parts, each trained by one call of `advance`."""
    if vmapped(len(seeds)):
        return [(seeds, state)]
    each = jax.tree.map(np.asarray, (seeds, state))
    return [jax.tree.map(lambda leaf, i=i: leaf[i : i + 1], each) for i in range(len(seeds))]


def joined(trees: list[Any]) -> Any:
    """The states of all parts, or pieces of these, as one of all seeds."""
    return trees[0] if len(trees) == 1 else jax.tree.map(lambda *leaves: np.concatenate(leaves), *trees)


def advance_each(
    trainer: Trainer, encoding: Encoding, parts: list[Part], steps: int, *, side_by_side: Callable[..., Iterable] = map
) -> tuple[list[Part], np.ndarray]:
    """`advance` of all parts, done by `side_by_side`, such as the `map` of an executor with a thread for each core."""

    def one(part: Part):
        seeds, state = part
        state, losses = advance(trainer, encoding, seeds, state, steps)
        return (seeds, state), np.asarray(losses)

    advanced, losses = zip(*side_by_side(one, parts), strict=True)
    return list(advanced), np.concatenate(losses)
