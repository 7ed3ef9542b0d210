"""Nodes, and the slices that publish devices: of a node, a zone or the cluster, with flaws."""

from tests.upstream.generate.own_devices.cluster import Cluster
from tests.upstream.generate.own_devices.words import MEMORY, PAST, RARELY
from tests.upstream.generate.words import HOST, JSON, ZONE


def add_node(cluster: Cluster, name: str, zone: str) -> None:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "20"}
    if cluster.often("extended resources", 0.3):
        amounts["example.com/gpu"] = cluster.one_of(("0", "1", "2"))
    if cluster.often("extended resources", 0.15):
        amounts["example.com/plain"] = "2"
    labels = {HOST: name, ZONE: zone, "gen": cluster.one_of(("1", "2"))}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    cluster.add("v1", "Node", name, metadata={"labels": labels}, spec={}, status=status)


def add_slices(cluster: Cluster, driver: str) -> None:
    """Publish the pools of a driver: one of each node, of a zone, of the cluster, or with a node per device."""
    style = cluster.one_of(("node", "node", "zone", "all", "device")) if cluster.about("placement") else "node"
    if cluster.chance(0.05):
        style = cluster.one_of(("zone", "all", "device"))
    if style == "node":
        for name in cluster.nodes:
            if cluster.chance(0.9):
                _add_pool(cluster, driver, cluster.one_of((name, name, f"pool-{name}")), {"nodeName": name}, name)
    elif style == "zone":
        for zone in sorted({*cluster.zones}):
            expression = {"key": ZONE, "operator": "In", "values": [zone]}
            selector = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
            _add_pool(cluster, driver, f"of-{zone}", {"nodeSelector": selector}, None)
    elif style == "all":
        _add_pool(cluster, driver, "everywhere", {"allNodes": True}, None)
    else:
        _add_pool(cluster, driver, "spread", {"perDeviceNodeSelection": True}, None)


