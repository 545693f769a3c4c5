"""An example call of every public function: its arrays, with their sizes in letters, and the rest.

Tests over `CALLS` close over each number, export each call for symbolic sizes, and make each size
zero. `test_every_public_function_has_a_call` finds a function without one.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import jrope
from jrope import attention, exact

SIZES = {"B": 2, "T": 3, "S": 4, "N": 2}
OLD, NEW = jrope.spectrum(8), jrope.Linear(2.0)(jrope.spectrum(8))


@dataclass(frozen=True, eq=False)  # with a hash, for jit
class Call:
    """`function(**arrays, **options)`."""

    function: Callable
    arrays: dict[str, Any]  # "dtype: sizes", where a size is a letter or a number; or a pytree
    options: dict[str, Any] = field(default_factory=dict)

    def __call__(self, arrays):
        return self.function(**arrays, **self.options)

    def example(self, **sizes: int) -> dict[str, Any]:
        """Arrays of these sizes. Integers are 0, 1, ... along the last axis, within every table."""
        return {name: _array(spec, SIZES | sizes) for name, spec in self.arrays.items()}

    def abstract(self, **sizes) -> dict[str, Any]:
        """Arrays without values, of these sizes, which may be symbolic."""
        return {name: abstract(spec, **sizes) for name, spec in self.arrays.items()}


def abstract(spec, **sizes):
    """An array without values: of "dtype: sizes", or like each array of a pytree."""
    if isinstance(spec, str):
        dtype, shape = _parsed(spec, SIZES | sizes)
        return jax.ShapeDtypeStruct(shape, dtype)
    return jax.tree.map(lambda x: jax.typeof(jnp.asarray(x)), spec)


def _parsed(spec: str, sizes) -> tuple[str, tuple]:
    dtype, letters = spec.split(":")
    return dtype, tuple(int(n) if n.isdigit() else sizes[n] for n in letters.split())


def _array(spec, sizes) -> Any:
    if not isinstance(spec, str):
        return spec
    dtype, shape = _parsed(spec, sizes)
    if dtype == "float32":
        return 0.5 + 0.3 * jnp.cos(jnp.arange(np.prod(shape), dtype=dtype)).reshape(shape)
    ids = np.broadcast_to(np.arange(shape[-1]), shape)
    return jnp.asarray(ids > 0 if dtype == "bool" else ids, dtype)


_IDS, _X = {"positions": "int32: B T"}, {"x": "float32: B T N 8"}
_PAIRS = {"q_positions": "int32: B T", "k_positions": "int32: B S"}
_Q, _K, _V = ({name: f"float32: B {n} N 8"} for name, n in (("q", "T"), ("k", "S"), ("v", "S")))
_KERNEL = {"r1": "float32: N", "r2": "float32: N"} | _PAIRS
_WEIGHT = {"weight": "float32: 16 B"}
_FIRE = jrope.Fire().init(jax.random.key(0), features=4, num_heads=2, head_dim=4, num_layers=1)
_XPOS = {"scale_base": 8.0, "origin": 1}
_REORDERED = {"num_heads": 2, "rotary_dim": 4, "axis": 0}

CALLS = {
    "alibi": Call(jrope.alibi, _PAIRS, {"num_heads": 3}),
    "alibi_slopes": Call(jrope.alibi_slopes, {}, {"num_heads": 3}),
    "apply_rotary": Call(
        jrope.apply_rotary, _X | {"cos": "float32: B T 4", "sin": "float32: B T 4"}
    ),
    "attention": Call(attention.attention, _Q | _K | _V, {"scale": 0.5}),
    "blocked_attention": Call(
        jrope.blocked_attention, _Q | _K | _V, {"scale": 0.5, "block": 4, "start": 0}
    ),
    "cope": Call(jrope.cope, {"table": "float32: 6 8"} | _Q | _K | _PAIRS, {"scale": 0.5}),
    "coupled": Call(
        jrope.coupled, {"segment_ids": "int32: B T", "starts": "int32: 8"}, {"steps": 2}
    ),
    "cos_sin": Call(exact.cos_sin, _IDS, {"increments": OLD.phase_increments}),
    "distance": Call(exact.distance, _PAIRS),
    "fire": Call(jrope.fire, {"params": _FIRE} | _PAIRS, {"threshold": 4.0}),
    "forgetting": Call(
        jrope.forgetting, {"q_total": "float32: B N T", "k_total": "float32: B N S"}
    ),
    "from_lengths": Call(jrope.from_lengths, {"cumulative_lengths": "int32: T"}, {"total": 8}),
    "from_mask": Call(jrope.from_mask, {"mask": "bool: B T"}),
    "from_segments": Call(jrope.from_segments, {"segment_ids": "int32: B T"}),
    "grid": Call(lambda rows, columns: jrope.grid(rows, columns), {}, {"rows": 2, "columns": 3}),
    "kerple_log": Call(jrope.kerple_log, _KERNEL),
    "kerple_power": Call(jrope.kerple_power, _KERNEL),
    "log_n": Call(jrope.log_n, _IDS, {"original_length": 3}),
    "lookup": Call(jrope.lookup, {"table": "float32: 8 4"} | _IDS),
    "randomized": Call(
        jrope.randomized, {"key": jax.random.key(0)}, {"length": 3, "max_length": 8}
    ),
    "rerotate": Call(jrope.rerotate, {"k": "float32: B T N 8", "old": OLD, "new": NEW} | _IDS),
    "rope": Call(jrope.rope, _X | _IDS, {"base": 100.0}),
    "rotate": Call(jrope.rotate, _X | _IDS | {"spectrum": OLD}),
    "rotation_tables": Call(jrope.rotation_tables, _IDS | {"spectrum": OLD}),
    "sandwich": Call(jrope.sandwich, _PAIRS, {"num_heads": 3, "dim": 4, "base": 100.0}),
    "sinusoidal": Call(jrope.sinusoidal, _IDS, {"dim": 6, "base": 100.0}),
    "spectrum": Call(jrope.spectrum, {}, {"dim": 8, "base": 100.0}),
    "t5": Call(jrope.t5, {"table": "float32: 6 N"} | _PAIRS, {"max_distance": 8}),
    "t5_bucket": Call(
        jrope.t5_bucket, {"relative": "int32: B T"}, {"buckets": 6, "max_distance": 8}
    ),
    "to_half": Call(jrope.to_half, _WEIGHT, _REORDERED),
    "to_interleaved": Call(jrope.to_interleaved, _WEIGHT, _REORDERED),
    "windowed": Call(jrope.windowed, _PAIRS, {"windows": (2, None, 3)}),
    "xpos": Call(jrope.xpos, _Q | _K | _PAIRS, _XPOS | {"base": 100.0}),
    "xpos_scale": Call(jrope.xpos_scale, _IDS, _XPOS | {"pairs": 4}),
    "zigzag": Call(jrope.zigzag, {}, {"length": 8, "shards": 2}),
}
