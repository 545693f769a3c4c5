"""Decoding with a cache: one jitted loop against transformers' `generate`."""

from collections.abc import Iterator, Sequence
from functools import partial

import jax
import numpy as np

import jrope
from benchmarks import models
from benchmarks.peers import forms_of_peers, peer
from benchmarks.timing import Call, Case
from jrope import transformer
from jrope.generation import generate
from jrope.transformer import TransformerConfig

ALL_CORES = False
PROMPT, COUNT = 8, 120
SIZES = [(64, 1), (64, 64), (128, 1), (128, 64)]  # features, batch


def cases(sizes: Sequence[tuple[int, int]] = SIZES) -> Iterator[Case]:
    for features, batch in sizes:
        config = TransformerConfig(
            128, jrope.Rope(layout="half"), features, layers=2, heads=features // 32
        )
        prompts = jax.random.randint(jax.random.key(1), (batch, PROMPT), 0, config.vocabulary)
        forms = {"jrope, one jitted loop": _jrope(config, prompts)}
        forms |= forms_of_peers(_transformers, config, prompts)
        assert all(call().shape == (batch, COUNT) for call in forms.values())
        yield Case(f"{COUNT} tokens, {features} features, batch {batch}", forms)


def _jrope(config: TransformerConfig, prompts) -> Call:
    program = jax.jit(generate, static_argnames=("graphdef", "count"))
    params = jax.jit(transformer.init, static_argnums=0)(config, jax.random.key(0))
    graphdef = transformer.abstract(config)
    return lambda: program(graphdef, params, prompts, count=COUNT).block_until_ready()


def _transformers(config: TransformerConfig, prompts) -> dict[str, Call]:
    """A Llama of the same shape, untrained too: the tokens do not change the time."""
    torch = peer("torch")
    model = models.llama(config, PROMPT + COUNT).eval()
    tokens = torch.tensor(np.asarray(prompts))
    count = {"max_new_tokens": COUNT, "min_new_tokens": COUNT}
    call = partial(model.generate, tokens, attention_mask=torch.ones_like(tokens), **count)

    def run():
        with torch.no_grad():
            return call(do_sample=False)[:, PROMPT:]

    return {"transformers, generate": run}
