"""Argument checks, written once: each message says what is wrong and what is allowed."""

import math
from collections.abc import Callable, Collection
from functools import wraps
from typing import Any, TypeVar

import jax
import numpy as np
from jax.core import Tracer

# Finite, so that no row of a softmax is all -inf (which makes NaN) and several add up without
# overflow; so low that a float32 score added to it is absorbed, and exp gives exactly 0 next to
# any key that is seen. bfloat16 can hold it.
MASK_VALUE = -1e30

Function = TypeVar("Function", bound=Callable)


def is_concrete(x) -> bool:
    """Whether the value of `x` can be read now, on the host; a tracer's cannot."""
    return not isinstance(x, Tracer)


def host(x: Any) -> Any:
    """A concrete JAX array as NumPy's: inside jit, an operation on the former would be traced."""
    return np.asarray(x) if isinstance(x, jax.Array) and is_concrete(x) else x


def positive(owner: str, name: str, value: Any):
    """Raises ValueError unless a concrete number is positive and finite."""
    if is_concrete(value) and not 0 < host(value) < math.inf:
        raise ValueError(f"{owner}: {name} must be positive and finite, got {value}")


def at_least(owner: str, name: str, value: Any, least: float):
    """Raises ValueError unless a number is at least `least`; NaN is not."""
    if not value >= least:
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
