"""Simulate what happens to pods in a cluster: nodes change, pods arrive, and the scheduler tries them.

    nodes are added, cordoned, removed  ->  pending pods and replacements are tried
    nodes are drained one by one        ->  replacements are tried, which restores disruption budgets; repeated until
                                            every pod is evicted or stays blocked
    pods and workloads arrive           ->  they are tried; of a gang, all pods are bound or none
    until full                          ->  copies of one pod are bound until one does not fit

Rule: the caller's snapshot is modified.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from mmap import mmap

from msgspec.structs import replace

from extender.admission.admit import Admit, admission_of
from extender.admission.findings import Refused
from extender.cluster.files.manifests import RawManifest
from extender.core.eviction_history import NO_HISTORY, EvictionHistory
from extender.core.profile import KubeScheduler
from extender.core.scheduling_cycle.schedule_one import schedule_one
from extender.core.snapshot.arrays import BASE_RESOURCES
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import RequestError
from extender.k8s.kinds import KINDS, ClusterObjects, Key, key_of
from extender.k8s.objects import Object, Pod, PodStatus
from extender.k8s.workloads import workload_of
from extender.report.cycle_report import report_cycle
from extender.report.lists.nodes import requests_on
from extender.report.scheduler_report import limitations
from extender.report.schema import ResourceAmounts
from extender.report.simulation_schema import (
    ClusterSize,
    CopiesOnNode,
    CycleReport,
    Gang,
    NodeState,
    NodeUsage,
    PendingPod,
    RemovedNode,
    Replacement,
    ScenarioReport,
    Simulation,
    SimulationSummary,
    UntilFull,
    WorkloadPods,
)
from extender.report.wording import describe_passed_over
from extender.whatif import drain, effects
from extender.whatif.arrivals import Arrivals, PlannedPod, key_of_kind, pending_pods
from extender.whatif.controllers import DAEMON_SET, Controllers, comes_back, is_of_daemon_set
from extender.whatif.daemon_sets import plan_daemon_set
from extender.whatif.drain import Drain, EvictionAPI
from extender.whatif.result_sentence import result_sentence, workload_clauses
from extender.whatif.scenario import MAX_ADDED, MAX_UNTIL_FULL_PODS, Scenario
from extender.whatif.scheduler import Scheduler, Step
from extender.whatif.workloads import (
    WorkloadManifest,
    WorkloadPlan,
    admitted_workloads,
    current_pods,
    further_pods,
    plan,
)


def simulate(
    snapshot: Snapshot,
    scheduler: KubeScheduler,
    scenario: Scenario,
    *,
    history: EvictionHistory = NO_HISTORY,
    name: str = "",
    on_step: Callable[[Step], object] | None = None,
    server: Admit | None = None,
) -> Simulation:
    """Simulate the scenario.

    Modifies the snapshot, which must be built for `scheduler.features`. `name`: name of the policies in the result.
    `on_step` is called with every step before its effects, also for the copies of `until_full`; `server`: dry run of
    an API server for the admission mode `server`. Raises RequestError for a pod, claim or workload that is not
    admitted, and for an invalid scenario, such as one with a nonexistent node.
    """
    # 1. Check the scenario while nothing has changed.
    cluster = ClusterSize(nodes=len(snapshot.nodes), pods=len(snapshot.objects.pods))
    scenario.check(snapshot)
    admit = admission_of(scenario.admission, scenario.strict, server)
    arrivals = Arrivals(snapshot, scenario.admission, admit, scheduler.minor)
    arrivals.add_objects(scenario.claims)
    workloads = admitted_workloads(arrivals, scenario.workloads)
    run = _Run(snapshot, scheduler, history, scenario, arrivals, workloads, on_step)
    own = {
        (one.metadata.namespace or "default", one.metadata.name) if isinstance(one, Pod) else one.name
        for one in scenario.pods
    }
    before = [pod for pod in pending_pods(snapshot) if key_of("Pod", pod) not in own] if scenario.pending else []
    # 2. Change the nodes, and try the pending pods on them.
    if scenario.changes_nodes:
        run.change_nodes(before)
        before = []
    # 3. Let the pods arrive.
    if scenario.until_full:
        run.schedule(before)
        run.fill()
    elif scenario.gang:
        run.schedule(before)
        run.arrive_as_gang()
    else:
        run.arrive(before)
    return run.result(cluster, name)


class SimulationProgress:
    """Number of the pods that were tried, and of all to try, in memory that forked children share.

    Of one simulation, or two that are compared: a child that is being killed may still count.
    """

    def __init__(self) -> None:
        self._counts = memoryview(mmap(-1, 16)).cast("Q")
        self._recreates = False

    def begin(self, scenario: Scenario, cluster: ClusterObjects | Snapshot, runs: int) -> None:
        """Set the number of pods to try in all runs. How many copies fit until the cluster is full is not known."""
        pods = 0 if scenario.until_full else scenario.arriving_pods(cluster) + scenario.displaced_pods(cluster)
        self._counts[1] = pods * runs
        self._recreates = pods > 0 and scenario.replace_evicted

    def count(self, step: Step) -> None:
        """Count a pod at its first attempt, and the victims that come back, which are still to be tried."""
        if self._recreates:
            self._counts[1] += sum(map(comes_back, step.cycle.victims))
        self._counts[0] += step.attempt == 1

    @property
    def tried(self) -> int:
        """Number of pods that were tried at least once."""
        return self._counts[0]

    @property
    def pods(self) -> int:
        """Number of pods to try, which grows with the replacements of victims; 0 if it is not known."""
        return max(self._counts) if self._counts[1] else 0


class _Run:
    """A running simulation."""

    def __init__(
        self,
        snapshot: Snapshot,
        scheduler: KubeScheduler,
        history: EvictionHistory,
        scenario: Scenario,
        arrivals: Arrivals,
        workloads: Sequence[WorkloadManifest],
        on_step: Callable[[Step], object] | None,
    ) -> None:
        self.snapshot = snapshot
        self.scenario = scenario
        self.arrivals = arrivals
        self.workloads = workloads
        self.controllers = Controllers(snapshot, recreate=scenario.replace_evicted)
        self.scheduler = Scheduler(snapshot, scheduler, history, scenario.draw, self.controllers)
        self.cycles: list[CycleReport] = []
        self._on_step = on_step
        self._usage: dict[str, NodeUsage] = {}
        """Node -> its usage before its first change, in both `before` and `after`."""
        self._added: list[str] = []
        self._removed: list[RemovedNode] = []
        self._drains: list[Drain] = []
        self._created: list[_CreatedPods] = []
        self._until_full: UntilFull | None = None
        self._gang: Gang | None = None

    # --- scheduling ---

    def schedule(self, pods: Sequence[Pod] = ()) -> None:
        """Queue the pods, and run scheduling cycles until the queue is empty."""
        self.scheduler.add(pods)
        for step in self.scheduler:
            if self._on_step is not None:
                self._on_step(step)
            self.cycles.append(report_cycle(self.snapshot, step.cycle, step.attempt, self.scheduler.scheduler))
            if step.cycle.node is not None:
                self._touch(step.cycle.node)

    def _touch(self, node: str, state: NodeState | None = None) -> None:
        """Save the requests on a node before its first change."""
        if node not in self._usage:
            amounts = requests_on(self.snapshot, self.snapshot.node_row[node])
            allocatable = _allocatable(self.snapshot, node, amounts)
            self._usage[node] = NodeUsage(
                name=node, before=amounts, after=amounts, allocatable=allocatable, state=state
            )

    # --- nodes ---

    def change_nodes(self, pending: Sequence[Pod]) -> None:
        """Add, cordon, remove and drain nodes; the pending pods are tried before the first drain."""
        # 1. Save the requests on every node that will change.
        snapshot, scenario = self.snapshot, self.scenario
        self._added = drain.add_nodes(
            snapshot, ((self.arrivals.node(one.node), one.count) for one in scenario.add_nodes)
        )
        states: dict[NodeState, Sequence[str]] = {
            "added": self._added,
            "cordoned": scenario.cordon,
            "removed": scenario.remove_nodes,
            "drained": scenario.drain,
        }
        for state, names in states.items():
            for node in names:
                self._touch(node, state)
        # 2. Also cordon the nodes to drain, so that no pod is scheduled to them meanwhile; then remove nodes.
        drain.cordon(snapshot, [*scenario.cordon, *scenario.drain])
        self._removed, created = drain.remove_nodes(snapshot, scenario.remove_nodes, self.controllers)
        self.schedule([*pending, *created])
        # 3. Drain node by node, then repeat: evictions that were blocked may be allowed once replacements run.
        api = EvictionAPI(snapshot)
        for node in scenario.drain:
            self._drains.append(Drain.of(snapshot, node))
            self._drain(self._drains[-1], api)
        while sum(self._drain(one, api) for one in self._drains):
            pass

    def _drain(self, one: Drain, api: EvictionAPI) -> bool:
        """Evict pods and schedule replacements until no more can be evicted; return whether any pod was evicted."""
        has_evicted = False
        while (created := one.evict(self.snapshot, api, self.controllers)) is not None:
            has_evicted = True
            self.scheduler.cluster_changed()
            self.scheduler.recreate(created)
            self.schedule()
        return has_evicted

    # --- arrivals ---

    def arrive(self, before: Sequence[Pod] = ()) -> list[Pod]:
        """Create all pods of the scenario, schedule them with the pods in `before`, and return the new pods."""
        created, first = self.arrivals.add_pods(self.scenario.pods), list[Pod]()
        # One pass for all workloads: a cluster has up to 150,000 pods.
        current = current_pods(self.snapshot, self.workloads)
        for workload in self.workloads:
            planned = self._plan(workload, current[workload.key])
            own, refused = self._create(planned)
            self._created.append(_CreatedPods(planned, [pod.key for pod in own], refused))
            created += own
            # Pods of an ordered StatefulSet arrive one by one, each once its predecessor runs.
            first += self.controllers.create_in_order(own) if planned.is_ordered else own
        self.schedule([*before, *created[: len(self.scenario.pods)], *first])
        return created

    def _plan(self, workload: WorkloadManifest, current: Sequence[Pod]) -> WorkloadPlan:
        names = self.controllers.names
        if workload.kind != DAEMON_SET:
            return plan(self.snapshot, workload, current, names)
        planned = plan_daemon_set(self.snapshot, workload, current, self.arrivals, names, self.scheduler.scheduler)
        if len(planned.pods) > MAX_ADDED:
            raise RequestError(f"workloads: {len(planned.pods)} pods exceed the limit of {MAX_ADDED}")
        return planned

    def _create(self, planned: WorkloadPlan) -> tuple[list[Pod], list[str]]:
        """Create the planned pods; return them, and why others are refused. Refused if the API server refuses all.

        They are put into the snapshot at once, so that a quota counts them; those of an ordered StatefulSet leave it
        again, as each is created once its predecessor runs.
        """
        created, refused = list[Pod](), list[Refused]()
        for one in planned.pods:
            try:
                pod = self.arrivals.create(one)
            except Refused as error:
                refused.append(error)
                continue
            created.append(pod)
            self.snapshot.put("Pod", pod)
        if refused and not created:
            raise Refused(f"{planned.workload}: {refused[0]}")
        for pod in created if planned.is_ordered else ():
            self.snapshot.remove("Pod", key_of("Pod", pod))
        return created, list(map(str, refused))

    def arrive_as_gang(self) -> None:
        """Bind all arriving pods, or undo everything that was done for them."""
        # 1. Save the state that a failed gang restores. Objects are immutable, so copying the tables is enough.
        before = {kind: dict(self.snapshot.objects.of(kind)) for kind in KINDS}
        cycles = len(self.cycles)
        history, recreated = self.scheduler.history, len(self.controllers.recreated)
        usage = dict(self._usage)
        # 2. Let the pods arrive, and check whether all are bound.
        created = self.arrive()
        refused = [message for one in self._created for message in one.refused]
        failed = [pod.key for pod in created if not self._is_bound(key_of("Pod", pod))]
        if not failed and not refused:
            nothing = "" if created else "; ".join(workload_clauses(map(self._workload_pods, self._created)))
            self._gang = Gang(scheduled=True, pods=len(created), message=nothing)
            return
        # 3. Otherwise, restore the cluster, and report each pod's last attempt as one that changed nothing.
        _restore(self.snapshot, before)
        self.scheduler.history, self._usage = history, usage
        self.controllers.forget(recreated)
        self.controllers.waiting.clear()
        last = {one.pod: one for one in self.cycles[cycles:]}
        total = len(created) + len(refused)
        if refused:
            message = f"{len(refused)} of {total} pods are refused: {refused[0]}"
        else:
            tried = next((last[pod] for pod in failed if pod in last), None)
            why = failed[0] if tried is None else f"{tried.pod}: {tried.message}"
            message = f"{len(failed)} of {total} pods do not fit: {why}"
        self._gang = Gang(scheduled=False, pods=total, message=message)
        own = (last[pod.key] for pod in created if pod.key in last)
        self.cycles[cycles:] = [_taken_back(one, message) for one in own]

    def _is_bound(self, key: Key) -> bool:
        pod = self.snapshot.objects.pods.get(key)
        return pod is not None and pod.spec.node_name != ""

    # --- until full ---

    def fill(self) -> None:
        """Bind copies of the pod, or pods of the workload, until one does not fit without preemption."""
        # No victim is evicted: each eviction would make room for one more copy.
        scheduler, bound, following, refusal = self.scheduler, dict[str, int](), None, ""
        (of, copies), fits = self._copies(), 0
        while fits < MAX_UNTIL_FULL_PODS:
            try:
                pod = next(copies)
            except Refused as error:  # a quota is full; the first copy is refused for what it is
                if not fits:
                    raise
                refusal = str(error)
                break
            self.snapshot.put("Pod", pod)
            cycle = schedule_one(self.snapshot, pod, scheduler.scheduler, scheduler.history, scheduler.draw)
            if self._on_step is not None:
                self._on_step(Step(cycle, 1))
            if cycle.outcome != "Scheduled" or cycle.node is None:
                following = report_cycle(self.snapshot, cycle, 1, scheduler.scheduler)
                self.snapshot.remove("Pod", key_of("Pod", pod))
                break
            self._touch(cycle.node)
            effects.bind(self.snapshot, pod, cycle.node, cycle.reservation)
            bound[cycle.node] = bound.get(cycle.node, 0) + 1
            fits += 1
        self._until_full = UntilFull(
            pod=of,
            fits=fits,
            limit_reached=fits == MAX_UNTIL_FULL_PODS,
            nodes=[CopiesOnNode(node=node, pods=pods) for node, pods in sorted(bound.items())],
            next=following,
            refusal=refusal,
        )

    def _copies(self) -> tuple[str, Iterator[Pod]]:
        """Return the name of the only workload or pod, and endless pods of it."""
        for workload in self.workloads:
            current = current_pods(self.snapshot, [workload])[workload.key]
            further = further_pods(self.snapshot, workload, current, self.controllers.names)
            return str(workload), map(self.arrivals.create, further)
        (given,) = self.scenario.pods
        # A manifest that is copied is admitted itself, too, for the place of its mistakes and for a generated name.
        pod = given if isinstance(given, Pod) else self.arrivals.typed_pod(given)
        namespace, name = pod.metadata.namespace or "default", pod.metadata.name
        numbered = (f"{name}-{number}" for number in count(1))
        free = (copy for copy in numbered if (namespace, copy) not in self.snapshot.objects.pods)
        if isinstance(given, RawManifest) and not given.is_stored:
            return f"{namespace}/{name}", map(self.arrivals.create, _planned_copies(given, namespace, free))
        # The copies share the claims of the original: it is stored, so its claims exist.
        status = PodStatus("Pending", resource_claim_statuses=pod.status.resource_claim_statuses)
        spec = replace(pod.spec, node_name="")
        own = replace(pod.metadata, namespace=namespace, deletion_timestamp=None)
        return f"{namespace}/{name}", (
            Pod(replace(own, name=copy, uid=f"{namespace}/{copy}"), spec, status) for copy in free
        )

    # --- the result ---

    def result(self, cluster: ClusterSize, name: str) -> Simulation:
        """Build the result: cycles, pending and evicted pods, node usage, replacements, and the scenario's changes."""
        scheduler, cycles = self.scheduler.scheduler, self.cycles
        last = {one.pod: one for one in cycles}
        evicted = [victim for one in cycles for victim in one.victims]
        scenario = self._report()
        for one in scenario.drained if scenario is not None else ():
            if one.blocked:
                self._usage[one.node] = replace(self._usage[one.node], state="draining")
        pending = [_pending(one) for one in last.values() if one.outcome in ("Unschedulable", "Nominated")]
        # A pod that was scheduled may have been evicted later.
        bound = (self._is_bound(effects.key_of_name(one.pod)) for one in last.values() if one.outcome == "Scheduled")
        summary = SimulationSummary(
            scheduled=sum(bound),
            pending=len(pending),
            skipped=sum(one.outcome == "Skipped" for one in last.values()),
            evicted=len(evicted),
            pdb_violations=sum(one.num_pdb_violations for one in cycles),
            nodes=[_usage_now(self.snapshot, self._usage[node]) for node in sorted(self._usage)],
        )
        found = Simulation(
            sentence="",
            cluster=cluster,
            policies=name,
            version=scheduler.version,
            release=scheduler.release,
            version_source=scheduler.version_source,
            feature_gates=scheduler.changed_gates,
            notes=[*limitations(scheduler), *self._notes()],
            seed=self.scenario.seed,
            cycles=cycles,
            pending=pending,
            evicted=evicted,
            summary=summary,
            replacements=self._replacements(),
            scenario=scenario,
            admission=self.arrivals.report(),
        )
        return replace(found, sentence=result_sentence(found))

    def _notes(self) -> Iterator[str]:
        """Yield notes about objects that are not read, and pods that the simulation does not create."""
        passed_over = Counter(one.kind for one in self.scenario.claims if key_of_kind(one) is None)
        if passed_over:
            yield describe_passed_over(passed_over)
        for pod in dict.fromkeys(self.controllers.given_up):
            yield f"pod {pod} was evicted again and again: it is not recreated any more"
        if self._added:
            sets = {workload_of(pod) for pod in self.snapshot.objects.pods.values() if is_of_daemon_set(pod)}
            # DaemonSet objects are not read, so their pods for a new node are unknown.
            if sets:
                yield f"added nodes have no pods of DaemonSets, of which the cluster has {len(sets)}"

    def _replacements(self) -> list[Replacement]:
        """Return every recreated pod with the last attempt to schedule it."""
        attempts = {one.uid: one for one in self.cycles}
        return [
            Replacement(
                pod=last.pod,
                of=one.of,
                cause=one.cause,
                old_node=one.old_node,
                outcome=last.outcome,
                node=last.node,
                message=last.message,
            )
            for one in self.controllers.recreated
            for last in [attempts[one.uid]]
        ]

    def _report(self) -> ScenarioReport | None:
        if self.scenario.only_pods_arrive:
            return None
        return ScenarioReport(
            added=self._added,
            cordoned=list(self.scenario.cordon),
            removed=self._removed,
            drained=[one.report(self.snapshot) for one in self._drains],
            workloads=[self._workload_pods(one) for one in self._created],
            until_full=self._until_full,
            gang=self._gang,
        )

    def _workload_pods(self, own: "_CreatedPods") -> WorkloadPods:
        waiting = {pod.key for pods in self.controllers.waiting.values() for pod in pods}
        is_taken_back = self._gang is not None and not self._gang.scheduled
        keys = [] if is_taken_back else own.pods
        return WorkloadPods(
            workload=str(own.plan.workload),
            existing=own.plan.existing,
            created=[key for key in keys if key not in waiting],
            waiting=[key for key in keys if key in waiting],
            refused=len(own.refused),
            refusal=own.refused[0] if own.refused else "",
            excluded=dict(own.plan.excluded),
        )


