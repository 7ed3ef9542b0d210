"""Count the victims that fit nowhere else afterwards: the ranking criterion Stranded (kubernetes/kubernetes#141227).

A victim is stranded if its replacement, the same pod without a node, passes the filters on no node of the cluster once
the victims of the candidate are gone and the preemptor runs there. Every replacement is judged on its own, by the
preemptor's profile, and whoever owns the pod, if anyone. Terminating victims do not count, because they go anyway.
Claims are taken as they are, those that are deleted with the pod included.

The filters run once for the replacements of a template. On other nodes than the candidate a preemption changes nothing
for the plugins that read one node's own pods; PLUGINS_BEYOND_THE_NODE are run again where they may say otherwise after
the preemption.

Rule: candidates are counted in the order in which they would be chosen, and no more of them than decide.
"""

from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
from msgspec.structs import replace as changed

from extender.core.framework.constraint import (
    AfterPreemption,
    Check,
    Constraint,
    EvictablePods,
    SchedulingContext,
    StaticCheck,
)
from extender.core.framework.filter import evaluate_constraints, filter_checks, run_filter_plugins, scheduling_context
from extender.core.framework.plugins import (
    PLUGINS_BEYOND_THE_NODE,
    node_affinity,
    node_unschedulable,
    plugins_missing_permissions,
    taint_toleration,
)
from extender.core.framework.plugins.node_resources import FIT_NAME, ResourceConstraint
from extender.core.framework.status import Code
from extender.core.preemption.dry_run import DryRun
from extender.core.preemption.ranking import NOT_COMPARED
from extender.core.snapshot.arrays import BASE_RESOURCES, NEVER, BoolArray, IntArray, VictimRows
from extender.core.snapshot.snapshot import Snapshot
from extender.core.snapshot.workloads import GroupIndex
from extender.k8s.objects import Pod, PodStatus, Volume

MAX_FILTER_RUNS = 64
"""Runs of filters over all nodes for one decision: no tenant makes it slow by pods that all differ."""

_MAX_PLACEMENTS = 32
"""Choices of nodes that one decision looks at to count without filter runs: the most frequent ones."""

_MAX_ROOMS = 16
"""Nodes with room that are looked at one by one."""

_CHOICE_OF_NODES = (node_unschedulable.NAME, taint_toleration.NAME, node_affinity.NAME)
"""Filter plugins that read of pods their PlacementIndex key, and of nodes no pods."""

_ENCODER = msgspec.msgpack.Encoder()
_NO_SOURCE = Volume()


def count_stranded(run: DryRun, places: IntArray, enough: int | None = None) -> IntArray:
    """Return [candidate]: how many victims fit nowhere else afterwards; NOT_COMPARED where that was not looked at.

    `places` come in the order in which the candidates would be chosen if they strand equally many. `enough`: so many of
    them are wanted, and no candidate is looked at that is surely worse than these; None: all are.
    """
    counting, size = _Counting(run), len(places)
    wanted = size if enough is None else min(enough, size)
    counting.at_least(places[:wanted])
    if counting.count(places[:wanted]) and wanted < size and run.stranded[places[:wanted]].any():
        least, found = counting.at_least(places).tolist(), _by_count(run, places[:wanted])
        for nth in sorted(range(size), key=lambda nth: (least[nth], nth)):
            # All that follow strand at least as many, and of equals the first one is chosen.
            if (least[nth], nth) > found[wanted - 1]:
                break
            if nth >= wanted:
                if not counting.count(places[nth : nth + 1]):
                    break
                insort(found, (int(run.stranded[places[nth]]), nth))
    counts: IntArray = run.stranded[places]
    return counts


def _by_count(run: DryRun, places: IntArray) -> list[tuple[int, int]]:
    """Return (stranded victims, place in `places`) of candidates that are counted, fewest first."""
    return sorted((stranded, nth) for nth, stranded in enumerate(run.stranded[places].tolist()))


