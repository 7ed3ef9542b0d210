"""Dry-run the preemption on every node at once (framework/preemption Evaluator.DryRunPreemption, v1.36).

Selects the victims of each node as defaultpreemption.SelectVictimsOnNode does: remove every potential victim; if the
preemptor still does not fit, the node is not a candidate. Then reprieve the pods one by one: first the pods whose
eviction would violate a PDB, then the other pods, each group most important first. A pod that no longer fits beside the
preemptor stays a victim.

kube-scheduler's cache and ours may differ by a deletion that one of them has not seen yet (`UnsyncedDeletions`):

- Our cache saw it first: a victim that kube-scheduler chose is terminating or gone. Terminating victims count when
  nodes are ranked, as in kube-scheduler, but the answer leaves them out. If all victims are terminating, the answer
  names them all, so that the pod is nominated and no further pod is evicted.
- kube-scheduler's cache saw it first: it chose its victims without a pod that is still terminating in our cache. If a
  node needs more victims only because of that pod, the dry run is repeated without that pod.

This applies while a deletion is recent (`EvictionHistory.recent_deletions`). After that both caches have seen it, and a
terminating pod is a potential victim that holds its room until it is gone, as in kube-scheduler.

Rule: only `reprieve` puts pods back; the potential victims, the budgets and the constraints are passed in.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from extender.core.framework.filter import FilterResults, evaluate_constraints
from extender.core.framework.filter_checks import Check, EvictablePods
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.framework.status import NO_VICTIMS_FOUND, Code, CodeArray, Status
from extender.core.preemption.potential_victims import PotentialVictims, potential_victims
from extender.core.preemption.reprieve import reprieve
from extender.core.preemption.sent_candidates import ResolvedCandidates
from extender.core.profile import UPSTREAM
from extender.core.snapshot.arrays import (
    NEVER,
    BoolArray,
    IntArray,
    NodeRows,
    VictimRows,
    count_per_node,
    index_in,
    mask_of,
    select_columns,
)
from extender.core.snapshot.pod_table import is_assumed_terminating
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.objects import Pod

VICTIM_SELECTION_METHODS = ("reprieve", "whole pod groups", "scheduler preferred", "kube-scheduler")
"""Methods of selecting the victims of a node, by their names in decisions.

- reprieve: the pods that the reprieve could not put back, as in kube-scheduler.
- whole pod groups: the same, but members of broken pod groups were put back last.
- scheduler preferred: the same, but some victims were exchanged for interchangeable pods that kube-scheduler chose.
- kube-scheduler: kube-scheduler's own victims (`Evaluation.keeps_sent_victims`).
"""

REPRIEVE, WHOLE_POD_GROUPS, SCHEDULER_PREFERRED, SCHEDULER_VICTIMS = range(len(VICTIM_SELECTION_METHODS))


@dataclass(frozen=True, slots=True)
class PolicyVeto:
    """Nodes that a policy rejects although evicting their victims would make room."""

    policy: str
    """Key and value of the policy in the configuration, if it has one; without names of pods, budgets or namespaces."""
    nodes: BoolArray
    """[node]: whether the policy rejects the victims there."""
    messages: Callable[["DryRun", IntArray], list[str]]
    """Indexes of vetoed nodes -> message for each: why the policy rejects the victims that the dry run selected."""
    wait: Callable[["DryRun", IntArray], int | None] = lambda _run, _places: None
    """Indexes of vetoed nodes -> shortest wait in nanoseconds until it may allow the victims of one; None: unknown."""


@dataclass(frozen=True, slots=True)
class UnsyncedDeletions:
    """Pods whose deletion only one cache has seen, either kube-scheduler's or ours."""

    recently_evicted: BoolArray | None = None
    """[pod]: kube-scheduler's victims that recently began to terminate; never put back. None: no such pod."""
    unknown_to_kube_scheduler: BoolArray | None = None
    """[pod]: terminating pods gone from kube-scheduler's cache; they take no room and are not victims. None: no pod."""


