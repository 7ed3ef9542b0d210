"""What the generator picks from: few values, so that they meet; what stands in a tuple twice is picked more often.

Rule: all generated objects share these, so they must not be changed.
"""

from tests.builders import JSON

# --- labels and selectors -------------------------------------------------------------------------------------------

NAMESPACES = ("default", "default", "default", "default", "default", "shop", "bare")
NAMESPACE_OBJECTS: tuple[JSON, ...] = (
    {"kind": "Namespace", "metadata": {"name": "default", "labels": {"team": "red"}}},
    {"kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": "blue"}}},
    {"kind": "Namespace", "metadata": {"name": "bare"}},
)
POD_LABELS: tuple[JSON | None, ...] = (
    {"app": "a"},
    {"app": "a"},
    {"app": "a"},
    {"app": "b"},
    {"app": "a", "tier": "x"},
    {"app": "b", "tier": "y"},
    {"tier": "x"},
    {},
    None,
)
SIMILAR_LABELS: tuple[JSON | None, ...] = ({"app": "a"}, {"app": "a"}, {"app": "a", "tier": "x"}, {"app": "b"})
"""Labels of the pods of a cluster in which it matters how many match."""


def _expression(key: str, operator: str, *values: str) -> JSON:
    return {"key": key, "operator": operator} | ({"values": list(values)} if values else {})


LABEL_SELECTORS: tuple[JSON | None, ...] = (
    {"matchLabels": {"app": "a"}},
    {"matchLabels": {"app": "a"}},
    {"matchLabels": {"app": "b"}},
    {"matchLabels": {"app": "a", "tier": "x"}},
    {"matchExpressions": [_expression("app", "In", "a", "c")]},
    {"matchExpressions": [_expression("app", "NotIn", "a")]},
    {"matchExpressions": [_expression("tier", "Exists")]},
    {"matchExpressions": [_expression("tier", "DoesNotExist")]},
    {"matchLabels": {"tier": "x"}, "matchExpressions": [_expression("app", "In", "a", "b")]},
    {},
    None,
)
BROKEN_SELECTORS: tuple[JSON, ...] = (
    {"matchExpressions": [{"key": "app", "operator": "In", "values": []}]},
    {"matchExpressions": [_expression("app", "Gt", "1")]},
    {"matchExpressions": [_expression("tier", "Exists", "x")]},
    {"matchLabels": {"-app": "a"}},
    {"matchLabels": {"app": "a b"}},
)
NAMESPACE_SELECTORS: tuple[JSON | None, ...] = (
    {},
    {"matchLabels": {"team": "blue"}},
    {"matchLabels": {"team": "red"}},
    {"matchExpressions": [_expression("team", "DoesNotExist")]},
    None,
)
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
TOPOLOGY_KEYS = ("kubernetes.io/hostname", "kubernetes.io/hostname", "zone", "disk", "rack")
"""No node has a rack."""
SPREAD_KEYS = (*(HOSTNAME,) * 6, *("zone",) * 4, *(ZONE,) * 4, *("disk",) * 2, "rack")
MATCH_LABEL_KEYS = ("app", "tier", "pod-template-hash")
"""No pod has the last."""
SERVICE_SELECTORS: tuple[JSON | None, ...] = ({"app": "a"}, {"app": "a"}, {"app": "b"}, {"tier": "x"}, {}, None)
CONTROLLERS = (
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("v1", "ReplicationController"),
    ("batch/v1", "Job"),
    ("example.com/v1", "ReplicaSet"),
)
"""kube-scheduler asks no selector of the last two."""
WEIGHTS = (1, 5, 10, 10, 50, 100)

# --- nodes ----------------------------------------------------------------------------------------------------------