@dataclass(frozen=True, slots=True)
class _CreatedPods:
    """The pods that were created for a workload."""

    plan: WorkloadPlan
    pods: Sequence[str]
    """Keys of the pods."""
    refused: Sequence[str]
    """Messages of the API server for the pods that it refuses."""


def _planned_copies(given: RawManifest, namespace: str, names: Iterable[str]) -> Iterator[PlannedPod]:
    """Yield copies of a manifest, one for each name."""
    metadata = {name: value for name, value in (given.object.get("metadata") or {}).items() if name != "generateName"}
    spec = {name: value for name, value in (given.object.get("spec") or {}).items() if name != "nodeName"}
    for name in names:
        yield PlannedPod({"metadata": {**metadata, "name": name, "namespace": namespace}, "spec": spec})


# --- taking back ----------------------------------------------------------------------------------------------------


def _restore(snapshot: Snapshot, tables: Mapping[str, Mapping[Key, Object]]) -> None:
    """Restore the snapshot's objects to those in `tables`."""
    # Remove before put: a new pod may have the name or the volume of a restored pod.
    for kind, before in tables.items():
        now = snapshot.objects.of(kind)
        for key in [key for key, one in now.items() if before.get(key) is not one]:
            snapshot.remove(kind, key)
    for kind, before in tables.items():
        now = snapshot.objects.of(kind)
        for one in [one for key, one in before.items() if key not in now]:
            snapshot.put(kind, one)
    snapshot.refresh_layout()


