"""Times that are measured in turns, and the ratios between them."""

import random
import resource
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

ROUNDS = 11
TURN_SECONDS = 0.05  # a turn repeats a call until it takes about this long
WARM_UP_CALLS = 3
LONG_SECONDS = 0.5  # what caches and memory hold does not matter for a call this long

Call = Callable[[], Any]  # returns when everything is computed


class Ratio(NamedTuple):
    """The time of a form relative to the first form: the median and the middle half of rounds."""

    form: str
    seconds: float
    ratio: float
    low: float
    high: float


class Case(NamedTuple):
    """Forms that compute the same thing.

    Attributes:
      name: what they compute.
      forms: a `Call` for each form, or its seconds where it was measured once.
      at: the place on a curve, None for a case that is no part of a curve.
      rounds: how many turns each form has.
    """

    name: str
    forms: Mapping[str, Any]
    at: float | None = None
    rounds: int = ROUNDS

    def ratios(self) -> list[Ratio]:
        """The times of all forms."""
        first = next(iter(self.forms.values()))
        if callable(first):
            return compare(self.forms, self.rounds)
        return [_ratio(name, [seconds], [first]) for name, seconds in self.forms.items()]


def compare(forms: Mapping[str, Call], rounds: int = ROUNDS) -> list[Ratio]:
    """The times of all forms relative to the first form.

    In each round every form has a turn, in random order: what slows the machine slows all of them.
    """
    once = {name: _warm_up(call) for name, call in forms.items()}
    turns = [_round(forms, once, random.Random(i)) for i in range(rounds)]
    base = [times[next(iter(forms))] for times in turns]
    return [_ratio(name, [times[name] for times in turns], base) for name in forms]


def _warm_up(call: Call) -> float:
    """Compiles, and returns about how many seconds a call takes."""
    call()
    seconds = 0.0
    for _ in range(WARM_UP_CALLS):
        began = time.perf_counter()
        call()
        seconds = max(time.perf_counter() - began, 1e-9)
        if seconds > LONG_SECONDS:
            break
    return seconds


def _round(
    forms: Mapping[str, Call], once: Mapping[str, float], order: random.Random
) -> dict[str, float]:
    """The seconds of each form; `once` says about how long a call takes."""
    times = {}
    for name in order.sample(list(forms), len(forms)):
        calls = max(1, round(TURN_SECONDS / once[name]))
        if once[name] < LONG_SECONDS:
            forms[name]()  # not timed: it refills the caches that another form has used
        began = time.perf_counter()
        for _ in range(calls):
            forms[name]()
        times[name] = (time.perf_counter() - began) / calls
    return times


def _ratio(name: str, times: Sequence[float], base: Sequence[float]) -> Ratio:
    ratios = [own / other for own, other in zip(times, base, strict=True)]
    single = len(ratios) == 1
    low, middle, high = ratios * 3 if single else statistics.quantiles(ratios, n=4)
    return Ratio(name, statistics.median(times), middle, low, high)


@contextmanager
def seconds_of_children() -> Iterator[dict[str, float]]:
    """The "wall" and "CPU" seconds of the processes that start and end within the block."""
    seconds: dict[str, float] = {}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    yield seconds
    seconds["wall"] = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds["CPU"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
