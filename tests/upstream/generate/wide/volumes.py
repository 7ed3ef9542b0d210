"""Volumes of every kind at once: in-tree sources that CSI drivers took over, ephemeral ones, capacity, attachments."""

from datetime import timedelta
from typing import Final

from tests.upstream.generate.cluster import LATER
from tests.upstream.generate.scenario import Scenario, expression
from tests.upstream.generate.wide.volume_objects import (
    DRIVERS,
    IN_TREE,
    StorageObjects,
    disk,
    mount,
    mount_claim,
    on_hosts,
    owned_by,
)
from tests.upstream.generate.words import EPOCH, FORMER_REGION, FORMER_ZONE, HOST, JSON, REGION, ZONE, timestamp

TOMORROW: Final = timestamp(EPOCH + timedelta(days=1))
"""deletionTimestamp of storage objects that are being deleted."""


def add_volumes(scenario: Scenario) -> None:
    """Add volumes of running pods, of a few kinds, and one to three of the incoming pod."""
    random = scenario.random
    storage = StorageObjects(scenario)
    storage.storage_class("fast", lazy=False, provisioner="csi.a")
    _label_nodes(scenario)
    kinds = random.sample(["claims", "disks", "rwop", "limits", "ephemeral"], random.randint(1, 3))
    running = scenario.running()
    if "claims" in kinds or "limits" in kinds:
        for pod in scenario.some(running, random.choice([4, 8, 14])):
            mount_claim(scenario, pod, storage.bound(pod["metadata"]["namespace"])["metadata"]["name"])
    if "disks" in kinds:
        for pod in running:
            for _ in range(random.choice([0, 0, 1, 1, 2])):
                mount(pod, disk(scenario))
    if "ephemeral" in kinds:
        for pod in scenario.some(running, 6):
            _add_ephemeral(storage, pod, running=True)
    if "limits" in kinds:
        for node in scenario.nodes:
            if scenario.chance(0.92):
                _add_csi_node(scenario, node)
        scenario.tag("limits")
    for _ in range(random.choice([1, 1, 2, 3])):
        _add_incoming_volume(storage)
    for _ in range(random.choice([0, 0, 1, 3])):
        _add_attachment(storage)
    for driver in ("csi.a", "csi.b", "pd.csi.storage.gke.io"):
        if scenario.chance(0.6):
            _add_csi_driver(scenario, driver)


# --- the cluster's ----------------------------------------------------------------------------------------------------


def _label_nodes(scenario: Scenario) -> None:
    random = scenario.random
    for node in scenario.nodes:
        labels = node["metadata"]["labels"]
        for key in (ZONE, REGION):
            if scenario.chance(0.06):
                labels.pop(key, None)
        if scenario.chance(0.15):
            labels[FORMER_ZONE] = random.choice(["z1", "z2"])
            labels[FORMER_REGION] = "r1"
        if scenario.chance(0.3):
            labels["topology.csi.a/zone"] = random.choice(["z1", "z2", "z3"])


def _add_csi_node(scenario: Scenario, node: JSON) -> None:
    random = scenario.random
    csi_node = add_csi_node(scenario, node)
    name = node["metadata"]["name"]
    for driver in dict.fromkeys(DRIVERS):
        if scenario.chance(0.6):
            entry: JSON = {"name": driver, "nodeID": name, "topologyKeys": [f"topology.{driver}/zone"]}
            if scenario.chance(0.85):
                entry["allocatable"] = {"count": random.choice([0, 1, 1, 2, 2, 3])} if scenario.chance(0.95) else {}
            csi_node["spec"]["drivers"].append(entry)
    kind = random.random()
    if kind < 0.75:
        plugins = [plugin for plugin, _ in IN_TREE.values()]
        chosen = plugins if kind < 0.5 else random.sample(plugins, random.randint(0, 4))
        migrated = {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(sorted(chosen))}
        csi_node["metadata"]["annotations"] = migrated


def add_csi_node(scenario: Scenario, node: JSON) -> JSON:
    """Add the node's CSINode, without drivers yet."""
    name = node["metadata"]["name"]
    csi_node = scenario.add("storage.k8s.io/v1", "CSINode", name, spec={"drivers": []})
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
    csi_node["metadata"]["ownerReferences"] = [owner]
    return csi_node


