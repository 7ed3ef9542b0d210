"""What is kept of a decision, so that it can be told later: arrays and the objects that they speak of, as they were.

A snapshot is changed in place after the decision, so everything is taken here and now; it is as little as that allows,
because kube-scheduler waits for it. What can be worked out from that later is worked out later (`core.explaining`).

Rule: a capture refers to nothing that changes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from extender.core.checks import CodeArray, Incoming, Rows
from extender.core.columns import BoolArray, IntArray, how_many
from extender.core.criteria import CRITERIA, Losses
from extender.core.engine import FilterDecision, PreemptDecision, PrioritizeDecision, Working, then_by
from extender.core.filtering import Filtering
from extender.core.plugins import FILTERS
from extender.core.plugins.unread import blind
from extender.core.preemption import DryRun
from extender.core.ranking import rank
from extender.core.snapshot import Snapshot, derived
from extender.core.verdict import Verdict
from extender.core.violations import charging_of
from extender.k8s.kinds import ClusterObjects
from extender.k8s.objects import Node, Pod

Number = TypeVar("Number", bound=np.integer[Any])

# What is true of a running pod.
EVICTABLE, VIOLATING, VICTIM, PROTECTED, NAMED = (1 << bit for bit in range(5))


SAMPLED = 64
"""Of so many pods one is looked at to see how much memory the pods of all captures take."""

_EVICTION, _ATTEMPT = 150, 100
"""Bytes of what a moment remembers."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What was to be scheduled, and by which rules."""

    incoming: Incoming
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
    names: tuple[str, ...]
    """[offered]."""
    verdicts: Mapping[int, Verdict]
    """Place in `names` -> why it fails; the others are accepted."""
    helped: frozenset[str]
    """Names of those where eviction would help."""
    not_evaluated: tuple[str, ...]

    @property
    def size(self) -> int:
        """Bytes, about."""
        return self.asked.size + 8 * len(self.names) + 120 * len(self.verdicts)


@dataclass(frozen=True, slots=True)
class PrioritizeCapture:
    asked: Asked
    names: tuple[str, ...]
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
    def size(self) -> int:
        return self.asked.size + len(self.names) * 24 + 8 * len(self.scored) * (1 + len(self.plugins))


@dataclass(frozen=True, slots=True)
class Tried:
    """Nodes on which preemption was tried, and their pods. [pod]: node by node, most important first."""

    nodes: tuple[Node, ...]
    """[node]."""
    filter: Sequence[Verdict]
    """[node]: before anybody is evicted."""
    emptied: Mapping[int, Verdict]
    """Node -> why it does not fit with all evictable pods gone, where there are some."""
    ways: CodeArray
    """[node] -> place in WAYS."""
    begins: IntArray
    """[node + 1] -> first of its pods."""
    pods: tuple[Pod, ...]
    sample: tuple[Pod, ...]
    """Of the pods, those in every row that SAMPLED divides: of two captures of the same pods the same ones."""
    flags: npt.NDArray[np.uint8]
    """[pod]: EVICTABLE and so on."""
    charged: npt.NDArray[np.int32]
    """[pod, place] -> budget, negative where there is none."""
    allowed: IntArray
    """[budget]."""
    budgets: Mapping[int, str]
    """Budget -> name."""
    violations: IntArray
    """[node]: NumPDBViolations."""
    ranked: IntArray
    """Candidates, best first."""
    keys: tuple[tuple[IntArray, ...], ...]
    """Per criterion its keys [ranked]."""
    then: tuple[IntArray, ...]
    """[ranked]: victims that kube-scheduler did not name; place by name."""

    @property
    def size(self) -> int:
        """Bytes, about, without the pods: the picture holds most of them anyway."""
        keys = sum(map(len, self.keys)) + len(self.then)
        of_pod, of_node = 9 + 4 * int(self.charged.shape[1]), 250
        return len(self.pods) * of_pod + len(self.nodes) * of_node + 8 * keys * len(self.ranked)