NO_UNSYNCED_DELETIONS = UnsyncedDeletions()


@dataclass(eq=False, slots=True)
class DryRun:
    """The victims that preemption would evict on each node in `rows`; in all arrays, [node] is an index into `rows`.

    Never changed in place: `dataclasses.replace` computes the fields below `vetoes` again.
    """

    context: SchedulingContext
    rows: NodeRows
    """[node]: node row in the snapshot."""
    pods: IntArray
    """[k, node]: pod row; -1 where the node has fewer pods."""
    checks: Sequence[Check]
    """The filter checks, restricted to `rows`."""
    emptied: FilterResults
    """Filter results with all potential victims removed."""
    potential: PotentialVictims
    """The pods that may be evicted, restricted to `rows`."""
    scheduler_victims: BoolArray | None
    """[k, node]: whether kube-scheduler chose the pod as a victim; None if it sent no candidates."""
    victims: BoolArray
    """[k, node]: selected victims; none where the pod does not fit even with all potential victims removed."""
    methods: CodeArray
    """[node]: index into VICTIM_SELECTION_METHODS."""
    deletions: UnsyncedDeletions = NO_UNSYNCED_DELETIONS
    vetoes: tuple[PolicyVeto, ...] = ()
    """Policies that reject victims; empty until `candidates` applies the policies."""
    snapshot: Snapshot = field(init=False)
    makes_room: BoolArray = field(init=False)
    """[node]: whether there is at least one victim, and evicting the victims makes room."""
    vetoed: BoolArray = field(init=False)
    """[node]: whether a policy rejects the victims."""
    candidate: BoolArray = field(init=False)
    """[node]: whether evicting the victims makes room and no policy rejects them."""
    violations: IntArray = field(init=False)
    """[node]: NumPDBViolations, the number of PDB-violating victims."""

    def __post_init__(self) -> None:
        self.snapshot = self.context.snapshot
        self.makes_room = (self.emptied.codes == Code.SUCCESS) & self.victims.any(axis=0)
        self.vetoed = np.zeros(len(self.rows), np.bool_)
        for veto in self.vetoes:
            self.vetoed |= veto.nodes
        self.candidate = self.makes_room & ~self.vetoed
        if self.context.profile.preemption.disruption_budgets == "Strict":
            # No candidate exceeds a budget, whichever pods upstream's split calls violating.
            self.violations = np.zeros(len(self.rows), np.int64)
        else:
            self.violations = count_per_node(self.victims & self.potential.violating)

    def victim_rows(self, places: IntArray, victims: BoolArray | None = None) -> VictimRows:
        """List the victims on the nodes at the indexes `places`; `victims`: [k, entry of `places`] to use instead."""
        mask = select_columns(self.victims, places) if victims is None else victims
        # numpy finds true values in one dimension much faster than in two.
        k, place = np.divmod(np.flatnonzero(mask.reshape(-1)), max(len(places), 1))
        return VictimRows(self.pods[k, places[place]].astype(np.int64), place, len(places))

    def _named_on(self, place: int, recently_evicted: BoolArray) -> BoolArray:
        """Return [k]: the victims of the node at index `place` that the answer names.

        These are the victims that the API server does not show as terminating. If all of them are terminating, the
        answer names them all, so that the pod is nominated and no further pod is evicted.
        """
        victims, pods = self.victims[:, place], self.pods[:, place]
        shown: BoolArray = victims & recently_evicted[pods]
        for k in np.flatnonzero(shown).tolist():
            shown[k] = not is_assumed_terminating(self.snapshot.pods[pods[k]])
        return victims if (shown == victims).all() else victims & ~shown

    def violations_on(self, place: int) -> int:
        """Return NumPDBViolations of the victims that the answer names on the node at index `place`."""
        evicted = self.deletions.recently_evicted
        if evicted is None or not self.violations[place]:
            return int(self.violations[place])
        return int((self._named_on(place, evicted) & self.potential.violating[:, place]).sum())

    def victims_on(self, place: int) -> tuple[Pod, ...]:
        """Return the victims of the node at index `place` that the answer names, in upstream's order.

        That is the order in which the reprieve tried them, PDB-violating pods first.
        """
        evicted, victims = self.deletions.recently_evicted, self.victims[:, place]
        if evicted is not None:
            victims = self._named_on(place, evicted)
        violating = self.potential.violating[:, place]
        ranks = [*np.flatnonzero(victims & violating), *np.flatnonzero(victims & ~violating)]
        pods: list[int] = self.pods[ranks, place].tolist()
        pod_table = self.snapshot.pod_table
        has_both = violating.any() and self.potential.non_violating[:, place].any()
        policy = self.context.profile.preemption
        # Upstream sorts the victims by importance again only if the node has potential victims of both groups; older
        # patch releases never do.
        if (has_both and self.context.features.victims_are_sorted) or policy != UPSTREAM.preemption:
            if policy.importance == UPSTREAM.preemption.importance:
                started = [pod for pod in pods if pod_table.start[pod] != NEVER]
                unstarted = [pod for pod in pods if pod_table.start[pod] == NEVER]
                if self.context.features.unstarted_pods_in_listing_order:
                    unstarted.sort(key=pod_table.order.__getitem__)
                else:  # as in PodTable.importance, upstream's sort inverts the order of equal pods
                    unstarted.reverse()
                pods = started + unstarted
            pods.sort(key=lambda pod: (-pod_table.priority[pod], pod_table.start[pod]))
        return tuple(self.snapshot.pods[pod] for pod in pods)

    def statuses(self, places: IntArray) -> list[Status]:
        """Return the reason why each of the nodes at the indexes `places` is not a candidate.

        If the node has no potential victims, it is kube-scheduler's "No preemption victims found …". Otherwise it is
        the filter status after removing all of them, or, if the preemptor fits then, the messages of the policies that
        reject the victims.
        """
        found = np.full(len(places), NO_VICTIMS_FOUND, np.object_)
        has_potential = select_columns(self.potential.evictable.mask, places).any(axis=0)
        full, vetoed = has_potential & ~self.makes_room[places], has_potential & self.makes_room[places]
        rejected = self.emptied.statuses(places[full])
        found[full] = np.array(rejected.distinct, np.object_)[rejected.indices]
        reasons: dict[int, list[str]] = {place: [] for place in np.flatnonzero(vetoed).tolist()}
        for veto in self.vetoes if reasons else ():
            own = np.flatnonzero(vetoed & veto.nodes[places])
            for nth, message in zip(own.tolist(), veto.messages(self, places[own]), strict=True):
                reasons[nth].append(message)
        for nth, messages in reasons.items():
            found[nth] = Status(Code.UNSCHEDULABLE, "", tuple(messages))
        return list(found)

    def rerun(self, places: IntArray, potential: PotentialVictims, order: Sequence[BoolArray]) -> "DryRun":
        """Repeat the dry run on the nodes at the indexes `places` with a different order of reprieve (`reprieve`)."""
        checks = [check.take(places) for check in self.checks]
        return _select_victims_on_nodes(self.context, checks, self.rows[places], potential, order, None, self.deletions)


