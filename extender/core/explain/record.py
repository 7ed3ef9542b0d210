"""What is kept of a decision, so that it can be told later: arrays and the objects that they speak of, as they were.

A snapshot is changed in place after the decision, so everything is taken here and now; it is as little as that allows,
because kube-scheduler waits for it. What can be worked out from that later is worked out later (`core.explain.render`).

Rule: a capture refers to nothing that changes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from extender.core.engine import DecisionContext, FilterDecision, PreemptDecision, PrioritizeDecision, then_by
from extender.core.framework.constraint import CodeArray, Rows, SchedulingContext
from extender.core.framework.filter import FilterRun, Statuses
from extender.core.framework.plugins import FILTERS
from extender.core.framework.plugins.missing_permissions import blind
from extender.core.framework.status import Status
from extender.core.preemption.criteria import CRITERIA, Losses
from extender.core.preemption.dry_run import DryRun
from extender.core.preemption.node_pods import NodePods, OnNode
from extender.core.preemption.pdb.violations import charging_of
from extender.core.preemption.ranking import rank
from extender.core.snapshot.arrays import BoolArray, IntArray, mask_of
from extender.core.snapshot.snapshot import Snapshot, derived
from extender.k8s.kinds import ClusterObjects
from extender.k8s.objects import Node, Pod

# What is true of a running pod.
EVICTABLE, VIOLATING, VICTIM, PROTECTED, NAMED = (1 << bit for bit in range(5))


SAMPLED = 256
"""Of so many pods one is looked at to see how much memory the pods of all captures take; a power of two."""

_EVICTION, _ATTEMPT = 150, 100
"""Bytes of what a moment remembers."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What was to be scheduled, and by which rules."""

    incoming: SchedulingContext
    """On a snapshot of its own that holds only what reasons for protections read."""
    filters: tuple[str, ...]
    """In the order in which they are asked."""

    @property
    def pod(self) -> Pod:
        return self.incoming.pod

    @property
    def size(self) -> int:
        """Bytes, about."""
        moment = self.incoming.moment
        return 2000 + _EVICTION * len(moment.evictions) + _ATTEMPT * len(moment.attempts)


@dataclass(frozen=True, slots=True)
class FilterCapture:
    asked: Asked
    node_names: tuple[str, ...]
    """[node] of the whole cluster; decisions share it until nodes come or go."""
    rows: Rows
    """[offered] -> place in `node_names`."""
    verdicts: Statuses
    """[offered]."""
    helped: BoolArray
    """[offered] where eviction would make room."""
    not_evaluated: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """[offered]."""
        return _all(self.node_names, self.rows)

    @property
    def size(self) -> int:
        """Bytes, about."""
        return self.asked.size + 17 * len(self.rows) + 300 * len(self.verdicts.distinct)


@dataclass(frozen=True, slots=True)
class PrioritizeCapture:
    asked: Asked
    node_names: tuple[str, ...]
    """[node]; as in FilterCapture."""
    scores: tuple[int, ...]
    """[offered], 0 to 10."""
    rows: Rows
    """[offered] -> number of the node."""
    scored: Rows
    """Numbers of the nodes that fit."""
    plugins: Mapping[str, IntArray]
    """[scored], weighted."""
    highest: int
    not_evaluated: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """[offered]."""
        return _all(self.node_names, self.rows)

    @property
    def size(self) -> int:
        return self.asked.size + len(self.rows) * 24 + 8 * len(self.scored) * (1 + len(self.plugins))


@dataclass(frozen=True, slots=True)
class Compared:
    """By what candidates were compared."""

    candidates: IntArray
    """[candidate] -> node."""
    keys: tuple[tuple[IntArray, ...], ...]
    """Per criterion its keys [candidate]."""
    then: tuple[IntArray, ...]
    """[candidate]: victims that kube-scheduler did not name; place by name."""

    def best_first(self) -> "Compared":
        """The candidates in order."""
        if not len(self.candidates):
            return self
        order = rank([key for of_one in self.keys for key in of_one], *self.then)
        keys = tuple(tuple(key[order] for key in of_one) for of_one in self.keys)
        return Compared(self.candidates[order], keys, tuple(key[order] for key in self.then))


