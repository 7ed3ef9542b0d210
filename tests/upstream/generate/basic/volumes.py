"""Volumes of the incoming pod and of running ones: claims, limits of drivers, topology, disks in each other's way."""

from typing import Any, Final

from tests.upstream.generate.scenario import Scenario, expression
from tests.upstream.generate.words import CREATED, FORMER_ZONE, HOST, JSON, REGION, ZONE

DRIVER: Final = "csi.example.com"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
BOUND_BY_CONTROLLER: Final = {
    "pv.kubernetes.io/bind-completed": "yes",
    "pv.kubernetes.io/bound-by-controller": "yes",
}


def add_volumes(scenario: Scenario) -> None:
    """Give the incoming pod volumes of one kind."""
    kinds = {
        "rwop": _read_write_once_pod,
        "limits": _limits,
        "affinity": _affinity,
        "zone": _zone,
        "wffc": _wait_for_first_consumer,
        "missing": _missing,
        "inline": _disks,
    }
    kind = scenario.random.choice(["rwop", "rwop", "limits", "limits", "affinity", "zone", "wffc", "missing", "inline"])
    scenario.tag(f"vol-{kind}")
    _storage_class(scenario, "fast", lazy=False)
    kinds[kind](scenario)


# --- objects ----------------------------------------------------------------------------------------------------------


def _claim(
    scenario: Scenario,
    name: str,
    storage_class: str,
    *,
    access_mode: str = "ReadWriteOnce",
    volume: str | None = None,
    size: str = "1Gi",
    namespace: str | None = None,
    phase: str | None = None,
) -> JSON:
    """Add a PersistentVolumeClaim, bound if it has a volume."""
    metadata: JSON = {
        "name": name,
        "namespace": namespace or scenario.incoming_namespace,
        "uid": scenario.uid(),
        "creationTimestamp": CREATED,
    }
    spec: JSON = {
        "accessModes": [access_mode],
        "resources": {"requests": {"storage": size}},
        "volumeMode": "Filesystem",
        "storageClassName": storage_class,
    }
    if volume:
        spec["volumeName"] = volume
        metadata["annotations"] = dict(BOUND_BY_CONTROLLER)
    status = {"phase": phase or ("Bound" if volume else "Pending")}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec, "status": status}
    scenario.others.append(claim)
    return claim


def _volume(
    scenario: Scenario,
    name: str,
    storage_class: str,
    *,
    claim: JSON | None = None,
    size: str = "1Gi",
    labels: dict[str, str] | None = None,
    terms: list[JSON] | None = None,
    access_mode: str = "ReadWriteOnce",
) -> None:
    """Add a PersistentVolume, bound if it has a claim."""
    spec: JSON = {
        "capacity": {"storage": size},
        "accessModes": [access_mode],
        "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": storage_class,
        "volumeMode": "Filesystem",
        "csi": {"driver": DRIVER, "volumeHandle": f"h-{name}"},
    }
    status = {"phase": "Bound" if claim else "Available"}
    volume = scenario.add("v1", "PersistentVolume", name, spec=spec, status=status)
    if labels:
        volume["metadata"]["labels"] = labels
    if terms:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    if claim:
        of_claim = {key: claim["metadata"][key] for key in ("namespace", "name", "uid")}
        spec["claimRef"] = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **of_claim}


def _bound(
    scenario: Scenario,
    name: str,
    *,
    namespace: str | None = None,
    access_mode: str = "ReadWriteOnce",
    labels: dict[str, str] | None = None,
    terms: list[JSON] | None = None,
) -> None:
    """Add a claim and the volume that it is bound to."""
    namespace = namespace or scenario.incoming_namespace
    volume = f"pv-{namespace}-{name}"
    claim = _claim(scenario, name, "fast", access_mode=access_mode, volume=volume, namespace=namespace)
    _volume(scenario, volume, "fast", claim=claim, access_mode=access_mode, labels=labels, terms=terms)


