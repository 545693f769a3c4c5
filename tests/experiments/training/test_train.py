"""Training as a pure function: of a seed, in any number of calls, in shards or vmapped."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import jax
import numpy as np
import pytest

import jrope
from experiments.tasks import Copy, Lag
from experiments.training import train
from experiments.training.evaluate import evaluate
from experiments.training.train import init_state, split_seeds, train_shards


def train_steps(config, seeds, state, steps):
    return train.train_steps(config, config.model.encoding, (), seeds, state, steps)


def assert_equal(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


def test_training_learns_and_any_split_into_chunks_is_the_same(transformer, seeds):
    before = train.train_steps._cache_size()
    state, first = train_steps(transformer, seeds, init_state(transformer, seeds), 10)
    split, _ = train_steps(transformer, seeds, state, 10)
    whole, _ = train_steps(transformer, seeds, init_state(transformer, seeds), 20)
    assert_equal(whole, split)
    _, last = train_steps(transformer, seeds, split.reported(), 130)
    assert (last < 0.8 * first).all()
    assert train.train_steps._cache_size() == before + 1


def test_seeds_differ_and_each_is_what_it_would_be_alone(transformer, seeds):
    """Bit for bit in calls of their own, in turn or in threads; to rounding if vmapped."""
    state = init_state(transformer, seeds)
    alone, own = train_steps(transformer, seeds[1:], init_state(transformer, seeds[1:]), 5)
    assert len(split_seeds(seeds, state)) == 2
    with ThreadPoolExecutor(2) as cores:
        for map_shards in (map, cores.map):
            shards, losses = train_shards(
                transformer,
                transformer.model.encoding,
                (),
                split_seeds(seeds, state),
                5,
                map_shards=map_shards,
            )
            assert losses[0] != losses[1] == own[0]
            merged = train.merge_seeds([shard.state for shard in shards])
            assert_equal(jax.tree.map(lambda leaf: leaf[1:], merged), alone)
    together, losses = train_steps(transformer, seeds, state, 5)
    np.testing.assert_allclose(losses[1], own[0], rtol=1e-5)
    for a, b in zip(*map(jax.tree.leaves, (together.params, alone.params)), strict=True):
        np.testing.assert_allclose(a[1], b[0], atol=1e-5)


def test_shards_are_trained_by_one_program(bigram):
    """Whether their states come from the host, or from the call before."""
    compiled = []

    def listen(event, _, **about):
        if event == "/jax/core/compile/backend_compile_duration":
            compiled.append(about["fun_name"])

    config, seeds = bigram(Copy(symbols=4), steps=21), np.array([0, 3, 4], np.uint32)
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        shards = split_seeds(seeds, init_state(config, seeds))
        for _ in range(3):
            shards, _ = train_shards(config, config.model.encoding, (), shards, 2)
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert len([name for name in compiled if "train_steps" in name]) == 1


def test_seeds_are_vmapped_on_accelerators(bigram, seeds, monkeypatch):
    state = init_state(bigram(Copy(symbols=4)), seeds)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    ((own, whole),) = split_seeds(seeds, state)
    assert len(own) == 2
    assert whole is state
    assert not train.trains_vmapped(1)


def test_all_bases_are_trained_by_one_program(transformer, seeds):
    model = dataclasses.replace(transformer.model, encoding=jrope.Encoding())
    config = dataclasses.replace(transformer, model=model)
    before, losses = train.train_steps._cache_size(), []
    for base in (100.0, 10_000.0):
        encoding = jrope.Rope(base=base).bind(head_dim=4, length=8)
        state = init_state(config, seeds[:1])
        losses.append(float(train.train_steps(config, encoding, (), seeds[:1], state, 5)[1][0]))
    assert losses[0] != losses[1]
    assert train.train_steps._cache_size() == before + 1


def test_a_model_of_any_kind_is_trained_and_evaluated(bigram, seeds):
    """A bigram model learns a stream that repeats its last token."""
    task = Lag(symbols=4, lag=1, noise=0.0)
    config = bigram(task, length=8, batch=8, learning_rate=0.3, steps=60)

    def metrics(params):
        facts = {"model": config.model, "task": task, "positions": config.positions}
        encodings = [config.model.encoding]
        (own,) = evaluate(seeds, params, encodings, **facts, length=8, sequences=16)
        return [{metric.name: metric.of(scores) for metric in task.metrics} for scores in own]

    state = init_state(config, seeds)
    assert not any(map(task.fitted, metrics(state.params)))
    state, _ = train_steps(config, seeds, state, config.steps)
    for trained in metrics(state.params):
        assert task.fitted(trained)
        assert trained["accuracy"] == 1.0
        assert trained["perplexity"] == pytest.approx(np.exp(trained["loss"]))
