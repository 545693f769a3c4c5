"""Generation, under the name that users import: see `jrope.models.generate`."""

from jrope.models.generate import *  # noqa: F403
