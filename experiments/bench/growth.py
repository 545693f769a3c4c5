"""How cost grows: with the length of a sequence, with features, with seeds, and with what an encoding does."""

from collections.abc import Iterator
from functools import partial

import jax
import jax.numpy as jnp

import jrope
from experiments import train
from experiments.bench.attention import dense
from experiments.bench.timing import Call, Case, compare
from experiments.positions import Consecutive
from experiments.tasks import Copy
from experiments.train import Trainer
from jrope.encoding import Encoding
from jrope.transformer import TransformerConfig

ALL_CORES = False
ROUNDS, STEPS = 5, 10
LENGTHS, DENSEST = [256, 512, 1024, 2048, 4096, 8192, 16384], 8192
FEATURES, SEEDS = [32, 64, 128, 256], [1, 2, 4, 8, 16]
ENCODINGS: dict[str, Encoding] = {
    "none": Encoding(),
    "Sinusoidal": jrope.Sinusoidal(),
    "Learned": jrope.Learned(max_length=64),
    "Rope": jrope.Rope(),
    "XPos": jrope.XPos(),
    "Alibi": jrope.Alibi(),
    "HardAlibi": jrope.HardAlibi(),
    "Sandwich": jrope.Sandwich(),
    "T5": jrope.T5(),
    "KerpleLog": jrope.KerpleLog(),
    "Fire": jrope.Fire(),
    "Cope": jrope.Cope(),
}
TASK = Copy(symbols=96)


def cases() -> Iterator[Case]:
    for length in LENGTHS:
        yield Case("causal attention, 4 heads of 32", compare(_attention(length), ROUNDS), length)
    for features in FEATURES:
        forms = {"training": _training(Encoding(), features=features)}
        yield Case(f"{STEPS} training steps of 16 sequences of 32 tokens, by features", compare(forms, ROUNDS), features)
    for seeds in SEEDS:
        forms = {"training": _training(Encoding(), seeds=seeds)}
        yield Case(f"{STEPS} training steps of 16 sequences of 32 tokens, by seeds", compare(forms, ROUNDS), seeds)
    forms = {name: _training(encoding) for name, encoding in ENCODINGS.items()}
    yield Case(f"{STEPS} training steps of 16 sequences of 32 tokens, by encoding", compare(forms))


def _attention(length: int) -> dict[str, Call]:
    inputs = [jax.random.normal(jax.random.key(i), (1, length, 4, 32)) for i in range(3)]
    forms = {"blocks": jax.jit(partial(jrope.blocked_attention, start=0))}
    if length <= DENSEST:
        forms["one array of scores"] = jax.jit(dense)
    return {name: partial(_ready, form, *inputs) for name, form in forms.items()}


def _ready(form, *arguments):
    return jax.block_until_ready(form(*arguments))


def _training(encoding: Encoding, *, features: int = 64, seeds: int = 1) -> Call:
    """`STEPS` training steps, as many for each seed."""
    model = TransformerConfig(TASK.vocabulary, encoding, features, layers=2, heads=features // 32)
    trainer = Trainer(
        TASK, model, Consecutive(), length=15, batch=16, steps=1000, learning_rate=1e-3, warmup=10, weight_decay=0.1
    )
    numbers, acting = jnp.arange(seeds, dtype=jnp.uint32), encoding.at(head_dim=model.head_dim, length=32)
    held = {"parts": train.apart(numbers, train.start(trainer, numbers))}

    def call():
        held["parts"], losses = train.advance_each(trainer, acting, held["parts"], STEPS)
        return losses

    return call
