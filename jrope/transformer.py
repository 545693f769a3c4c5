"""The small transformer, under the name that users import: see `jrope.models.transformer`."""

from jrope.models.transformer import *  # noqa: F403