def _without_room(run: DryRun, places: IntArray, victims: VictimRows) -> BoolArray:
    """Return [victim]: whether no node that its tolerations and its choice of nodes leave has the room it requests.

    On the candidate's own node only room counts, on the others what runs there stays.
    """
    snapshot, plugins = run.snapshot, run.context.profile.filter_plugins
    if FIT_NAME not in plugins:
        return np.zeros(len(victims.pods), np.bool_)
    demand = snapshot.pod_table.demand.take(victims.pods, axis=0).T.copy()
    left = _left_beside_preemptor(run, places, victims.places, demand)
    nowhere = ~_has_room(demand, left.take(victims.places, axis=1))
    free, tried = snapshot.allocatable - snapshot.used, np.flatnonzero(nowhere)
    nowhere[tried] = ~_have_room(demand.take(tried, axis=1), free)
    tried = tried[~nowhere[tried]]
    groups = snapshot.index(PlacementIndex).of_pod[victims.pods[tried]]
    sizes = np.bincount(groups)
    for number in np.argsort(-sizes, kind="stable")[: min(_MAX_PLACEMENTS, np.count_nonzero(sizes))].tolist():
        own = tried[groups == number]
        context = replace(run.context, pod=snapshot.pods[int(victims.pods[own[0]])], nominees=())
        checks = [check for name in _CHOICE_OF_NODES if name in plugins for check in filter_checks(context, name)]
        accepts = evaluate_constraints(checks, len(snapshot.nodes)).codes == Code.SUCCESS
        nowhere[own] = ~_have_room(demand.take(own, axis=1), free[:, accepts])
    return nowhere


def _have_room(demand: IntArray, free: IntArray) -> BoolArray:
    """Return [pod]: whether some node may have its `demand` [resource, pod]; `free`: [resource, node].

    Of many such nodes the most that any has free of each resource counts.
    """
    least = demand.min(axis=1, initial=NEVER)[:, np.newaxis]
    free = free[:, ((least <= free) | (least <= 0)).all(axis=0)]
    if free.shape[1] > _MAX_ROOMS:
        free = free.max(axis=1, keepdims=True)
    fits = np.zeros(demand.shape[1], np.bool_)
    for room in free.T:
        fits |= _has_room(demand, room)
    return fits


def _has_room(demand: IntArray, room: IntArray) -> BoolArray:
    """Return [pod]: whether `room` [resource], or [resource, pod], is enough for its `demand` [resource, pod]."""
    fits = np.ones(demand.shape[1], np.bool_)
    for requested, left in zip(demand, room, strict=True):
        fits &= (requested <= left) | (requested <= 0)
    return fits


def _left_beside_preemptor(run: DryRun, places: IntArray, of: IntArray, demand: IntArray) -> IntArray:
    """Return [resource, candidate]: what the preemptor leaves of BASE_RESOURCES once the victims are gone.

    `of`: [victim], the position in `places` of its node; `demand`: [resource, victim].
    """
    snapshot, rows = run.snapshot, run.rows[places]
    left = snapshot.allocatable[:, rows] - snapshot.used[:, rows]
    taken = snapshot.pod_table.resources_of(run.context.pod).demand
    for room, freed, requested in zip(left, demand, taken, strict=True):
        np.add.at(room, of, freed)
        room -= requested
    return left


class PlacementIndex(GroupIndex):
    """Running pods by what decides which nodes may take them, whatever room these have."""

    pod_parts = frozenset({"spec"})

    def group_of(self, pod: Pod) -> bytes:
        spec, affinity = pod.spec, pod.spec.affinity
        return _ENCODER.encode((spec.tolerations, spec.node_selector, affinity.node_affinity if affinity else None))


@dataclass(frozen=True, slots=True)
class _Template:
    """Replacements that the filters cannot tell apart, and what the filters say of them as the cluster is."""

    context: SchedulingContext
    """Context of one of them; the preemptor is not among the nominated pods."""
    local: Sequence[Check]
    """Checks of the plugins that read the pods of one node only."""
    fits_locally: BoolArray
    """[node]: whether these checks pass."""
    fits: BoolArray
    """[node]: whether all checks pass."""
    is_rejected: bool
    """True if a PreFilter plugin rejects them everywhere."""
    gets_no_worse: bool
    """True if a preemption on another node never makes a node unfit that fits."""