def _add_csi_driver(scenario: Scenario, name: str) -> None:
    spec: JSON = {
        "attachRequired": scenario.chance(0.9),
        "podInfoOnMount": False,
        "storageCapacity": scenario.chance(0.6),
        "volumeLifecycleModes": ["Persistent"],
    }
    if scenario.chance(0.2):
        spec["nodeAllocatableUpdatePeriodSeconds"] = 60
    scenario.add("storage.k8s.io/v1", "CSIDriver", name, spec=spec)


def _add_attachment(storage: StorageObjects) -> None:
    """Let a volume be attached to a node, whether or not a pod there has it."""
    scenario, random = storage.scenario, storage.random
    volumes = [item for item in scenario.others if item["kind"] == "PersistentVolume"]
    if not volumes:
        return
    volume = random.choice(volumes)
    name = f"va-{storage.next_number()}"
    attacher = (volume["spec"].get("csi") or {}).get("driver") or random.choice(DRIVERS)
    spec: JSON = {"attacher": attacher, "nodeName": random.choice(scenario.node_names())}
    if scenario.chance(0.95):
        spec["source"] = {"persistentVolumeName": volume["metadata"]["name"]}
    else:
        inline = {"accessModes": ["ReadWriteOnce"], "csi": {"driver": "csi.a", "volumeHandle": "h"}}
        spec["source"] = {"inlineVolumeSpec": inline}
    status = {"attached": scenario.chance(0.9)}
    scenario.add("storage.k8s.io/v1", "VolumeAttachment", name, spec=spec, status=status)
    scenario.tag("attachment")


def _add_ephemeral(storage: StorageObjects, pod: JSON, running: bool = False) -> None:
    """Give the pod an ephemeral volume, with the claim that was made for it, or not yet, or for another pod."""
    scenario, random = storage.scenario, storage.random
    name = f"e{storage.next_number()}"
    storage_class = random.choice(["fast", "lazy"])
    if "lazy" not in storage.classes:
        storage.storage_class("lazy", lazy=True, provisioner="csi.a")
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": storage_class,
        "volumeMode": "Filesystem",
    }
    mount(pod, {"ephemeral": {"volumeClaimTemplate": {"metadata": {}, "spec": spec}}}, name)
    scenario.tag("ephemeral")
    kind = random.random()
    if kind < 0.15:  # not made yet
        return
    bound = running or storage_class == "fast" or scenario.chance(0.3)
    claim_name = f"{pod['metadata']['name']}-{name}"
    volume = f"pv-{claim_name}"
    claim = storage.claim(claim_name, pod["metadata"]["namespace"], storage_class, volume if bound else None)
    if kind < 0.85:
        claim["metadata"]["ownerReferences"] = [owned_by(pod) | {"controller": True, "blockOwnerDeletion": True}]
    else:
        scenario.tag("ephemeral-foreign")
        if kind < 0.93:
            claim["metadata"]["ownerReferences"] = [owned_by(pod, scenario.uid()) | {"controller": True}]
    if bound:
        storage.volume(volume, storage_class, random.choice(["csi.a", "csi.b"]), claim=claim)


# --- the incoming pod's -----------------------------------------------------------------------------------------------


def _add_incoming_volume(storage: StorageObjects) -> None:
    scenario = storage.scenario
    kinds = {
        "bound": _bound,
        "wffc-dynamic": _provisioned,
        "wffc-static": _static,
        "ephemeral": _ephemeral,
        "disk": _disk,
        "rwop": _read_write_once_pod,
        "odd": _odd,
        "shared": _shared,
    }
    kind = storage.random.choice(
        [
            *("bound", "bound", "wffc-dynamic", "wffc-dynamic", "wffc-static", "wffc-static"),
            *("ephemeral", "disk", "disk", "rwop", "odd", "shared"),
        ]
    )
    scenario.tag(f"v-{kind}")
    kinds[kind](storage, storage.next_number())


def _bound(storage: StorageObjects, _: int) -> None:
    claim = storage.bound(storage.scenario.incoming_namespace)
    mount_claim(storage.scenario, storage.scenario.pod, claim["metadata"]["name"])


def _ephemeral(storage: StorageObjects, _: int) -> None:
    _add_ephemeral(storage, storage.scenario.pod)


