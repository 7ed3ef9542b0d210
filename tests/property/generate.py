"""Random small clusters with a pod to place and offers from kube-scheduler, sound and unsound; one seed, one case.

Every case draws some themes (budgets, ports, taints, …) and leaves the others out: what meets rarely in a mixture of
everything meets often there. Generated are raw JSON objects, as the API writes them and as people write them.

Left out is what upstream decides by its clock or by chance (two pods of a node with the same priority that have not
started; more than 12 evictable pods with ties), and what is not modelled: topology spread, volumes and
preferred affinity between pods.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from tests.builders import JSON, STARTED
from tests.property import values

T = TypeVar("T")

THEMES = {
    "budgets": 0.6,
    "taints": 0.2,
    "node affinity": 0.25,
    "cordons": 0.2,
    "ports": 0.25,
    "extended resources": 0.25,
    "pod-level requests": 0.15,
    "init containers": 0.2,
    "resizes": 0.1,
    "images": 0.25,
    "nominated": 0.35,
    "terminating": 0.25,
    "finished": 0.2,
    "affinity between pods": 0.3,
    "features": 0.08,
    "never preempts": 0.05,
    "static pods": 0.1,
}
"""Theme -> in which share of the cases it is played."""


@dataclass(frozen=True, slots=True)
class Case:
    """All of it raw: a List, a Pod, and what kube-scheduler would send with it."""

    seed: int
    cluster: JSON
    pod: JSON
    nodes: list[str]
    """Offered to `/filter`: some of the cluster's, in any order, at times twice."""
    offers: JSON
    """NodeNameToMetaVictims for `/preempt`, not always of known nodes and pods."""