def _storage_class(
    scenario: Scenario, name: str, lazy: bool, provisioner: str = DRIVER, topologies: Any = None
) -> None:
    mode = "WaitForFirstConsumer" if lazy else "Immediate"
    fields: JSON = {"provisioner": provisioner, "reclaimPolicy": "Delete", "volumeBindingMode": mode}
    if topologies:
        fields["allowedTopologies"] = topologies
    scenario.add("storage.k8s.io/v1", "StorageClass", name, **fields)


def _mount(pod: JSON, claim: str, name: str = "v0") -> None:
    volume = {"name": name, "persistentVolumeClaim": {"claimName": claim}}
    pod["spec"].setdefault("volumes", []).append(volume)


def _on_hosts(*names: str) -> list[JSON]:
    return [{"matchExpressions": [expression(HOST, "In", *names)]}]


# --- kinds ------------------------------------------------------------------------------------------------------------


def _read_write_once_pod(scenario: Scenario) -> None:
    """Let running pods use claims that only one pod may use at a time."""
    random = scenario.random
    _bound(scenario, "data", access_mode="ReadWriteOncePod")
    _mount(scenario.pod, "data")
    running = scenario.running()
    users = random.choice([1, 1, 1, 2])
    for pod in scenario.some(running, users):
        pod["metadata"]["namespace"] = scenario.incoming_namespace
        _mount(pod, "data")
    if users == 2:
        scenario.tag("rwop-two-users")
    if scenario.chance(0.5):
        _same_name_elsewhere(scenario)
    if scenario.chance(0.3):
        _bound(scenario, "data2", access_mode="ReadWriteOncePod")
        _mount(scenario.pod, "data2", "v1")
        if running:
            pod = random.choice(running)
            pod["metadata"]["namespace"] = scenario.incoming_namespace
            _mount(pod, "data2", "v1")


def _same_name_elsewhere(scenario: Scenario) -> None:
    """Add a claim of the same name in another namespace, whose users are not in the way."""
    own = scenario.incoming_namespace
    others = sorted({pod["metadata"]["namespace"] for pod in scenario.running()} - {own})
    if others:
        namespace = scenario.random.choice(others)
        _bound(scenario, "data", namespace=namespace)
        for pod in scenario.running_in(namespace):
            if scenario.chance(0.3):
                _mount(pod, "data")
        scenario.tag("rwop-same-name-other-ns")


def _limits(scenario: Scenario) -> None:
    """Let nodes have a few volumes attached, and room for hardly more."""
    random = scenario.random
    for node in scenario.nodes:
        _attach_volumes(scenario, node["metadata"]["name"])
    if scenario.chance(0.3):
        _storage_class(scenario, "lazy", lazy=True)
        _claim(scenario, "mine", "lazy")
    else:
        _bound(scenario, "mine")
    _mount(scenario.pod, "mine")
    if scenario.chance(0.3):
        _bound(scenario, "mine2")
        _mount(scenario.pod, "mine2", "v1")
    if scenario.chance(0.2):  # a volume that no pod of the node has
        node = random.choice(scenario.nodes)["metadata"]["name"]
        _volume(scenario, "pv-stray", "fast")
        source = {"persistentVolumeName": "pv-stray"}
        attachment: JSON = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "VolumeAttachment",
            "metadata": {"name": "va-1", "uid": scenario.uid()},
            "spec": {"attacher": DRIVER, "nodeName": node, "source": source},
            "status": {"attached": True},
        }
        scenario.others.append(attachment)
        scenario.tag("vol-attachment")


