"""Volumes of drivers that must be on the node, with storage capacity that scores, and limits."""

from typing import Any, Final

from tests.upstream.generate.scenario import Scenario
from tests.upstream.generate.wide.volumes import add_csi_node
from tests.upstream.generate.words import HOST, JSON

STORAGE_API: Final = "storage.k8s.io/v1"
DRIVERS: Final = ("csi.a", "csi.b")


def add_driver_volumes(scenario: Scenario) -> None:
    """Add drivers, storage capacity, and volumes of the incoming pod."""
    random = scenario.random
    # At most one must be there: kube-scheduler names any of several that are missing.
    required = random.choice([["csi.a"], ["csi.b"], []])
    for driver in DRIVERS:
        if scenario.chance(0.9):
            _add_csi_driver(scenario, driver, required)
    for one in scenario.nodes:
        if scenario.chance(0.85):
            _add_csi_node(scenario, one)
    for driver in DRIVERS:
        add_lazy_class(scenario, f"dyn-{driver}", driver)
        for number, node in enumerate(scenario.node_names()):
            if scenario.chance(0.8):
                size = random.choice([5, 10, 20, 50, 100])
                further: JSON = {}
                if scenario.chance(0.2):
                    further["maximumVolumeSize"] = f"{random.choice([5, 50])}Gi"
                add_capacity(scenario, f"cap-{driver}-{number}", f"dyn-{driver}", node, size, **further)
    for number in range(random.choice([1, 1, 2, 3])):
        _add_volume(scenario, number, random.choice(DRIVERS))


def _add_csi_driver(scenario: Scenario, name: str, required: list[str]) -> None:
    spec: JSON = {
        "attachRequired": scenario.chance(0.9),
        "podInfoOnMount": False,
        "storageCapacity": scenario.chance(0.75),
        "volumeLifecycleModes": ["Persistent", "Ephemeral"],
    }
    if name in required or scenario.chance(0.3):
        spec["preventPodSchedulingIfMissing"] = name in required
    scenario.add(STORAGE_API, "CSIDriver", name, spec=spec)


def _add_csi_node(scenario: Scenario, node: JSON) -> None:
    csi_node = add_csi_node(scenario, node)
    for driver in DRIVERS:
        if scenario.chance(0.65):
            entry: JSON = {"name": driver, "nodeID": node["metadata"]["name"], "topologyKeys": []}
            if scenario.chance(0.6):
                entry["allocatable"] = {"count": scenario.random.choice([0, 1, 2, 5])}
            csi_node["spec"]["drivers"].append(entry)


def add_lazy_class(scenario: Scenario, name: str, provisioner: str) -> None:
    fields: JSON = {
        "provisioner": provisioner,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    scenario.add(STORAGE_API, "StorageClass", name, **fields)


def add_capacity(scenario: Scenario, name: str, storage_class: str, node: str, gibibytes: int, **further: Any) -> None:
    """Add the capacity that a class has on one node; `further`: fields of the object."""
    fields: JSON = {
        "storageClassName": storage_class,
        "capacity": f"{gibibytes}Gi",
        "nodeTopology": {"matchLabels": {HOST: node}},
        **further,
    }
    scenario.add(STORAGE_API, "CSIStorageCapacity", name, "kube-system", **fields)


def add_unbound_claim(scenario: Scenario, name: str, storage_class: str, gibibytes: int) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "volumeMode": "Filesystem",
        "resources": {"requests": {"storage": f"{gibibytes}Gi"}},
    }
    scenario.add("v1", "PersistentVolumeClaim", name, "default", spec=spec, status={"phase": "Pending"})


def _add_volume(scenario: Scenario, number: int, driver: str) -> None:
    """Give the incoming pod a volume: to be provisioned, without a claim, or bound."""
    random = scenario.random
    kind = random.random()
    if kind < 0.65:
        add_unbound_claim(scenario, f"dyn-{number}", f"dyn-{driver}", random.choice([1, 5, 10, 20]))
        source: JSON = {"persistentVolumeClaim": {"claimName": f"dyn-{number}"}}
    elif kind < 0.85:
        source = {"csi": {"driver": driver, "volumeAttributes": {"a": "b"}}}
        scenario.tag("inline-csi")
    else:
        _add_bound_claim(scenario, number, driver)
        source = {"persistentVolumeClaim": {"claimName": f"st-{number}"}}
        scenario.tag("bound")
    scenario.pod["spec"].setdefault("volumes", []).append({"name": f"v{number}", **source})


def _add_bound_claim(scenario: Scenario, number: int, driver: str) -> None:
    name, bound = f"st-{number}", {"phase": "Bound"}
    claim_spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "volumeName": f"pv-{number}",
        "volumeMode": "Filesystem",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    meta = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    claim = scenario.add("v1", "PersistentVolumeClaim", name, "default", meta, spec=claim_spec, status=dict(bound))
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default", "name": name}
    volume_spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": "fast",
        "volumeMode": "Filesystem",
        "csi": {"driver": driver, "volumeHandle": f"h{number}"},
        "claimRef": reference | {"uid": claim["metadata"]["uid"]},
    }
    scenario.add("v1", "PersistentVolume", f"pv-{number}", spec=volume_spec, status=dict(bound))
