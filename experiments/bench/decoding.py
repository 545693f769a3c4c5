"""Decoding with a cache: one jitted loop against transformers' `generate`, for models of one shape."""

from collections.abc import Iterator
from functools import partial

import jax
import numpy as np

import jrope
from experiments.bench import models
from experiments.bench.peers import peer
from experiments.bench.timing import Call, Case
from jrope import transformer
from jrope.generation import generate
from jrope.transformer import TransformerConfig

ALL_CORES = False
PROMPT, COUNT = 8, 120


def cases() -> Iterator[Case]:
    torch = peer("torch")
    program = jax.jit(generate, static_argnames=("graphdef", "count"))
    for features in (64, 128):
        config = TransformerConfig(128, jrope.Rope(layout="half"), features, layers=2, heads=features // 32)
        params = jax.jit(transformer.init, static_argnums=0)(config, jax.random.key(0))
        graphdef, model = transformer.abstract(config), models.llama(config, PROMPT + COUNT).eval()
        for batch in (1, 64):
            prompts = jax.random.randint(jax.random.key(1), (batch, PROMPT), 0, config.vocabulary)
            ours = partial(_generate, program, graphdef, params, prompts)
            theirs = partial(_generate_there, torch, model, torch.tensor(np.asarray(prompts)))
            if ours().shape != (batch, COUNT) or theirs().shape != (batch, PROMPT + COUNT):
                raise AssertionError("both should make as many tokens")
            forms: dict[str, Call] = {"jrope, one jitted loop": ours, "transformers, generate": theirs}
            yield Case(f"{COUNT} tokens, {features} features, batch {batch}", forms)


def _generate(program, graphdef, params, prompts):
    return program(graphdef, params, prompts, count=COUNT).block_until_ready()


def _generate_there(torch, model, prompts):
    """Of a model of the same shape, untrained as ours is: what it says changes no time."""
    with torch.no_grad():
        options = {"max_new_tokens": COUNT, "min_new_tokens": COUNT, "do_sample": False}
        return model.generate(prompts, attention_mask=torch.ones_like(prompts), **options)
