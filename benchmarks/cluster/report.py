"""What was measured, as tables."""

import statistics
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import msgspec

from benchmarks.cluster.turns import VERBS, Figures, Turn, Variant
from benchmarks.measure import p99
from benchmarks.printing import aligned, number

VARIANT = "kube-scheduler with"
LIMITS = {Variant.PREEMPT: (1.1, 1.15), Variant.ALL: (1.5, 1.5)}
"""Variant -> limit on its slowdown, and what still counts as noise."""


class Phase(NamedTuple):
    """A part of each turn, and the unit of its rate."""

    name: Literal["burst", "preemptions"]
    unit: str
    scale: int


class Report(msgspec.Struct, frozen=True):
    about: dict[str, Any]
    turns: list[Turn]
    calls: dict[str, list[float]]
    """Verb -> seconds of each call, as a proxy between kube-scheduler and the extender saw it in a turn of its own."""


def report(measured: Report) -> str:
    """Render everything; the slowdown is the figure."""
    loads = [turn.load_average for turn in measured.turns]
    burst, preemptions = Phase("burst", "pods/s", 1), Phase("preemptions", "per minute", 60)
    blocks = [
        "\n".join(f"{name}: {value}" for name, value in measured.about.items()),
        f"load average before the turns: {min(loads):.1f} .. {max(loads):.1f}",
        f"BURST of small pods, from 10 % to 90 % of them\n{_rates(measured.turns, burst)}",
        f"CPU TIME, ms for each pod of the burst\n{_cpu(measured.turns, burst)}",
    ]
    if measured.turns[0].preemptions is not None:
        blocks += [
            f"PREEMPTORS, one after another on full nodes\n{_rates(measured.turns, preemptions)}",
            _waits(measured.turns),
            f"CPU TIME, ms for each preemptor\n{_cpu(measured.turns, preemptions)}",
        ]
    blocks += [
        f"CALLS, in the extender (all turns) and as seen by a proxy in front of it (one more turn)\n{_calls(measured)}",
        verdict(measured.turns),
    ]
    return "\n\n".join(blocks)


def verdict(turns: Sequence[Turn]) -> str:
    """Return a line for each limit on the slowdown of the burst: whether the median over the rounds meets it."""
    found = {one: statistics.median(slowdowns(turns, "burst", one)) for one in _variants(turns) if one in LIMITS}
    lines = []
    for variant, slowdown in found.items():
        limit, nearly = LIMITS[variant]
        met = "met" if slowdown <= limit else f"met with noise (≤ {nearly})" if slowdown <= nearly else "NOT MET"
        lines.append(f"{met}: slowdown of the burst with {variant} ≤ {limit} (found {number(slowdown)})")
    return "\n".join(lines)


def slowdowns(turns: Sequence[Turn], phase: str, variant: Variant) -> list[float]:
    """Return for each round how many times slower the variant was than no extender."""
    without, own = _figures(turns, phase, Variant.NONE), _figures(turns, phase, variant)
    return [base.per_second / one.per_second for base, one in zip(without, own, strict=True)]


def _figures(turns: Sequence[Turn], phase: str, variant: Variant) -> list[Figures]:
    return [getattr(turn, phase) for turn in turns if turn.variant == variant]


def _variants(turns: Sequence[Turn]) -> list[Variant]:
    """Return the variants that were measured, in the order of the turns."""
    return list(dict.fromkeys(turn.variant for turn in turns))


def _rates(turns: Sequence[Turn], phase: Phase) -> str:
    lines = [[VARIANT, phase.unit, "min .. max", "slowdown", "min .. max"]]
    for variant in _variants(turns):
        rates = [phase.scale * one.per_second for one in _figures(turns, phase.name, variant)]
        ratios = [] if variant == Variant.NONE else slowdowns(turns, phase.name, variant)
        lines.append([variant, *_spread(rates), *_spread(ratios)])
    return aligned(lines, (VARIANT,))


def _waits(turns: Sequence[Turn]) -> str:
    lines = [[VARIANT, "until bound, p50 ms", "p99 ms", "evicted for each"]]
    for variant in _variants(turns):
        figures = _figures(turns, "preemptions", variant)
        seconds = [each for one in figures for each in one.seconds]
        times = (number(1000 * one(seconds)) for one in (statistics.median, p99))
        lines.append([variant, *times, number(statistics.fmean(one.victims for one in figures))])
    return aligned(lines, (VARIANT,))


def _cpu(turns: Sequence[Turn], phase: Phase) -> str:
    processes = list(dict.fromkeys(name for turn in turns for name in getattr(turn, phase.name).cpu))
    lines = [[VARIANT, *processes]]
    for variant in _variants(turns):
        figures = _figures(turns, phase.name, variant)
        each = ([1000 * one.cpu[name] / one.pods for one in figures if name in one.cpu] for name in processes)
        lines.append([variant, *(number(statistics.median(some)) if some else "" for some in each)])
    return aligned(lines, (VARIANT,))


def _spread(values: Sequence[float]) -> list[str]:
    """Return the cells of a median and a range; empty ones without values."""
    return (
        [number(statistics.median(values)), f"{number(min(values))} .. {number(max(values))}"] if values else ["", ""]
    )


def _calls(measured: Report) -> str:
    lines = [["verb", "calls", "mean in extender ms", "recorded", "p50 ms", "p99 ms"]]
    for verb in VERBS:
        inside = [
            one.calls[verb] for turn in measured.turns for one in (turn.burst, turn.preemptions) if one and one.calls
        ]
        count, total = sum(calls for calls, _ in inside), sum(seconds for _, seconds in inside)
        seen = measured.calls[verb]
        line = [verb, str(count), number(1000 * total / count) if count else "", str(len(seen))]
        line += [number(1000 * one(seen)) if seen else "" for one in (statistics.median, p99)]
        lines.append(line)
    return aligned(lines, ("verb",))
