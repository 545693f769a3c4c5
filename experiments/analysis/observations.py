"""What readers should notice: where a scaling does not help, what it costs, and why."""

import math
import statistics

from experiments.analysis.table import MIN_EFFECT, Entry, Results


def observations(results: Results) -> list[str]:
    """Sentences made from the numbers; empty where there is nothing to notice."""
    scaled = [e for e in results if e.parent != e.label and e.has_fitted]
    worse = [_where_worse(results, entry) for entry in scaled]
    return [*filter(None, worse), *_costs(results, scaled), *_ramps(results)]


def _gains(results: Results, entry: Entry, multiple: float) -> list[float]:
    """How much better each seed scores than the trained encoding that it extends."""
    own, baseline = (e.values(multiple) for e in (entry, results[entry.parent]))
    if not own or not baseline:
        return []
    return list(map(results.main_metric.gain, own, baseline))


def _where_worse(results: Results, entry: Entry) -> str:
    """The lengths at which every seed scores worse than without the scaling."""
    parent, metric = results[entry.parent], results.main_metric
    worse = []
    for multiple in results.multiples:
        gains = _gains(results, entry, multiple)
        if multiple > 1 and gains and max(gains) < 0 and statistics.fmean(gains) <= -MIN_EFFECT:
            own, baseline = (metric.text(e.cell(multiple).mean) for e in (entry, parent))  # pyright: ignore[reportOptionalMemberAccess]
            worse.append(f"{own} against {baseline} at {multiple:g}x")
    if not worse:
        return ""
    return f"{entry.label} is worse than {parent.label} in every seed: {', '.join(worse)}."


def _costs(results: Results, scaled: list[Entry]) -> list[str]:
    """What scalings cost at the trained length."""
    share = results.main_metric.unit == "share"
    listed = []
    for entry in scaled:
        gains = _gains(results, entry, 1)
        if gains and (cost := -statistics.fmean(gains)) >= MIN_EFFECT:
            listed.append(
                f"{entry.label} {100 * cost:.0f}" if share else f"{entry.label} {cost:.2f}"
            )
    unit = f"points of {results.main_metric.title.lower()}" if share else "nats"
    return [f"Cost at the trained length, in {unit}: {', '.join(listed)}."] if listed else []


def _ramps(results: Results) -> list[str]:
    """YaRN's default ramp suits thousands of tokens; in a short context it scales every pair."""
    sentences = []
    for entry in results:
        scaling = entry.section.get("scaling")
        beta = scaling.get("beta_fast") if isinstance(scaling, dict) else None
        frequencies = results[entry.parent].frequencies
        if isinstance(beta, int | float) and frequencies and entry.swept is None:
            turns = max(frequencies) * results.task["trained_context"] / (2 * math.pi)
            if beta > turns:
                sentences.append(
                    f"{entry.label} keeps pairs that make at least {beta:g} turns within the"
                    f" trained context (beta_fast), but the fastest pair makes only {turns:.0f}:"
                    " it slows all pairs after that one."
                )
    return sentences
