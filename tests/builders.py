"""Small clusters in one expression, as raw JSON objects; what is left out gets a plain default.

    cluster({node("n1", cpu="4"): [pod("a", priority=10)], node("n2"): []}, budgets=[budget(app="a")])

Where a pod stands says where it runs, and the order of a node's pods is their listing order. `incoming` gives a pod
that waits. `snapshot` takes the same as `cluster`; `built` and `typed` make of a List and a pod what the engine takes.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from extender.cluster.files.manifests import ManifestSource, RawManifest, load_cluster
from extender.core.engine import PreemptDecision
from extender.core.evaluation import Evaluation
from extender.core.profile import UPSTREAM
from extender.core.snapshot.arrays import PodAmounts
from extender.core.snapshot.node_layout import NodeLayout, RankedDemand
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.candidates import SentCandidate
from extender.k8s.kinds import ClusterObjects
from extender.k8s.objects import Pod
from extender.k8s.version.features import DEFAULT_FEATURES, Features

JSON = dict[str, Any]

STARTED = "2026-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True, eq=False)
class NodeObject:
    """A Node that can be a key: equal only to itself."""

    raw: JSON

    @property
    def name(self) -> str:
        return str(self.raw["metadata"]["name"])


def node(
    name: str,
    cpu: str = "4",
    memory: str = "8Gi",
    pods: str = "110",
    *,
    labels: Mapping[str, str] | None = None,
    unschedulable: bool = False,
    taints: Iterable[JSON] = (),
    allocatable: Mapping[str, str] | None = None,
    **status: Any,
) -> NodeObject:
    """`allocatable` adds further resources, `status` further fields (`images=[…]`, `declaredFeatures=[…]`)."""
    spec: JSON = {"unschedulable": True} if unschedulable else {}
    if taints:
        spec["taints"] = list(taints)
    there = {"cpu": cpu, "memory": memory, "pods": pods} | dict(allocatable or {})
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name} | dict(labels or {})}
    return NodeObject({"kind": "Node", "metadata": metadata, "spec": spec, "status": {"allocatable": there} | status})


def pod(
    name: str,
    cpu: str | None = "1",
    memory: str | None = None,
    *,
    priority: int | None = None,
    start: str | None = STARTED,
    phase: str = "Running",
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    requests: Mapping[str, str] | None = None,
    ports: Iterable[JSON] = (),
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> JSON:
    """A pod of one container, with the UID `uid-<name>`; `requests` adds further resources, `spec` further fields."""
    amounts = {"cpu": cpu, "memory": memory, **(requests or {})}
    labels = {"app": name} if labels is None else labels
    container: JSON = {"name": "main", "image": "app:1"}
    container["resources"] = {"requests": {name: amount for name, amount in amounts.items() if amount is not None}}
    if ports:
        container["ports"] = list(ports)
    given: JSON = {"containers": [container]} | spec
    if priority is not None:
        given["priority"] = priority
    about: JSON = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": dict(labels)}
    state: JSON = {"phase": phase} if start is None else {"phase": phase, "startTime": start}
    return {
        "kind": "Pod",
        "metadata": about | dict(metadata or {}),
        "spec": given,
        "status": state | dict(status or {}),
    }


def incoming(
    name: str = "incoming", cpu: str | None = "1", memory: str | None = None, *, priority: int = 1000, **fields: Any
) -> JSON:
    """A pod that waits for a node, more important than others; `fields` as for `pod`."""
    return pod(name, cpu, memory, priority=priority, start=None, phase="Pending", **fields)


def budget(
    name: str = "budget",
    allowed: int = 0,
    *,
    namespace: str = "default",
    selector: JSON | None = None,
    disrupted: Iterable[str] = (),
    **labels: str,
) -> JSON:
    """A PodDisruptionBudget of the pods with `labels`, or of those that `selector` picks."""
    status: JSON = {"disruptionsAllowed": allowed}
    if disrupted:
        status["disruptedPods"] = dict.fromkeys(disrupted, STARTED)
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": labels} if labels else selector},
        "status": status,
    }


def namespace(name: str, **labels: str) -> JSON:
    return {"kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def cluster(
    nodes: Mapping[NodeObject, Iterable[JSON]],
    *,
    waiting: Iterable[JSON] = (),
    budgets: Iterable[JSON] = (),
    namespaces: Iterable[JSON] = (),
    others: Iterable[JSON] = (),
) -> JSON:
    """A List as an API server has stored it; `waiting` are pods without a node, `others` any other objects.

    The given objects are not changed.
    """
    running = [placed(pod, node.name) for node, pods in nodes.items() for pod in pods]
    items = [*namespaces, *(node.raw for node in nodes), *running, *waiting, *budgets, *others]
    return {"apiVersion": "v1", "kind": "List", "items": [with_uid(one) for one in items]}


def with_uid(one: JSON) -> JSON:
    """The object as one that an API server has stored."""
    about = one["metadata"]
    return one if about.get("uid") else one | {"metadata": about | {"uid": f"uid-{one['kind']}-{about['name']}"}}


def thing(kind: str, name: str, *, namespace: str = "", metadata: Mapping[str, Any] | None = None, **rest: Any) -> JSON:
    """An object of any other kind, with the UID `uid-<name>`; `rest` are its `spec`, `status` and so on."""
    about: JSON = {"name": name, "uid": f"uid-{name}"} | ({"namespace": namespace} if namespace else {})
    return {"kind": kind, "metadata": about | dict(metadata or {})} | rest


def placed(pod: JSON, node: str) -> JSON:
    """The pod, running on the node."""
    return pod | {"spec": pod["spec"] | {"nodeName": node}}


def snapshot(
    nodes: Mapping[NodeObject, Iterable[JSON]],
    *,
    waiting: Iterable[JSON] = (),
    budgets: Iterable[JSON] = (),
    namespaces: Iterable[JSON] = (),
) -> Snapshot:
    return built(cluster(nodes, waiting=waiting, budgets=budgets, namespaces=namespaces))


def drop_messages(decision: PreemptDecision) -> dict[str, str]:
    """Return node -> why it is not in the answer."""
    return {node: dropped.message for node, dropped in decision.dropped.items()}


def built(cluster: JSON, features: Features = DEFAULT_FEATURES) -> Snapshot:
    return Snapshot.build(stored_cluster(cluster), features)


def stored_cluster(cluster: ManifestSource) -> ClusterObjects:
    """Return the objects as they are: they stand for what an API server has stored, also without a UID."""
    return load_cluster(cluster, admission="none")


def candidates_sent_by_kube_scheduler(
    snapshot: Snapshot, pod: Pod, names: Collection[str] | None = None
) -> dict[str, SentCandidate]:
    """What it would offer by itself: every candidate, or those of these names, with its own victims. Not where a plugin
    has a say that is not modelled: the verdict there is unknown."""
    if pod.spec.preemption_policy == "Never":
        return {}
    evaluation = Evaluation(snapshot, pod, UPSTREAM)
    run, undecided = evaluation.policies, set(np.flatnonzero(evaluation.scheduler_decides).tolist())
    sent = {}
    for place in np.flatnonzero(run.candidate).tolist():
        name = snapshot.node_names[run.rows[place]]
        if run.rows[place] not in undecided and (names is None or name in names):
            victims = tuple(victim.metadata.uid for victim in run.victims_on(place))
            sent[name] = SentCandidate(victims, int(run.violations[place]))
    return sent


def typed(pod: JSON) -> Pod:
    return msgspec.convert(pod, Pod)


def raw(one: JSON, place: str = "") -> RawManifest:
    """Return the object as it was read; one with a UID has been stored by an API server."""
    return RawManifest(place, str(one.get("kind", "")), one)


def written(one: JSON, place: str = "") -> RawManifest:
    """Return the object as a person writes it, whose UID and status an API server sets."""
    about = {key: value for key, value in one["metadata"].items() if key != "uid"}
    return raw({key: value for key, value in one.items() if key != "status"} | {"metadata": about}, place)


def taken_of_one_node(takes: Sequence[Sequence[int]]) -> RankedDemand:
    """What the pods of a single node take, [k][column], as a constraint wants it."""
    size = len(takes)
    layout, pods = NodeLayout(lambda _: ()), np.arange(size)
    layout.resize(size, 1, size)
    layout.rank[:] = pods
    amounts = zip(*takes, strict=True)
    return RankedDemand(
        layout, tuple(PodAmounts(pods, np.zeros_like(pods), np.array(one, np.int64)) for one in amounts)
    )


# --- storage ----------------------------------------------------------------------------------------------------------


def volume_claim(
    name: str,
    *,
    storage_class: str | None = "lazy",
    volume: str = "",
    size: str = "20Gi",
    modes: Sequence[str] = ("ReadWriteOnce",),
    annotations: Mapping[str, str] | None = None,
    metadata: Mapping[str, Any] | None = None,
    phase: str = "",
    **spec: Any,
) -> JSON:
    """A PersistentVolumeClaim in the namespace default, bound to `volume`, or not bound yet."""
    notes = dict(annotations or {}) | ({"pv.kubernetes.io/bind-completed": "yes"} if volume else {})
    given: JSON = {"accessModes": list(modes), "resources": {"requests": {"storage": size}}, "volumeName": volume}
    if storage_class is not None:
        given["storageClassName"] = storage_class
    about = {"annotations": notes} | dict(metadata or {})
    status = {"phase": phase or ("Bound" if volume else "Pending")}
    return thing("PersistentVolumeClaim", name, namespace="default", metadata=about, spec=given | spec, status=status)


def volume(
    name: str,
    *,
    storage_class: str = "lazy",
    size: str = "20Gi",
    modes: Sequence[str] = ("ReadWriteOnce",),
    on: Mapping[str, Sequence[str]] | None = None,
    claim: str = "",
    phase: str = "",
    driver: str = "csi.example.com",
    metadata: Mapping[str, Any] | None = None,
    **spec: Any,
) -> JSON:
    """A PersistentVolume; `on`: label -> values of the nodes that can use it; `claim`: the claim that has it."""
    given: JSON = {"capacity": {"storage": size}, "accessModes": list(modes), "storageClassName": storage_class}
    given["csi"] = {"driver": driver, "volumeHandle": name}
    if on is not None:
        expressions = [{"key": key, "operator": "In", "values": list(values)} for key, values in on.items()]
        given["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": expressions}]}}
    if claim:
        given["claimRef"] = {"namespace": "default", "name": claim, "uid": f"uid-{claim}"}
    status = {"phase": phase or ("Bound" if claim else "Available")}
    return thing("PersistentVolume", name, metadata=metadata, spec=given | spec, status=status)


def storage_class(name: str = "lazy", provisioner: str = "csi.example.com", **fields: Any) -> JSON:
    """A StorageClass that waits for the first consumer; `fields` such as `allowedTopologies=[…]`."""
    return thing(
        "StorageClass", name, provisioner=provisioner, **{"volumeBindingMode": "WaitForFirstConsumer"} | fields
    )


def csi_node(name: str, **limits: int) -> JSON:
    """A CSINode with these drivers and limits: `csi_node("n1", **{"csi.example.com": 25})`."""
    drivers = [{"name": driver, "nodeID": name, "allocatable": {"count": count}} for driver, count in limits.items()]
    return thing("CSINode", name, spec={"drivers": drivers})


def using_volumes(*claims: str) -> JSON:
    """Fields of a pod that uses these claims: `incoming(**using_volumes("data"))`."""
    return {
        "volumes": [{"name": f"v{at}", "persistentVolumeClaim": {"claimName": name}} for at, name in enumerate(claims)]
    }
