"""The packages that jrope is compared with: the dependency group `bench`, and never dependencies of its own."""

import importlib
from typing import Any


class Missing(Exception):
    """A package that is not installed."""


def peer(name: str) -> Any:
    """The module of that name.

    Raises:
      Missing: if it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        remedy = "uv run --group bench python -m experiments.bench"
        raise Missing(f"{name} is not installed ({error}); with all that is compared: {remedy}") from None


def as_torch(x) -> Any:
    """A jax array as a torch tensor of its own."""
    import jax.numpy as jnp
    import numpy as np

    tensor = peer("torch").tensor(np.asarray(x.astype(jnp.float32)))
    return tensor.to(getattr(peer("torch"), str(x.dtype)))


def nearly(one, other, tolerance: float):
    """Refuses to go on if two results are not equal within the tolerance, relative to the largest."""
    import numpy as np

    one, other = (np.asarray(x, np.float32) for x in (one, other))
    worst = np.abs(one - other).max() / np.abs(other).max()
    if not worst <= tolerance:
        raise AssertionError(f"results differ by {worst:.1e} of the largest, more than {tolerance:.0e}")
