"""Random small clusters with a pod to place and offers from kube-scheduler, sound and unsound; one seed, one case.

Every case draws some themes (budgets, ports, taints, …) and leaves the others out: what meets rarely in a mixture of
everything meets often there. Generated are raw JSON objects, as the API writes them and as people write them.

Left out is what upstream decides by its clock or by chance (two pods of a node with the same priority that have not
started; more than 12 evictable pods with ties; free volumes of the same size, or several that are reserved for one
claim), what it fails on (selectors that do not parse, but in required terms of running pods and in budgets; a running
pod's ephemeral volume whose claim belongs to another), and what is not modelled: dynamic resources, and CSI drivers
that take over in-tree volumes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from extender.k8s.version.features import Features
from extender.k8s.version.versions import parse_version
from tests.builders import JSON, STARTED, with_uid
from tests.parity import reference
from tests.property import values

T = TypeVar("T")

REFERENCE_FEATURES = Features.of(parse_version(reference.VERSION))
"""Resources of the version that the cases are compared with: that of tests.parity.reference, and so of the recount."""

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
    "preferred affinity between pods": 0.2,
    "spread": 0.3,
    "defaulted spread": 0.12,
    "claims": 0.2,
    "free volumes": 0.1,
    "volume limits": 0.17,
    "disks": 0.12,
    "features": 0.08,
    "never preempts": 0.05,
    "static pods": 0.1,
}
"""Theme -> in which share of the cases it is played."""
BESIDE_REQUESTS = {
    "spread",
    "defaulted spread",
    "preferred affinity between pods",
    "claims",
    "free volumes",
    "volume limits",
    "disks",
}
"""Themes that show little in clusters where requests decide."""


@dataclass(frozen=True, slots=True)
class Case:
    """All of it raw: a List, a Pod, and what kube-scheduler would send with it."""

    seed: int
    cluster: JSON
    pod: JSON
    nodes: list[str]
    """Offered to `/filter`: some of the cluster's, in any order, at times twice."""
    sent: JSON
    """NodeNameToMetaVictims for `/preempt`, not always of known nodes and pods."""


