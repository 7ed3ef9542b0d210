"""Record a decision so that it can be explained later, as arrays and the objects that they refer to.

The snapshot changes in place after the decision, so a record copies the parts that an explanation reads. It copies
little, because no other call is answered meanwhile; the rest is computed on demand (`report.render`).

Rule: a record refers to nothing that changes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from sys import getsizeof
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from extender.core.engine import FilterDecision, PreemptDecision, PrioritizeDecision
from extender.core.evaluation import Evaluation
from extender.core.framework.filter import FilterRun, Statuses
from extender.core.framework.plugins import FILTERS, plugins_missing_permissions
from extender.core.framework.plugins.node_resources import FIT_NAME, ResourceConstraint
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.framework.status import Code, CodeArray, Status
from extender.core.preemption.criteria import TIE_BREAKERS, ranking_keys
from extender.core.preemption.dry_run import DryRun
from extender.core.preemption.node_pods import NodePods, PodsOnNode
from extender.core.preemption.pdb.violations import budget_index
from extender.core.preemption.ranking import RankingKeys
from extender.core.recorded_devices import RecordedDevices, record_devices
from extender.core.snapshot.arrays import BoolArray, IntArray, NodeRows, mask_of
from extender.core.snapshot.derived import derived
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s import requests
from extender.k8s.kinds import ClusterObjects
from extender.k8s.objects import ObjectMeta, Pod, PodSpec, ResourceList

EVICTABLE, VIOLATING, VICTIM, PROTECTED, SCHEDULER_VICTIM = (1 << bit for bit in range(5))
"""Flags of a running pod: potential victim, PDB-violating, victim, protected, and chosen by kube-scheduler."""

MAX_FREE_RESOURCES = 8
"""Maximum number of resources whose free amounts are recorded: a pod may request thousands."""

_COPIED_BYTES = 64 << 10
"""JSON larger than this is copied: the encoder returns part of a larger buffer, so with many records the memory between
these parts would be wasted."""

_ENCODER = msgspec.json.Encoder()
_POD_DECODER = msgspec.json.Decoder(Pod)


@dataclass(frozen=True, slots=True)
class RecordedPod:
    """The incoming pod as JSON, which is compact and has a known size."""

    identity: Pod
    """The pod reduced to name, namespace, UID and priority."""
    json: bytes
    size: int
    """Approximate memory in bytes."""

    @classmethod
    def of(cls, pod: Pod) -> "RecordedPod":
        own, json = pod.metadata, _ENCODER.encode(pod)
        if len(json) > _COPIED_BYTES:
            json = bytes(memoryview(json))
        identity = Pod(ObjectMeta(own.name, own.namespace, own.uid), PodSpec(priority=pod.spec.priority))
        size = 600 + len(json) + getsizeof(own.name) + getsizeof(own.namespace) + getsizeof(own.uid)
        return cls(identity, json, size)

    def decode(self) -> Pod:
        """Return the whole pod."""
        return _POD_DECODER.decode(self.json)

    def without_details(self) -> "RecordedPod":
        """Return a record of the pod reduced to name, namespace, UID and priority."""
        return RecordedPod.of(self.identity)


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """The pod of the request and the rules that applied to it."""

    pod: RecordedPod
    context: SchedulingContext
    """Context with snapshot and pod reduced to the parts that protection reasons read."""
    filters: tuple[str, ...]
    """Filter plugins in the order in which they run; empty if PreFilter rejected the pod."""
    left_out_by: tuple[str, ...] = ()
    """Plugins whose PreFilterResults leave nodes out."""
    devices: RecordedDevices | None = None
    """The pod's resource claims and the devices of the cluster; None if the pod requests no devices."""

    def amounts(self) -> dict[str, int]:
        """Return the amounts that the pod requests, in the scheduler's units."""
        return requests.incoming_requests(self.pod.decode(), self.context.features)

    @property
    def size(self) -> int:
        """Approximate memory in bytes."""
        history = self.context.history
        remembered = 300 * len(history.evictions) + 100 * len(history.attempts) + 200 * len(history.recent_deletions)
        devices = 0 if self.devices is None else self.devices.size
        return 1000 + self.pod.size + remembered + 8 * len(self.context.nominees) + devices


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedNodes:
    """The request and its nodes: common to records of `/filter` and `/prioritize`."""

    request: RecordedRequest
    node_names: tuple[str, ...]
    """[node]: names of all nodes of the cluster; records share the tuple until nodes are added or removed."""
    rows: NodeRows
    """[requested node]: index into `node_names`."""
    not_evaluated: tuple[str, ...]
    """Filter plugins that we don't evaluate."""

    @property
    def names(self) -> tuple[str, ...]:
        """[requested node]: its name."""
        return _take(self.node_names, self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterRecord(RequestedNodes):
    """Record of a `/filter` decision."""

    statuses: Statuses
    """[requested node]: its filter status."""
    preemption_helps: BoolArray
    """[requested node]: whether evicting lower-priority pods would make room."""
    free: Mapping[str, IntArray]
    """Resource -> [requested node]: what is left of it; empty unless a node of the cluster cache has too
    little of a resource."""

    @property
    def size(self) -> int:
        """Approximate memory in bytes."""
        return (
            self.request.size
            + 9 * len(self.rows)
            + (250 + 8 * len(self.rows)) * len(self.free)
            + self.statuses.indices.nbytes
            + _status_sizes(self.statuses.distinct)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PrioritizeRecord(RequestedNodes):
    """Record of a `/prioritize` decision."""

    scores: tuple[int, ...]
    """[requested node]: 0 to 10."""
    scored: NodeRows
    """[scored node]: index into `node_names`; the pod fits on each scored node."""
    plugins: Mapping[str, IntArray]
    """Plugin -> [scored node]: weighted score."""
    highest: int
    """Highest possible total."""

    @property
    def size(self) -> int:
        """Approximate memory in bytes."""
        arrays = self.rows.nbytes + self.scored.nbytes + sum(scores.nbytes for scores in self.plugins.values())
        return self.request.size + 8 * len(self.scores) + 200 * len(self.plugins) + arrays


@dataclass(frozen=True, slots=True)
class CandidateKeys:
    """The candidates and the keys by which they were compared."""

    candidates: IntArray
    """[candidate]: index of the node in `DryRunRecord.rows`."""
    keys: RankingKeys
    """Keys of the candidates by each ranking criterion, then by TIE_BREAKERS."""


@dataclass(frozen=True)
class DryRunRecord:
    """Record of a preemption dry run: its nodes and their pods.

    `k` is the rank of a pod among the pods of its node, 0 for the most important.
    """

    node_names: tuple[str, ...]
    """Names of all nodes of the cluster; shared like those of RequestedNodes."""
    node_allocatable: tuple[ResourceList | None, ...]
    """status.allocatable of all nodes of the cluster; records share the tuple until a node's value changes."""
    rows: NodeRows
    """[node]: index into `node_names` and `node_allocatable`."""
    filter: Statuses
    """[node]: filter status before any eviction."""
    emptied: Mapping[int, Status]
    """Node with potential victims -> filter status after removing all of them, if the pod still does not fit."""
    methods: CodeArray
    """[node]: index into VICTIM_SELECTION_METHODS."""
    pods_on_node: tuple[PodsOnNode, ...]
    """[node]: its pods; records share these objects."""
    flags: npt.NDArray[np.uint8]
    """[k, node]: bits EVICTABLE, VIOLATING, VICTIM, PROTECTED and SCHEDULER_VICTIM."""
    allowed: IntArray
    """[budget]: disruptions allowed before the preemption."""
    budgets: Mapping[int, str]
    """Budget row -> `namespace/name`."""
    violations: IntArray
    """[node]: NumPDBViolations of its victims."""
    candidate_keys: CandidateKeys
    """Ranking keys of the candidates, in the order of `rows`."""

    @property
    def names(self) -> tuple[str, ...]:
        """[node]: its name."""
        return _take(self.node_names, self.rows)

    def name(self, node: int) -> str:
        name: str = self.node_names[self.rows[node]]
        return name

    def allocatable(self, node: int) -> dict[str, int]:
        """Return the node's allocatable resources, in the scheduler's units."""
        return requests.allocatable(self.node_allocatable[self.rows[node]])

    @cached_property
    def ranked(self) -> CandidateKeys:
        """The candidates and their keys, best first. Sorted when the decision is shown, not during the request."""
        order = self.candidate_keys.keys.order
        return CandidateKeys(self.candidate_keys.candidates[order], self.candidate_keys.keys.take(order))


@dataclass(frozen=True, slots=True)
class PreemptRecord:
    """Record of a `/preempt` decision."""

    request: RecordedRequest
    decision: PreemptDecision
    """The decision without its Evaluation, which refers to the snapshot."""
    sent_nodes: tuple[str, ...]
    """Nodes of the candidates that kube-scheduler sent."""
    dry_run: DryRunRecord | None
    """Record of the dry run; None if the pod may not preempt on any node."""
    not_tried: Mapping[str, Status]
    """Sent node without a dry run -> its filter status."""
    unknown_names_size: int
    """Memory of the sent node names in bytes if the cluster cache lacks a sent node, else 0."""

    @property
    def not_evaluated(self) -> tuple[str, ...]:
        return self.decision.not_evaluated

    @property
    def size(self) -> int:
        """Approximate memory in bytes, without `pods_on_node`, most of which the cluster cache holds anyway."""
        decision, tried, total = self.decision, self.dry_run, self.request.size + 1000
        if tried is not None:
            keys = sum(map(len, tried.candidate_keys.keys.by_criterion.values()))
            # Rendering the record adds a sorted copy of the keys.
            total += 100 * len(tried.rows) + tried.flags.nbytes + 2 * 8 * keys * len(tried.candidate_keys.candidates)
            total += tried.filter.indices.nbytes + _status_sizes((*tried.filter.distinct, *tried.emptied.values()))
        # A name costs 120 bytes as a key of two mappings; an unknown name may be long.
        total += 120 * len(self.sent_nodes) + self.unknown_names_size + 100 * (len(decision.as_sent))
        total += 100 * (len(decision.dropped) + len(self.not_tried)) + _status_sizes(self.not_tried.values())
        reasons = dict(zip(map(id, decision.dropped.values()), decision.dropped.values(), strict=True)).values()
        total += sum(100 + getsizeof(one.details) + getsizeof(one.protected) for one in reasons)
        victims = sum(len(candidate.victims) for candidate in decision.kept)
        return total + 200 * len(decision.kept) + _VICTIM_BYTES * victims


_VICTIM_BYTES = 150
"""Memory of a victim's entry in the decision and in its summary."""


def _status_sizes(statuses: Iterable[Status]) -> int:
    """Return the approximate memory in bytes of statuses, each counted once."""
    distinct = {id(status): status for status in statuses}.values()
    return sum(150 + 8 * len(one.reasons) + sum(map(getsizeof, one.reasons)) for one in distinct)


DecisionRecord = FilterRecord | PrioritizeRecord | PreemptRecord


def record_filter(decision: FilterDecision) -> FilterRecord:
    """Record a `/filter` decision; call it before the snapshot changes."""
    evaluation = _evaluation_of(decision)
    return FilterRecord(
        request=record_request(evaluation),
        node_names=_node_names(evaluation),
        rows=evaluation.rows.copy(),
        not_evaluated=decision.not_evaluated,
        statuses=evaluation.statuses,
        preemption_helps=evaluation.preemption_helps,
        free=_free_resources(evaluation),
    )


def _free_resources(evaluation: Evaluation) -> dict[str, IntArray]:
    # Nodes that were in the snapshot for this decision only have left it.
    if evaluation.node_names is not None or all(one.plugin != FIT_NAME for one in evaluation.statuses.distinct):
        return {}
    # The filter has computed these columns already, and summing up the pods again would double the time of the call.
    check = next(one for one in evaluation.filter.checks if isinstance(one, ResourceConstraint))
    requested = [column for column, amount in enumerate(check.amounts) if amount > 0][:MAX_FREE_RESOURCES]
    rows = evaluation.rows
    free = {check.names[column]: check.headroom[column, rows] + check.amounts[column] for column in requested}
    none = np.zeros(len(rows), np.int64)
    return free | dict.fromkeys(check.absent[: MAX_FREE_RESOURCES - len(free)], none)


def record_prioritize(decision: PrioritizeDecision) -> PrioritizeRecord:
    """Record a `/prioritize` decision; call it before the snapshot changes."""
    evaluation = _evaluation_of(decision)
    return PrioritizeRecord(
        request=record_request(evaluation),
        node_names=_node_names(evaluation),
        rows=evaluation.rows.copy(),
        not_evaluated=decision.not_evaluated,
        scores=decision.scores,
        scored=evaluation.scores.rows,
        plugins=evaluation.scores.plugins,
        highest=evaluation.scores.highest,
    )


def record_preempt(decision: PreemptDecision, sent_nodes: Iterable[str]) -> PreemptRecord:
    """Record a `/preempt` decision and the nodes that kube-scheduler sent; call it before the snapshot changes."""
    evaluation = _evaluation_of(decision)
    snapshot, rows, dry_run = evaluation.context.snapshot, evaluation.rows, None
    not_tried = dict[str, Status]()
    if evaluation.refusal is None:
        run = evaluation.policies
        dry_run = record_dry_run(evaluation.filter, run)
        # Sent nodes without a dry run are explained by their filter status.
        rest = rows[~mask_of(run.rows, len(snapshot.nodes))[rows]]
        statuses = evaluation.filter.statuses(rest).to_list()
        not_tried = dict(zip(_take(snapshot.node_names, rest), statuses, strict=True))
    request = record_request(evaluation, evaluation.context.nominees)
    # The Evaluation would keep the snapshot alive.
    kept, names = replace(decision, evaluation=None), tuple(sent_nodes)
    unknown = sum(map(getsizeof, names)) if len(rows) < len(names) else 0
    return PreemptRecord(request, kept, names, dry_run, not_tried, unknown)


def _node_names(evaluation: Evaluation) -> tuple[str, ...]:
    return evaluation.node_names or evaluation.context.snapshot.frozen_node_names


def _evaluation_of(decision: FilterDecision | PrioritizeDecision | PreemptDecision) -> Evaluation:
    if decision.evaluation is None:
        raise ValueError("the decision has no Evaluation any more")
    return decision.evaluation


# --- the request ------------------------------------------------------------------------------------------------------


def record_request(evaluation: Evaluation, nominees: tuple[Pod, ...] = ()) -> RecordedRequest:
    """Record the request; `nominees`: nominated pods to show in an explanation."""
    context, pod = evaluation.context, RecordedPod.of(evaluation.context.pod)
    unable = plugins_missing_permissions(context, "filter")
    # Where a PreFilter plugin rejects the pod on all nodes, no filter plugin runs.
    is_filtered = not evaluation.fits_on_all_rows if evaluation.sent is None else evaluation.refusal is None
    is_rejected = is_filtered and evaluation.filter.prefilter_status is not None
    enabled = () if is_rejected else context.profile.filter_plugins
    filters = tuple(name for name in enabled if name in FILTERS and name not in unable)
    reduced = replace(context, pod=pod.identity, snapshot=_snapshot_for_reasons(context.snapshot), nominees=nominees)
    # Devices are recorded by node row, so skip them if some nodes are in the snapshot for this decision only.
    devices = record_devices(context) if evaluation.node_names is None else None
    left_out_by = tuple(sorted(evaluation.filter.prefilter_plugins)) if is_filtered else ()
    return RecordedRequest(pod, reduced, filters, left_out_by, devices)


@derived("namespaces", "priority_classes")
def _snapshot_for_reasons(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot with only Namespaces and PriorityClasses, the kinds that protection reasons read."""
    namespaces, classes = snapshot.objects.namespaces.values(), snapshot.objects.priority_classes.values()
    few = ClusterObjects(namespaces=tuple(namespaces), priority_classes=tuple(classes))
    small = Snapshot.build(few, snapshot.features)
    _ = small.namespace_labels  # compute it now, because several threads may read it later
    return small


# --- preemption -------------------------------------------------------------------------------------------------------


def record_dry_run(filter_run: FilterRun, run: DryRun) -> DryRunRecord:
    snapshot, context, policy = run.snapshot, run.context, run.context.profile.preemption
    pods_on_node = snapshot.index(NodePods, policy).on(context.layout, run.rows)
    budgets, candidates = budget_index(snapshot, policy), np.flatnonzero(run.candidate)
    potential = run.potential
    flags: npt.NDArray[np.uint8] = potential.evictable.mask * np.uint8(EVICTABLE)
    flags |= potential.violating * np.uint8(VIOLATING)
    flags |= (run.victims & run.makes_room) * np.uint8(VICTIM)
    if potential.protected is not None:
        flags |= potential.protected[run.pods] * np.uint8(PROTECTED)
    if run.scheduler_victims is not None:
        flags |= run.scheduler_victims * np.uint8(SCHEDULER_VICTIM)
    insufficient = np.flatnonzero((run.emptied.codes != Code.SUCCESS) & run.potential.evictable.mask.any(axis=0))
    return DryRunRecord(
        node_names=snapshot.frozen_node_names,
        node_allocatable=snapshot.frozen_allocatable,
        rows=run.rows.copy(),
        filter=filter_run.statuses(run.rows),
        emptied=dict(zip(insufficient.tolist(), run.emptied.statuses(insufficient).to_list(), strict=True)),
        methods=run.methods,
        pods_on_node=pods_on_node,
        flags=flags,
        allowed=budgets.allowances,
        budgets=budgets.names,
        violations=run.violations,
        candidate_keys=CandidateKeys(candidates, ranking_keys(run, candidates, TIE_BREAKERS)),
    )


def _take(values: Sequence[Any], places: IntArray) -> tuple[Any, ...]:
    """Return the values at the indexes `places`."""
    wanted = places.tolist()
    # itemgetter is fastest for many indexes, but returns a tuple only for two or more.
    return tuple(values[place] for place in wanted) if len(wanted) < 2 else itemgetter(*wanted)(values)