def _add_pool(cluster: Cluster, driver: str, pool: str, where: JSON, node: str | None) -> None:
    count = cluster.random.randint(31, 36) if cluster.often("limits", 0.7) else cluster.one_of((1, 2, 2, 3, 3, 4))
    kind = _kind_of_devices(cluster)
    if driver != cluster.drivers[0] and cluster.about("constraints"):
        kind["aligned"] = True
    every = [_device(cluster, driver, f"d{n}", n, kind) for n in range(count)]
    if "perDeviceNodeSelection" in where:
        for device in every:
            device |= _where_a_device_is(cluster)
    parts = [every] if count < 2 or cluster.chance(0.6) else [every[: count // 2], every[count // 2 :]]
    specs: list[JSON] = [where | {"devices": part} for part in parts]
    if kind.get("counters"):
        specs.append((where if node else {"allNodes": True}) | {"sharedCounters": _shared_counters(cluster)})
    generation = cluster.one_of((1, 1, 2))
    expected = len(specs)
    usable = _publish_flaws(cluster, driver, pool, where, specs, generation)
    if cluster.often("pools", 0.15):
        expected, usable = expected + 1, False
    for n, spec in enumerate(specs):
        described = {"name": pool, "generation": generation, "resourceSliceCount": expected}
        name = f"{cluster.one_of('abc')}-{driver.partition('.')[0]}-{pool}-{n}"
        cluster.add("resource.k8s.io/v1", "ResourceSlice", name, spec={"driver": driver, "pool": described, **spec})
    if usable or cluster.chance(0.3):
        cluster.free += [(driver, pool, node, device) for device in every]


def _publish_flaws(cluster: Cluster, driver: str, pool: str, where: JSON, specs: list[JSON], generation: int) -> bool:
    """Give the pool older or newer slices, equal device names or counters that it lacks; False: it is useless."""
    if cluster.often("pools", 0.25):  # an older generation, to be ignored, or a newer one for another node
        older = cluster.chance(0.6)
        elsewhere = where if older or "nodeName" not in where else {"nodeName": "node-elsewhere"}
        described = {"name": pool, "generation": generation + (-1 if older else 1), "resourceSliceCount": 1}
        kept = [_device(cluster, driver, "d9", 9, {})]
        spec = {"driver": driver, "pool": described, "devices": kept, **elsewhere}
        cluster.add("resource.k8s.io/v1", "ResourceSlice", f"{cluster.one_of('ax')}-old-{driver}-{pool}", spec=spec)
        return older
    devices = [device for spec in specs for device in spec.get("devices", ())]
    if cluster.often("pools", 0.2) and len(devices) > 1:
        devices[-1]["name"] = devices[0]["name"]
        return False
    if cluster.often("pools", 0.1) and devices:
        devices[0]["consumesCounters"] = [{"counterSet": "none", "counters": {"memory": {"value": "1Gi"}}}]
        return False
    return True


def _where_a_device_is(cluster: Cluster) -> JSON:
    style = cluster.one_of(("node", "node", "zone", "all"))
    if style == "node":
        return {"nodeName": cluster.one_of(cluster.nodes)}
    if style == "zone":
        expression = {
            "key": ZONE,
            "operator": cluster.one_of(("In", "NotIn")),
            "values": [cluster.one_of(cluster.zones)],
        }
        return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    return {"allNodes": True}


def _kind_of_devices(cluster: Cluster) -> JSON:
    """Choose what the devices of a pool have beyond attributes."""
    return {
        "counters": cluster.often("counters", 0.8, 0.02),
        "shared": cluster.often("capacity", 0.75, RARELY),
        "policy": cluster.one_of((None, "range", "range", "values", "default")),
        "binding": cluster.often("binding", 0.6),
    }


def _shared_counters(cluster: Cluster) -> list[JSON]:
    """Return counters; with room where devices are often rejected for something else, see `RARELY`."""
    room = any(map(cluster.about, ("taints", "constraints", "capacity")))
    memory = cluster.one_of(("900Gi", "990Gi", "999Gi") if room else ("60Gi", "80Gi", "120Gi"))
    cores = cluster.one_of(("90", "98", "99") if room else ("2", "4", "8"))
    sets: list[JSON] = [{"name": "set-0", "counters": {"memory": {"value": memory}, "cores": {"value": cores}}}]
    if cluster.chance(0.4):
        sets.append({"name": "set-1", "counters": {"links": {"value": cluster.one_of(("1", "2"))}}})
    return sets


def _device(cluster: Cluster, driver: str, name: str, index: int, kind: JSON) -> JSON:
    """Return a device of a kind, see `kind_of_devices`."""
    model = "h100" if kind.get("aligned") else cluster.one_of(("a100", "h100", "h100", "b100"))
    attributes: JSON = {
        "model": {"string": model},
        "index": {"int": index},
        "ok": {"bool": cluster.chance(0.6)},
        f"{driver}/version": {"version": cluster.one_of(("1.1.0", "1.2.3", "1.4.0", "2.0.0-rc.1", "2.1.0"))},
    }
    if cluster.often("constraints", 0.9, 0.5):
        attributes["link"] = {"int": index // 2}
    if cluster.often("constraints", 0.9, 0.5):
        attributes["site.example.com/rack"] = {"string": cluster.one_of(("r1", "r1", "r2"))}
    memory: JSON = {"value": cluster.one_of(MEMORY)}
    device: JSON = {"name": name, "attributes": attributes, "capacity": {"memory": memory}}
    if kind.get("shared") and cluster.chance(0.85):
        _share_capacity(cluster, device, kind)
    if kind.get("counters") and cluster.chance(0.9):
        wanted = {"memory": {"value": cluster.one_of(("20Gi", "40Gi", "60Gi"))}}
        if cluster.chance(0.5):
            wanted["cores"] = {"value": cluster.one_of(("1", "2", "4"))}
        device["consumesCounters"] = [{"counterSet": "set-0", "counters": wanted}]
    if cluster.often("taints", 0.5, RARELY):
        taint = {"key": cluster.one_of(("bad", "busy")), "effect": cluster.one_of(("NoSchedule", "NoExecute", "None"))}
        device["taints"] = [taint | ({"value": "x"} if cluster.chance(0.5) else {}) | {"timeAdded": PAST}]
    if kind.get("binding"):
        device |= {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Failed"]}
        device["bindsToNode"] = cluster.chance(0.5)
    return device


def add_taint_rule(cluster: Cluster) -> None:
    """Add a rule that taints devices, which kube-scheduler follows only with the gate DRADeviceTaintRules."""
    chosen = {"driver": cluster.one_of(cluster.drivers)} | ({"device": "d0"} if cluster.chance(0.5) else {})
    taint = {"key": "ruled", "value": "x", "effect": cluster.one_of(("NoSchedule", "NoExecute", "None"))}
    spec = {"deviceSelector": chosen, "taint": taint | {"timeAdded": PAST}}
    cluster.add("resource.k8s.io/v1beta2", "DeviceTaintRule", "rule", spec=spec)


def _share_capacity(cluster: Cluster, device: JSON, kind: JSON) -> None:
    """Let the device be allocated several times, by what claims want of its capacity."""
    device["allowMultipleAllocations"] = cluster.chance(0.9)
    memory: JSON = {"value": cluster.one_of(("40Gi", "80Gi", "80G"))}
    device["capacity"]["memory"] = memory
    default = {"default": cluster.one_of(("10Gi", "10G", "1Gi"))}
    if kind["policy"] == "range":
        limits = {"min": cluster.one_of(("5Gi", "10Gi"))}
        if cluster.chance(0.6):
            limits["max"] = cluster.one_of(("20Gi", "40Gi"))
        if cluster.chance(0.5):
            limits["step"] = cluster.one_of(("5Gi", "3Gi"))
        memory["requestPolicy"] = default | {"validRange": limits}
    elif kind["policy"] == "values":
        memory["requestPolicy"] = default | {"validValues": ["10Gi", "20Gi", "40Gi"]}
    elif kind["policy"] == "default":
        memory["requestPolicy"] = default
    if cluster.chance(0.4):
        device["capacity"]["slots"] = {"value": "4", "requestPolicy": {"default": "1"}}
