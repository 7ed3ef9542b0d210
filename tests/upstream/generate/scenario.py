"""A scenario in the making: its chance, its objects, and the document that they become.

Rule: each method draws from the scenario's random numbers in a fixed order; what is drawn but not used stays.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any

from tests.upstream.generate.quantities import (
    canonical,
    spelled_bytes,
    spelled_count,
    spelled_cpu,
    spelled_list,
)
from tests.upstream.generate.words import APPS, CREATED, EPHEMERAL_STORAGE, EPOCH, JSON, MAX_INT32, timestamp


class Scenario:
    """The objects of a scenario, and what they are drawn from."""

    pod: JSON
    """The incoming pod."""

    def __init__(self, random: Random, category: str, name: str) -> None:
        self.random = random
        self.category = category
        self.name = name
        self.tags: set[str] = set()
        self.nodes: list[JSON] = []
        self.pods: list[JSON] = []
        """Pods of the cluster, in the order in which kube-scheduler saw them."""
        self.budgets: list[JSON] = []
        self.others: list[JSON] = []
        """Objects of all other kinds but namespaces."""
        self.namespaces = ["default", "prod", "dev"]
        self.namespace_labels: dict[str, dict[str, str]] = {}
        self.names = 0
        self.fancy = False
        """True if quantities are spelled in all ways that an API server accepts."""
        # What `random_cluster` draws for the whole cluster:
        self.uniform = False
        """True if nodes and requests are multiples of one unit, which makes ties."""
        self.pressure = "cpu"
        """The resource that is scarce: cpu, memory, both or pods."""
        self.cpu_unit = self.memory_unit = self.units_per_node = 0
        self.largest_node: dict[str, int] = {}
        """Millicores of `cpu` and bytes of `memory` of the first node with most cpu."""
        self.apps: list[str] = []
        self.priority = 0
        """Priority of the incoming pod."""
        self.lower_priorities: list[int | None] = []
        self.other_priorities: list[int] = []
        """Priority of the incoming pod and higher ones."""
        self.lower_share = 1.0
        """Probability that a running pod's priority is a lower one."""
        self.start_times: list[datetime] = []
        self.requests: dict[str, int] = {}
        """Requests of the incoming pod."""

    # --- chance -------------------------------------------------------------------------------------------------------

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def some(self, choices: Sequence[Any], most: int) -> list[Any]:
        """Return `most` distinct choices in random order, or all of them if they are fewer."""
        return self.random.sample(choices, min(len(choices), most))

    def tag(self, *tags: str) -> None:
        self.tags.update(tags)

    def uid(self) -> str:
        digits = f"{self.random.getrandbits(128):032x}"
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def new_name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}-{self.names}"

    # --- objects ------------------------------------------------------------------------------------------------------

    def add(
        self, api_version: str, kind: str, name: str, namespace: str = "", meta: JSON | None = None, **fields: Any
    ) -> JSON:
        """Add an object of a kind that has no method of its own."""
        metadata: JSON = {"name": name, "uid": self.uid(), "creationTimestamp": CREATED}
        if namespace:
            metadata["namespace"] = namespace
        item: JSON = {"apiVersion": api_version, "kind": kind, "metadata": metadata | (meta or {}), **fields}
        self.others.append(item)
        return item

    def add_node(
        self, name: str, cpu: int, memory: int, pods: int, labels: dict[str, str], ephemeral_storage: int
    ) -> JSON:
        """Add a node with millicores of cpu and bytes of memory and ephemeral storage."""
        allocatable = {
            "cpu": spelled_cpu(self.random, cpu, self.fancy),
            "memory": spelled_bytes(self.random, memory, self.fancy),
            "pods": spelled_count(self.random, pods, fancy=False),
            EPHEMERAL_STORAGE: spelled_bytes(self.random, ephemeral_storage, self.fancy),
        }
        metadata = {
            "name": name,
            "uid": self.uid(),
            "creationTimestamp": timestamp(EPOCH - timedelta(days=self.random.randint(1, 90))),
            "labels": labels,
        }
        conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        status = {"capacity": dict(allocatable), "allocatable": allocatable, "conditions": conditions}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": status}
        self.nodes.append(node)
        return node

    def new_pod(
        self,
        stem: str,
        namespace: str,
        node: str | None,
        priority: int | None,
        labels: Mapping[str, str],
        containers: list[JSON],
        start: datetime | None = None,
    ) -> JSON:
        """Return a pod: running if it has a node, else pending."""
        created = (start or EPOCH) - timedelta(seconds=self.random.randint(1, 5))
        metadata: JSON = {
            "name": self.new_name(stem),
            "namespace": namespace,
            "uid": self.uid(),
            "creationTimestamp": timestamp(created),
        }
        if labels:
            metadata["labels"] = dict(labels)
        spec: JSON = {"containers": containers, "restartPolicy": "Always", "schedulerName": "default-scheduler"}
        if priority is not None:
            spec["priority"] = priority
            if self.chance(0.8):
                spec["preemptionPolicy"] = "PreemptLowerPriority"
        status: JSON = {"phase": "Running" if node else "Pending", "qosClass": "Burstable"}
        if node:
            spec["nodeName"] = node
            if start is not None:
                status["startTime"] = timestamp(start)
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}

    def container(
        self,
        requests: Mapping[str, int],
        name: str = "c",
        image: str | None = None,
        ports: list[JSON] | None = None,
    ) -> JSON:
        image = image or f"registry.example/{self.random.choice(APPS)}:v1"
        container: JSON = {"name": name, "image": image, "resources": {}}
        if requests:
            container["resources"]["requests"] = spelled_list(self.random, requests, self.fancy)
        if ports:
            container["ports"] = ports
        return container

    def add_budget(
        self, namespace: str, selector: JSON | None, allowed: int, disrupted: dict[str, str] | None = None
    ) -> None:
        """Add a PodDisruptionBudget that allows this many disruptions; `disrupted`: pods evicted already."""
        spec: JSON = {"maxUnavailable": 1}
        if selector is not None:
            spec["selector"] = selector
        status: JSON = {
            "currentHealthy": 3,
            "desiredHealthy": 2,
            "disruptionsAllowed": allowed,
            "expectedPods": 3,
            "observedGeneration": 1,
        }
        if disrupted:
            status["disruptedPods"] = disrupted
        metadata = {
            "name": self.new_name("pdb"),
            "namespace": namespace,
            "uid": self.uid(),
            "creationTimestamp": CREATED,
        }
        self.budgets.append(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": metadata,
                "spec": spec,
                "status": status,
            }
        )

    def random_budgets(self, least: int, most: int, violating: float) -> None:
        """Add budgets, each with the probability `violating` that it allows no disruption."""
        for _ in range(self.random.randint(least, most)):
            selector = {"matchLabels": {"app": self.random.choice(self.apps)}}
            allowed = 0 if self.chance(violating) else self.random.randint(1, 3)
            self.add_budget(self.random.choice(["default", "default", "prod", "dev"]), selector, allowed)

    def random_labels(self) -> dict[str, str]:
        """Return the labels of a pod."""
        if self.chance(0.08):
            return {}
        labels = {"app": self.random.choice(self.apps)}
        if self.chance(0.5):
            labels["tier"] = self.random.choice(["front", "back"])
        if self.chance(0.3):
            labels["version"] = self.random.choice(["v1", "v2"])
        return labels

    def higher_priority(self, by: int = 1) -> int:
        return min(self.priority + by, MAX_INT32)

    # --- what there is ------------------------------------------------------------------------------------------------

    @property
    def incoming_namespace(self) -> str:
        return str(self.pod["metadata"]["namespace"])

    def node_names(self) -> list[str]:
        return [node["metadata"]["name"] for node in self.nodes]

    def running(self) -> list[JSON]:
        """Return the pods that are on nodes and have not finished."""
        names = {*self.node_names()}
        return [
            pod
            for pod in self.pods
            if pod["spec"].get("nodeName") in names and pod["status"]["phase"] in ("Running", "Pending")
        ]

    def running_on(self, node: str) -> list[JSON]:
        return [pod for pod in self.running() if pod["spec"]["nodeName"] == node]

    def running_in(self, namespace: str) -> list[JSON]:
        return [pod for pod in self.running() if pod["metadata"]["namespace"] == namespace]

    # --- the result ---------------------------------------------------------------------------------------------------

    def document(self) -> JSON:
        """Return the scenario, its nodes and pods in random order."""
        self.random.shuffle(self.pods)
        self.random.shuffle(self.nodes)
        used = {pod["metadata"]["namespace"] for pod in (*self.pods, self.pod)}
        namespaces = [self._namespace(name) for name in sorted(used | {*self.namespaces})]
        items = [*self.nodes, *self.pods, *self.budgets, *namespaces, *self.others]
        cluster = {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": items}
        return {
            "id": self.name,
            "category": self.category,
            "tags": sorted(self.tags),
            "cluster": cluster,
            "pod": self.pod,
        }

    def _namespace(self, name: str) -> JSON:
        metadata = {
            "name": name,
            "uid": self.uid(),
            "creationTimestamp": timestamp(EPOCH - timedelta(days=200)),
            "labels": {"kubernetes.io/metadata.name": name, **self.namespace_labels.get(name, {})},
        }
        spec, status = {"finalizers": ["kubernetes"]}, {"phase": "Active"}
        return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata, "spec": spec, "status": status}


def give(node: JSON, resource: str, value: int) -> None:
    """Let the node have this much of a resource: bytes of storage and huge pages, else a number."""
    for figures in ("capacity", "allocatable"):
        node["status"][figures][resource] = canonical(resource, value)


def request(container: JSON, amounts: Mapping[str, str]) -> None:
    """Add extended resources or huge pages to a container, whose requests and limits are alike."""
    for figures in ("requests", "limits"):
        container["resources"].setdefault(figures, {}).update(amounts)


def selected_by_name(node: str) -> JSON:
    """Return the node selector of an allocation that is for one node."""
    return {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}


def expression(key: str, operator: str, *values: str) -> JSON:
    """Return a requirement of a label selector or node selector; no values: it has none."""
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
