"""Generate the cluster before the storm, and the arrivals of preemptors.

Nodes are 93-100 % full. Six tenths of the workloads are in a budget: half of the budgets have a workload each, the
others several. Some budgets allow no disruption from the start, and some pods are not ready.

Rule: every draw comes from the plan's seed.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from benchmarks.storm.clock import timestamp
from benchmarks.storm.plan import Storm
from extender.k8s.objects import Node, Pod, PodDisruptionBudget
from extender.k8s.workloads import Workload

JSON = dict[str, Any]

CPU = {200: 3, 300: 4, 500: 6, 750: 4, 1000: 3, 1500: 2}
"""CPU request of a pod in millicores -> share of the workloads."""
MEMORY_PER_CPU = (2.0, 4.0)
"""MiB of memory per millicore; each workload draws one of these."""
PRIORITIES = {-10: 4, 0: 8, 100: 5, 1000: 3}
GRACE_PERIOD_SECONDS = {5: 2, 10: 3, 30: 5}
"""Termination grace period in seconds -> share of the workloads."""
UNREADY = 0.02
BUDGETED = 0.6
"""Share of the workloads that are in a budget."""
ALLOWED_OF_ONE = (0, 1, 1, 1, 2)
"""Disruptions that a budget of one workload allows while all its pods are ready; each budget draws one of these."""
ALLOWED_SHARE = (0.0, 0.03, 0.05, 0.1)
"""maxUnavailable of budgets over several workloads, as a fraction of their pods; at least 1 unless 0."""
ALWAYS_ALLOW = 0.1
"""Share of the budgets with unhealthyPodEvictionPolicy: AlwaysAllow."""
REPLICAS = (5, 20)
FULL_CPU = (0.93, 1.0)
FULL_MEMORY = (0.85, 1.0)

PREEMPTOR_PRIORITY = 2000
PREEMPTOR_CPU = {250: 4, 500: 4, 1000: 2, 2000: 1}
BURST = (5, 40)
"""Minimum and maximum number of preemptors that arrive within a second."""


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """What the pods of a workload have in common."""

    workload: Workload
    labels: dict[str, str]
    priority: int
    cpu: int
    """Millicores."""
    memory: int
    """MiB."""
    grace: float = 30.0
    """Seconds from an eviction to the pod's end."""

    @property
    def is_protected(self) -> bool:
        """Whether the presets `careful` and `strict` protect its pods."""
        return self.workload[1] == "DaemonSet"

    def pod(self, name: str, created: float, node: str = "") -> Pod:
        """Return a pending pod; with `node`, the only node that it may run on."""
        namespace, kind, owner = self.workload
        reference = {"apiVersion": "v1", "kind": kind, "name": owner, "uid": f"uid-{owner}", "controller": True}
        resources = {"requests": {"cpu": f"{self.cpu}m", "memory": f"{self.memory}Mi"}}
        raw: JSON = {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": f"uid-{name}",
                "labels": self.labels,
                "creationTimestamp": timestamp(created),
                "ownerReferences": [reference],
            },
            "spec": {
                "containers": [{"name": "main", "image": "registry.example/app:v1", "resources": resources}],
                "priority": self.priority,
            },
            "status": {"phase": "Pending"},
        }
        if node:
            raw["spec"]["affinity"] = _only(node)
        return msgspec.convert(raw, Pod)


