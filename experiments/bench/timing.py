"""Times that are taken side by side, and the ratios between them."""

import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

ROUNDS = 15
A_TURN = 0.05  # seconds at least, over as many calls as that takes
WARM_UP = 3

Call = Callable[[], Any]  # which does not return before all is computed


class Ratio(NamedTuple):
    """How many times as long a form took as the base: the median over rounds, and the range of the middle half of them."""

    form: str
    seconds: float
    ratio: float
    low: float
    high: float


def compare(forms: Mapping[str, Call]) -> list[Ratio]:
    """The times of all forms relative to that of the first.

    In each round every form has a turn, in random order, so that whatever slows the machine slows all of them.
    """
    calls = {}
    for name, call in forms.items():
        for _ in range(WARM_UP):
            call()
        began = time.perf_counter()
        call()
        calls[name] = max(1, round(A_TURN / max(time.perf_counter() - began, 1e-9)))
    rounds = [dict(_turns(forms, calls, random.Random(i))) for i in range(ROUNDS)]
    base = next(iter(forms))
    return [_ratio(name, [times[name] for times in rounds], [times[base] for times in rounds]) for name in forms]


def _turns(forms: Mapping[str, Call], calls: Mapping[str, int], moments: random.Random) -> Iterator[tuple[str, float]]:
    for name in moments.sample(list(forms), len(forms)):
        began = time.perf_counter()
        for _ in range(calls[name]):
            forms[name]()
        yield name, (time.perf_counter() - began) / calls[name]


def _ratio(name: str, times: list[float], base: list[float]) -> Ratio:
    ratios = [own / other for own, other in zip(times, base, strict=True)]
    low, middle, high = statistics.quantiles(ratios, n=4)
    return Ratio(name, statistics.median(times), middle, low, high)
