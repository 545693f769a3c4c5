"""What a transformer keeps of the tokens so far, so that the next ones are decoded without them."""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jrope import arguments, checks, serialization

__all__ = ["Cache", "empty_cache"]


class Cache(NamedTuple):
    """Keys and values of the tokens so far, in columns of which the first `used` are filled.

    Keys are stored rotated. A spectrum that changes in the middle of a sequence needs them rotated
    again by `jrope.rerotate`, which takes [..., S, N, H].

    Position ids keep their type, so that decoding sees the numbers that a full pass sees. An
    empty cache takes the type of the first tokens: int32, uint32, or float32 (with x64 also int64
    and float64). Later int32 ids become that type.
    """

    keys: tuple[jax.Array, ...]  # of each layer [B, N, S, H], as the products of attention read it
    values: tuple[jax.Array, ...]  # likewise
    positions: jax.Array  # [B, S], or [A, B, S] for ids of several axes
    token_mask: jax.Array  # [B, S]: filled, and not padding
    used: jax.Array  # scalar
    states: tuple[Any, ...]  # of each layer, what the encoding keeps of tokens [B, ..., S], or None

    @property
    def capacity(self) -> int:
        return self.token_mask.shape[1]

    def check_fits(self, config, batch: int):
        """Raises ValueError unless it is a cache of this `TransformerConfig` and batch."""
        wanted = config.layers, batch, config.heads, config.head_dim
        layers, (rows, heads, _, head_dim) = len(self.keys), self.keys[0].shape
        if (layers, rows, heads, head_dim) != wanted:
            names = "layers", "rows", "heads", "features a head"
            given, needed = (
                ", ".join(f"{n} {name}" for n, name in zip(sizes, names, strict=True))
                for sizes in ((layers, rows, heads, head_dim), wanted)
            )
            raise ValueError(f"decode: a cache of {given}, but the model and tokens have {needed}")

    def add_tokens(self, positions, token_mask) -> tuple["Cache", jax.Array, jax.Array]:
        """The cache with the ids and the mask of the next tokens, whose keys are still to come.

        Args:
          positions: [..., T], any that `decode` takes.
          token_mask: [B, T].

        Returns:
          The cache, the ids in its type, and whether it holds all ids: false where there is no
          room, or where a negative id comes together with one above int32.

        Raises:
          ValueError: if that is known to be false.
        """
        columns, ids, fits = _of_one_type(self.positions, positions)
        shape = (*columns.shape[:-1], token_mask.shape[1])
        if ids.ndim > len(shape) or (ids.ndim == 3 and ids.shape[0] != shape[0]):
            axes = f"make the cache with axes={ids.shape[0]}"
            raise ValueError(f"decode: positions {ids.shape} do not fit ids {shape}: {axes}")
        ids = jnp.broadcast_to(ids, shape)
        cache = self._replace(
            positions=_write(columns, ids, self.used, -1),
            token_mask=_write(self.token_mask, token_mask, self.used, -1),
        )
        return cache, ids, fits & (self.used + token_mask.shape[1] <= self.capacity)

    def last_state(self, layer: int) -> Any:
        """What the encoding keeps of the last token in use; zeros where there is none."""
        last = jnp.maximum(self.used - 1, 0)
        read = partial(jax.lax.dynamic_index_in_dim, index=last, axis=-1, keepdims=False)
        return jax.tree.map(read, self.states[layer])

    def add_layer(self, layer: int, k, v, state) -> tuple[jax.Array, jax.Array, Any]:
        """Keys and values [B, N, S, H] and the state of one layer, with those of new tokens."""
        keys, values = (
            _write(columns[layer], new.swapaxes(1, 2), self.used, 2)
            for columns, new in ((self.keys, k), (self.values, v))
        )
        if jax.tree.structure(state) != jax.tree.structure(self.states[layer]):
            raise ValueError(
                "decode: the cache is of another encoding, which keeps another state of each token:"
                " make it with the config of this model"
            )
        write = partial(_write, start=self.used, axis=-1)
        return keys, values, jax.tree.map(write, self.states[layer], state)


serialization.register(Cache, lambda _, leaves: Cache(*leaves))


def _write(columns, new, start, axis: int) -> jax.Array:
    at = [0] * new.ndim
    at[axis] = start
    return jax.lax.dynamic_update_slice(columns, new.astype(columns.dtype), at)


def _of_one_type(columns, positions) -> tuple[jax.Array, jax.Array, Any]:
    """Ids of a cache and new ones in one type that holds both, and whether it does."""
    ids = checks.host(checks.position_ids("positions", positions))
    if isinstance(ids, np.ndarray | np.generic) and not jax.config.read("jax_enable_x64"):
        ids = _narrow(ids)
    types = [columns.dtype, ids.dtype]
    floating = [dtype for dtype in types if jnp.issubdtype(dtype, jnp.floating)]
    if floating:
        dtype = jnp.result_type(*floating)
    else:  # an unsigned integer, where there is one, since the wider signed one needs x64
        dtype = max(types, key=lambda dtype: (jnp.iinfo(dtype).bits, jnp.iinfo(dtype).min == 0))
    fits = True
    if jnp.issubdtype(dtype, jnp.unsignedinteger):
        fits = jnp.all(columns >= 0) & jnp.all(jnp.asarray(ids) >= 0)
        if checks.is_concrete(fits) and not fits:
            raise ValueError(
                f"decode: a cache of {dtype} ids cannot hold negative positions: keep all ids below"
                " 2^31, or set jax_enable_x64"
            )
    return columns.astype(dtype), jnp.asarray(ids, dtype), fits


def _narrow(ids):
    """Known ids in 32 bits, as JAX has them without x64; JAX itself would cut them."""
    for dtype in (np.int32, np.uint32):
        if jnp.issubdtype(ids.dtype, jnp.floating):
            return ids.astype(np.float32)
        if not ids.size or (np.iinfo(dtype).min <= ids.min() and ids.max() <= np.iinfo(dtype).max):
            return ids.astype(dtype)
    raise ValueError(
        f"decode: positions must be within uint32, got {ids.min()}..{ids.max()}: set"
        " jax_enable_x64 for larger ones"
    )


@arguments.checked()
def empty_cache(config, batch: int, capacity: int, *, axes: int | None = None) -> Cache:
    """A cache with room for `capacity` tokens in each row, of a `TransformerConfig`.

    `axes` is A where position ids have several axes.
    """

    if not hasattr(config, "sizes"):
        raise TypeError(f"empty_cache: config must be a TransformerConfig, got {config!r}")
    checks.at_least("empty_cache", "batch", batch, 0)
    checks.at_least("empty_cache", "capacity", capacity, 0)

    def columns():  # separate arrays, so that a cache can be donated
        shape = (batch, config.heads, capacity, config.head_dim)
        return tuple(jnp.zeros(shape) for _ in range(config.layers))

    def state(index):
        params = config.encoding.init(jax.random.key(0), **config.sizes)
        encoding, own = config.encoding.layer(params, index)
        return encoding.state(own, jnp.zeros((batch, capacity, config.features)), layer=index)

    def zeros(index):
        shapes = jax.eval_shape(lambda: state(index))
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)

    shape = (batch, capacity) if axes is None else (axes, batch, capacity)
    return Cache(
        columns(),
        columns(),
        jnp.zeros(shape, jnp.int32),
        jnp.zeros((batch, capacity), bool),
        jnp.int32(0),
        tuple(map(zeros, range(config.layers))),
    )