def _attach_volumes(scenario: Scenario, node: str) -> None:
    random = scenario.random
    limit = random.choice([1, 2, 3])
    driver: JSON = {"name": DRIVER, "nodeID": node, "allocatable": {"count": limit}}
    csi_node: JSON = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": node, "uid": scenario.uid()},
        "spec": {"drivers": [driver]},
    }
    if scenario.chance(0.1):
        del driver["allocatable"]
    if scenario.chance(0.95):
        scenario.others.append(csi_node)
    running = scenario.running_on(node)
    for pod in scenario.some(running, limit + random.choice([0, 0, -1])):
        name = f"vol{_claims(scenario) + 1}"
        _bound(scenario, name, namespace=pod["metadata"]["namespace"])
        _mount(pod, name)
        if scenario.chance(0.2):  # a second pod of the node shares it
            namespace = pod["metadata"]["namespace"]
            sharing = [one for one in running if one["metadata"]["namespace"] == namespace and one is not pod]
            if sharing:
                _mount(random.choice(sharing), name, "vs")


def _claims(scenario: Scenario) -> int:
    return sum(item["kind"] == "PersistentVolumeClaim" for item in scenario.others)


def _affinity(scenario: Scenario) -> None:
    """Let the volume be reachable from two thirds of the nodes."""
    names = scenario.node_names()
    chosen = scenario.random.sample(names, max(1, len(names) * 2 // 3))
    _bound(scenario, "data", terms=_on_hosts(*chosen))
    _mount(scenario.pod, "data")


def _zone(scenario: Scenario) -> None:
    """Label the volume with zones, in both ways that there are, and take labels from some nodes."""
    labels = scenario.random.choice([{ZONE: "z1"}, {ZONE: "z1__z2", REGION: "r1"}, {FORMER_ZONE: "z1"}])
    _bound(scenario, "data", labels=labels)
    _mount(scenario.pod, "data")
    if scenario.chance(0.2):
        for node in scenario.nodes:
            if scenario.chance(0.3):
                node["metadata"]["labels"].pop(ZONE, None)
                if scenario.chance(0.5):
                    node["metadata"]["labels"].pop(REGION, None)


def _wait_for_first_consumer(scenario: Scenario) -> None:
    random = scenario.random
    provisioner = random.choice([DRIVER, NO_PROVISIONER])
    allowed = None
    if scenario.chance(0.4):
        allowed = [{"matchLabelExpressions": [{"key": ZONE, "values": ["z1"]}]}]
    _storage_class(scenario, "lazy", lazy=True, provisioner=provisioner, topologies=allowed)
    _claim(scenario, "data", "lazy", size=random.choice(["1Gi", "5Gi"]))
    _mount(scenario.pod, "data")
    if provisioner == NO_PROVISIONER or scenario.chance(0.4):
        for number, name in enumerate(scenario.node_names()):
            if scenario.chance(0.6):
                size = random.choice(["1Gi", "2Gi", "10Gi"])
                _volume(scenario, f"local-{number}", "lazy", size=size, terms=_on_hosts(name))


def _missing(scenario: Scenario) -> None:
    """Let the claim be absent, not bound, or bound to a volume that is gone."""
    kind = scenario.random.random()
    if kind < 0.4:
        _mount(scenario.pod, "absent")
        return
    if kind < 0.7:
        _claim(scenario, "data", "fast")
    else:
        _claim(scenario, "data", "fast", volume="pv-lost", phase="Lost" if scenario.chance(0.5) else None)
    _mount(scenario.pod, "data")


def _disks(scenario: Scenario) -> None:
    """Let pods have disks that two pods of a node may share only if both read."""
    random = scenario.random
    scenario.pod["spec"]["volumes"] = [_iscsi(1, read_only=scenario.chance(0.3))]
    for pod in scenario.running():
        if scenario.chance(0.2):
            pod["spec"]["volumes"] = [_iscsi(random.randint(1, 2), read_only=scenario.chance(0.5))]


def _iscsi(number: int, read_only: bool) -> JSON:
    disk = {"targetPortal": "10.0.0.9", "iqn": f"iqn.example:{number}", "lun": 0, "readOnly": read_only}
    return {"name": "d", "iscsi": disk}
