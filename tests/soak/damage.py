"""Values, text and bytes, broken in every way: strategies for hypothesis."""

import copy
import json
from collections.abc import Callable
from typing import Any

import hypothesis
from hypothesis import HealthCheck
from hypothesis import strategies as st

HOSTILE = ["match", "../../x", "a\nb", "<script>alert(1)</script>", "\x1b[2J", "'\"`", "a.b"]
HUGE = [2**31, 2**63, 10**18, -(10**9), 1e300, 5e-324]
PIECES = [b"[", b"]", b"{", b"\n", b'"', b"=", b".", b"0", b"NaN", b"9" * 5000, b"[" * 5000]
MANY = 500  # from so many examples on, they are different each time

words = st.text(max_size=8) | st.sampled_from(HOSTILE)
_number = st.integers(-2, 20) | st.floats() | st.sampled_from(HUGE)
_unprintable = st.builds(pow, st.just(10), st.just(4999))  # has more digits than Python writes
scalars = st.none() | st.booleans() | _number | _unprintable | words
anything = st.recursive(
    scalars | st.dates() | st.datetimes(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)


def _is_json(value: Any) -> bool:
    try:
        return bool(json.dumps(value))
    except (TypeError, ValueError):
        return False


anything_json = anything.filter(_is_json)


@st.composite
def mutated(draw, value: Any, values=anything):
    """A tree of dictionaries and lists, changed in one to four places."""
    value = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, 4))):
        places = list(_places(value))
        if not places:
            break
        # drawn by index: hypothesis would inspect all that each place holds
        place = st.integers(0, len(places) - 1)
        (container, key), (other, other_key) = places[draw(place)], places[draw(place)]
        is_dict, number = isinstance(container, dict), container[key]
        ways = ["delete", "replace", "add", "graft", "nudge", "rename"]
        match draw(st.sampled_from(ways)):
            case "delete":
                del container[key]
            case "graft":
                container[key] = copy.deepcopy(other[other_key])
            case "nudge" if type(number) in (int, float):
                container[key] = draw(st.sampled_from([number + 1, -number, 2 * number]))
            case "add" if is_dict:
                container[draw(words)] = draw(values)
            case "rename" if is_dict:
                container[draw(words | st.just(key[:-1]))] = container.pop(key)
            case _:
                container[key] = draw(values)
    return value


def _places(value: Any):
    """Every place in a tree of dictionaries and lists, as its container and key."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


@st.composite
def corrupted(draw, data: bytes):
    """Bytes of which a few are cut, changed, repeated or inserted."""
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(data)))
        end = begin + draw(st.sampled_from([0, 0, 1, 2, 20, len(data)]))
        pieces = st.sampled_from([b"", b"\xff", *PIECES, 2 * data[begin:end]])
        data = data[:begin] + draw(pieces | st.binary(max_size=3)) + data[end:]
    return data


def try_many(check: Callable[[Any], None], strategy: st.SearchStrategy, count: int):
    """Checks this many examples; raises for the simplest one that fails."""
    slow = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    settings = hypothesis.settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=count < MANY,
        suppress_health_check=slow,
    )
    settings(hypothesis.given(strategy)(check))()
