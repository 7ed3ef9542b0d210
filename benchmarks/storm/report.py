"""Compare the presets side by side: one storm under each, as a table, and as rows with the promised limits.

Rule: a preemptor counts for the share that a preset places if `upstream` placed it and, at some attempt under the
preset, a placement existed that broke no budget in the actual state; other obstacles to such a placement (the sample
that kube-scheduler sends, the cooldown, changes not observed yet) count against the preset.
"""

import statistics
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass

from benchmarks.measure import Limit, Row
from benchmarks.storm.plan import Storm
from benchmarks.storm.policies import POLICIES
from benchmarks.storm.simulate import Outcome, simulate
from benchmarks.world import World

GROUP = "storm"
UPSTREAM = "upstream"
NO_VIOLATIONS = Limit("≤", 0)
MIN_PLACED_SHARE = Limit("≥", 0.9)


@dataclass(frozen=True, slots=True)
class Figure(Row):
    """A row whose ratio is a figure of a storm; its time is the CPU time of the simulation."""

    value: float | None = None

    @property
    def ratio(self) -> float | None:
        return self.value


def rows(world: World) -> Iterator[Row]:
    """Simulate the storm of the world's seed, print the presets side by side and yield the promises as rows."""
    storm = Storm(world.plan.seed)
    outcomes = {preset: simulate(storm, profile, preset != UPSTREAM) for preset, profile in POLICIES.items()}
    print(f"\n{heading(storm)}\n\n{side_by_side(outcomes)}", flush=True)
    yield from promises(outcomes)


def promises(outcomes: Mapping[str, Outcome]) -> Iterator[Row]:
    upstream, strict = outcomes[UPSTREAM], outcomes["strict"]
    yield Figure(GROUP, "whole storm under upstream", [upstream.seconds])
    yield Figure(
        GROUP,
        "violations of strict",
        [strict.seconds],
        "actual state",
        limit=NO_VIOLATIONS,
        value=strict.tally.violations,
    )
    for preset in ("careful", "strict"):
        own = outcomes[preset]
        name = f"share placed by {preset} of what upstream placed where a clean placement existed"
        placed = share(own.placed, upstream.placed & own.clean.placements)
        yield Figure(GROUP, name, [own.seconds], UPSTREAM, limit=MIN_PLACED_SHARE, value=placed)


def share(placed: Set[str], possible: Set[str]) -> float | None:
    """Return the share of `possible` that was placed; None if `possible` is empty."""
    return len(placed & possible) / len(possible) if possible else None


def heading(storm: Storm) -> str:
    return (
        f"storm: seed {storm.seed}, {storm.nodes} nodes, {storm.pods:,} pods, {storm.workloads} workloads, "
        f"{storm.budgets} budgets, {storm.preemptors} preemptors within {storm.arriving:g} s, "
        f"{storm.lasting:g} s in all; delays: budget status {storm.status_lag:g} s, pods {storm.watch_lag:g} s"
    )


# --- side by side -----------------------------------------------------------------------------------------------------

Cell = Callable[[Outcome, Outcome], str]
"""Render a figure of an outcome, given that of upstream as well."""

LINES: tuple[tuple[str, Cell], ...] = (
    ("budget violations", lambda own, _: f"{own.tally.violations}"),
    ("  announced in the response", lambda own, _: f"{own.tally.announced}"),
    ("evictions", lambda own, _: f"{own.tally.evictions}"),
    ("  of DaemonSet pods", lambda own, _: f"{own.tally.daemons}"),
    ("repeated evictions (of a workload within 5 min)", lambda own, _: f"{own.tally.repeated}"),
    ("  maximum evictions of one workload", lambda own, _: f"{max(own.tally.of_workload.values(), default=0)}"),
    ("preemptors placed", lambda own, _: f"{len(own.placed)}"),
    ("  seconds until then: median, longest", lambda own, _: _waited(own)),
    ("placed by upstream, clean placement existed", lambda own, up: _count(own, up, "placements")),
    ("  share of these placed", lambda own, up: _share(own, up, "placements")),
    ("  no workload evicted twice within 5 min", lambda own, up: _count(own, up, "rested")),
    ("  share of these placed", lambda own, up: _share(own, up, "rested")),
    ("  undecided", lambda own, up: _count(own, up, "undecided")),
    ("attempts of preemptors", lambda own, _: f"{own.tally.attempts}"),
    ("  calls to the extender", lambda own, _: f"{own.tally.calls}"),
    ("  no candidate in the response", lambda own, _: f"{own.tally.vetoed}"),
    ("  rejected by kube-scheduler: unknown victim", lambda own, _: f"{own.tally.failed}"),
    ("seconds of CPU time", lambda own, _: f"{own.seconds:.1f}"),
)


def side_by_side(outcomes: Mapping[str, Outcome]) -> str:
    """Return a table with one line per figure and one column per preset."""
    upstream = outcomes[UPSTREAM]
    lines = [(name, *(cell(own, upstream) for own in outcomes.values())) for name, cell in LINES]
    width = max(len(name) for name, _ in LINES)
    table = [("", *outcomes), *lines]
    return "\n".join(" ".join((line[0].ljust(width), *(cell.rjust(12) for cell in line[1:]))) for line in table)


def _waited(own: Outcome) -> str:
    waited = own.tally.bound.values()
    return f"{statistics.median(waited):.0f}, {max(waited):.0f}" if waited else "–"


def _possible(own: Outcome, upstream: Outcome, kind: str) -> Set[str]:
    known: Set[str] = getattr(own.clean, kind)
    return upstream.placed & known


def _count(own: Outcome, upstream: Outcome, kind: str) -> str:
    return f"{len(_possible(own, upstream, kind))}" if own.checked else "–"


def _share(own: Outcome, upstream: Outcome, kind: str) -> str:
    found = share(own.placed, _possible(own, upstream, kind)) if own.checked else None
    return "–" if found is None else f"{found:.1%}"