class Draw:
    """Chance from a seed. Nothing but `random()` is asked, whose numbers no version of Python changes."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed).random
        self.themes = frozenset(theme for theme, share in THEMES.items() if self.maybe(share))
        self.priorities = self.pick(values.PRIORITIES)

    def maybe(self, share: float) -> bool:
        return self._random() < share

    def plays(self, theme: str, share: float = 1.0) -> bool:
        return theme in self.themes and self._random() < share

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self._random() * len(options))]

    def below(self, limit: int) -> int:
        return int(self._random() * limit)

    def some(self, options: Sequence[T], share: float) -> list[T]:
        return [option for option in options if self._random() < share]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        return sorted(items, key=lambda _: self._random())


def case(seed: int) -> Case:
    draw = Draw(seed)
    nodes = [_node(draw, f"n{place}") for place in draw.shuffled(range(1 + draw.below(8)))]
    names = [node["metadata"]["name"] for node in nodes]
    pods = [pod for name in names for pod in _running(draw, name)]
    waiting = _waiting(draw, names)
    pod = _incoming(draw, names)
    if pod["status"].get("nominatedNodeName") and draw.maybe(0.7):
        waiting.append(pod)
    listed = draw.shuffled([*pods, *waiting]) if draw.maybe(0.5) else [*pods, *waiting]
    namespaces = values.NAMESPACE_OBJECTS if draw.maybe(0.7) else ()
    items = [*namespaces, *nodes, *listed, *_budgets(draw, pods)]
    return Case(seed, {"kind": "List", "items": items}, pod, _offered(draw, names), _offers(draw, names, pods, pod))


# --- nodes ----------------------------------------------------------------------------------------------------------


def _node(draw: Draw, name: str) -> JSON:
    labels = {"kubernetes.io/hostname": name}
    for key, options in (("zone", values.ZONES), ("disk", values.DISKS), ("cores", values.CORES)):
        value = draw.pick(options)
        if value is not None:
            labels[key] = value
    allocatable = {
        "cpu": draw.pick(values.NODE_CPU),
        "memory": draw.pick(values.NODE_MEMORY),
        "pods": draw.pick(values.NODE_PODS),
    }
    spec: JSON = {}
    status: JSON = {"allocatable": allocatable}
    if draw.plays("extended resources"):
        allocatable |= {key: draw.pick(amounts) for key, amounts in draw.some(values.NODE_EXTENDED, 0.7)}
    if draw.plays("taints", 0.6):
        spec["taints"] = draw.some(values.TAINTS, 0.25)
    if draw.plays("cordons", 0.3):
        spec["unschedulable"] = True
    if draw.plays("images"):
        status["images"] = [
            {"names": [image], "sizeBytes": size if draw.maybe(0.9) else size // 2}
            for image, size in draw.some(list(values.IMAGES.items()), 0.5)
        ]
    if draw.plays("features"):
        status["declaredFeatures"] = draw.some(values.FEATURES, 0.6)
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}


# --- pods -----------------------------------------------------------------------------------------------------------


def _running(draw: Draw, node: str) -> list[JSON]:
    """The pods of one node, at most one of a priority without a start time."""
    pods = []
    waits_for_start: set[int] = set()
    for place in range(draw.pick((0, 1, 2, 2, 3, 3, 4, 4, 5, 6, 8, 10))):
        pod = _pod(draw, f"{node}-p{place}")
        pod["spec"]["nodeName"] = node if draw.maybe(0.98) else "gone"
        status = pod["status"] = {"phase": "Running"}
        priority = pod["spec"].get("priority") or 0
        if draw.maybe(0.1) and priority not in waits_for_start:
            waits_for_start.add(priority)
        else:
            status["startTime"] = draw.pick(values.STARTS)
        if draw.plays("terminating", 0.25):
            pod["metadata"]["deletionTimestamp"] = STARTED
            status["conditions"] = draw.pick(values.LEAVING)
        if draw.plays("finished", 0.2):
            status["phase"] = draw.pick(("Succeeded", "Failed"))
        if draw.plays("static pods", 0.2):
            pod["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
        if draw.plays("resizes", 0.4):
            _resize(draw, pod)
        pods.append(pod)
    return pods


def _pod(draw: Draw, name: str) -> JSON:
    """Without a node and without a status."""
    metadata: JSON = {"name": name, "namespace": draw.pick(values.NAMESPACES), "uid": f"uid-{name}"}
    labels = draw.pick(values.POD_LABELS)
    if labels is not None:
        metadata["labels"] = labels
    spec: JSON = {"containers": _containers(draw, values.CPU, values.MEMORY)}
    priority = draw.pick(draw.priorities)
    if priority is not None:
        spec["priority"] = priority
    _add_requests(draw, spec, 0.3)
    if draw.plays("affinity between pods", 0.35):
        broken = values.BROKEN_SELECTORS[:1] if draw.maybe(0.1) else ()
        spec["affinity"] = _between(draw, draw.pick(("podAntiAffinity", "podAntiAffinity", "podAffinity")), broken)
    return {"kind": "Pod", "metadata": metadata, "spec": spec}


def _containers(draw: Draw, cpu: Sequence[object], memory: Sequence[object]) -> list[JSON]:
    found = [_container(draw, "main", cpu, memory)]
    if draw.maybe(0.15):
        found.append(_container(draw, "second", values.CPU, values.MEMORY))
    return found


def _container(draw: Draw, name: str, cpu: Sequence[object], memory: Sequence[object]) -> JSON:
    container: JSON = {"name": name, "image": draw.pick(values.PULLED)}
    requests = _amounts(("cpu", draw.pick(cpu)), ("memory", draw.pick(memory)))
    if draw.plays("extended resources", 0.5):
        requests |= {key: draw.pick(amounts) for key, amounts in draw.some(values.EXTENDED, 0.5)}
    if requests or draw.maybe(0.5):
        container["resources"] = {"requests": requests}
    if draw.plays("ports", 0.35):
        container["ports"] = [draw.pick(values.PORTS)]
    return container


def _amounts(*named: tuple[str, object]) -> JSON:
    return {name: amount for name, amount in named if amount is not None}


def _add_requests(draw: Draw, spec: JSON, share: float) -> None:
    """Of the pod as a whole, and of what runs beside its containers."""
    if draw.plays("init containers", share):
        spec["initContainers"] = [_container(draw, "init", values.CPU, values.MEMORY) for _ in range(1 + draw.below(2))]
        for place, container in enumerate(spec["initContainers"]):
            container["name"] = f"init-{place}"
            if draw.maybe(0.5):
                container["restartPolicy"] = "Always"
    if draw.plays("pod-level requests", share):
        cpu, memory = draw.pick(values.POD_LEVEL_CPU), draw.pick(values.POD_LEVEL_MEMORY)
        spec["resources"] = {"requests": _amounts(("cpu", cpu), ("memory", memory))}
    if draw.plays("pod-level requests", share):
        spec["overhead"] = {"cpu": "250m", "memory": "64Mi"}


def _resize(draw: Draw, pod: JSON) -> None:
    """What the pod holds is not what it asks for."""
    status = pod["status"]
    status["conditions"] = [*(status.get("conditions") or ()), *(draw.pick(values.RESIZES) or ())]
    held = {"cpu": draw.pick(("250m", "1", "2")), "memory": "128Mi"}
    status["containerStatuses"] = [
        {"name": "main", "resources": {"requests": held}, "allocatedResources": {"cpu": draw.pick(("500m", "1"))}}
    ]
    if "resources" in pod["spec"]:
        status["resources"] = {"requests": held}
        status["allocatedResources"] = {"cpu": "1500m"}


def _between(draw: Draw, kind: str, broken: Sequence[JSON] = ()) -> JSON:
    """Required affinity of a pod to other pods, or anti-affinity."""
    terms = [_pod_term(draw)]
    if draw.maybe(0.3):
        terms.append(_pod_term(draw))
    if broken:
        terms[-1] = terms[-1] | {"labelSelector": draw.pick(broken)}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _pod_term(draw: Draw) -> JSON:
    term: JSON = {"topologyKey": draw.pick(values.TOPOLOGY_KEYS), "labelSelector": draw.pick(values.LABEL_SELECTORS)}
    if draw.maybe(0.2):
        term["namespaces"] = draw.some(("default", "shop", "nowhere"), 0.5)
    if draw.maybe(0.2):
        term["namespaceSelector"] = draw.pick(values.NAMESPACE_SELECTORS)
    return term


def _waiting(draw: Draw, names: list[str]) -> list[JSON]:
    """Pods without a node, most of them nominated to one."""
    if not draw.plays("nominated"):
        return []
    pods = []
    for place in range(1 + draw.below(4)):
        pod = _pod(draw, f"w{place}")
        pod["status"] = {"phase": "Pending"}
        if draw.maybe(0.9):
            pod["status"]["nominatedNodeName"] = draw.pick(names) if draw.maybe(0.95) else "gone"
        if draw.maybe(0.4):
            pod["spec"]["priority"] = draw.pick((1000, 2000))
        if draw.maybe(0.1):
            pod["spec"]["schedulingGates"] = [{"name": "wait"}]
        if draw.maybe(0.1):
            pod["spec"]["schedulerName"] = "another"
        pods.append(pod)
    return pods


# --- the incoming pod -----------------------------------------------------------------------------------------------


def _incoming(draw: Draw, names: list[str]) -> JSON:
    spec: JSON = {"containers": _containers(draw, values.INCOMING_CPU, values.INCOMING_MEMORY)}
    priority = 1000 if draw.maybe(0.6) else draw.pick(draw.priorities)
    if priority is not None:
        spec["priority"] = priority
    _add_requests(draw, spec, 0.6)
    _choose_nodes(draw, spec, names)
    if draw.plays("affinity between pods", 0.5):
        spec["affinity"] = spec.get("affinity", {}) | _between(draw, "podAntiAffinity")
    if draw.plays("affinity between pods", 0.25):
        spec["affinity"] = spec.get("affinity", {}) | _between(draw, "podAffinity")
    if draw.plays("never preempts"):
        spec["preemptionPolicy"] = "Never"
    elif draw.maybe(0.1):
        spec["preemptionPolicy"] = "PreemptLowerPriority"
    if draw.plays("features", 0.5):
        spec |= {"hostNetwork": True, "hostUsers": False}
    if draw.plays("features", 0.5):
        spec["containers"][0]["restartPolicyRules"] = [{"action": "RestartAllContainers"}]
    status: JSON = {"phase": "Pending"}
    if draw.plays("nominated", 0.4) or draw.plays("terminating", 0.4):
        status["nominatedNodeName"] = draw.pick(names)
    metadata = {"name": "incoming", "namespace": draw.pick(values.NAMESPACES), "uid": "uid-incoming"}
    labels = draw.pick(values.POD_LABELS)
    return {"kind": "Pod", "metadata": metadata | {"labels": labels}, "spec": spec, "status": status}


def _choose_nodes(draw: Draw, spec: JSON, names: list[str]) -> None:
    if draw.plays("taints", 0.7) or draw.plays("cordons", 0.2):
        spec["tolerations"] = draw.some(values.TOLERATIONS, 0.25)
    if draw.plays("node affinity", 0.3):
        spec["nodeSelector"] = draw.pick(values.NODE_SELECTORS)
    if draw.plays("node affinity"):
        spec["affinity"] = {"nodeAffinity": _node_affinity(draw)}
    if draw.maybe(0.01):
        spec["nodeName"] = draw.pick(names) if draw.maybe(0.8) else "gone"


def _node_affinity(draw: Draw) -> JSON:
    affinity: JSON = {}
    if draw.maybe(0.6):
        terms = [draw.pick(values.NODE_TERMS) for _ in range(draw.below(4))]
        terms += [draw.pick(values.ODD_NODE_TERMS)] if draw.maybe(0.3) else []
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if draw.maybe(0.6):
        preferred = [{"weight": draw.pick((1, 10, 100)), "preference": draw.pick(values.NODE_TERMS)} for _ in range(2)]
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = preferred
    return affinity


# --- budgets and offers ---------------------------------------------------------------------------------------------


def _budgets(draw: Draw, pods: list[JSON]) -> list[JSON]:
    if not draw.plays("budgets"):
        return []
    budgets = []
    for place in range(1 + draw.below(4)):
        selectors = values.BROKEN_SELECTORS if draw.maybe(0.05) else values.LABEL_SELECTORS
        status: JSON = {"disruptionsAllowed": draw.pick((0, 0, 1, 1, 2, 3, -1))}
        if pods and draw.maybe(0.15):
            status["disruptedPods"] = {draw.pick(pods)["metadata"]["name"]: STARTED}
        metadata = {"name": f"b{place}", "namespace": draw.pick(values.NAMESPACES)}
        spec = {"selector": draw.pick(selectors)} if draw.maybe(0.95) else {}
        budgets.append({"kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec, "status": status})
    return budgets


def _offered(draw: Draw, names: list[str]) -> list[str]:
    offered = draw.shuffled(draw.some(names, 0.8) if draw.maybe(0.3) else names)
    if offered and draw.maybe(0.1):
        offered.append(draw.pick(offered))
    return offered


def _offers(draw: Draw, names: list[str], pods: list[JSON], incoming: JSON) -> JSON:
    """Most are as kube-scheduler would make them: lower-priority pods of a node that it knows."""
    limit = incoming["spec"].get("priority") or 0
    everyone = [pod["metadata"]["uid"] for pod in pods]
    offers: JSON = {}
    for name in draw.shuffled([*names, "unknown"] if draw.maybe(0.1) else names):
        if draw.maybe(0.1):
            continue
        here = [pod for pod in pods if pod["spec"]["nodeName"] == name]
        lower = [pod["metadata"]["uid"] for pod in here if (pod["spec"].get("priority") or 0) < limit]
        victims = draw.some(lower, 0.7)
        if draw.maybe(0.12):
            victims = _unsound(draw, victims, [pod["metadata"]["uid"] for pod in here], everyone)
        pods_key = [{"UID": uid} for uid in victims]
        offers[name] = {"Pods": pods_key, "NumPDBViolations": draw.below(3)}
    return offers


def _unsound(draw: Draw, victims: list[str], here: list[str], everyone: list[str]) -> list[str]:
    """Of any priority, of another node, of nobody, twice, or none."""
    kind = draw.below(5)
    if kind == 0:
        return draw.some(here, 0.8)
    if kind == 1 and everyone:
        return [*victims, draw.pick(everyone)]
    if kind == 2:
        return [*victims, "uid-of-nobody"]
    return victims * 2 if kind == 3 else []