def dry_run_sent_candidates(
    context: SchedulingContext, checks: Sequence[Check], rows: NodeRows, sent: ResolvedCandidates
) -> DryRun:
    """Dry-run the preemption on `rows` with the sent victims, and take recent deletions into account."""
    snapshot, recent = context.snapshot, context.history.recent_deletions
    # 1. Dry-run the preemption. Sent victims that recently began to terminate are never put back.
    pod_table, deletions = snapshot.pod_table, NO_UNSYNCED_DELETIONS
    evicted = [row for uid in recent if (row := pod_table.row_of.get(uid)) is not None]
    if evicted:
        terminating = sent.victims & pod_table.terminating & mask_of(np.array(evicted, np.int64), len(sent.victims))
        deletions = UnsyncedDeletions(terminating) if terminating.any() else deletions
    run = dry_run_preemption(context, checks, rows, sent.victims, deletions)
    # 2. Find terminating pods that take room but are gone from kube-scheduler's cache: pods that it did not choose,
    #    on sent nodes where the pod does not fit or needs more victims than kube-scheduler chose.
    pods = np.flatnonzero(pod_table.terminating & (snapshot.pod_node >= 0))
    places = index_in(rows, len(snapshot.nodes))[snapshot.pod_node[pods]]
    pods, places = pods[places >= 0], places[places >= 0]
    named = run.scheduler_victims
    if not len(pods) or named is None:
        return run
    differs = ~run.makes_room | (count_per_node(run.victims) > count_per_node(named))
    differs &= mask_of(sent.rows, len(snapshot.nodes))[rows] & named.any(axis=0)
    unnamed = pods[differs[places] & ~named[context.layout.rank[pods], places]].tolist()
    in_the_way = ((row, snapshot.pods[row]) for row in unnamed)
    unknown = [row for row, pod in in_the_way if pod.metadata.uid in recent or is_assumed_terminating(pod)]
    if not unknown:
        return run
    # 3. Repeat the dry run without these pods, but keep them on nodes that are candidates only with them.
    is_unknown = mask_of(np.array(unknown, np.int64), len(snapshot.pod_node))
    deletions = replace(deletions, unknown_to_kube_scheduler=is_unknown)
    without = dry_run_preemption(context, checks, rows, sent.victims, deletions)
    worse = run.makes_room & ~without.makes_room
    if not worse.any():
        return without
    held = run.pods[:, worse]
    is_unknown[held[held >= 0]] = False
    return dry_run_preemption(context, checks, rows, sent.victims, deletions)


