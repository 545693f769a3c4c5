"""The packages that jrope is compared with: the dependency group `bench`."""

import importlib
import sys
from collections.abc import Callable
from typing import Any, TypeVar

import jax.numpy as jnp
import numpy as np

Form = TypeVar("Form")


class Missing(Exception):
    """A package is not installed."""


def peer(name: str) -> Any:
    """The module of that name.

    Raises:
      Missing: if it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        remedy = "uv run --group bench python -m benchmarks"
        raise Missing(f"{name} is not installed ({error}); {remedy} installs it") from None


def forms_of_peers(make: Callable[..., dict[str, Form]], *arguments: Any) -> dict[str, Form]:
    """`make(*arguments)`, the forms of other packages; none if a package is not installed."""
    try:
        return make(*arguments)
    except Missing as error:
        print(f"Left out: {error}", file=sys.stderr)
        return {}


def as_torch(x) -> Any:
    """A jax array as a torch tensor."""
    tensor = peer("torch").tensor(np.asarray(x.astype(jnp.float32)))
    return tensor.to(getattr(peer("torch"), str(x.dtype)))


def check_close(one, other, tolerance: float):
    """Raises AssertionError if two results differ by more than `tolerance` of the largest value."""
    one, other = (np.asarray(x, np.float32) for x in (one, other))
    worst = np.abs(one - other).max() / np.abs(other).max()
    if not worst <= tolerance:
        message = f"results differ by {worst:.1e} of the largest value, more than {tolerance:.0e}"
        raise AssertionError(message)