def _taken_back(one: CycleReport, message: str) -> CycleReport:
    """Return the last attempt for a pod of a failed gang without its effects: nothing was bound or evicted."""
    if one.outcome == "Skipped":
        return one
    fits = one.outcome == "Scheduled"
    return replace(
        one,
        outcome="Unschedulable",
        node=None,
        message=f"fits, but its gang does not: {message}" if fits else one.message,
        nominated_node=None,
        victims=[],
        num_pdb_violations=0,
        claims=[],
        deallocated=None,
    )


# --- parts of the result ----------------------------------------------------------------------------------------------


def _pending(one: CycleReport) -> PendingPod:
    return PendingPod(
        pod=one.pod,
        uid=one.uid,
        priority=one.priority,
        attempts=one.attempt,
        message=one.message,
        nominated_node=one.nominated_node,
        vetoed=one.vetoed,
    )


def _allocatable(snapshot: Snapshot, node: str, resources: Iterable[str]) -> ResourceAmounts:
    row = snapshot.node_row[node]
    base = dict(zip(BASE_RESOURCES, snapshot.allocatable[:, row].tolist(), strict=True))
    return {one: base[one] if one in base else int(snapshot.scalar_allocatable(one)[row]) for one in resources}


def _usage_now(snapshot: Snapshot, usage: NodeUsage) -> NodeUsage:
    """Return the usage with the current requests as `after`."""
    row = snapshot.node_row.get(usage.name)
    if row is None:
        return replace(usage, after=dict.fromkeys(usage.before, 0))
    after = requests_on(snapshot, row)
    resources = dict.fromkeys((*usage.before, *after))
    return replace(
        usage,
        before={one: usage.before.get(one, 0) for one in resources},
        after={one: after.get(one, 0) for one in resources},
        allocatable=_allocatable(snapshot, usage.name, resources),
    )