def _disk(storage: StorageObjects, _: int) -> None:
    scenario = storage.scenario
    mount(scenario.pod, disk(scenario))
    for pod in scenario.running():
        if scenario.chance(0.15):
            mount(pod, disk(scenario))


def _shared(storage: StorageObjects, _: int) -> None:
    """Let running pods use the incoming pod's claim."""
    scenario = storage.scenario
    running = scenario.running_in(scenario.incoming_namespace)
    name = storage.bound(scenario.incoming_namespace)["metadata"]["name"]
    mount_claim(scenario, scenario.pod, name)
    for pod in scenario.some(running, 3):
        mount_claim(scenario, pod, name)


def _read_write_once_pod(storage: StorageObjects, _: int) -> None:
    scenario = storage.scenario
    claim = storage.bound(scenario.incoming_namespace, access_modes=["ReadWriteOncePod"])
    name = claim["metadata"]["name"]
    mount_claim(scenario, scenario.pod, name)
    running = scenario.running_in(scenario.incoming_namespace)
    for pod in scenario.some(running, storage.random.choice([0, 1, 1, 2])):
        mount_claim(scenario, pod, name)
        if scenario.chance(0.1):
            pod["metadata"]["deletionTimestamp"] = LATER


def _odd(storage: StorageObjects, number: int) -> None:
    """Let the incoming pod have a claim that is absent, lost, being deleted or half bound."""
    scenario, random = storage.scenario, storage.random
    namespace, name = scenario.incoming_namespace, f"odd-{number}"
    kind = random.random()
    if kind < 0.2:
        name = "absent"
    elif kind < 0.4:
        storage.claim(name, namespace, random.choice(["fast", "", None, "nosuch"]))
    elif kind < 0.55:
        storage.claim(name, namespace, "fast", "pv-lost", phase="Lost")
    elif kind < 0.85:
        metadata = storage.bound(namespace)["metadata"]
        name = metadata["name"]
        if kind < 0.7:
            metadata["deletionTimestamp"] = TOMORROW
        else:
            metadata["annotations"].pop("pv.kubernetes.io/bind-completed", None)
    else:
        _name_volume(storage, number)
    mount_claim(scenario, scenario.pod, name)


def _name_volume(storage: StorageObjects, number: int) -> None:
    """Add a claim that names a volume which its user chose, and is not bound yet."""
    name, volume, storage_class = f"odd-{number}", f"pv-odd-{number}", f"lazy-odd-{number}"
    namespace = storage.scenario.incoming_namespace
    claim = storage.claim(name, namespace, storage_class, volume, phase="Pending")
    del claim["metadata"]["annotations"]
    storage.storage_class(storage_class, lazy=True, provisioner="csi.a")
    if storage.scenario.chance(0.7):
        terms = storage.node_terms() if storage.scenario.chance(0.5) else None
        storage.volume(volume, storage_class, "csi.a", terms=terms)


def _provisioned(storage: StorageObjects, number: int) -> None:
    """Let a driver provision the volume, in some zones and with some capacity."""
    scenario, random = storage.scenario, storage.random
    name = f"dyn-{number}"
    topologies = None
    if scenario.chance(0.5):
        topologies = [_allowed_topology(scenario) for _ in range(random.choice([1, 1, 2]))]
    provisioner = random.choice(["csi.a", "csi.a", "csi.b", "kubernetes.io/gce-pd", "kubernetes.io/aws-ebs"])
    storage.storage_class(name, lazy=True, provisioner=provisioner, topologies=topologies)
    size = random.choice([1, 5, 10])
    further = {"volumeAttributesClassName": "gold"} if scenario.chance(0.15) else {}
    access_modes = [random.choice(["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"])]
    mode = random.choice(["Filesystem", "Block"])
    settings: JSON = {"size": f"{size}Gi", "access_modes": access_modes, "mode": mode, **further}
    metadata = storage.claim(name, scenario.incoming_namespace, name, **settings)["metadata"]
    if scenario.chance(0.25):
        metadata["annotations"] = {"volume.kubernetes.io/selected-node": random.choice(scenario.node_names())}
        scenario.tag("selected-node")
    if scenario.chance(0.1):
        metadata.setdefault("annotations", {})["volume.beta.kubernetes.io/storage-class"] = name
    mount_claim(scenario, scenario.pod, name)
    for place in range(random.choice([0, 2, 4])):
        _add_capacity(scenario, f"cap-{number}-{place}", name)