def dry_run_preemption(
    context: SchedulingContext,
    checks: Sequence[Check],
    rows: NodeRows,
    scheduler_victims: BoolArray | None = None,
    deletions: UnsyncedDeletions = NO_UNSYNCED_DELETIONS,
) -> DryRun:
    """Select the victims on each node in `rows`, independently of the other nodes.

    Mirrors framework/preemption Evaluator.DryRunPreemption, v1.36, without its limit on the number of candidates.
    `checks` cover the whole snapshot. `scheduler_victims`: [pod], kube-scheduler's victims; None if it sent none.
    """
    potential = potential_victims(context, scheduler_victims)
    if len(rows) < len(context.snapshot.nodes):
        checks = [check.take(rows) for check in checks]
        potential = potential.take(rows)
    order = potential.violating, potential.non_violating
    return _select_victims_on_nodes(context, checks, rows, potential, order, scheduler_victims, deletions)


def _select_victims_on_nodes(
    context: SchedulingContext,
    checks: Sequence[Check],
    rows: NodeRows,
    potential: PotentialVictims,
    order: Sequence[BoolArray],
    scheduler_victims: BoolArray | None,
    deletions: UnsyncedDeletions,
) -> DryRun:
    """Remove the potential victims, filter, and reprieve in `order`: SelectVictimsOnNode for all of `rows`."""
    pods, removed = select_columns(context.layout.pod, rows), potential.evictable
    if scheduler_victims is not None:
        scheduler_victims = scheduler_victims.take(pods) & (pods >= 0)
    evicted, unknown = deletions.recently_evicted, deletions.unknown_to_kube_scheduler
    kept_out = [mask[pods] & (pods >= 0) for mask in (evicted, unknown) if mask is not None]
    if kept_out:
        never_back = np.logical_or.reduce(kept_out)
        removed = EvictablePods(removed.mask | never_back, None, removed.has_negative_demand)
        order = [group & ~never_back for group in order]
    emptied = evaluate_constraints(checks, len(rows), removed)
    victims, methods = reprieve(emptied, removed, order), np.full(len(rows), REPRIEVE, np.uint8)
    if unknown is not None:
        victims &= ~unknown[pods]
    return DryRun(context, rows, pods, checks, emptied, potential, scheduler_victims, victims, methods, deletions)
