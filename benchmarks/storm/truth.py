"""The actual state, independent of what was observed: pods, free capacity of nodes, and budgets.

Rule: every change goes through a method of `Truth`, which notifies its listeners; no other code writes to a pod.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec.structs import replace

from benchmarks.storm.clock import Clock, timestamp
from benchmarks.storm.generate import PREEMPTOR_PRIORITY, Limits, Start, Template
from extender.k8s.objects import Condition, Node, Pod, PodDisruptionBudget, PodDisruptionBudgetStatus
from extender.k8s.requests import allocatable

PREEMPTED = Condition("DisruptionTarget", "True", "PreemptionByScheduler")
MIB = 1 << 20


@dataclass(slots=True, eq=False)
class Life:
    """One pod from its creation to its end."""

    pod: Pod
    """The object as the API server has it."""
    template: Template
    ready: bool = False
    only_node: str = ""
    budgets: tuple["Budget", ...] = ()

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    @property
    def name(self) -> str:
        return self.pod.metadata.name

    @property
    def node(self) -> str:
        """Name of its node; empty while it is pending."""
        return self.pod.spec.node_name

    @property
    def leaving(self) -> bool:
        return self.pod.metadata.deletion_timestamp is not None

    @property
    def is_preemptor(self) -> bool:
        return self.template.priority >= PREEMPTOR_PRIORITY

    @property
    def healthy(self) -> bool:
        """Whether the disruption controller counts the pod as healthy."""
        return self.ready and not self.leaving


@dataclass(slots=True, eq=False)
class Budget:
    """A disruption budget and the pods it selects."""

    limits: Limits
    object: PodDisruptionBudget
    members: dict[str, Life] = field(default_factory=dict)
    """UID -> pod."""

    @property
    def healthy(self) -> int:
        return sum(life.healthy for life in self.members.values())

    @property
    def left(self) -> int:
        """Number of healthy pods that may be evicted; negative if healthy pods are already missing."""
        return self.healthy - self.limits.desired

    def is_broken_by(self, life: Life) -> bool:
        """Return whether an eviction API without delays would refuse to evict the pod."""
        if life.leaving:
            return False
        if life.ready:
            return self.left < 1
        return self.left < 0 and not self.limits.always_allow

    def renew_status(self, version: int) -> None:
        """Update the status as the disruption controller does."""
        healthy = self.healthy
        status = PodDisruptionBudgetStatus(
            current_healthy=healthy,
            desired_healthy=self.limits.desired,
            expected_pods=len(self.members),
            disruptions_allowed=max(0, healthy - self.limits.desired),
        )
        metadata = replace(self.object.metadata, resource_version=str(version))
        self.object = replace(self.object, metadata=metadata, status=status)


PodChanged = Callable[[Life, bool], None]
"""Called with a pod and whether it is deleted."""
HealthChanged = Callable[[Budget], None]


@dataclass(slots=True)
class Room:
    """Free capacity of a node."""

    cpu: int
    """Millicores."""
    memory: int
    """MiB."""

    @classmethod
    def of(cls, node: Node) -> "Room":
        there = allocatable(node.status.allocatable)
        return cls(there["cpu"], there["memory"] // MIB)

    def take(self, template: Template) -> None:
        self.cpu -= template.cpu
        self.memory -= template.memory

    def give_back(self, template: Template) -> None:
        self.cpu += template.cpu
        self.memory += template.memory


class Truth:
    """All pods, nodes and budgets."""

    def __init__(self, clock: Clock, start: Start) -> None:
        self._clock = clock
        self._pod_changed: PodChanged = lambda _life, _deleted: None
        self._health_changed: HealthChanged = lambda _budget: None
        self._version = 0
        self.nodes = start.nodes
        self.room = {node.metadata.name: Room.of(node) for node in start.nodes}
        self.on_node: dict[str, dict[str, Life]] = {name: {} for name in self.room}
        """Node -> UID -> pod running on the node."""
        self.pods: dict[str, Life] = {}
        """UID -> existing pod."""
        self.nominated: dict[str, Life] = {}
        """UID -> pending pod with a nominated node."""
        self.budgets = [Budget(limits, limits.as_object()) for limits in start.budgets]
        for one in start.running:
            life = self.create(one.name, one.template, one.node if one.template.is_protected else "", one.started)
            life.ready = one.ready
            self.bind(life, one.node, one.started)
        for budget in self.budgets:
            self.renew_status(budget)

    def listen(self, pod_changed: PodChanged, health_changed: HealthChanged) -> None:
        """Call the listeners for every later change of a pod, or of the healthy pods of a budget."""
        self._pod_changed, self._health_changed = pod_changed, health_changed

    # --- pod lifecycle ---------------------------------------------------------------------------------------

    def create(self, name: str, template: Template, only_node: str = "", created: float | None = None) -> Life:
        """Create a pending pod."""
        pod = template.pod(name, self._clock.now if created is None else created, only_node)
        charged = tuple(budget for budget in self.budgets if budget.limits.selects(template))
        life = Life(pod, template, only_node=only_node, budgets=charged)
        self.pods[life.uid] = life
        for budget in charged:
            budget.members[life.uid] = life
        self._write(life, pod)
        return life

    def nominate(self, life: Life, node: str) -> None:
        self.nominated[life.uid] = life
        self._write(life, replace(life.pod, status=replace(life.pod.status, nominated_node_name=node)))

    def bind(self, life: Life, node: str, started: float | None = None) -> None:
        """Bind the pod to the node, where it runs at once."""
        room = self.room[node]
        room.take(life.template)
        if room.cpu < 0 or room.memory < 0:
            raise RuntimeError(f"{node} has no room for {life.name}: the simulation is wrong")
        self.on_node[node][life.uid] = life
        self.nominated.pop(life.uid, None)
        status = replace(
            life.pod.status,
            phase="Running",
            nominated_node_name="",
            start_time=timestamp(self._clock.now if started is None else started),
            conditions=[_is_ready(life.ready)],
        )
        self._write(life, replace(life.pod, spec=replace(life.pod.spec, node_name=node), status=status))

    def become_ready(self, life: Life) -> None:
        if life.uid in self.pods and not life.leaving:
            life.ready = True
            self._write(life, replace(life.pod, status=replace(life.pod.status, conditions=[_is_ready(True)])))
            self._notify_budgets(life)

    def evict(self, life: Life) -> int:
        """Delete the pod as kube-scheduler does; return the number of budgets that this breaks."""
        broken = sum(budget.is_broken_by(life) for budget in life.budgets)
        metadata = replace(life.pod.metadata, deletion_timestamp=timestamp(self._clock.now + life.template.grace))
        status = replace(life.pod.status, conditions=[_is_ready(life.ready), PREEMPTED])
        self._write(life, replace(life.pod, metadata=metadata, status=status))
        self._notify_budgets(life)
        return broken

    def remove(self, life: Life) -> None:
        """Remove a terminated pod and free its capacity."""
        del self.pods[life.uid], self.on_node[life.node][life.uid]
        self.room[life.node].give_back(life.template)
        for budget in life.budgets:
            del budget.members[life.uid]
        self._write(life, life.pod, deleted=True)
        self._notify_budgets(life)

    def _write(self, life: Life, pod: Pod, deleted: bool = False) -> None:
        life.pod = replace(pod, metadata=replace(pod.metadata, resource_version=str(self._next_version())))
        self._pod_changed(life, deleted)

    def _notify_budgets(self, life: Life) -> None:
        for budget in life.budgets:
            self._health_changed(budget)

    def renew_status(self, budget: Budget) -> None:
        """Let the disruption controller recount the budget."""
        budget.renew_status(self._next_version())

    def _next_version(self) -> int:
        self._version += 1
        return self._version


def _is_ready(ready: bool) -> Condition:
    return Condition("Ready", "True" if ready else "False")