@dataclass(frozen=True)
class Tried:
    """Nodes on which preemption was tried, and their pods. k: place among the node's pods, most important first."""

    nodes: tuple[Node, ...]
    """[node]."""
    filter: Statuses
    """[node]: before anybody is evicted."""
    emptied: Mapping[int, Status]
    """Node -> why it does not fit with all evictable pods gone, where there are some."""
    ways: CodeArray
    """[node] -> place in WAYS."""
    on: tuple[OnNode, ...]
    """[node]: its pods; the same objects that other captures refer to."""
    sample: tuple[Pod, ...]
    """Of the pods, those in every row that SAMPLED divides: of two captures of the same pods the same ones."""
    pods: int
    """How many there are."""
    flags: npt.NDArray[np.uint8]
    """[k, node]: EVICTABLE and so on."""
    allowed: IntArray
    """[budget]."""
    budgets: Mapping[int, str]
    """Budget -> name."""
    violations: IntArray
    """[node]: NumPDBViolations."""
    compared: Compared
    """In no order."""

    @cached_property
    def ranked(self) -> Compared:
        """The candidates, best first."""
        return self.compared.best_first()

    @property
    def size(self) -> int:
        """Bytes, about, without the pods: the picture holds most of them anyway."""
        keys = sum(map(len, self.compared.keys)) + len(self.compared.then)
        budgets = self.on[0].charged.shape[1] if self.on else 0
        of_pod, of_node = 8 + 4 * budgets, 250
        of_all = self.pods * of_pod + len(self.nodes) * of_node
        return of_all + self.flags.size + 8 * keys * len(self.compared.candidates)


@dataclass(frozen=True, slots=True)
class PreemptCapture:
    asked: Asked
    decision: PreemptDecision
    """Without its working."""
    offered: tuple[str, ...]
    tried: Tried | None
    """None: the pod may evict nobody."""
    untried: Mapping[str, Status]
    """Offered node on which nothing was tried -> what the filters say."""

    @property
    def not_evaluated(self) -> tuple[str, ...]:
        return self.decision.not_evaluated

    @property
    def size(self) -> int:
        tried = self.tried.size if self.tried is not None else 0
        return self.asked.size + 1000 + tried + 120 * len(self.offered) + 150 * len(self.decision.dropped)


Capture = FilterCapture | PrioritizeCapture | PreemptCapture


def capture_filter(decision: FilterDecision) -> FilterCapture:
    """Of a decision with its working, before its snapshot changes."""
    working = _working(decision.working)
    assert working.verdicts is not None
    assert working.helped is not None
    return FilterCapture(
        _asked(working),
        working.incoming.snapshot.fixed_names,
        working.rows.copy(),
        working.verdicts,
        working.helped,
        decision.not_evaluated,
    )


def capture_prioritize(decision: PrioritizeDecision) -> PrioritizeCapture:
    """The same of scores."""
    working, scores = _working(decision.working), _working(decision.working).scores
    assert scores is not None
    return PrioritizeCapture(
        _asked(working),
        working.incoming.snapshot.fixed_names,
        decision.scores,
        working.rows.copy(),
        scores.rows,
        scores.plugins,
        scores.highest,
        decision.not_evaluated,
    )