NODE_CPU = ("3", "3500m", "4", "4", "4", "4", "4", "6", 5, "2", "4", "0")
NODE_MEMORY = ("2Gi", "4Gi", "4Gi", "8Gi", "8Gi", "5G")
NODE_PODS = ("110", "110", "110", "6", "4", "2", 8)
ZONES = ("z1", "z1", "z2", None)
DISKS = ("ssd", "hdd", None)
NAMED_ZONES = ("z1", "z1", "z2", "z3", None)
REGIONS = ("r1", "r2", None, None, None)
CORES = ("4", "8", "016", "many", None)
TAINTS: tuple[JSON, ...] = (
    {"key": "dedicated", "value": "db", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "web", "effect": "NoExecute"},
    {"key": "dedicated", "effect": "PreferNoSchedule"},
    {"key": "slow", "effect": "PreferNoSchedule"},
    {"key": "slow", "value": "very", "effect": "PreferNoSchedule"},
)
TOLERATIONS: tuple[JSON, ...] = (
    {"key": "dedicated", "operator": "Equal", "value": "db", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "web"},
    {"key": "dedicated", "operator": "Exists"},
    {"key": "slow", "operator": "Exists", "effect": "PreferNoSchedule"},
    {"operator": "Exists", "effect": "NoSchedule"},
    {"operator": "Exists"},
    {"key": "slow", "operator": "Gt", "value": "1"},
    {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"},
)
NODE_SELECTORS: tuple[JSON, ...] = ({"zone": "z1"}, {"disk": "ssd"}, {"zone": "z1", "disk": "hdd"}, {"zone": ""}, {})
NODE_TERMS: tuple[JSON, ...] = (
    {"matchExpressions": [_expression("zone", "In", "z1", "z3")]},
    {"matchExpressions": [_expression("disk", "NotIn", "hdd")]},
    {"matchExpressions": [_expression("disk", "Exists")]},
    {"matchExpressions": [_expression("zone", "DoesNotExist")]},
    {"matchExpressions": [_expression("cores", "Gt", "4")]},
    {"matchExpressions": [_expression("cores", "Lt", "9"), _expression("disk", "Exists")]},
    {"matchFields": [_expression("metadata.name", "In", "n1")]},
    {"matchFields": [_expression("metadata.name", "NotIn", "n0")]},
    {"matchFields": [_expression("metadata.name", "In", "n2")], "matchExpressions": [_expression("zone", "Exists")]},
)
"""Those that parse: kube-scheduler fails a pod with a preferred term that does not."""
ODD_NODE_TERMS: tuple[JSON, ...] = (
    {},
    {"matchExpressions": []},
    {"matchExpressions": [_expression("cores", "Gt", "many")]},
    {"matchExpressions": [_expression("cores", "Lt", "+9")]},
    {"matchExpressions": [{"key": "zone", "operator": "In", "values": []}]},
    {"matchExpressions": [_expression("zone", "Matches", "z1")]},
    {"matchFields": [_expression("metadata.name", "In", "n1", "n2")]},
    {"matchFields": [_expression("metadata.name", "In", "n1"), _expression("metadata.name", "In", "n2")]},
    {"matchFields": [_expression("metadata.namespace", "NotIn", "n1")]},
)
IMAGES = {
    "app:1": 30 * 2**20,
    "app:latest": 300 * 2**20,
    "registry:5000/db:2": 900 * 2**20,
    "registry:5000/db:latest": 1500 * 2**20,
}
"""Name -> size, if a node does not say otherwise."""
PULLED = ("app:1", "app", "registry:5000/db:2", "registry:5000/db", "unheard-of")
FEATURES = ("RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport")

# --- pods -----------------------------------------------------------------------------------------------------------

PRIORITIES: tuple[tuple[int | None, ...], ...] = (
    (None, 0, 10, 100),
    (None, 0, 10, 100),
    (0, 10),
    (None,),
    (-10, None, 10),
    (-(2**31), -1, 0, 2**31 - 1),
    (0, 1_999_999_999, 2_000_000_000, 2_000_001_000),
)
"""A cluster's pods share one of these."""
STARTS = (
    "2026-01-01T00:00:00Z",
    "2026-01-01T00:00:00Z",
    "2026-01-01T00:00:01Z",
    "2026-01-01T01:00:00+01:00",
    "2025-12-31T23:59:59.5Z",
    "2026-02-01T08:00:00Z",
    "2026-02-01T08:00:00Z",
)
CPU = (None, "100m", "250m", "500m", "500m", "1", "1", "1500m", 1)
MEMORY = (None, None, None, "64Mi", "256Mi", "1Gi", "500M", "1.5Gi")
LIGHT_CPU = (None, "50m", "100m", "200m")
LIGHT_MEMORY = (None, None, "64Mi")
"""Requests of pods that something else keeps off a node."""
INCOMING_CPU = (None, "500m", "1", "1", "1500m", "2", "2", "2", "3", "0")
INCOMING_MEMORY = (None, None, None, None, "64Mi", "1Gi", "2Gi", "3Gi", "5Gi")
POD_LEVEL_CPU = (None, "500m", "1", "1500m", "2")
POD_LEVEL_MEMORY = (None, "256Mi", "1Gi", "2Gi")
"""No fractions of binary units here: upstream adds the overhead to those for good."""
EXTENDED = (
    ("example.com/gpu", ("1", "1", "2", 1, "0")),
    ("hugepages-2Mi", ("2Mi", "4Mi")),
    ("ephemeral-storage", ("512Mi", "1Gi")),
    ("requests.example.com/not-counted", ("1",)),
)
NODE_EXTENDED = (
    ("example.com/gpu", ("1", "2", "4", "0")),
    ("hugepages-2Mi", ("4Mi", "8Mi")),
    ("ephemeral-storage", ("1Gi", "2Gi", "4Gi")),
)
PORTS: tuple[JSON, ...] = (
    {"containerPort": 80, "hostPort": 8080},
    {"containerPort": 80, "hostPort": 8080, "protocol": "TCP"},
    {"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.1"},
    {"containerPort": 80, "hostPort": 8080, "hostIP": "10.0.0.2", "protocol": "TCP"},
    {"containerPort": 80, "hostPort": 8080, "hostIP": "0.0.0.0", "protocol": "UDP"},
    {"containerPort": 53, "hostPort": 5353, "protocol": "UDP"},
    {"containerPort": 53, "hostPort": 5353, "hostIP": ""},
    {"containerPort": 80},
    {"containerPort": 80, "hostPort": 0},
)
LEAVING: tuple[list[JSON] | None, ...] = (
    [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}],
    [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}],
    [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}],
    [{"type": "DisruptionTarget", "status": "False", "reason": "PreemptionByScheduler"}],
    [{"type": "Ready", "status": "True"}],
    None,
)
"""Conditions of terminating pods."""
RESIZES: tuple[list[JSON] | None, ...] = (
    [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
    [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}],
    None,
)

