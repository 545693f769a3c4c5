"""Evaluation against a plain loop, in any number of calls, of any number of encodings."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jrope
from experiments.tasks import Copy
from experiments.training import evaluate
from experiments.training.train import init_state


def scores_of(config, seeds, params, encodings, *, length=4, **options):
    return evaluate.evaluate(
        seeds,
        params,
        encodings,
        model=config.model,
        task=config.task,
        positions=config.positions,
        length=length,
        sequences=7,
        **options,
    )


@pytest.mark.parametrize("tokens_per_call", [30, 30_000])
def test_evaluation_against_a_plain_loop(transformer, seeds, tokens_per_call, monkeypatch):
    # in calls of 2 sequences, or all in one
    monkeypatch.setattr(evaluate, "TOKENS_PER_CALL", tokens_per_call)
    task, model, seed = transformer.task, transformer.model, seeds[1:]
    params = init_state(transformer, seed).params
    ((scores,),) = scores_of(transformer, seed, params, [model.encoding])
    one = jax.tree.map(lambda p: p[0], params)
    key = jax.random.fold_in(jax.random.fold_in(jax.random.key(seed[0]), 2), 4)
    apply = jax.jit(model.apply)
    right, losses = [], []
    for index in range(7):
        batch = task.sample(jax.random.fold_in(key, index), 1, 4)
        tokens, mask = (np.asarray(part)[0] for part in batch)
        logits = np.asarray(apply(one, tokens[None, :-1], jnp.arange(10)))[0]
        logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        right.append((logits.argmax(-1) == tokens[1:])[mask[1:]])
        losses.append(-logp[np.arange(10), tokens[1:]][mask[1:]])
    np.testing.assert_array_equal(scores.right, np.sum(right, 0))
    np.testing.assert_allclose(scores.losses, np.sum(losses, 0), rtol=1e-5)
    np.testing.assert_array_equal(scores.answers, np.full(5, 7))
    assert scores.exact == np.sum(np.all(right, -1))
    assert scores.sequences == 7
    assert all(sums.dtype == np.float64 for sums in scores[:3])


@pytest.mark.parametrize("tokens", [1, 130, 970, 3000, 5000, 100_000])
@pytest.mark.parametrize("sequences", [1, 7, 512])
def test_calls_of_an_evaluation(sequences, tokens):
    count = evaluate.sequences_per_call(sequences, tokens)
    calls = -(-sequences // count)
    assert count == 1 or count * tokens <= evaluate.TOKENS_PER_CALL
    assert sequences <= calls * count < 2 * sequences + 1
    for encodings in (1, 3, 4):
        batch = evaluate.batch_size(count, encodings * tokens)
        most = max(1, evaluate.TOKENS_PER_BATCH // (encodings * tokens))
        assert count % batch == 0
        assert min(count, most) / 2 < batch <= most


def test_all_scalings_are_evaluated_by_one_program_and_each_as_if_alone(transformer, seeds):
    params = init_state(transformer, seeds).params
    before = evaluate.sum_scores._cache_size()
    scalings = (
        None,
        jrope.Linear(2.0),
        jrope.NTK(2.0),
        jrope.DynamicNTK(1.0, 4),
        jrope.Yarn(2.0, 16),
    )
    encodings = [jrope.Rope(scaling=s).bind(head_dim=4, length=32) for s in scalings]
    together = scores_of(transformer, seeds, params, encodings, length=15)
    assert evaluate.sum_scores._cache_size() == before + 1
    assert [len(own) for own in together] == [2] * 5
    assert len({own[0].losses.sum() for own in together}) == 5
    for own, encoding in zip(together, encodings, strict=True):
        (alone,) = scores_of(transformer, seeds, params, [encoding], length=15)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), own, alone)
    assert evaluate.sum_scores._cache_size() == before + 2


def test_an_evaluation_can_be_stopped_before_every_call(bigram, seeds, monkeypatch):
    monkeypatch.setattr(evaluate, "TOKENS_PER_CALL", 1)
    config, calls = bigram(Copy(symbols=4)), []

    def between():
        calls.append(None)
        if len(calls) == 3:
            raise KeyboardInterrupt

    params, encoding = init_state(config, seeds).params, config.model.encoding
    with pytest.raises(KeyboardInterrupt):
        scores_of(config, seeds, params, [encoding], between=between)