def _only(node: str) -> JSON:
    """Return the node affinity that the DaemonSet controller sets."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


@dataclass(frozen=True, slots=True)
class Placed:
    """A pod that runs before the storm."""

    name: str
    template: Template
    node: str
    started: float
    """Start time in seconds; negative, since it is before the storm."""
    ready: bool


@dataclass(frozen=True, slots=True)
class Arrival:
    at: float
    name: str
    template: Template


@dataclass(frozen=True, slots=True)
class Limits:
    """A budget: its selector, and how many selected pods must be healthy."""

    name: str
    namespace: str
    labels: dict[str, str]
    desired: int
    always_allow: bool
    """Whether unready pods may always be evicted (unhealthyPodEvictionPolicy: AlwaysAllow)."""

    def selects(self, template: Template) -> bool:
        return template.workload[0] == self.namespace and self.labels.items() <= template.labels.items()

    def as_object(self) -> PodDisruptionBudget:
        """Return the PodDisruptionBudget without a status."""
        spec: JSON = {"selector": {"matchLabels": self.labels}, "minAvailable": self.desired}
        if self.always_allow:
            spec["unhealthyPodEvictionPolicy"] = "AlwaysAllow"
        metadata = {"name": self.name, "namespace": self.namespace, "uid": f"uid-{self.name}"}
        return msgspec.convert({"metadata": metadata, "spec": spec}, PodDisruptionBudget)


@dataclass(frozen=True, slots=True)
class Start:
    """Initial state of the cluster, and the arrivals of the storm."""

    nodes: tuple[Node, ...]
    running: tuple[Placed, ...]
    budgets: tuple[Limits, ...]
    arrivals: tuple[Arrival, ...]


def generate(storm: Storm) -> Start:
    names = [f"node-{row:03}" for row in range(storm.nodes)]
    templates = _templates(storm)
    replicas = _replicas(storm, len(templates))
    running = (*_daemons(names), *_spread(storm, names, templates, replicas))
    budgets = tuple(_budgets(storm, templates, replicas))
    return Start(tuple(_nodes(storm, names, running)), running, budgets, tuple(_arrivals(storm)))


# --- workloads and budgets ------------------------------------------------------------------------------------------


def _templates(storm: Storm) -> list[Template]:
    """Order the workloads: own budget first, then shared budgets, then none."""
    chance, found = storm.chance("workloads"), []
    for number in range(storm.workloads):
        stack = _stack(storm, number)
        cpu = _one_of(chance, CPU)
        template = Template(
            workload=(f"team-{stack % 10}", "ReplicaSet", f"app-{number:03}"),
            labels={"app": f"app-{number:03}", "stack": f"stack-{stack:03}"},
            priority=_one_of(chance, PRIORITIES),
            cpu=cpu,
            memory=int(cpu * chance.uniform(*MEMORY_PER_CPU)),
            grace=_one_of(chance, GRACE_PERIOD_SECONDS),
        )
        found.append(template)
    return found


def _stack(storm: Storm, number: int) -> int:
    """Return the number of the group of workloads that would share a budget."""
    alone = storm.budgets // 2
    together = max(1, round((BUDGETED * storm.workloads - alone) / max(storm.budgets - alone, 1)))
    return number if number < alone else alone + (number - alone) // together


def _replicas(storm: Storm, workloads: int) -> list[int]:
    """Distribute the pods of the plan over the workloads; return the replicas of each."""
    chance, wanted = storm.chance("replicas"), storm.pods - storm.nodes
    counts = [REPLICAS[0]] * workloads
    while sum(counts) < wanted and min(counts) < REPLICAS[1]:
        growing = chance.randrange(workloads)
        # Every second draw goes to the first half, so that workloads are not all of the same size.
        growing = growing // 2 if chance.random() < 0.5 else growing
        counts[growing] += counts[growing] < REPLICAS[1]
    return counts


def _budgets(storm: Storm, templates: list[Template], replicas: list[int]) -> Iterator[Limits]:
    chance = storm.chance("budgets")
    for number in range(storm.budgets):
        stack = f"stack-{number:03}"
        members = [place for place, template in enumerate(templates) if template.labels["stack"] == stack]
        count = sum(replicas[place] for place in members)
        if number < storm.budgets // 2:
            allowed = chance.choice(ALLOWED_OF_ONE)
        else:
            share = chance.choice(ALLOWED_SHARE)
            allowed = max(1, round(share * count)) if share else 0
        namespace = templates[members[0]].workload[0]
        always = chance.random() < ALWAYS_ALLOW
        yield Limits(f"budget-{number:02}", namespace, {"stack": stack}, max(0, count - allowed), always)


# --- running pods and their nodes -----------------------------------------------------------------------------------


def _daemons(nodes: list[str]) -> Iterator[Placed]:
    template = Template(("kube-system", "DaemonSet", "agent"), {"app": "agent"}, 0, 100, 200)
    for row, node in enumerate(nodes):
        yield Placed(f"agent-{row:03}", template, node, -3000.0, True)


def _spread(storm: Storm, nodes: list[str], templates: list[Template], replicas: list[int]) -> Iterator[Placed]:
    """Place every pod on the least loaded node, so that pods of a workload rarely share a node."""
    chance = storm.chance("placing")
    pods = [(template, number) for template, count in zip(templates, replicas, strict=True) for number in range(count)]
    chance.shuffle(pods)
    load = dict.fromkeys(nodes, 0)
    for template, number in pods:
        node = min(load, key=load.__getitem__)
        load[node] += template.cpu
        started = -chance.uniform(60, 30 * 86400)
        yield Placed(f"{template.workload[2]}-{number}", template, node, started, chance.random() >= UNREADY)


def _nodes(storm: Storm, names: list[str], running: tuple[Placed, ...]) -> Iterator[Node]:
    """Yield the nodes, each slightly larger than the requests of its pods."""
    chance = storm.chance("nodes")
    cpu, memory = dict.fromkeys(names, 0), dict.fromkeys(names, 0)
    for one in running:
        cpu[one.node] += one.template.cpu
        memory[one.node] += one.template.memory
    for name in names:
        millicores, mebibytes = cpu[name] / chance.uniform(*FULL_CPU), memory[name] / chance.uniform(*FULL_MEMORY)
        there = {"cpu": f"{int(millicores)}m", "memory": f"{int(mebibytes)}Mi", "pods": "110"}
        metadata = {"name": name, "uid": f"uid-{name}", "labels": {"kubernetes.io/hostname": name}}
        yield msgspec.convert({"metadata": metadata, "status": {"allocatable": there}}, Node)


# --- preemptors -----------------------------------------------------------------------------------------------------


def _arrivals(storm: Storm) -> Iterator[Arrival]:
    """Yield the preemptors in bursts, in order of time."""
    chance, times = storm.chance("arrivals"), list[float]()
    while len(times) < storm.preemptors:
        begin = chance.uniform(0, storm.arriving - 1)
        times += [begin + chance.random() for _ in range(chance.randint(*BURST))]
    for number, at in enumerate(sorted(times[: storm.preemptors])):
        cpu, name = _one_of(chance, PREEMPTOR_CPU), f"urgent-{number:03}"
        memory = int(cpu * chance.uniform(*MEMORY_PER_CPU))
        yield Arrival(at, name, Template(("urgent", "Job", name), {"app": name}, PREEMPTOR_PRIORITY, cpu, memory))


def _one_of(chance: random.Random, shares: dict[int, int]) -> int:
    """Draw a key with the probability given by its share."""
    return chance.choices(list(shares), list(shares.values()))[0]
