"""Training steps of the study's models: against bare JAX, against PyTorch and x-transformers, and against products alone."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

import jrope
from experiments import train
from experiments.bench import bare, models
from experiments.bench.peers import nearly, peer
from experiments.bench.timing import Call, Case
from experiments.positions import Consecutive
from experiments.tasks import Copy
from experiments.train import Trainer
from jrope import transformer
from jrope.transformer import TransformerConfig

ALL_CORES = True
SHAPES = [(64, 64, 32), (64, 32, 64), (128, 64, 64), (128, 32, 128)]  # features, batch, tokens
STEPS = 10  # a call
TASK = Copy(symbols=96)


def cases() -> Iterator[Case]:
    for features, batch, context in SHAPES:
        heads = features // 32
        config = TransformerConfig(TASK.vocabulary, features=features, layers=2, heads=heads, mlp_factor=4)
        rates: dict[str, Any] = {"learning_rate": 1e-3, "warmup": 10, "weight_decay": 0.1}
        trainer = Trainer(TASK, config, Consecutive(), (context - 2) // 2, batch, 1000, **rates)
        about = f"{features} features, {batch} sequences of {context} tokens"
        yield Case(f"{STEPS} steps of {about}", _forms(trainer, context))


def _forms(trainer: Trainer, context: int) -> dict[str, Call]:
    return {
        "jrope": _flax(trainer),
        "bare JAX": _bare(trainer),
        "torch.compile": _torch(trainer, context, compiled=True),
        "PyTorch": _torch(trainer, context, compiled=False),
        "x-transformers": _x_transformers(trainer, context),
        "as many products alone": _products(trainer, context),
    }


def _flax(trainer: Trainer) -> Call:
    seeds, encoding = jnp.zeros(1, jnp.uint32), jrope.Rope().at(head_dim=trainer.model.head_dim)
    held = {"state": train.start(trainer, seeds)}

    def call():
        held["state"], losses = train.advance(trainer, encoding, seeds, held["state"], STEPS)
        return losses.block_until_ready()

    return call


def _params(trainer: Trainer) -> nnx.State:
    return jax.tree.map(lambda leaf: leaf[0], train.start(trainer, jnp.zeros(1, jnp.uint32)).params)


def _bare(trainer: Trainer) -> Call:
    params = nnx.to_pure_dict(_params(trainer))
    held: dict[str, Any] = {"state": (params, trainer.optimizer.init(params))}
    seeds, encoding = jnp.zeros(1, jnp.uint32), jrope.Rope().at(head_dim=trainer.model.head_dim)

    def call():
        total, *held["state"] = bare.advance(trainer, jnp.uint32(0), *held["state"], STEPS)
        return total.block_until_ready()

    _, losses = train.advance(trainer, encoding, seeds, train.start(trainer, seeds), STEPS)
    nearly(call() / STEPS, losses[0], 1e-4)
    return call


def _tokens(trainer: Trainer, context: int):
    tokens, mask = trainer.task.sample(jax.random.key(0), trainer.batch, trainer.length, training=True)
    assert tokens.shape == (trainer.batch, context + 1)
    return tokens, mask


def _step(trainer: Trainer, context: int, model, loss) -> Call:
    """Steps of AdamW on one batch: what makes the data costs PyTorch nothing here."""
    torch = peer("torch")
    tokens, _ = _tokens(trainer, context)
    given = torch.tensor(np.asarray(tokens)).long()
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=trainer.learning_rate, betas=(0.9, 0.98), weight_decay=trainer.weight_decay, fused=True
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1_000_000)

    def call():
        for _ in range(STEPS):
            optimizer.zero_grad(set_to_none=True)
            loss(given).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()

    return call


def _torch(trainer: Trainer, context: int, *, compiled: bool) -> Call:
    torch = peer("torch")
    model = models.with_weights_of(models.by_hand(trainer.model), _params(trainer))
    tokens, mask = _tokens(trainer, context)
    answers = torch.tensor(np.asarray(mask[:, 1:]))

    def loss(tokens):
        logits = model(tokens[:, :-1])
        losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
        return losses[answers.flatten()].mean() if not compiled else (losses * answers.flatten()).sum() / answers.sum()

    def ours(params):
        options = {"encoding": jrope.Rope(layout="half")}
        graphdef = transformer.abstract(trainer.model)
        logits = transformer.apply(graphdef, params, tokens[:, :-1], jnp.arange(context), **options)
        losses, answers = train.cross_entropy(logits, tokens, mask)
        return losses.sum() / answers.sum()

    value, gradient = jax.jit(jax.value_and_grad(ours))(_params(trainer))
    theirs = loss(torch.tensor(np.asarray(tokens)).long())
    theirs.backward()
    nearly(value, theirs.detach().numpy(), 1e-4)
    nearly(nnx.to_pure_dict(gradient)["head"]["kernel"], model.head.weight.grad.T.numpy(), 1e-3)
    return _step(trainer, context, model, torch.compile(loss) if compiled else loss)


def _x_transformers(trainer: Trainer, context: int) -> Call:
    torch = peer("torch")
    model = models.x_transformers(trainer.model, context, {}, rotary_pos_emb=True)

    def loss(tokens):
        logits = model(tokens[:, :-1])
        return torch.nn.functional.cross_entropy(logits.transpose(1, 2), tokens[:, 1:])

    return _step(trainer, context, model, loss)


def _products(trainer: Trainer, context: int) -> Call:
    """As many multiplications as a step takes, forward and backward, in products of dense layers and nothing else."""
    config, rows = trainer.model, trainer.batch * context
    d, hidden = config.features, config.features * config.mlp_factor
    dense = rows * (config.layers * (4 * d * d + 2 * d * hidden) + d * config.vocabulary)
    attention = config.layers * 2 * rows * context * d
    count = round(STEPS * 3 * (dense + attention) / (2 * rows * d * hidden))
    x, up, down = (
        jax.random.normal(jax.random.key(i), shape) for i, shape in enumerate([(rows, d), (d, hidden), (hidden, d)])
    )
    up, down = up / d**0.5, down / hidden**0.5

    @partial(jax.jit, donate_argnums=0)
    def multiply(x, up, down):
        return jax.lax.fori_loop(0, count, lambda _, x: x @ up @ down, x)

    held = {"x": x}

    def call():
        held["x"] = multiply(held["x"], up, down).block_until_ready()

    return call
