"""Training steps of small models: jrope, plain JAX, PyTorch, x-transformers, and a limit."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

import jrope
from benchmarks import models, plain_jax
from benchmarks.peers import check_close, forms_of_peers, peer
from benchmarks.timing import Call, Case
from experiments.training.train import TrainConfig, cross_entropy, init_state, train_steps

ALL_CORES = True
SHAPES = [(64, 64, 32), (64, 32, 64), (128, 64, 64), (128, 32, 128)]  # features, batch, tokens
STEPS = 10  # a call
SEEDS = np.zeros(1, np.uint32)


def cases(shapes: Sequence[tuple[int, int, int]] = SHAPES) -> Iterator[Case]:
    for features, batch, context in shapes:
        config = models.train_config(features, batch, context, mlp_ratio=4)
        forms = {"jrope": _jrope(config), "plain JAX": _plain_jax(config)}
        forms |= forms_of_peers(_torch, config, context)
        forms |= forms_of_peers(_x_transformers, config, context)
        forms["the matrix products only"] = _products(config, context)
        about = f"{features} features, {batch} sequences of {context} tokens"
        yield Case(f"{STEPS} steps of {about}", forms)


def _jrope(config: TrainConfig) -> Call:
    encoding, state = (
        jrope.Rope().bind(head_dim=config.model.sizes["head_dim"]),
        init_state(config, SEEDS),
    )

    def call():
        nonlocal state
        state, losses = train_steps(config, encoding, (), SEEDS, state, STEPS)
        return losses.block_until_ready()

    return call


def _plain_jax(config: TrainConfig) -> Call:
    params = nnx.to_pure_dict(_params(config))
    carry = params, config.optimizer.init(params)

    def call():
        nonlocal carry
        total, *carry = plain_jax.train_steps(config, jnp.uint32(0), *carry, STEPS)
        return total.block_until_ready()

    check_close(call() / STEPS, _jrope(config)()[0], 1e-4)
    return call


def _params(config: TrainConfig) -> nnx.State:
    return jax.tree.map(lambda leaf: leaf[0], init_state(config, SEEDS).params)


def _products(config: TrainConfig, context: int) -> Call:
    """As many multiplications as a step has, forward and backward, in products of dense layers."""
    model, rows = models.shape_of(config), config.batch * context
    d, hidden = model.features, model.features * model.mlp_ratio
    dense = rows * (model.layers * (4 * d * d + 2 * d * hidden) + d * model.vocabulary)
    attention = model.layers * 2 * rows * context * d
    count = round(STEPS * 3 * (dense + attention) / (2 * rows * d * hidden))
    shapes = (rows, d), (d, hidden), (hidden, d)
    x, up, down = (jax.random.normal(jax.random.key(i), shape) for i, shape in enumerate(shapes))
    up, down = up / d**0.5, down / hidden**0.5

    @partial(jax.jit, donate_argnums=0)
    def multiply(x, up, down):
        return jax.lax.fori_loop(0, count, lambda _, x: x @ up @ down, x)

    def call():
        nonlocal x
        x = multiply(x, up, down).block_until_ready()

    return call


def _torch(config: TrainConfig, context: int) -> dict[str, Call]:
    def form(compiled: bool) -> Call:
        torch = peer("torch")
        model = models.load_weights(models.by_hand(models.shape_of(config)), _params(config))
        _, mask = _batch(config, context)
        answers = torch.tensor(np.asarray(mask[:, 1:])).flatten()

        def loss(tokens):
            logits = model(tokens[:, :-1]).flatten(0, 1)
            right = tokens[:, 1:].flatten()
            losses = torch.nn.functional.cross_entropy(logits, right, reduction="none")
            # the faster way of each
            return (losses * answers).sum() / answers.sum() if compiled else losses[answers].mean()

        _check_step(config, context, model, loss)
        return _steps(config, context, model, torch.compile(loss) if compiled else loss)

    return {"torch.compile": form(True), "PyTorch": form(False)}


def _check_step(config: TrainConfig, context: int, model, loss):
    """Loss and gradients of the PyTorch model are those of jrope's."""
    tokens, mask = _batch(config, context)

    def ours(params):
        positions, encoding = jnp.arange(context), jrope.Rope(layout="half")
        logits = config.model.apply(params, tokens[:, :-1], positions, encoding=encoding)
        losses, answers = cross_entropy(logits, tokens, mask)
        return losses.sum() / answers.sum()

    value, gradient = jax.jit(jax.value_and_grad(ours))(_params(config))
    theirs = loss(peer("torch").tensor(np.asarray(tokens)).long())
    theirs.backward()
    check_close(value, theirs.detach().numpy(), 1e-4)
    head = nnx.to_pure_dict(gradient)["head"]["kernel"]
    check_close(head, model.head.weight.grad.T.numpy(), 1e-3)


def _x_transformers(config: TrainConfig, context: int) -> dict[str, Call]:
    model = models.x_transformers(models.shape_of(config), context, {}, rotary_pos_emb=True)
    cross_entropy = peer("torch").nn.functional.cross_entropy

    def loss(tokens):
        return cross_entropy(model(tokens[:, :-1]).transpose(1, 2), tokens[:, 1:])

    return {"x-transformers": _steps(config, context, model, loss)}


def _batch(config: TrainConfig, context: int):
    tokens, mask = config.task.sample(jax.random.key(0), config.batch, config.length, training=True)
    assert tokens.shape == (config.batch, context + 1)
    return tokens, mask


def _steps(config: TrainConfig, context: int, model: Any, loss) -> Call:
    """Steps of AdamW in PyTorch, all on one batch: making data costs it nothing."""
    torch = peer("torch")
    tokens = torch.tensor(np.asarray(_batch(config, context)[0])).long()
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=config.learning_rate,
        betas=(0.9, 0.98),
        weight_decay=config.weight_decay,
        fused=True,
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1_000_000)

    def call():
        for _ in range(STEPS):
            optimizer.zero_grad(set_to_none=True)
            loss(tokens).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()

    return call