class Draw:
    """Chance from a seed. Nothing but `random()` is asked, whose numbers no version of Python changes."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed).random
        self.themes = frozenset(theme for theme, share in THEMES.items() if self.maybe(share))
        self.priorities = self.pick(values.PRIORITIES)
        light = bool(self.themes & BESIDE_REQUESTS) and self.maybe(0.5)
        self.cpu: Sequence[object] = values.LIGHT_CPU if light else values.CPU
        self.memory: Sequence[object] = values.LIGHT_MEMORY if light else values.MEMORY
        self.incoming_cpu: Sequence[object] = values.LIGHT_CPU if light else values.INCOMING_CPU
        self.incoming_memory: Sequence[object] = values.LIGHT_MEMORY if light else values.INCOMING_MEMORY
        alike = bool(self.themes & BESIDE_REQUESTS) and self.maybe(0.6)
        self.namespaces = ("default",) if alike else values.NAMESPACES
        self.labelled = "spread" in self.themes and self.maybe(0.6)  # all nodes have all labels
        self.labels = values.SIMILAR_LABELS if alike and self.maybe(0.7) else values.POD_LABELS

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
    others = [*_owners(draw, pod), *_storage(draw, names, [*pods, *waiting, pod]), *_budgets(draw, pods)]
    items = [with_uid(one) for one in (*namespaces, *nodes, *listed, *others)]
    return Case(seed, {"kind": "List", "items": items}, pod, _offered(draw, names), _offers(draw, names, pods, pod))


# --- nodes ----------------------------------------------------------------------------------------------------------


def _node(draw: Draw, name: str) -> JSON:
    labels = {values.HOSTNAME: "n0" if draw.plays("spread", 0.04) else name}
    for key, options in (("zone", values.ZONES), ("disk", values.DISKS), ("cores", values.CORES)):
        value = draw.pick(options) or (options[0] if draw.labelled else None)
        if value is not None:
            labels[key] = value
    if draw.themes & {"spread", "defaulted spread", "claims", "free volumes"}:
        labels |= _zones(draw)
    allocatable = {
        "cpu": draw.pick(values.NODE_CPU),
        "memory": draw.pick(values.NODE_MEMORY),
        "pods": draw.pick(values.NODE_PODS),
    }
    spec: JSON = {}
    status: JSON = {"allocatable": allocatable}
    if draw.plays("extended resources"):
        allocatable |= {key: draw.pick(amounts) for key, amounts in draw.some(values.NODE_EXTENDED, 0.7)}
    if draw.plays("taints", 0.6) or draw.plays("spread", 0.15):
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


def _zones(draw: Draw) -> dict[str, str]:
    """Labels of zone and region, some by their old names only."""
    zone, region = draw.pick(values.NAMED_ZONES), draw.pick(values.REGIONS)
    zone = zone or ("z2" if draw.labelled else None)
    key = values.BETA_ZONE if draw.plays("claims", 0.2) else values.ZONE
    return {name: value for name, value in ((key, zone), (values.REGION, region)) if value is not None}


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
    metadata: JSON = {"name": name, "namespace": draw.pick(draw.namespaces), "uid": f"uid-{name}"}
    labels = draw.pick(draw.labels)
    if labels is not None:
        metadata["labels"] = labels
    spec: JSON = {"containers": _containers(draw, draw.cpu, draw.memory)}
    priority = draw.pick(draw.priorities)
    if priority is not None:
        spec["priority"] = priority
    _add_requests(draw, spec, 0.3)
    if draw.plays("affinity between pods", 0.35):
        broken = values.BROKEN_SELECTORS[:1] if draw.maybe(0.1) else ()
        _require(draw, spec, draw.pick(("podAntiAffinity", "podAntiAffinity", "podAffinity")), broken)
    if draw.plays("preferred affinity between pods", 0.35):
        _prefer(draw, spec, draw.pick(("podAntiAffinity", "podAffinity")))
    if draw.plays("preferred affinity between pods", 0.1):
        _require(draw, spec, "podAffinity")
    _add_volumes(draw, spec, 0.35)
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
    """Requests of the pod as a whole, and of what runs beside its containers."""
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


def _require(draw: Draw, spec: JSON, kind: str, broken: Sequence[JSON] = ()) -> None:
    """Required affinity of a pod to other pods, or anti-affinity."""
    terms = [_pod_term(draw)]
    if draw.maybe(0.3):
        terms.append(_pod_term(draw))
    if broken:
        terms[-1] = terms[-1] | {"labelSelector": draw.pick(broken)}
    spec.setdefault("affinity", {}).setdefault(kind, {})["requiredDuringSchedulingIgnoredDuringExecution"] = terms


def _prefer(draw: Draw, spec: JSON, kind: str) -> None:
    terms = [
        {"weight": draw.pick(values.WEIGHTS), "podAffinityTerm": _pod_term(draw)} for _ in range(1 + draw.below(2))
    ]
    spec.setdefault("affinity", {}).setdefault(kind, {})["preferredDuringSchedulingIgnoredDuringExecution"] = terms


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
        if draw.plays("claims", 0.4):
            pod["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": draw.pick(values.CLAIMS)}}]
        if draw.maybe(0.1):
            pod["spec"]["schedulingGates"] = [{"name": "wait"}]
        if draw.maybe(0.1):
            pod["spec"]["schedulerName"] = "another"
        pods.append(pod)
    return pods


# --- the incoming pod -----------------------------------------------------------------------------------------------


def _incoming(draw: Draw, names: list[str]) -> JSON:
    spec: JSON = {"containers": _containers(draw, draw.incoming_cpu, draw.incoming_memory)}
    priority = 1000 if draw.maybe(0.6) else draw.pick(draw.priorities)
    if priority is not None:
        spec["priority"] = priority
    _add_requests(draw, spec, 0.6)
    _choose_nodes(draw, spec, names)
    for kind, share in (("podAntiAffinity", 0.5), ("podAffinity", 0.25)):
        if draw.plays("affinity between pods", share):
            _require(draw, spec, kind)
        if draw.plays("preferred affinity between pods", 0.5):
            _prefer(draw, spec, kind)
    if draw.plays("spread", 0.9):
        spec["topologySpreadConstraints"] = _constraints(draw)
    if draw.plays("free volumes"):
        spec["volumes"] = [
            {"name": f"m{place}", "persistentVolumeClaim": {"claimName": name}}
            for place, name in enumerate(draw.pick(values.CLAIMS_TO_MATCH))
        ]
    _add_volumes(draw, spec, 0.85)
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
    metadata: JSON = {"name": "incoming", "namespace": draw.pick(draw.namespaces), "uid": "uid-incoming"}
    metadata["labels"] = draw.pick(draw.labels)
    if draw.plays("defaulted spread", 0.6):
        version, kind = draw.pick(values.CONTROLLERS)
        owner = {"apiVersion": version, "kind": kind, "name": "owner", "uid": "uid-owner"}
        metadata["ownerReferences"] = [owner | ({"controller": True} if draw.maybe(0.9) else {})]
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def _constraints(draw: Draw) -> list[JSON]:
    """Constraints of topology spread, at most one per key and kind."""
    found: dict[tuple[str, str], JSON] = {}
    for _ in range(draw.pick((1, 1, 1, 2, 2, 3))):
        key = draw.pick(values.SPREAD_KEYS)
        action = draw.pick(("DoNotSchedule", "DoNotSchedule", "DoNotSchedule", "ScheduleAnyway", "ScheduleAnyway"))
        constraint: JSON = {"topologyKey": key, "whenUnsatisfiable": action, "maxSkew": draw.pick((1, 1, 2, 3))}
        constraint["labelSelector"] = draw.pick(values.LABEL_SELECTORS)
        if action == "DoNotSchedule" and draw.maybe(0.25):
            constraint["minDomains"] = 1 + draw.below(4)
        for policy in draw.some(("nodeAffinityPolicy", "nodeTaintsPolicy"), 0.4):
            constraint[policy] = draw.pick(("Honor", "Ignore"))
        if draw.maybe(0.25):
            constraint["matchLabelKeys"] = draw.some(values.MATCH_LABEL_KEYS, 0.5)
        found[key, action] = constraint
    return list(found.values())


def _choose_nodes(draw: Draw, spec: JSON, names: list[str]) -> None:
    if draw.plays("taints", 0.7) or draw.plays("cordons", 0.2):
        spec["tolerations"] = draw.some(values.TOLERATIONS, 0.25)
    if draw.plays("node affinity", 0.3) or draw.plays("spread", 0.1):
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


def _owners(draw: Draw, pod: JSON) -> list[JSON]:
    """What default constraints take their selector from: services, and the controller that the pod names."""
    if not draw.plays("defaulted spread"):
        return []
    namespace = pod["metadata"]["namespace"]
    found = []
    for place in range(draw.below(4)):
        metadata = {"name": f"s{place}", "namespace": namespace if draw.maybe(0.8) else draw.pick(values.NAMESPACES)}
        selector = pod["metadata"]["labels"] if draw.maybe(0.5) else draw.pick(values.SERVICE_SELECTORS)
        spec = _amounts(("selector", selector))
        found.append({"kind": "Service", "metadata": metadata, "spec": spec})
    for owner in pod["metadata"].get("ownerReferences") or ():
        plain = owner["kind"] == "ReplicationController"
        selectors = values.SERVICE_SELECTORS if plain else values.LABEL_SELECTORS
        metadata = {"name": "owner", "namespace": namespace}
        if draw.maybe(0.9):
            found.append({"kind": owner["kind"], "metadata": metadata, "spec": {"selector": draw.pick(selectors)}})
    return found


# --- storage --------------------------------------------------------------------------------------------------------


def _add_volumes(draw: Draw, spec: JSON, share: float) -> None:
    volumes: list[JSON] = []
    if draw.plays("claims", share):
        names = [draw.pick(values.CLAIMS) for _ in range(draw.pick((1, 1, 2)))]
        volumes += [{"persistentVolumeClaim": {"claimName": name}} for name in names]
    if draw.plays("volume limits", max(share, 0.6)):
        names = [draw.pick(values.MANY_CLAIMS) for _ in range(draw.pick((1, 1, 1, 2)))]
        volumes += [{"persistentVolumeClaim": {"claimName": name}} for name in names]
    if draw.plays("claims", share * 0.1) or draw.plays("volume limits", share * 0.1):
        volumes.append({"ephemeral": {"volumeClaimTemplate": {}}})
    if draw.plays("disks", share):
        disk = draw.pick(values.DISKS_IN_PODS)
        volumes += [{kind: source | ({"readOnly": True} if draw.maybe(0.4) else {}) for kind, source in disk.items()}]
    if volumes:
        named = [{"name": f"v{place}"} | volume for place, volume in enumerate(volumes)]
        spec["volumes"] = [*spec.get("volumes", ()), *named]


def _storage(draw: Draw, names: list[str], pods: list[JSON]) -> list[JSON]:
    """The claims of the pods, and what is behind them."""
    if not draw.themes & {"claims", "free volumes", "volume limits"}:
        return []
    classes = [
        {"kind": "StorageClass", "metadata": {"name": name}} | fields
        for name, fields in values.STORAGE_CLASSES.items()
        if draw.maybe(0.99)
    ]
    claims, volumes = [], []
    for (namespace, name), owner in _claims_of(pods).items():
        state = draw.pick(values.CLAIM_STATES if draw.plays("claims") else values.LIMITED_CLAIM_STATES)
        state = "waiting" if draw.plays("free volumes", 0.85) else state
        if state != "missing":
            claims.append(_claim(draw, namespace, name, owner, state, names))
        if state in ("bound", "deleting"):
            volumes.append(_bound_volume(draw, claims[-1]))
    volumes += _free_volumes(draw, claims)
    found = [*classes, *claims, *volumes, *_capacities(draw), *_limits(draw, names, volumes)]
    return draw.shuffled(found) if draw.maybe(0.5) else found


def _claims_of(pods: list[JSON]) -> dict[tuple[str, str], JSON | None]:
    """Namespace and name of all claims that pods use -> the pod whose ephemeral volume it is of."""
    found: dict[tuple[str, str], JSON | None] = {}
    for pod in pods:
        namespace = pod["metadata"]["namespace"]
        for volume in pod["spec"].get("volumes") or ():
            if "persistentVolumeClaim" in volume:
                found[namespace, volume["persistentVolumeClaim"]["claimName"]] = None
            elif "ephemeral" in volume:
                found[namespace, f"{pod['metadata']['name']}-{volume['name']}"] = pod
    return found


def _claim(draw: Draw, namespace: str, name: str, owner: JSON | None, state: str, names: list[str]) -> JSON:
    metadata: JSON = {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}"}
    marks: JSON = {}
    if owner is not None:
        uid = owner["metadata"]["uid"]
        if uid == "uid-incoming" and draw.maybe(0.1):
            uid = "uid-of-no-pod"
        metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "controller": True, "uid": uid}]
    modes = values.ACCESS_MODES if draw.plays("claims") or draw.maybe(0.1) else values.ACCESS_MODES[:2]
    spec: JSON = {"accessModes": draw.pick(modes)}
    spec["resources"] = {"requests": _amounts(("storage", draw.pick(values.SIZES)))}
    storage_class = draw.pick(values.IMMEDIATE_CLASSES if state == "immediate" else values.WAITING_CLASSES)
    if state == "waiting" and draw.plays("free volumes", 0.85):
        storage_class = "manual"
    if draw.maybe(0.07):
        marks["volume.beta.kubernetes.io/storage-class"] = storage_class
    else:
        spec["storageClassName"] = storage_class
    if state not in ("waiting", "immediate"):
        spec["volumeName"] = f"pv-{namespace}-{name}"
    if state not in ("waiting", "immediate", "reserved"):
        marks["pv.kubernetes.io/bind-completed"] = "yes"
    if state == "waiting":
        _ask_for_a_volume(draw, spec, marks, names)
    if state == "deleting":
        metadata["deletionTimestamp"] = STARTED
    metadata["annotations"] = marks
    phase = "Lost" if state == "lost" else "Bound" if "volumeName" in spec else "Pending"
    return {"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec, "status": {"phase": phase}}


def _ask_for_a_volume(draw: Draw, spec: JSON, marks: JSON, names: list[str]) -> None:
    if draw.maybe(0.08):
        marks["volume.kubernetes.io/selected-node"] = draw.pick([*names, "gone"])
    if draw.maybe(0.2):
        spec["selector"] = draw.pick(values.CLAIM_SELECTORS)
    if draw.maybe(0.1):
        spec["volumeMode"] = draw.pick(("Block", "Filesystem"))
    if draw.maybe(0.08):
        spec["volumeAttributesClassName"] = "gold"


def _bound_volume(draw: Draw, claim: JSON) -> JSON:
    spec: JSON = {"capacity": {"storage": "20Gi"}, "accessModes": claim["spec"]["accessModes"]}
    spec["claimRef"] = _reference(claim)
    metadata: JSON = {"name": claim["spec"]["volumeName"]}
    if draw.plays("claims", 0.35):
        metadata["labels"] = draw.pick(values.VOLUME_ZONES)
    if draw.plays("claims", 0.4):
        spec["nodeAffinity"] = _reach(draw)
    if draw.maybe(0.85):
        handle = "shared" if draw.maybe(0.08) else metadata["name"]
        spec["csi"] = {"driver": values.DRIVER if draw.maybe(0.85) else values.OTHER_DRIVER, "volumeHandle": handle}
    else:
        spec["nfs"] = {"server": "10.0.0.1", "path": "/"}
    return {"kind": "PersistentVolume", "metadata": metadata, "spec": spec, "status": {"phase": "Bound"}}


def _free_volumes(draw: Draw, claims: list[JSON]) -> list[JSON]:
    """Or not quite free; at most one that is reserved for a claim."""
    if not draw.themes & {"claims", "free volumes"}:
        return []
    waiting = [claim for claim in claims if "volumeName" not in claim["spec"]]
    volumes = []
    for place in range(4 + draw.below(6) if draw.plays("free volumes") else draw.below(5)):
        metadata: JSON = {"name": f"free-{place}", "labels": draw.pick(values.VOLUME_LABELS)}
        spec: JSON = {"capacity": {"storage": f"{draw.pick(values.FREE_SIZES) + place}Mi"}}
        spec["accessModes"] = draw.pick(values.FREE_ACCESS_MODES)
        spec["storageClassName"] = draw.pick(("manual",) * 8 + ("later", "tracked"))
        if draw.maybe(0.5):
            spec["nodeAffinity"] = _reach(draw)
        if draw.maybe(0.1):
            spec["volumeMode"] = "Block"
        if draw.maybe(0.1):
            spec["volumeAttributesClassName"] = "gold"
        if draw.maybe(0.1):
            metadata["deletionTimestamp"] = STARTED
        if waiting and draw.maybe(0.15):
            _reserve(draw, spec, waiting.pop())
        phase = draw.pick(("Available",) * 8 + ("Released", "Pending"))
        volumes.append({"kind": "PersistentVolume", "metadata": metadata, "spec": spec, "status": {"phase": phase}})
    return volumes


def _reserve(draw: Draw, spec: JSON, claim: JSON) -> None:
    """For the claim, whatever has its name, or one that had its name."""
    reference = _reference(claim)
    if draw.maybe(0.7):
        spec["storageClassName"] = claim["spec"].get("storageClassName", "manual")
    if draw.maybe(0.5):
        reference["uid"] = draw.pick(("", "uid-of-no-pod"))
    spec["claimRef"] = reference


def _reference(claim: JSON) -> JSON:
    return {key: claim["metadata"][key] for key in ("namespace", "name", "uid")}


def _reach(draw: Draw) -> JSON:
    """A volume's node affinity."""
    terms = [draw.pick(values.VOLUME_TERMS) for _ in range(draw.pick((1, 1, 1, 2)))]
    return {"required": {"nodeSelectorTerms": terms}} if draw.maybe(0.95) else {}


