"""Times that are taken side by side, and the ratios between them."""

import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

ROUNDS = 11
A_TURN = 0.05  # seconds at least, over as many calls as that takes
WARM_UP = 3
LONG = 0.5  # seconds, after which what caches and memory held before no longer counts

Call = Callable[[], Any]  # which does not return before all is computed


class Case(NamedTuple):
    """Forms to be timed, or their times if these cannot be taken in turns, and where on a curve of growth they are."""

    name: str
    forms: "Mapping[str, Call] | list[Ratio]"
    at: float | None = None


class Ratio(NamedTuple):
    """How many times as long a form took as the base: the median over rounds, and the range of the middle half of them."""

    form: str
    seconds: float
    ratio: float
    low: float
    high: float


def compare(forms: Mapping[str, Call], rounds: int = ROUNDS) -> list[Ratio]:
    """The times of all forms relative to that of the first.

    What they return has been found equal before, where it should be. In each round every form has a turn, in random order, so
    that whatever slows the machine slows all of them.
    """
    once = {}
    for name, call in forms.items():
        call()  # which may compile
        for _ in range(WARM_UP):
            began = time.perf_counter()
            call()
            once[name] = max(time.perf_counter() - began, 1e-9)
            if once[name] > LONG:
                break
    taken = [dict(_turns(forms, once, random.Random(i))) for i in range(rounds)]
    base = next(iter(forms))
    return [_ratio(name, [times[name] for times in taken], [times[base] for times in taken]) for name in forms]


def ratios(seconds: Mapping[str, float]) -> list[Ratio]:
    """Times that were each taken once, relative to the first."""
    base = next(iter(seconds.values()))
    return [Ratio(name, own, own / base, own / base, own / base) for name, own in seconds.items()]


def _turns(forms: Mapping[str, Call], once: Mapping[str, float], moments: random.Random) -> Iterator[tuple[str, float]]:
    """Each form and its time, where `once` says about how long a call takes."""
    for name in moments.sample(list(forms), len(forms)):
        calls = max(1, round(A_TURN / once[name]))
        if once[name] < LONG:
            forms[name]()  # not timed: it finds the caches and the memory as another form left them
        began = time.perf_counter()
        for _ in range(calls):
            forms[name]()
        yield name, (time.perf_counter() - began) / calls


def _ratio(name: str, times: list[float], base: list[float]) -> Ratio:
    ratios = [own / other for own, other in zip(times, base, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return Ratio(name, statistics.median(times), middle, low, high)
