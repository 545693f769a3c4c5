"""How cost grows with the length of a sequence, features and seeds, and with the encoding."""

from collections.abc import Iterator, Mapping, Sequence

import jax.numpy as jnp

import jrope
from benchmarks.attention import blocked, call, dense, inputs
from benchmarks.models import NOPE, train_config
from benchmarks.timing import Call, Case
from experiments.training.train import init_state, split_seeds, train_shards

ALL_CORES = False
ROUNDS, STEPS = 5, 10
LENGTHS, MAX_DENSE = [256, 512, 1024, 2048, 4096, 8192, 16384], 8192
FEATURES, SEEDS = [32, 64, 128, 256], [1, 2, 4, 8, 16]
ENCODINGS: dict[str, jrope.Encoding] = {
    "none": NOPE,
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
TRAINING = f"{STEPS} training steps of 16 sequences of 32 tokens"


def cases(
    lengths: Sequence[int] = LENGTHS,
    features: Sequence[int] = FEATURES,
    seeds: Sequence[int] = SEEDS,
    encodings: Mapping[str, jrope.Encoding] = ENCODINGS,
) -> Iterator[Case]:
    for length in lengths:
        forms = {"blocks": call(blocked, *inputs(length))}
        if length <= MAX_DENSE:
            forms["one array of scores"] = call(dense, *inputs(length))
        yield Case("causal attention, 4 heads of 32", forms, length, ROUNDS)
    for count in features:
        forms = {"training": _train(features=count)}
        yield Case(f"{TRAINING}, by features", forms, count, ROUNDS)
    for count in seeds:
        yield Case(f"{TRAINING}, by seeds", {"training": _train(seeds=count)}, count, ROUNDS)
    forms = {name: _train(encoding) for name, encoding in encodings.items()}
    yield Case(f"{TRAINING}, by encoding", forms)


def _train(encoding: jrope.Encoding = NOPE, *, features: int = 64, seeds: int = 1) -> Call:
    """`STEPS` training steps of each seed."""
    config = train_config(features, batch=16, context=32, encoding=encoding)
    bound = encoding.bind(head_dim=config.model.sizes["head_dim"], length=32)
    numbers = jnp.arange(seeds, dtype=jnp.uint32)
    shards = split_seeds(numbers, init_state(config, numbers))

    def train():
        nonlocal shards
        shards, losses = train_shards(config, bound, (), shards, STEPS)
        return losses

    return train
