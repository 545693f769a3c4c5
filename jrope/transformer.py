"""The small transformer, under the name that users import: see `jrope.models`."""

from jrope.models.cache import *  # noqa: F403
from jrope.models.transformer import *  # noqa: F403