def _allowed_topology(scenario: Scenario) -> JSON:
    random = scenario.random
    expressions = [{"key": ZONE, "values": random.sample(["z1", "z2", "z3"], random.randint(1, 2))}]
    if scenario.chance(0.3):
        expressions.append({"key": REGION, "values": ["r1"]})
    return {"matchLabelExpressions": expressions}


def _add_capacity(scenario: Scenario, name: str, storage_class: str) -> None:
    random = scenario.random
    namespace = random.choice(["kube-system", "default"])
    of_class = storage_class if scenario.chance(0.9) else "other"
    capacity = scenario.add("storage.k8s.io/v1", "CSIStorageCapacity", name, namespace, storageClassName=of_class)
    if random.random() < 0.85:
        capacity["capacity"] = f"{random.choice([0, 1, 4, 8, 20])}Gi"
    if scenario.chance(0.4):
        capacity["maximumVolumeSize"] = f"{random.choice([1, 3, 5, 20])}Gi"
    kind = random.random()
    if kind < 0.45:
        capacity["nodeTopology"] = {"matchLabels": {ZONE: random.choice(["z1", "z2", "z3"])}}
    elif kind < 0.7:
        operator = random.choice(["In", "NotIn"])
        hosts = random.sample(scenario.node_names(), max(1, len(scenario.nodes) // 2))
        capacity["nodeTopology"] = {"matchExpressions": [expression(HOST, operator, *hosts)]}
    elif kind < 0.85:
        capacity["nodeTopology"] = {}
    scenario.tag("capacity")


def _static(storage: StorageObjects, number: int) -> None:
    """Let the claims choose among volumes that exist on some nodes."""
    scenario, random = storage.scenario, storage.random
    storage_class = f"static-{number}"
    provisioner = random.choice(["kubernetes.io/no-provisioner", "kubernetes.io/no-provisioner", "csi.a"])
    storage.storage_class(storage_class, lazy=True, provisioner=provisioner)
    for place in range(random.choice([1, 1, 2])):
        name = f"st-{number}-{place}"
        further: JSON = {"selector": {"matchLabels": {"tier": "gold"}}} if scenario.chance(0.2) else {}
        if scenario.chance(0.2):
            further["volumeAttributesClassName"] = random.choice(["gold", "silver"])
        size = random.choice(["1Gi", "5Gi"])
        access_modes = [random.choice(["ReadWriteOnce", "ReadWriteOnce", "ReadWriteMany"])]
        mode = random.choice(["Filesystem", "Filesystem", "Block"])
        further |= {"size": size, "access_modes": access_modes, "mode": mode}
        storage.claim(name, scenario.incoming_namespace, storage_class, **further)
        mount_claim(scenario, scenario.pod, name)
    for place, node in enumerate(scenario.node_names()):
        for nth in range(random.choice([0, 1, 1, 2, 3])):
            _add_static_volume(storage, f"loc-{number}-{place}-{nth}", number, node)


def _add_static_volume(storage: StorageObjects, name: str, number: int, node: str) -> None:
    scenario, random = storage.scenario, storage.random
    further: JSON = {}
    if scenario.chance(0.2):
        further["volumeAttributesClassName"] = random.choice(["gold", "silver"])
    source = random.choice(["local", "local", "csi.a"])
    further["size"] = random.choice(["1Gi", "2Gi", "5Gi", "10Gi"])
    access_modes = ["ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany"]
    further["access_modes"] = random.sample(access_modes, random.randint(1, 2))
    further["mode"] = random.choice(["Filesystem", "Filesystem", "Filesystem", "Block"])
    further["labels"] = {"tier": random.choice(["gold", "iron"])} if scenario.chance(0.4) else None
    volume = storage.volume(name, f"static-{number}", source, terms=on_hosts(node), **further)
    kind = random.random()
    if kind < 0.05:
        volume["status"]["phase"] = random.choice(["Released", "Failed"])
    elif kind < 0.1:
        volume["metadata"]["deletionTimestamp"] = TOMORROW
    elif kind < 0.2:  # reserved for a claim, the incoming pod's or another one
        claim = random.choice([f"st-{number}-0", "other"])
        reference = {"kind": "PersistentVolumeClaim", "namespace": scenario.incoming_namespace, "name": claim}
        volume["spec"]["claimRef"] = reference
