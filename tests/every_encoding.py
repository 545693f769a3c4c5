"""An example of every encoding that jrope exports, and small models of them.

A new encoding is found from the namespace: all tests that run over `EVERY` then include it.
"""

import dataclasses
from functools import cache

import jax
import jax.numpy as jnp

import jrope
from jrope import transformer
from jrope.transformer import TransformerConfig

CAPACITY = 12
# where the defaults are made for longer sequences, or a field has no default
EXAMPLES = {
    "learned": jrope.Learned(max_length=CAPACITY, scale=1.0),
    "hard_alibi": jrope.HardAlibi(window=2, windowed_heads=1),
    "window": jrope.Window(2),
    "log_n": jrope.LogN(original_length=3),
    "t5": jrope.T5(buckets=6, max_distance=4),
    "fire": jrope.Fire(threshold=4.0),
    "sandwich": jrope.Sandwich(dim=8),
    "cope": jrope.Cope(max_positions=6),
    "layers": jrope.Layers((jrope.Rope(), jrope.Chain((jrope.T5(buckets=4, max_distance=8),)))),
    "chain": jrope.Chain(
        (jrope.Learned(CAPACITY, scale=1.0), jrope.Rope(), jrope.ForgettingGate())
    ),
}


def example(name: str, cls: type) -> jrope.Encoding:
    """The example of its name, or the class with small numbers for fields without a default."""
    if name in EXAMPLES:
        return EXAMPLES[name]
    needed = [f.name for f in dataclasses.fields(cls) if f.default is dataclasses.MISSING]
    return cls(**dict.fromkeys(needed, 4))


EVERY = [example(name, cls) for name, cls in jrope.encoding_types().items()]
MAPS = ("init", "embed", "rotation", "query_scale", "bias", "state", "content_bias", "layer")


def _overridden(encoding):
    return tuple(
        getattr(type(encoding), name) is not getattr(jrope.Encoding, name) for name in MAPS
    )


# one for each set of maps that an encoding overrides: what a library or transformation can tell apart
ONE_OF_EACH_KIND = list({_overridden(encoding): encoding for encoding in EVERY}.values())
VARIANTS = [  # forms of RoPE, and compositions, that have found bugs of their own
    jrope.Rope(rotary_fraction=0.5, layout="half", softmax_multiplier=1.5),
    jrope.Rope(scaling=jrope.Yarn(4.0, 4)),
    jrope.Rope(scaling=jrope.DynamicNTK(2.0, 4)),
    jrope.Rope(scaling=jrope.LongRope((1.0,) * 4, (1.0, 2.0, 3.0, 4.0), 8, factor=2.0)),
    jrope.Rope(axes=jrope.Sections((1, 1, 2))),
    jrope.Chain((jrope.Rope(), jrope.Window(2), jrope.LogN(3))),
    jrope.Chain((jrope.Learned(CAPACITY, scale=1.0), jrope.Alibi(), jrope.Cope(max_positions=6))),
]
TOKENS = jax.random.randint(jax.random.key(1), (2, 10), 0, 11)
# one program for each structure and shape, whichever test asks for it
apply = jax.jit(transformer.apply, static_argnums=0)
decode = jax.jit(transformer.decode, static_argnums=0)


def new(config):
    return jax.jit(transformer.init, static_argnums=0)(config, jax.random.key(0))


def nonzero(params):
    """The same parameters with none at zero, where some maps do nothing."""
    moved = jax.tree.map(
        lambda p: 0.3 * jnp.cos(jnp.arange(1.0, p.size + 1)).reshape(p.shape), params
    )
    return jax.tree.map(jnp.add, params, moved)


@cache
def model(encoding):
    """The full pass of a model at a fixed spectrum, its decoding, and an empty cache."""
    config = TransformerConfig(vocabulary=11, encoding=encoding, features=16, heads=2)
    params, graphdef = nonzero(new(config)), transformer.abstract(config)
    fixed = encoding.bind(head_dim=8, length=CAPACITY)

    def full(tokens, positions, mask):
        options = {"encoding": fixed, "token_mask": mask}
        return apply(graphdef, params, tokens, positions, **options)

    def step(tokens, positions, cache, mask):
        options = {"encoding": fixed, "token_mask": mask}
        return decode(graphdef, params, tokens, positions, cache, **options)

    return full, step, transformer.empty_cache(config, 2, CAPACITY)