class _Counting:
    """Counts of one decision, within MAX_FILTER_RUNS."""

    def __init__(self, run: DryRun) -> None:
        self._run = run
        self._templates: dict[bytes, _Template] = {}
        self._runs_left = MAX_FILTER_RUNS
        self._nowhere = np.zeros(len(run.snapshot.pods), np.bool_)
        """[pod]: True if it is a victim for which no node has room, as far as `at_least` has looked."""

    def at_least(self, places: IntArray) -> IntArray:
        """Return [candidate]: at least so many victims are stranded, because no node has the room that they request.

        A pod that is being resized counts with what it holds.
        """
        victims = self._run.victim_rows(places)
        nowhere = _without_room(self._run, places, victims)
        nowhere &= ~self._run.snapshot.pod_table.terminating[victims.pods]
        self._nowhere[victims.pods] = nowhere
        return np.bincount(victims.places[nowhere], minlength=len(places))

    def count(self, places: IntArray) -> bool:
        """Count the candidates in `places` that are not counted yet; return False if it costs too many filter runs."""
        for place in places[self._run.stranded[places] == NOT_COMPARED].tolist():
            stranded = self._on(place)
            if stranded is None:
                return False
            self._run.stranded[place] = stranded
        return True

    def _on(self, place: int) -> int | None:
        """Return the number of stranded victims on one node of the dry run; None: it costs too many filter runs."""
        snapshot, count = self._run.snapshot, 0
        gone = self._run.victim_rows(np.array([place])).pods
        for row in gone.tolist():
            if self._nowhere[row] and not _holds_more(snapshot, row):
                count += 1
            elif not snapshot.pod_table.terminating[row]:
                template = self._template(snapshot.pods[row])
                if self._runs_left < 0:
                    return None
                count += not self._fits_somewhere(template, place, gone)
        return count if self._runs_left >= 0 else None

    def _template(self, victim: Pod) -> _Template:
        replacement = _replacement(victim)
        key = _template_key(replacement)
        if key not in self._templates:
            self._runs_left -= 1
            self._templates[key] = self._filter(replacement)
        return self._templates[key]

    def _filter(self, replacement: Pod) -> _Template:
        context, preemptor = self._run.context, self._run.context.pod
        own = scheduling_context(context.snapshot, replacement, context.profile, context.history)
        nominees = tuple(one for one in own.nominees if one.metadata.uid != preemptor.metadata.uid)
        own = replace(own, nominees=nominees)
        filter_run, size = run_filter_plugins(own), len(context.snapshot.nodes)
        local = [check for check in filter_run.checks if check.plugin not in PLUGINS_BEYOND_THE_NODE]
        beyond = [check for check in filter_run.checks if check.plugin in PLUGINS_BEYOND_THE_NODE]
        fits = filter_run.codes == Code.SUCCESS
        fits_locally = evaluate_constraints(local, size).codes == Code.SUCCESS if beyond else fits
        # Without terms and constraints of its own, the replacement is rejected by running pods' anti-affinity only, and
        # victims take theirs with them.
        affinity, terms = replacement.spec.affinity, preemptor.spec.affinity
        has_own = affinity is not None and bool(affinity.pod_affinity or affinity.pod_anti_affinity)
        is_repelled = terms is not None and terms.pod_anti_affinity is not None
        gets_no_worse = not (has_own or is_repelled or any(check.plugin != "InterPodAffinity" for check in beyond))
        is_rejected = filter_run.prefilter_status is not None
        return _Template(own, local, fits_locally, fits, is_rejected, gets_no_worse)

    def _fits_somewhere(self, template: _Template, place: int, gone: IntArray) -> bool:
        """Return whether a replacement of the template passes the filters on some node after the preemption."""
        node = int(self._run.rows[place])
        if template.is_rejected:
            return False
        if template.gets_no_worse and np.count_nonzero(template.fits) > template.fits[node]:
            return True
        fits = template.fits_locally.copy()
        fits[node] = self._fits_beside_preemptor(template, place)
        if not fits.any():
            return False
        preemptor, context = self._run.context.pod, template.context
        # The preemption clears the nominations of less important pods to the node.
        nominees = tuple(
            one
            for one in context.nominees
            if one.priority >= preemptor.priority
            or one.status.nominated_node_name != self._run.snapshot.node_names[node]
        )
        after = AfterPreemption(node, gone, preemptor)
        own = replace(context, nominees=nominees, after=after)
        self._runs_left -= 1
        skipped = plugins_missing_permissions(own, "filter")
        names = [one for one in own.profile.filter_plugins if one in PLUGINS_BEYOND_THE_NODE and one not in skipped]
        checks = [check for name in names for check in filter_checks(own, name)]
        fits &= evaluate_constraints(checks, len(fits)).codes == Code.SUCCESS
        return bool(fits.any())

    def _fits_beside_preemptor(self, template: _Template, place: int) -> bool:
        """Return whether the plugins that read one node's pods accept the replacement on the candidate's own node."""
        run, context, node = self._run, template.context, int(self._run.rows[place])
        own_place = np.array([place])
        victims = run.victim_rows(own_place)
        freed = run.snapshot.pod_table.demand[victims.pods].T
        left = _left_beside_preemptor(run, own_place, victims.places, freed)[:, 0]
        if any(_surely_rejects(check, node, left) for check in template.local):
            return False
        nominated = changed(run.context.pod.status, nominated_node_name=run.snapshot.node_names[node])
        preemptor = changed(run.context.pod, status=nominated)
        nominees = [one for one in context.nominees if one.priority >= preemptor.priority]
        own = replace(context, nominees=(preemptor, *nominees))
        self._runs_left -= 1
        names = dict.fromkeys(check.plugin for check in template.local if isinstance(check, Constraint))
        checks = [check.at(np.array([node])) for name in names for check in filter_checks(own, name)]
        evicted = EvictablePods(run.victims[:, own_place])
        return bool((evaluate_constraints(checks, 1, evicted).codes == Code.SUCCESS).all())