@dataclass(frozen=True, slots=True)
class PreemptCapture:
    asked: Asked
    decision: PreemptDecision
    """Without its working."""
    offered: tuple[str, ...]
    tried: Tried | None
    """None: the pod may evict nobody."""
    untried: Mapping[str, Verdict]
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
    names = _names(working.incoming.snapshot, working.rows)
    out = sorted(set(range(len(names))) - set(decision.accepted))
    verdicts = dict(zip(out, working.verdicts, strict=True))
    helped = frozenset(decision.failed)
    return FilterCapture(_asked(working), names, verdicts, helped, decision.not_evaluated)


def capture_prioritize(decision: PrioritizeDecision) -> PrioritizeCapture:
    """The same of scores."""
    working, scores = _working(decision.working), _working(decision.working).scores
    assert scores is not None
    return PrioritizeCapture(
        _asked(working),
        _names(working.incoming.snapshot, working.rows),
        decision.scores,
        working.rows,
        scores.rows,
        scores.plugins,
        scores.highest,
        decision.not_evaluated,
    )


def capture_preempt(decision: PreemptDecision, offered: Iterable[str]) -> PreemptCapture:
    """The same of a preemption, and of the nodes that kube-scheduler offered."""
    working = _working(decision.working)
    tried, untried = None, dict[str, Verdict]()
    if working.filtering is not None and working.run is not None:
        tried = _tried(working.filtering, working.run, working.named)
        rows = working.rows[~np.isin(working.rows, working.run.rows)]
        names, verdicts = _names(working.incoming.snapshot, rows), working.filtering.verdicts(rows)
        untried = dict(zip(names, verdicts, strict=True))
    return PreemptCapture(_asked(working), replace(decision, working=None), tuple(offered), tried, untried)


def _working(working: Working | None) -> Working:
    if working is None:
        raise ValueError("the decision has been parted from its working")
    return working


def _names(snapshot: Snapshot, rows: Rows) -> tuple[str, ...]:
    return tuple(map(snapshot.node_names.__getitem__, rows.tolist()))


# --- what reasons read ------------------------------------------------------------------------------------------------


def _asked(working: Working) -> Asked:
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


def _tried(filtering: Filtering, run: DryRun, named: BoolArray | None) -> Tried:
    snapshot, incoming = run.snapshot, run.incoming
    pods = _node_by_node(run.pods)
    present = np.flatnonzero(pods >= 0)  # in one dimension numpy takes what is wanted much faster than in two
    rows = pods[present]
    begins = np.zeros(len(run.rows) + 1, np.int64)
    np.cumsum(how_many(run.pods >= 0), out=begins[1:])
    charging = charging_of(snapshot, incoming.profile.preemption)
    charging.refresh()
    ranked, keys, then = _ranked(run, named)
    crowded = np.flatnonzero(~run.emptied.fits & run.grouped.evictable.mask.any(axis=0))
    return Tried(
        nodes=_all(snapshot.nodes, run.rows),
        filter=filtering.verdicts(run.rows),
        emptied=dict(zip(crowded.tolist(), run.emptied.verdicts(crowded), strict=True)),
        ways=run.ways,
        begins=begins,
        pods=_all(snapshot.running.pods, rows),
        sample=_all(snapshot.running.pods, rows[rows % SAMPLED == 0]),
        flags=_node_by_node(_flags(run, named))[present],
        charged=charging.charged.take(rows, axis=0),
        allowed=charging.allowances,
        budgets=charging.names,
        violations=run.violations,
        ranked=ranked,
        keys=keys,
        then=then,
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


def _node_by_node(array: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """[k, node] -> [node, k], in one dimension."""
    return np.ascontiguousarray(array.T).reshape(-1)


def _ranked(
    run: DryRun, named: BoolArray | None
) -> tuple[IntArray, tuple[tuple[IntArray, ...], ...], tuple[IntArray, ...]]:
    """The candidates best first; their keys by every criterion; and by what equal ones are told apart."""
    places = np.flatnonzero(run.candidate)
    ranking = run.incoming.profile.preemption.ranking
    if not len(places):
        return places, tuple(() for _ in ranking), ()
    losses = Losses(run, places)
    keys = [CRITERIA[name](losses) for name in ranking]
    then = then_by(run, np.zeros_like(run.victims) if named is None else named, places)
    order = rank([key for of_one in keys for key in of_one], *then)
    sorted_keys = tuple(tuple(key[order] for key in of_one) for of_one in keys)
    return places[order], sorted_keys, tuple(key[order] for key in then)
