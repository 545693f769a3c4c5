"""The data of a task are an argument of the compiled programs, never a constant in them."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.tasks import Consecutive, Task
from experiments.training import evaluate, train

SIZE = 4099  # of the data, and of no other array
NOISE = np.random.default_rng(0).integers(0, 8, SIZE, dtype=np.int32)


@dataclasses.dataclass(frozen=True)
class Text(Task):
    """Windows of a text, every token of which is an answer."""

    symbols: int = 8

    def context(self, length):
        return length

    def data(self):
        return {"text": jnp.arange(SIZE, dtype=jnp.int32) % self.symbols}

    def one(self, key, length, data):
        start = jax.random.randint(key, (), 0, SIZE - length)
        window = jax.lax.dynamic_slice(data["text"], (start,), (length + 1,))
        return window, jnp.ones(length + 1, bool)


class Careless(Text):
    """What the other must not do."""

    def one(self, key, length, data):
        return super().one(key, length, {"text": jnp.asarray(NOISE)})


@pytest.fixture
def config(bigram):
    return bigram(Text(), length=6)


def lowered(config, seeds):
    """The programs that sample from data."""
    data, state = config.task.data(), train.init_state.eval_shape(config, seeds)
    options = {"task": config.task, "positions": Consecutive(), "length": 6, "count": 4}
    yield train.train_steps.lower(config, config.model.encoding, data, seeds, state, 1)
    yield evaluate.draw_sequences.lower(seeds, 0, data, **options)


def constants(program) -> list[str]:
    """Where a program has constants as large as the data, before or after compilation."""
    lines = [*program.as_text().splitlines(), *program.compile().as_text().splitlines()]
    constants = [line for line in lines if "constant" in line]
    assert constants
    return [line for line in constants if re.search(rf"\D{SIZE}(x|\])", line)]


def test_no_program_holds_the_data(config, seeds):
    for program in lowered(config, seeds):
        assert not constants(program)
    for program in lowered(dataclasses.replace(config, task=Careless()), seeds):
        assert constants(program)


def test_other_data_of_the_same_shape_reuse_the_programs(config, seeds):
    programs = train.train_steps, evaluate.draw_sequences, evaluate.sum_scores
    before, losses = [program._cache_size() for program in programs], []
    for data in (config.task.data(), {"text": jnp.asarray(NOISE)}):
        state = train.init_state(config, seeds)
        state, loss = train.train_steps(config, config.model.encoding, data, seeds, state, 100)
        scores = evaluate.evaluate(
            seeds,
            state.params,
            [config.model.encoding],
            model=config.model,
            task=config.task,
            positions=Consecutive(),
            length=6,
            sequences=4,
            data=data,
        )
        losses.append([loss.mean(), np.mean([own.losses.sum() for own in scores[0]])])
    assert [program._cache_size() for program in programs] == [n + 1 for n in before]
    assert (np.array(losses[0]) < losses[1]).all()  # noise cannot be predicted