def _surely_rejects(check: Check, node: int, left: IntArray) -> bool:
    """Return whether the check rejects the node where `left` [resource] is left of BASE_RESOURCES."""
    if isinstance(check, StaticCheck):
        return bool(check.rejected[node])
    if not isinstance(check, ResourceConstraint):
        return False
    base = [amount for name, amount in zip(check.names, check.amounts, strict=True) if name in BASE_RESOURCES]
    return any(amount > 0 and amount > room for amount, room in zip(base, left.tolist(), strict=False))


def _holds_more(snapshot: Snapshot, row: int) -> bool:
    """Return whether the pod takes other room than its replacement requests, as one does that is being resized."""
    taken = snapshot.pod_table.resources_of(_replacement(snapshot.pods[row])).demand
    return tuple(snapshot.pod_table.demand[row].tolist()) != tuple(taken)


def _replacement(victim: Pod) -> Pod:
    """Return the pod that takes the victim's place: the same one, waiting for a node."""
    status = PodStatus(resource_claim_statuses=victim.status.resource_claim_statuses)
    return changed(victim, spec=changed(victim.spec, node_name=""), status=status)


def _template_key(pod: Pod) -> bytes:
    """Return a key that is equal for pods that filters cannot tell apart."""
    # Names of volumes without a source that filters read differ: that of a service account's token.
    volumes = [one for one in pod.spec.volumes or () if changed(one, name="") != _NO_SOURCE]
    own = pod.metadata
    name = own.name if volumes or pod.spec.resource_claims else ""
    return _ENCODER.encode((name, own.namespace, own.labels, own.owner_references, changed(pod.spec, volumes=volumes)))
