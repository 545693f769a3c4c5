"""The study of a config on PyTorch packages: `python -m experiments.bench.study_peers PACKAGE PROCESSES CONFIG`.

The same task, sizes, steps, seeds, lengths and scalings, eager, a seed after another: in one process with PyTorch's own
threads, as a script does it, or in several of one thread each, which at these sizes takes less time.
"""

import math
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments.bench.peers import peer
from experiments.config.load import load

PACKAGES = ("x-transformers", "transformers")
TRAINED = ("sinusoidal", "learned", "rope")


def main(package: str, processes: str, config: str, *overrides: str):
    seeds, one = load(Path(config), list(overrides)).seeds, partial(_seed, package, config, overrides)
    if processes == "1":
        _print(map(one, seeds))
        return
    with ProcessPoolExecutor(int(processes), initializer=_one_thread) as pool:
        _print(pool.map(one, seeds))


def _print(results: Iterable[list[tuple]]):
    for rows in results:
        for row in rows:
            print(*row, flush=True)


def _one_thread():
    torch = peer("torch")
    torch.set_num_threads(1)


def _seed(package: str, config: str, overrides, seed: int) -> list[tuple]:
    """Rows of seed, encoding, multiple and the share of strings that are right."""
    torch = peer("torch")
    torch.manual_seed(seed)
    experiment = load(Path(config), list(overrides))
    rows = []
    for label, members in experiment.stages().items():
        if label not in TRAINED:
            raise SystemExit(f"study_peers: {label} is not written on {package}, expected one of {', '.join(TRAINED)}")
        model = _train(package, experiment, label)
        for member in members:
            for multiple in experiment.evaluate.multiples:
                if member != "learned" or multiple == 1:
                    _scale(package, model, experiment, member, multiple)
                    rows.append((seed, member, multiple, _exact_match(model, experiment, multiple)))
    return rows


def _train(package: str, experiment, label: str) -> Any:
    torch = peer("torch")
    model = (_XTransformers if package == "x-transformers" else _Llama)(experiment, label)
    options = experiment.train_of(label)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=options.learning_rate, betas=(0.9, 0.98), weight_decay=options.weight_decay, fused=True
    )

    def rate(step):
        if step < options.warmup:
            return step / options.warmup
        done = (step - options.warmup) / max(options.steps - options.warmup, 1)
        return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    for _ in range(options.steps):
        tokens, answers = _sample(experiment, options.batch, experiment.task.shortest, experiment.task.length)
        logits = model(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits[answers], tokens[:, 1:][answers])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return model


def _sample(experiment, batch: int, shortest: int, longest: int):
    """Strings of different symbols to be sorted: tokens [B, context + 1], and where the next token is an answer."""
    torch = peer("torch")
    symbols = experiment.task.symbols
    bos, sep, eos, pad = range(symbols, symbols + 4)
    lengths = torch.randint(shortest, longest + 1, (batch, 1))
    places = torch.arange(longest)
    inside = places < lengths
    strings = torch.rand(batch, symbols).argsort(1)[:, :longest].masked_fill(~inside, pad)
    tokens = torch.full((batch, 2 * longest + 3), pad)
    tokens[:, 0], tokens[:, 1 : longest + 1] = bos, strings
    tokens.scatter_(1, lengths + 2 + places, strings.sort(1).values)  # padding sorts last
    tokens.scatter_(1, lengths + 1, sep).scatter_(1, 2 * lengths + 2, eos)
    columns = torch.arange(2 * longest + 2)
    return tokens, (lengths + 1 <= columns) & (columns < 2 * lengths + 2)


def _exact_match(model, experiment, multiple: float) -> float:
    torch = peer("torch")
    count, length, right = experiment.sequences(multiple), experiment.length(multiple), 0
    with torch.no_grad():
        for first in range(0, count, 64):
            tokens, answers = _sample(experiment, min(64, count - first), length, length)
            hits = model(tokens[:, :-1]).argmax(-1) == tokens[:, 1:]
            right += int((hits | ~answers).all(1).sum())
    return right / count


def _scale(package: str, model, experiment, member: str, multiple: float):
    """Gives the model the frequencies of that scaling at that length."""
    torch = peer("torch")
    if experiment.parent(member) != "rope":
        return
    dim = experiment.model.features // experiment.model.heads
    length = experiment.context(multiple).length
    spectrum = experiment.encoding(member, multiple).spectrum(dim, length=length)
    model.scale(torch.tensor(np.asarray(spectrum.frequencies, np.float32)), float(spectrum.amplitude))


class _Model:
    """What both packages are asked for: logits, and other frequencies."""

    def __call__(self, tokens):
        raise NotImplementedError

    def parameters(self):
        return self.module.parameters()

    module: Any


class _XTransformers(_Model):
    def __init__(self, experiment, label: str):
        from experiments.bench.models import x_transformers

        config = experiment.trainer(label).model
        # all of a head, as the others rotate; its default is the half
        rotary = {"rotary_pos_emb": True, "rotary_emb_dim": config.head_dim} if label == "rope" else {}
        wrapper = {"scaled_sinu_pos_emb": True} if label == "sinusoidal" else {}
        length = experiment.context(1 if label == "learned" else max(experiment.evaluate.multiples)).length
        self.module = x_transformers(config, length, wrapper, use_rmsnorm=True, **rotary)

    def __call__(self, tokens):
        return self.module(tokens)

    def scale(self, frequencies, amplitude: float):
        rotary = self.module.attn_layers.rotary_pos_emb
        rotary.inv_freq = frequencies
        rotary.scale = None  # that of xPos; there is none for YaRN's temperature, which therefore is left out


class _Llama(_Model):
    def __init__(self, experiment, label: str):
        torch = peer("torch")
        from experiments.bench.models import llama

        config, self.label = experiment.trainer(label).model, label
        length = experiment.context(max(experiment.evaluate.multiples)).length
        self.module = llama(config, length)
        if label == "learned":
            self.module.table = torch.nn.Parameter(0.02 * torch.randn(experiment.context(1).length, config.features))
        if label == "sinusoidal":
            half = config.features // 2
            angles = torch.arange(length)[:, None] * 10_000.0 ** (-torch.arange(half) / half)
            self.table = torch.cat([angles.sin(), angles.cos()], 1)

    def __call__(self, tokens):
        torch = peer("torch")
        if self.label == "rope":
            return self.module(tokens, use_cache=False).logits
        table = self.module.table if self.label == "learned" else self.table
        embedded = self.module.get_input_embeddings()(tokens) + table[: tokens.shape[1]]
        positions = torch.zeros_like(tokens[:1])  # no rotation
        return self.module(inputs_embeds=embedded, position_ids=positions, use_cache=False).logits

    def scale(self, frequencies, amplitude: float):
        rotary = self.module.model.rotary_emb
        rotary.inv_freq, rotary.attention_scaling = frequencies, amplitude


if __name__ == "__main__":
    main(*sys.argv[1:])
