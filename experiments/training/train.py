"""Training as a pure function of a seed: step n of a seed always has the same data."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from experiments.tasks import Positions, Task
from experiments.training.compilation import UNOPTIMISED
from experiments.training.model import Model
from jrope import Encoding


@dataclass(frozen=True)
class TrainConfig:
    """How a model is trained. It is hashable: a static argument of the programs below.

    Attributes:
      model: its parameters are trained. The encoding that acts in it is another argument, so that
        encodings that differ only in arrays, such as RoPE with two bases, share one program.
      length: of the longest sequence, in the task's own measure.
      batch: sequences of a step.
      steps: of the whole training, which the learning rate follows.
      stream: of random numbers for the data: 1 for training, another for fine-tuning.
    """

    task: Task
    model: Model
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
        """AdamW, with gradients clipped at norm 1.

        The learning rate rises linearly, then falls as a cosine to 1 % of its peak.
        """
        peak = self.learning_rate
        rate = optax.warmup_cosine_decay_schedule(0.0, peak, self.warmup, self.steps, 0.01 * peak)
        adamw = optax.adamw(rate, b2=0.98, weight_decay=self.weight_decay)
        return optax.chain(optax.clip_by_global_norm(1.0), adamw)


class TrainState(NamedTuple):
    """What training carries from step to step; every leaf has a leading axis of seeds [S].

    It sums the losses itself, so that calls may divide the steps between two reports in any way.
    """

    step: jax.Array
    params: Any
    opt_state: Any
    loss_sum: jax.Array  # since the last report
    loss_count: jax.Array  # steps in that sum

    def reported(self) -> "TrainState":
        """The state after a report of the mean loss."""
        zeros = jnp.zeros_like(self.loss_sum), jnp.zeros_like(self.loss_count)
        return self._replace(loss_sum=zeros[0], loss_count=zeros[1])


def cross_entropy(
    logits: jax.Array, tokens: jax.Array, mask: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """The loss of each answer in nats [B, T], 0 for other tokens; and where the answers are.

    `logits` are [B, T, vocabulary], `tokens` and `mask` [B, T + 1].
    """
    answers = mask[:, 1:]
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:])
    return jnp.where(answers, losses, 0.0), answers


@partial(jax.jit, static_argnums=0, compiler_options=UNOPTIMISED)
def init_state(config: TrainConfig, seeds: jax.Array) -> TrainState:
    """The state before the first step, for each of the seeds [S]."""
    keys = jax.vmap(lambda seed: jax.random.fold_in(jax.random.key(seed), 0))(seeds)
    return init_state_from(config, jax.vmap(config.model.init)(keys))


@partial(jax.jit, static_argnums=0)
def init_state_from(config: TrainConfig, params: Any) -> TrainState:
    """The state before the first step of training from these parameters, which have an axis [S]."""
    zeros = jnp.zeros(len(jax.tree.leaves(params)[0]))
    count = zeros.astype(jnp.int32)
    return TrainState(count, params, jax.vmap(config.optimizer.init)(params), zeros, count)


@partial(jax.jit, static_argnums=0, donate_argnums=4)
def train_steps(
    config: TrainConfig,
    encoding: Encoding,
    data: Any,
    seeds: jax.Array | np.ndarray,
    state: TrainState,
    steps: int | jax.Array,
) -> tuple[TrainState, jax.Array]:
    """Trains every seed for this many more steps.

    Args:
      encoding: acts in the model.
      data: what `config.task.data()` returns, on the device.
      seeds: [S].
      state: is donated.
      steps: is traced: one program serves all numbers of steps.

    Returns:
      The new state, and the mean loss of each seed since the last report [S].
    """
    context = config.task.context(config.length)

    def mean_loss(params, tokens, mask, positions):
        logits = config.model.apply(params, tokens[:, :-1], positions, encoding=encoding)
        losses, answers = cross_entropy(logits, tokens, mask)
        return losses.sum() / answers.sum()

    def step(seed, state):
        key = jax.random.fold_in(jax.random.key(seed), config.stream)
        key = jax.random.fold_in(key, state.step)
        tokens, mask = config.task.sample(
            key, config.batch, config.length, data=data, training=True
        )
        positions = config.positions.sample(jax.random.fold_in(key, 0), context)
        loss, gradients = jax.value_and_grad(mean_loss)(state.params, tokens, mask, positions)
        updates, opt_state = config.optimizer.update(gradients, state.opt_state, state.params)
        params = optax.apply_updates(state.params, updates)
        sums = state.loss_sum + loss, state.loss_count + 1
        return TrainState(state.step + 1, params, opt_state, *sums)

    def train_seed(seed_and_state):
        seed, state = seed_and_state
        return jax.lax.fori_loop(0, steps, lambda _, state: step(seed, state), state)

    # a single seed is not vmapped: its program then has no axis of seeds
    batch_size = len(seeds) if len(seeds) > 1 else None
    state = jax.lax.map(train_seed, (seeds, state), batch_size=batch_size)
    return state, state.loss_sum / state.loss_count


class SeedShard(NamedTuple):
    """The seeds that one call of `train_steps` trains, and their state."""

    seeds: jax.Array | np.ndarray
    state: TrainState


def trains_vmapped(seeds: int) -> bool:
    """Whether one program trains this many seeds together, as on accelerators.

    On CPUs each seed has its own calls, in its own thread. One seed keeps a core busy, and one
    program uses several cores badly (`python -m benchmarks seeds`). So a seed's numbers do not
    depend on which others are trained.
    """
    return seeds > 1 and jax.default_backend() != "cpu"


def split_seeds(seeds: jax.Array, state: TrainState) -> list[SeedShard]:
    """The seeds [S] and their state in shards, one for each call of `train_steps`."""
    if trains_vmapped(len(seeds)):
        return [SeedShard(seeds, state)]
    whole = jax.tree.map(np.asarray, SeedShard(seeds, state))
    return [jax.tree.map(lambda leaf, i=i: leaf[i : i + 1], whole) for i in range(len(seeds))]


def merge_seeds(trees: list[Any]) -> Any:
    """One pytree of all seeds from those of the shards, such as their states or parameters."""
    if len(trees) == 1:
        return trees[0]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *trees)


def train_shards(
    config: TrainConfig,
    encoding: Encoding,
    data: Any,
    shards: list[SeedShard],
    steps: int,
    *,
    map_shards: Callable[..., Iterable] = map,
) -> tuple[list[SeedShard], np.ndarray]:
    """`train_steps` for every shard.

    `map_shards` runs them: `map` in turn, an executor's `map` in its threads.
    """

    def train(shard: SeedShard):
        state, losses = train_steps(config, encoding, data, shard.seeds, shard.state, steps)
        return SeedShard(shard.seeds, state), np.asarray(losses)

    trained, losses = zip(*map_shards(train, shards), strict=True)
    return list(trained), np.concatenate(losses)
