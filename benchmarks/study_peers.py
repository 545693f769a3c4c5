"""The study of a config on PyTorch packages: the same task, sizes, steps, seeds and lengths.

    python -m benchmarks.study_peers PACKAGE PROCESSES CONFIG [path.to.field=value...]

One process has PyTorch's own threads, as a script does. Several have one thread each and share the
seeds, which is faster at these sizes.
"""

import math
import sys
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.models import llama, x_transformers
from benchmarks.peers import peer
from experiments.config.load import load
from experiments.config.plan import training_jobs
from experiments.training.job import Evaluation, TrainingJob
from experiments.training.train import TrainConfig

Row = tuple[int, str, float, float]  # seed, encoding, multiple, share of strings that are right


def main(package: str, processes: str, config: str, *overrides: str):
    seeds = load(Path(config), list(overrides)).seeds
    run = partial(_run_seed, package, config, overrides)
    if processes == "1":
        _print(map(run, seeds))
        return
    with ProcessPoolExecutor(int(processes), initializer=_use_one_thread) as pool:
        _print(pool.map(run, seeds))


def _print(results: Iterable[list[Row]]):
    for rows in results:
        for row in rows:
            print(*row, flush=True)


def _use_one_thread():
    peer("torch").set_num_threads(1)


def _run_seed(package: str, config: str, overrides: tuple[str, ...], seed: int) -> list[Row]:
    peer("torch").manual_seed(seed)
    rows = []
    for job in training_jobs(load(Path(config), list(overrides))):
        if job.label not in TRAINED:
            raise SystemExit(
                f"study_peers: {job.label} is not written on {package},"
                f" expected one of {', '.join(TRAINED)}"
            )
        model = PACKAGES[package](job)
        _train(model, job.train)
        for evaluation in job.evaluations:
            for evaluated in evaluation.encodings:
                if evaluated.limit is not None:
                    continue
                if job.label == "rope":
                    spectrum: Any = evaluated.encoding.spectrum  # type: ignore[attr-defined]
                    model.scale(np.asarray(spectrum.frequencies), float(spectrum.amplitude))
                right = _exact_match(model, job.train, evaluation)
                rows.append((seed, evaluated.label, evaluation.multiple, right))
    return rows


def _train(model: "Model", config: TrainConfig):
    torch = peer("torch")
    optimizer = torch.optim.AdamW(
        model.module.parameters(),
        lr=config.learning_rate,
        betas=(0.9, 0.98),
        weight_decay=config.weight_decay,
        fused=True,
    )

    def rate(step):
        if step < config.warmup:
            return step / config.warmup
        done = (step - config.warmup) / max(config.steps - config.warmup, 1)
        return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * done))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    task: Any = config.task
    for _ in range(config.steps):
        tokens, answers = _sample(task, config.batch, task.shortest, config.length)
        logits = model(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits[answers], tokens[:, 1:][answers])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.module.parameters(), 1.0)
        optimizer.step()
        schedule.step()


def _sample(task, batch: int, shortest: int, longest: int):
    """Strings of different symbols to sort: tokens [B, T + 1], and where an answer is next."""
    torch = peer("torch")
    symbols = task.symbols
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


def _exact_match(model: "Model", config: TrainConfig, evaluation: Evaluation) -> float:
    count, length, right = evaluation.sequences, evaluation.length, 0
    with peer("torch").no_grad():
        for first in range(0, count, 64):
            tokens, answers = _sample(config.task, min(64, count - first), length, length)
            hits = model(tokens[:, :-1]).argmax(-1) == tokens[:, 1:]
            right += int((hits | ~answers).all(1).sum())
    return right / count


class Model:
    """A model of a package, with one of the encodings `TRAINED`."""

    module: Any

    def __call__(self, tokens):
        return self.module(tokens)

    def scale(self, frequencies: np.ndarray, amplitude: float):
        """Replaces the spectrum of RoPE."""
        raise NotImplementedError


class XTransformers(Model):
    def __init__(self, job: TrainingJob):
        config: Any = job.train.model
        wrapper, rotary = {}, {}
        if job.label == "rope":  # of all features of a head; by default, half of them rotate
            rotary = {"rotary_pos_emb": True, "rotary_emb_dim": config.head_dim}
        if job.label == "sinusoidal":
            wrapper = {"scaled_sinu_pos_emb": True}
        length = _trained(job) if job.label == "learned" else _longest(job)
        self.module = x_transformers(config, length, wrapper, use_rmsnorm=True, **rotary)

    def scale(self, frequencies, amplitude):
        rotary = self.module.attn_layers.rotary_pos_emb
        rotary.inv_freq = peer("torch").tensor(frequencies.astype(np.float32))
        rotary.scale = None  # xPos's; there is none for YaRN's temperature


class Llama(Model):
    def __init__(self, job: TrainingJob):
        torch = peer("torch")
        config: Any = job.train.model
        self.label, length = job.label, _longest(job)
        self.module = llama(config, length)
        if self.label == "learned":
            table = 0.02 * torch.randn(_trained(job), config.features)
            self.module.table = torch.nn.Parameter(table)
        if self.label == "sinusoidal":
            half = config.features // 2
            angles = torch.arange(length)[:, None] * 10_000.0 ** (-torch.arange(half) / half)
            self.table = torch.cat([angles.sin(), angles.cos()], 1)

    def __call__(self, tokens):
        if self.label == "rope":
            return self.module(tokens, use_cache=False).logits
        table = self.module.table if self.label == "learned" else self.table
        embedded = self.module.get_input_embeddings()(tokens) + table[: tokens.shape[1]]
        nowhere = peer("torch").zeros_like(tokens[:1])  # positions without a rotation
        options = {"position_ids": nowhere, "use_cache": False}
        return self.module(inputs_embeds=embedded, **options).logits

    def scale(self, frequencies, amplitude):
        rotary = self.module.model.rotary_emb
        rotary.inv_freq = peer("torch").tensor(frequencies.astype(np.float32))
        rotary.attention_scaling = amplitude


def _trained(job: TrainingJob) -> int:
    return job.train.task.context(job.train.length)


def _longest(job: TrainingJob) -> int:
    return max(evaluation.context for evaluation in job.evaluations)


TRAINED = ("sinusoidal", "learned", "rope")
PACKAGES = {"x-transformers": XTransformers, "transformers": Llama}

if __name__ == "__main__":
    main(*sys.argv[1:])