def capture_preempt(decision: PreemptDecision, offered: Iterable[str]) -> PreemptCapture:
    """The same of a preemption, and of the nodes that kube-scheduler offered."""
    working = _working(decision.working)
    tried, untried = None, dict[str, Status]()
    if working.filtering is not None and working.run is not None:
        tried = _tried(working.filtering, working.run, working.named)
        tried_rows = mask_of(working.run.rows, len(working.incoming.snapshot.nodes))
        rows = working.rows[~tried_rows[working.rows]]
        names, verdicts = _all(working.incoming.snapshot.node_names, rows), working.filtering.verdicts(rows)
        untried = dict(zip(names, verdicts, strict=True))
    return PreemptCapture(_asked(working), replace(decision, working=None), tuple(offered), tried, untried)


def _working(working: DecisionContext | None) -> DecisionContext:
    if working is None:
        raise ValueError("the decision has been parted from its working")
    return working


# --- what reasons read ------------------------------------------------------------------------------------------------


def _asked(working: DecisionContext) -> Asked:
    incoming = working.incoming
    unable = blind(incoming, "filter")
    filters = tuple(name for name in FILTERS if name in incoming.profile.filter_plugins and name not in unable)
    return Asked(replace(incoming, snapshot=_read_by_reasons(incoming.snapshot)), filters)


@derived("namespaces", "priority_classes")
def _read_by_reasons(snapshot: Snapshot) -> Snapshot:
    """A snapshot of nothing but what reasons for protections read."""
    namespaces, classes = snapshot.objects.namespaces.values(), snapshot.objects.priority_classes.values()
    read = Snapshot.build(ClusterObjects(namespaces=tuple(namespaces), priority_classes=tuple(classes)))
    _ = read.namespace_labels  # remembered now: several threads may read it
    return read


# --- preemption -------------------------------------------------------------------------------------------------------


def _tried(filtering: FilterRun, run: DryRun, named: BoolArray | None) -> Tried:
    snapshot, incoming, policy = run.snapshot, run.incoming, run.incoming.profile.preemption
    pods = run.pods.reshape(-1)
    residents = snapshot.index(NodePods, policy).on(incoming.layout, run.rows)
    charging = charging_of(snapshot, policy)
    crowded = np.flatnonzero(~run.emptied.fits & run.grouped.evictable.mask.any(axis=0))
    return Tried(
        nodes=_all(snapshot.nodes, run.rows),
        filter=filtering.grouped(run.rows),
        emptied=dict(zip(crowded.tolist(), run.emptied.verdicts(crowded), strict=True)),
        ways=run.ways,
        on=residents,
        sample=_all(snapshot.running.pods, pods[pods & (SAMPLED - 1) == 0]),  # not where there is no pod: that is -1
        pods=int(np.count_nonzero(pods >= 0)),
        flags=_flags(run, named),
        allowed=charging.allowances,
        budgets=charging.names,
        violations=run.violations,
        compared=_compared(run, named),
    )


def _all(values: Sequence[Any], places: IntArray) -> tuple[Any, ...]:
    """The values in these places."""
    wanted = places.tolist()
    return tuple(values[place] for place in wanted) if len(wanted) < 2 else itemgetter(*wanted)(values)


def _flags(run: DryRun, named: BoolArray | None) -> npt.NDArray[np.uint8]:
    """[k, node]."""
    grouped, pods = run.grouped, run.pods
    flags = grouped.evictable.mask * np.uint8(EVICTABLE)
    flags |= grouped.violating * np.uint8(VIOLATING)
    flags |= (run.victims & run.makes_room) * np.uint8(VICTIM)
    if grouped.protected is not None:
        flags |= grouped.protected[pods] * np.uint8(PROTECTED)
    if named is not None:
        flags |= named * np.uint8(NAMED)
    return flags


def _compared(run: DryRun, named: BoolArray | None) -> Compared:
    places, ranking = np.flatnonzero(run.candidate), run.incoming.profile.preemption.ranking
    if not len(places):
        return Compared(places, tuple(() for _ in ranking), ())
    losses = Losses(run, places)
    keys = tuple(tuple(CRITERIA[name](losses)) for name in ranking)
    return Compared(places, keys, then_by(run, np.zeros_like(run.victims) if named is None else named, places))
