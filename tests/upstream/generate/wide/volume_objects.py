"""Storage objects of one scenario: classes, claims, volumes of all sources, disks without a claim.

Rule: a function here draws what makes an object, never which pod has it.
"""

from collections.abc import Sequence
from typing import Any, Final

from tests.upstream.generate.scenario import Scenario, expression
from tests.upstream.generate.words import FORMER_REGION, FORMER_ZONE, HOST, JSON, REGION, ZONE

IN_TREE: Final = {
    "gce": ("kubernetes.io/gce-pd", "pd.csi.storage.gke.io"),
    "aws": ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
    "azure": ("kubernetes.io/azure-disk", "disk.csi.azure.com"),
    "azurefile": ("kubernetes.io/azure-file", "file.csi.azure.com"),
    "cinder": ("kubernetes.io/cinder", "cinder.csi.openstack.org"),
    "vsphere": ("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
    "portworx": ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
}
"""Source -> its in-tree plugin, and the CSI driver that took its place."""
DRIVERS: Final = ("csi.a", "csi.a", "csi.b", *(driver for _, driver in IN_TREE.values()))
SOURCES: Final = (
    *("csi.a", "csi.a", "csi.b", "gce", "aws", "azure", "azurefile", "cinder", "vsphere", "portworx"),
    *("local", "hostPath", "nfs", "rbd", "iscsi"),
)
VOLUME_LABELS: Final = (
    {ZONE: "z1"},
    {ZONE: "z1__z2"},
    {ZONE: "z1__z4"},
    {ZONE: "z1", REGION: "r1"},
    {REGION: "r1"},
    {REGION: "r2"},
    {FORMER_ZONE: "z2"},
    {FORMER_REGION: "r1", FORMER_ZONE: "z1__z3"},
    {"other": "x"},
)
CLOUD_ZONES: Final = {"z1": "us-east1-b", "z2": "us-east1-c", "z3": "us-east1-d", "z4": "us-west1-a"}
"""Zones as a cloud names them, which the translation of in-tree volumes reads."""


class StorageObjects:
    """Adds storage objects to a scenario, each with a number of its own."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.random = scenario.random
        self.numbers = 0
        self.classes: set[str] = set()

    def next_number(self) -> int:
        self.numbers += 1
        return self.numbers

    def storage_class(self, name: str, lazy: bool, provisioner: str, topologies: list[JSON] | None = None) -> None:
        mode = "WaitForFirstConsumer" if lazy else "Immediate"
        fields: JSON = {"provisioner": provisioner, "reclaimPolicy": "Delete", "volumeBindingMode": mode}
        if topologies is not None:
            fields["allowedTopologies"] = topologies
        self.scenario.add("storage.k8s.io/v1", "StorageClass", name, **fields)
        self.classes.add(name)

    def claim(
        self,
        name: str,
        namespace: str,
        storage_class: str | None,
        volume: str | None = None,
        *,
        access_modes: Sequence[str] = ("ReadWriteOnce",),
        size: str = "1Gi",
        mode: str = "Filesystem",
        phase: str | None = None,
        **further: Any,
    ) -> JSON:
        """Add a claim, bound if it has a volume; `further`: fields of its spec."""
        spec: JSON = {
            "accessModes": list(access_modes),
            "resources": {"requests": {"storage": size}},
            "volumeMode": mode,
        }
        status = {"phase": phase or ("Bound" if volume else "Pending")}
        claim = self.scenario.add("v1", "PersistentVolumeClaim", name, namespace, spec=spec, status=status)
        if storage_class is not None:
            spec["storageClassName"] = storage_class
        if volume:
            spec["volumeName"] = volume
            claim["metadata"]["annotations"] = {
                "pv.kubernetes.io/bind-completed": "yes",
                "pv.kubernetes.io/bound-by-controller": "yes",
            }
        spec.update(further)
        return claim

    def volume(
        self,
        name: str,
        storage_class: str,
        source: str,
        *,
        claim: JSON | None = None,
        size: str = "1Gi",
        access_modes: Sequence[str] = ("ReadWriteOnce",),
        mode: str = "Filesystem",
        labels: dict[str, str] | None = None,
        terms: list[JSON] | None = None,
        **further: Any,
    ) -> JSON:
        """Add a volume, bound if it has a claim; `source`: one of SOURCES; `further`: fields of its spec."""
        spec: JSON = {
            "capacity": {"storage": size},
            "accessModes": list(access_modes),
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": storage_class,
            "volumeMode": mode,
            **self._source(source, self.next_number()),
        }
        status = {"phase": "Bound" if claim else "Available"}
        meta = {"labels": labels} if labels else None
        volume = self.scenario.add("v1", "PersistentVolume", name, meta=meta, spec=spec, status=status)
        if terms:
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
        if claim:
            of_claim = {key: claim["metadata"][key] for key in ("namespace", "name", "uid")}
            spec["claimRef"] = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **of_claim}
        spec.update(further)
        return volume

    def bound(self, namespace: str, access_modes: list[str] | None = None) -> JSON:
        """Add a claim and, in nearly all cases, the volume that it is bound to; return the claim."""
        random = self.random
        source = random.choice(SOURCES)
        name = f"data-{self.next_number()}"
        modes = ["ReadWriteOnce", "ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]
        access_modes = access_modes or [random.choice(modes)]
        mode = random.choice(["Filesystem", "Filesystem", "Block"])
        claim = self.claim(name, namespace, "fast", f"pv-{name}", access_modes=access_modes, mode=mode)
        labels = dict(random.choice(VOLUME_LABELS)) if self.scenario.chance(0.3) else None
        if not self.scenario.chance(0.03):
            terms = self.node_terms() if self.scenario.chance(0.35) else None
            settings: JSON = {"access_modes": access_modes, "mode": mode, "labels": labels, "terms": terms}
            self.volume(f"pv-{name}", "fast", source, claim=claim, **settings)
        return claim

    def node_terms(self) -> list[JSON]:
        """Return the node affinity terms of a volume."""
        random = self.random
        kind = random.random()
        names = self.scenario.node_names()
        if kind < 0.4:
            return on_hosts(*random.sample(names, max(1, len(names) * 2 // 3)))
        if kind < 0.8:
            zones = random.sample(["z1", "z2", "z3", "z4"], 2)
            return [{"matchExpressions": [expression(ZONE, "In", *zones)]}]
        if kind < 0.9:
            zones = random.sample(["z1", "z2", "z3"], 2)
            return [{"matchExpressions": [expression(ZONE, "In", zone)]} for zone in zones]
        key = f"topology.{random.choice(DRIVERS)}/zone"
        return [{"matchExpressions": [expression(key, "In", "z1", "z2")]}]

    def _source(self, source: str, number: int) -> JSON:
        """Return the source of a volume: a CSI driver, or one of the sources that the spec names itself."""
        read_only = self.scenario.chance(0.3)
        if source.startswith("csi"):
            return {"csi": {"driver": source, "volumeHandle": f"h{number}"}}
        aws = self.random.choice([f"aws://us-east-1a/vol-{number}", f"vol-{number}"])
        sources: dict[str, JSON] = {
            "gce": {"gcePersistentDisk": {"pdName": f"pd-{number}", "fsType": "ext4", "readOnly": read_only}},
            "aws": {"awsElasticBlockStore": {"volumeID": aws}},
            "azure": {"azureDisk": azure_disk(number, read_only)},
            "azurefile": {"azureFile": {"secretName": "sec", "shareName": f"sh{number}", "secretNamespace": "default"}},
            "cinder": {"cinder": {"volumeID": f"cv-{number}"}},
            "vsphere": {"vsphereVolume": {"volumePath": f"[ds] vol/{number}.vmdk"}},
            "portworx": {"portworxVolume": {"volumeID": f"px-{number}"}},
            "local": {"local": {"path": f"/mnt/{number}"}},
            "hostPath": {"hostPath": {"path": "/data"}},
            "nfs": {"nfs": {"server": "10.0.0.9", "path": "/x"}},
            "rbd": {"rbd": {"monitors": ["m1"], "image": f"im{number}", "pool": "rbd"}},
            "iscsi": {"iscsi": {"targetPortal": "10.0.0.9", "iqn": f"iqn.x:{number}", "lun": 0}},
        }
        return sources[source]


def azure_disk(number: int, read_only: bool) -> JSON:
    return {
        "diskName": f"d{number}",
        "diskURI": f"/subscriptions/s/disks/d{number}",
        "cachingMode": "None",
        "kind": "Managed",
        "fsType": "ext4",
        "readOnly": read_only,
    }


def disk(scenario: Scenario) -> JSON:
    """Return a volume that a pod names without a claim, one of a few disks of each source."""
    random = scenario.random
    number, read_only = random.randint(1, 3), scenario.chance(0.5)
    rbd = {
        "monitors": random.sample(["m1", "m2", "m3"], random.randint(1, 2)),
        "image": f"im{number}",
        "pool": random.choice(["rbd", "rbd", "p2"]),
        "readOnly": read_only,
    }
    iscsi = {
        "targetPortal": random.choice(["10.0.0.9", "10.0.0.8"]),
        "iqn": f"iqn.x:{number}",
        "lun": random.choice([0, 0, 1]),
        "readOnly": read_only,
    }
    google = {"gcePersistentDisk": {"pdName": f"pd-{number}", "readOnly": read_only}}
    amazon = {"awsElasticBlockStore": {"volumeID": f"vol-{number}", "readOnly": read_only}}
    disks: list[JSON] = [
        google,
        google,
        amazon,
        amazon,
        {"rbd": rbd},
        {"rbd": {"monitors": ["m1"], "image": f"im{number}", "pool": "rbd", "readOnly": read_only}},
        {"iscsi": iscsi},
        {"azureDisk": azure_disk(number, read_only)},
        {"cinder": {"volumeID": f"cv-{number}", "readOnly": read_only}},
        {"azureFile": {"secretName": "sec", "shareName": f"sh{number}"}},
        {"vsphereVolume": {"volumePath": f"[ds] vol/{number}.vmdk"}},
        {"portworxVolume": {"volumeID": f"px-{number}"}},
        {"csi": {"driver": "csi.a", "volumeAttributes": {"a": "b"}}},
        {"emptyDir": {}},
        {"configMap": {"name": "cm"}},
    ]
    return random.choice(disks)


def mount(pod: JSON, source: JSON, name: str = "") -> None:
    volumes = pod["spec"].setdefault("volumes", [])
    volumes.append({"name": name or f"v{len(volumes)}", **source})


def mount_claim(scenario: Scenario, pod: JSON, claim: str) -> None:
    reference = {"claimName": claim, **({"readOnly": True} if scenario.chance(0.1) else {})}
    mount(pod, {"persistentVolumeClaim": reference})


def owned_by(pod: JSON, uid: str = "") -> JSON:
    """Return the owner reference of a claim that was made for the pod's ephemeral volume; `uid`: another pod's."""
    metadata = pod["metadata"]
    return {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": uid or metadata["uid"]}


def on_hosts(*names: str) -> list[JSON]:
    return [{"matchExpressions": [expression(HOST, "In", *names)]}]
