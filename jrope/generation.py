"""Generation, under the name that users import: see `jrope.models.generate`."""

from jrope.models.generate import generate, greedy

__all__ = ["generate", "greedy"]
