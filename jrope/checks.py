"""Argument checks, written once: each message says what is wrong and what is allowed."""

import math
from collections.abc import Callable, Collection
from functools import wraps
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.core import Tracer

# Finite, so that no row of a softmax is all -inf (which makes NaN) and several add up without
# overflow; so low that a float32 score added to it is absorbed, and exp gives exactly 0 next to
# any key that is seen. bfloat16 can hold it.
MASK_VALUE = -1e30

Function = TypeVar("Function", bound=Callable)


def is_concrete(x) -> bool:
    """Whether the value of `x` can be read now; a tracer's and a symbolic size's cannot."""
    return not isinstance(x, Tracer) and not export.is_symbolic_dim(x)


def host(x: Any) -> Any:
    """A concrete JAX array as NumPy's: inside jit, an operation on the former would be traced.

    A symbolic size of `jax.export`, which compares with few numbers, becomes a traced number.
    """
    if export.is_symbolic_dim(x):
        return jnp.asarray(x)
    return np.asarray(x) if isinstance(x, jax.Array) and is_concrete(x) else x


def number(x: Any) -> Any:
    """A concrete number of JAX or NumPy as Python's, in a tuple or list too; the rest as it is.

    Inside jit, arithmetic on a JAX scalar is traced, even where its value is known. Python's
    numbers can be sizes there, and have an equality and a hash. A concrete array becomes a list.
    """
    if type(x) in (tuple, list):
        return type(x)(map(number, x))
    concrete = isinstance(x, jax.Array | np.ndarray | np.generic) and is_concrete(x)
    return np.asarray(x).tolist() if concrete else x


def position_ids(name: str, positions: Any) -> Any:
    """Position ids as an array in which they are the same numbers and arithmetic does not wrap.

    Integers narrower than 32 bits become int32; other arrays stay as they are.

    Raises:
      TypeError: unless they are a number or an array of integers, float32 or float64. Narrower
        floats are refused: bfloat16 has no 257, float16 no 2049.
      ValueError: if a known one is 2^63 or more.
    """
    is_number = isinstance(positions, int | float) and not isinstance(positions, bool)
    ids: Any = np.asarray(positions) if is_number else positions
    dtype = ids.dtype if isinstance(ids, jax.Array | np.ndarray | np.generic) else None
    is_integer = dtype is not None and jnp.issubdtype(dtype, jnp.integer)
    if not is_integer and dtype not in (np.float32, np.float64):
        given = f"a {type(positions).__name__}" if dtype is None else f"an array of {dtype}"
        wanted = "an array (or one number) of integers, float32 or float64"
        raise TypeError(f"{name} must be {wanted}, got {given}: convert it with jnp.asarray")
    if dtype == np.uint64 and is_concrete(ids) and np.any(host(ids) >= 2**63):
        raise ValueError(f"{name} must be below 2^63, got {host(ids).max()}")
    return ids.astype(np.int32) if is_integer and jnp.iinfo(dtype).bits < 32 else ids


def positive(owner: str, name: str, value: Any):
    """Raises ValueError unless a concrete number is positive and finite."""
    if is_concrete(value) and not 0 < host(value) < math.inf:
        raise ValueError(f"{owner}: {name} must be positive and finite, got {value}")


def at_least(owner: str, name: str, value: Any, least: float):
    """Raises ValueError unless a number is at least `least`; NaN is not. Symbolic sizes are."""
    if not (export.is_symbolic_dim(value) or host(value) >= least):
        raise ValueError(f"{owner}: {name} must be at least {least}, got {value}")


def finite(
    owner: str, name: str, value: Any, *, least: float | None = None, above: float | None = None
):
    """Raises ValueError unless a number is finite and at least `least`, or above `above`."""
    if not is_concrete(value):
        return
    number = host(value)
    inside = number >= least if least is not None else number > above
    if not (math.isfinite(number) and inside):
        wanted = f"at least {least:g}" if least is not None else f"above {above:g}"
        raise ValueError(f"{owner}: {name} must be a finite number {wanted}, got {value!r}")


def one_of(owner: str, name: str, value: Any, allowed: Collection):
    """Raises ValueError unless the value is one of those allowed."""
    if value not in allowed:
        raise ValueError(f"{owner}: {name} must be one of {tuple(allowed)}, got {value!r}")


def even(owner: str, name: str, value: int):
    """Raises ValueError unless a number of features is even and at least 2."""
    if value < 2 or value % 2:
        raise ValueError(
            f"{owner}: {name} must be an even number of features, at least 2, got {value}"
        )


def renamed(**names: str) -> Callable[[Function], Function]:
    """A decorator: the function also takes the old names of its keywords, `old="new"`."""

    def decorate(function: Function) -> Function:
        @wraps(function)
        def call(*args, **options):
            old = {names[key]: options.pop(key) for key in names if key in options}
            return function(*args, **options, **old)

        return call  # type: ignore[return-value]

    return decorate
