"""How many steps to take at once: as many as take about a second, so that a stop is never far, and no fewer."""

import time
from contextlib import contextmanager

SECONDS = 1.0


class Chunk:
    """Grows from one step, at most tenfold at a time. How steps are divided into chunks changes no result."""

    def __init__(self):
        self.steps = 1

    @contextmanager
    def timed(self, steps: int):
        """Around so many steps: sets how many to take next."""
        began = time.monotonic()
        yield
        fitting = int(steps * SECONDS / max(time.monotonic() - began, 1e-9))
        self.steps = min(max(fitting, 1), 10 * self.steps)
