"""Decoding with a cache: one jitted loop against transformers' `generate`, for models of one shape."""

from collections.abc import Iterator

import jax
import numpy as np

import jrope
from experiments.bench.peers import peer
from experiments.bench.timing import Call
from jrope import transformer
from jrope.generation import generate

PROMPT, COUNT = 8, 120
CONFIG = transformer.TransformerConfig(
    vocabulary=128, encoding=jrope.Rope(layout="half"), features=128, layers=2, heads=4, mlp_factor=4
)


def cases() -> Iterator[tuple[str, dict[str, Call]]]:
    params = jax.jit(transformer.init, static_argnums=0)(CONFIG, jax.random.key(0))
    graphdef = transformer.abstract(CONFIG)
    program = jax.jit(generate, static_argnames=("graphdef", "count"))
    torch, model = peer("torch"), _model()
    for batch in (1, 64):
        prompts = jax.random.randint(jax.random.key(1), (batch, PROMPT), 0, CONFIG.vocabulary)
        given = torch.tensor(np.asarray(prompts))

        def ours(prompts=prompts):
            return program(graphdef, params, prompts, count=COUNT).block_until_ready()

        def theirs(given=given):
            with torch.no_grad():
                options = {"max_new_tokens": COUNT, "min_new_tokens": COUNT, "do_sample": False}
                return model.generate(given, attention_mask=torch.ones_like(given), **options)

        if ours().shape != (batch, COUNT) or theirs().shape != (batch, PROMPT + COUNT):
            raise AssertionError("both should make as many tokens")
        yield f"{COUNT} tokens, batch {batch}", {"jrope, one jitted loop": ours, "transformers, generate": theirs}


def _model():
    """A Llama of the same shape, untrained as ours is: what it says changes no time. Its network is gated, and has as many
    multiplications at two thirds of the width."""
    transformers = peer("transformers")
    config = transformers.LlamaConfig(
        vocab_size=CONFIG.vocabulary,
        hidden_size=CONFIG.features,
        intermediate_size=2 * CONFIG.features * CONFIG.mlp_factor // 3,
        num_hidden_layers=CONFIG.layers,
        num_attention_heads=CONFIG.heads,
        max_position_embeddings=PROMPT + COUNT,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    return transformers.LlamaForCausalLM(config).eval()