def _capacities(draw: Draw) -> list[JSON]:
    """Drivers, and the space that one of them has left."""
    if not draw.plays("claims"):
        return []
    tracks = _amounts(("storageCapacity", draw.pick((True, True, True, True, False, None))))
    found: list[JSON] = [
        {"kind": "CSIDriver", "metadata": {"name": values.DRIVER}, "spec": {}},
        {"kind": "CSIDriver", "metadata": {"name": values.TRACKED_DRIVER}, "spec": tracks},
    ]
    for place in range(draw.below(4)):
        space: JSON = {"kind": "CSIStorageCapacity", "metadata": {"name": f"c{place}", "namespace": "default"}}
        space["storageClassName"] = draw.pick(("tracked", "tracked", "tracked", "later"))
        space |= _amounts(
            ("nodeTopology", draw.pick(values.NODE_TOPOLOGIES)),
            ("capacity", draw.pick(values.SIZES)),
            ("maximumVolumeSize", draw.pick(values.SIZES) if draw.maybe(0.3) else None),
        )
        found.append(space)
    return found


def _limits(draw: Draw, names: list[str], volumes: list[JSON]) -> list[JSON]:
    """How many volumes the nodes may have, and some that are attached."""
    if not draw.plays("volume limits"):
        return []
    found = []
    for name in draw.some(names, 0.9):
        drivers: list[JSON] = []
        for driver in draw.some((values.DRIVER, values.DRIVER, values.OTHER_DRIVER), 0.75):
            limit = {"allocatable": _amounts(("count", draw.pick(values.LIMITS)))} if draw.maybe(0.95) else {}
            if driver not in [one["name"] for one in drivers]:
                drivers.append({"name": driver, "nodeID": name} | limit)
        found.append({"kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": drivers}})
    attachable = [*(volume["metadata"]["name"] for volume in volumes), "gone"]
    for place in range(draw.pick((0, 0, 1, 2, 3))):
        source = {"persistentVolumeName": draw.pick(attachable)} if draw.maybe(0.9) else {"inlineVolumeSpec": {}}
        attacher = values.DRIVER if draw.maybe(0.9) else values.OTHER_DRIVER
        spec = {"attacher": attacher, "nodeName": draw.pick([*names, "gone"]), "source": source}
        found.append({"kind": "VolumeAttachment", "metadata": {"name": f"a{place}"}, "spec": spec})
    return found


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
    sent: JSON = {}
    for name in draw.shuffled([*names, "unknown"] if draw.maybe(0.1) else names):
        if draw.maybe(0.1):
            continue
        here = [pod for pod in pods if pod["spec"]["nodeName"] == name]
        lower = [pod["metadata"]["uid"] for pod in here if (pod["spec"].get("priority") or 0) < limit]
        victims = draw.some(lower, 0.7)
        if draw.maybe(0.12):
            victims = _unsound(draw, victims, [pod["metadata"]["uid"] for pod in here], everyone)
        pods_key = [{"UID": uid} for uid in victims]
        sent[name] = {"Pods": pods_key, "NumPDBViolations": draw.below(3)}
    return sent


def _unsound(draw: Draw, victims: list[str], here: list[str], everyone: list[str]) -> list[str]:
    """Victims of any priority, of another node, of no pod, twice, or none."""
    kind = draw.below(5)
    if kind == 0:
        return draw.some(here, 0.8)
    if kind == 1 and everyone:
        return [*victims, draw.pick(everyone)]
    if kind == 2:
        return [*victims, "uid-of-no-pod"]
    return victims * 2 if kind == 3 else []
