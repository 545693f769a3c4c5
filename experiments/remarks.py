"""What a reader of the results should be told in words: where a scaling does not help, what it costs, and why."""

import math

from experiments import results
from experiments.results import WORTH, Result


def remarks(result: Result) -> list[str]:
    """Sentences made from the numbers; none where there is nothing to say."""
    return [*_unhelpful(result), *_costs(result), *_ramps(result)]


def _scaled(result: Result) -> list[tuple[str, str]]:
    """Encodings that run on weights trained, and fitted, as another; each with that one."""
    parents = result["task"]["parents"]
    return [(label, parents[label]) for label in parents if parents[label] != label and results.has_fitted(result, label)]


def _gain(result: Result, label: str, parent: str, multiple: float) -> list[float]:
    """The gain in accuracy over the trained encoding, seed by seed."""
    own, before = (results.values(result, name, multiple, "accuracy") for name in (label, parent))
    return [a - b for a, b in zip(own, before, strict=True)] if own and before else []


def _unhelpful(result: Result) -> list[str]:
    """Scalings that are worse than none in every seed."""
    sentences = []
    for label, parent in _scaled(result):
        worse = []
        for multiple in results.multiples(result):
            gain = _gain(result, label, parent, multiple)
            if multiple > 1 and gain and max(gain) < 0 and sum(gain) / len(gain) <= -WORTH:
                own, before = (results.cell(result, name, multiple, "accuracy") for name in (label, parent))
                worse.append(f"{100 * own.mean:.0f} % against {100 * before.mean:.0f} % at {multiple:g}x")  # type: ignore
        if worse:
            sentences.append(f"{label} is worse than {parent} as it was trained, in every seed: {', '.join(worse)}.")
    return sentences


def _costs(result: Result) -> list[str]:
    """What is lost at the trained length."""
    lost = []
    for label, parent in _scaled(result):
        gain = _gain(result, label, parent, 1)
        if gain and sum(gain) / len(gain) <= -WORTH:
            lost.append(f"{label} {-100 * sum(gain) / len(gain):.0f}")
    return [f"Points of accuracy lost at the trained length itself: {', '.join(lost)}."] if lost else []


def _ramps(result: Result) -> list[str]:
    """YaRN whose ramp begins above the fastest pair: its constants were chosen for contexts of thousands of tokens."""
    sentences = []
    for label, parent in result["task"]["parents"].items():
        scaling = result["config"]["encodings"].get(label, {}).get("scaling") or {}
        frequencies = result["bands"].get(parent, {"frequencies": []})["frequencies"]
        beta = scaling.get("beta_fast") if isinstance(scaling, dict) else None
        if isinstance(beta, int | float) and frequencies and results.swept(result, label) is None:
            turns = max(frequencies) * result["task"]["trained_context"] / (2 * math.pi)
            if beta > turns:
                sentences.append(
                    f"{label} leaves alone what turns {beta:g} times within the trained context (beta_fast), but the fastest"
                    f" pair turns {turns:.0f} times: all pairs after it are slowed."
                )
    return sentences