# --- storage --------------------------------------------------------------------------------------------------------

CLAIMS = ("data", "data", "data", "logs", "logs", "cache")
CLAIMS_TO_MATCH: tuple[tuple[str, ...], ...] = (
    ("data",),
    ("data", "logs"),
    ("data", "logs"),
    ("data", "logs", "cache"),
    ("data", "data"),
)
MANY_CLAIMS = ("data", "data", "logs", "cache", "index", "media", "queue", "spool")
DRIVER = "csi.example.com"
OTHER_DRIVER = "other.example.com"
TRACKED_DRIVER = "tracked.example.com"
"""It tells how much space is left."""
STORAGE_CLASSES: dict[str, JSON] = {
    "now": {"provisioner": DRIVER, "volumeBindingMode": "Immediate"},
    "modeless": {"provisioner": DRIVER},
    "later": {"provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"},
    "manual": {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"},
    "zonal": {
        "provisioner": DRIVER,
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["z1", "z3"]}]}],
    },
    "picky": {
        "provisioner": OTHER_DRIVER,
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [
            {},
            {"matchLabelExpressions": [{"key": "zone", "values": ["z1"]}, {"key": "disk", "values": ["ssd", "hdd"]}]},
            {"matchLabelExpressions": [{"key": HOSTNAME, "values": ["n0", "n1"]}]},
        ],
    },
    "tracked": {"provisioner": TRACKED_DRIVER, "volumeBindingMode": "WaitForFirstConsumer"},
}
WAITING_CLASSES = ("later", "later", "manual", "manual", "manual", "zonal", "zonal", "picky", "tracked", "tracked")
IMMEDIATE_CLASSES = ("now", "modeless", "", "unheard-of")
CLAIM_STATES = (
    *("bound",) * 30,
    *("waiting",) * 30,
    "missing",
    "lost",
    "deleting",
    "immediate",
    "reserved",
    "bound to nothing",
)
"""Reserved: bound as far as the claim says, but not completely."""
LIMITED_CLAIM_STATES = (*("bound",) * 30, *("waiting",) * 8, "missing", "bound to nothing")
SIZES = (None, "500Mi", "500Mi", "1Gi", "1Gi", "2Gi", "5G")
ACCESS_MODES: tuple[list[str], ...] = (
    ["ReadWriteOnce"],
    ["ReadWriteOnce"],
    ["ReadWriteOnce"],
    ["ReadWriteMany"],
    ["ReadOnlyMany", "ReadWriteOnce"],
    ["ReadWriteOncePod"],
    ["ReadWriteOncePod"],
)
FREE_ACCESS_MODES: tuple[list[str], ...] = (
    ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"],
    ["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"],
    ["ReadWriteOnce", "ReadWriteOncePod"],
)
FREE_SIZES = (512, 1024, 2048, 5120, 5120, 20480)
"""In Mi; each volume gets one Mi more than the one before, so that no two are equal."""
CLAIM_SELECTORS: tuple[JSON | None, ...] = (
    {"matchLabels": {"tier": "fast"}},
    {"matchExpressions": [_expression("tier", "NotIn", "fast")]},
    {},
)
VOLUME_LABELS: tuple[JSON, ...] = ({"tier": "fast"}, {"tier": "slow"}, {})
VOLUME_ZONES: tuple[JSON, ...] = (
    {ZONE: "z1"},
    {ZONE: "z1"},
    {ZONE: "z2"},
    {ZONE: "z1__z2"},
    {ZONE: "z2__"},
    {BETA_ZONE: "z1"},
    {BETA_ZONE: "z2 __ z3"},
    {ZONE: "z1", REGION: "r1"},
)
VOLUME_TERMS: tuple[JSON, ...] = (
    {"matchExpressions": [_expression(ZONE, "In", "z1")]},
    {"matchExpressions": [_expression(ZONE, "In", "z1", "z2")]},
    {"matchExpressions": [_expression("zone", "In", "z1")]},
    {"matchExpressions": [_expression("zone", "NotIn", "z2")]},
    {"matchExpressions": [_expression(HOSTNAME, "In", "n0")]},
    {"matchExpressions": [_expression(HOSTNAME, "In", "n1", "n2")]},
    {"matchExpressions": [_expression(HOSTNAME, "In", "n0"), _expression("disk", "Exists")]},
    {"matchFields": [_expression("metadata.name", "In", "n1")]},
)
NODE_TOPOLOGIES: tuple[JSON | None, ...] = (
    {},
    {"matchLabels": {ZONE: "z1"}},
    {"matchLabels": {"zone": "z1"}},
    {"matchExpressions": [_expression(HOSTNAME, "In", "n0", "n1", "n2")]},
    None,
)
LIMITS = (0, 1, 2, 2, 3, 3, 4, 5, None)
DISKS_IN_PODS: tuple[JSON, ...] = (
    {"iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2026-01.com.example:a", "lun": 0}},
    {"iscsi": {"targetPortal": "10.0.0.2:3260", "iqn": "iqn.2026-01.com.example:a", "lun": 1}},
    {"iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2026-01.com.example:b", "lun": 0}},
    {"gcePersistentDisk": {"pdName": "a"}},
    {"gcePersistentDisk": {"pdName": "b"}},
    {"awsElasticBlockStore": {"volumeID": "vol-a"}},
    {"awsElasticBlockStore": {"volumeID": "vol-b"}},
    {"rbd": {"monitors": ["m1", "m2"], "pool": "rbd", "image": "a"}},
    {"rbd": {"monitors": ["m2"], "pool": "rbd", "image": "a"}},
    {"rbd": {"monitors": ["m3"], "pool": "rbd", "image": "a"}},
    {"rbd": {"monitors": ["m1"], "pool": "other", "image": "a"}},
)
