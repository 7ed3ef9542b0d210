"""Running pods with devices, the incoming pod with claims of random state, and nominated ones."""

from collections.abc import Sequence

from tests.upstream.generate.own_devices.claims import add_claim, allocate
from tests.upstream.generate.own_devices.cluster import Cluster, FreeDevice
from tests.upstream.generate.own_devices.words import FAR_AHEAD, LONG_AGO, PAST
from tests.upstream.generate.words import JSON, ZONE


def add_running_pods(cluster: Cluster, node: str) -> None:
    """Add the pods of a node; some have devices, and some nodes are full."""
    full = cluster.often("preemption", 0.7, 0.1)
    for n in range(cluster.one_of((2, 3) if full else (0, 1, 2))):
        name = f"{node}-pod-{n}"
        pod = _add_pod(cluster, name, "1900m" if full else "500m", cluster.one_of((0, 5, 10)))
        pod["spec"]["nodeName"] = node
        pod["status"] = {"phase": "Running", "startTime": f"2025-01-01T0{n}:00:00Z"}
        taken = next((one for one in cluster.free if one[2] in (node, None)), None)
        if taken and cluster.chance(0.6):
            if not taken[3].get("allowMultipleAllocations"):
                cluster.free.remove(taken)
            claim = add_claim(cluster, f"of-{name}", requests=1)
            allocate(cluster, claim, node if cluster.chance(0.8) else None, [taken])
            claim["status"]["reservedFor"] = [_reference(pod)]
            _use(pod, [{"name": "c", "resourceClaimName": claim["metadata"]["name"]}])


def _add_pod(cluster: Cluster, name: str, cpu: str, priority: int) -> JSON:
    container = {"name": "c", "image": "registry.example/a:v1", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], "priority": priority, "schedulerName": "default-scheduler"}
    return cluster.add("v1", "Pod", name, "default", spec=spec, status={"phase": "Pending"})


def _use(pod: JSON, references: list[JSON]) -> None:
    pod["spec"]["resourceClaims"] = references
    pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": one["name"]} for one in references]


def _reference(pod: JSON) -> JSON:
    return {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}


# --- the incoming pod -------------------------------------------------------------------------------------------------


def incoming_pod(cluster: Cluster) -> JSON:
    pod = _add_pod(cluster, "incoming", cluster.one_of(("100m", "1")), 100)
    cluster.items.remove(pod)
    extended = cluster.about("extended resources")
    if extended:
        _request_extended(cluster, pod)
    references: list[JSON] = []
    least = 2 if cluster.about("several claims") else 0 if extended and cluster.chance(0.8) else 1
    for n in range(max(least, cluster.one_of((0, 0, 0, 1) if extended else (1, 1, 1, 2)) if least else 0)):
        references += _claim_of(cluster, pod, n)
    if references:
        _use(pod, references)
    return pod


def _claim_of(cluster: Cluster, pod: JSON, number: int) -> list[JSON]:
    """Return the pod's reference to one claim, of random state."""
    name, reference = f"mine-{number}", {"name": f"c{number}"}
    if cluster.often("templates", 0.7, 0.05):
        return [reference | _claim_of_template(cluster, pod, name, reference["name"])]
    if cluster.often("failing", 0.15):
        return [reference | cluster.one_of(({"resourceClaimName": "absent"}, {}))]
    claim = add_claim(cluster, name)
    if cluster.often("failing", 0.1):
        claim["metadata"] |= {"deletionTimestamp": PAST, "finalizers": ["resource.kubernetes.io/delete-protection"]}
    if (cluster.about("allocated") or cluster.about("binding")) and cluster.free and cluster.chance(0.6):
        _allocate_already(cluster, claim, pod)
    return [reference | {"resourceClaimName": name}]


def _claim_of_template(cluster: Cluster, pod: JSON, name: str, reference: str) -> JSON:
    """Add the claim of a template, or not; owned by the pod, or not."""
    uid = pod["metadata"]["uid"] if cluster.chance(0.85) else "uid-of-another"
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "incoming", "uid": uid, "controller": True}
    if cluster.chance(0.9):
        add_claim(cluster, name, metadata={"ownerReferences": [owner]})
    if cluster.chance(0.9):
        made = {"resourceClaimName": name} if cluster.chance(0.9) else {}
        pod["status"].setdefault("resourceClaimStatuses", []).append({"name": reference, **made})
    return {"resourceClaimTemplateName": "template"}


def _allocate_already(cluster: Cluster, claim: JSON, pod: JSON) -> None:
    first = cluster.free[0]
    together = [one for one in cluster.free if one[1] == first[1] and one[0] == first[0]][: cluster.one_of((1, 1, 2))]
    allocate(cluster, claim, first[2] if cluster.chance(0.8) else None, together)
    status = claim["status"]
    if cluster.chance(0.2):
        expression = {"key": ZONE, "operator": "In", "values": [cluster.one_of(cluster.zones)]}
        status["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    others = [{"resource": "pods", "name": f"other-{n}", "uid": f"uid-other-{n}"} for n in range(256)]
    users = (others[:0], others[:0], others[:1], others[:3], others, [_reference(pod)])
    status["reservedFor"] = cluster.one_of(users)
    if any("bindingConditions" in one[3] for one in together):
        _bind(cluster, status, together)


def _bind(cluster: Cluster, status: JSON, devices: Sequence[FreeDevice]) -> None:
    """Say how far binding of the allocated devices came."""
    if cluster.chance(0.8):
        status["allocation"]["allocationTimestamp"] = cluster.one_of((LONG_AGO, FAR_AHEAD))
    state = cluster.one_of((None, (), (("Attached", "True"),), (("Attached", "False"),), (("Failed", "True"),)))
    if state is not None:
        conditions = [
            {"type": kind, "status": value, "lastTransitionTime": PAST, "reason": "A", "message": ""}
            for kind, value in state
        ]
        status["devices"] = [
            {"driver": driver, "pool": pool, "device": device["name"], "conditions": conditions}
            for driver, pool, _, device in devices
        ]


def _request_extended(cluster: Cluster, pod: JSON) -> None:
    """Let containers, init containers and sidecars request extended resources."""
    names = cluster.random.sample([*cluster.extended, "example.com/plain"], cluster.one_of((1, 1, 2)))
    containers = pod["spec"]["containers"]
    if cluster.chance(0.3):
        containers.append({"name": "second", "image": "registry.example/a:v1", "resources": {}})
    starting = [
        {"name": f"i{n}", "image": "registry.example/a:v1", "resources": {}}
        for n in range(cluster.one_of((0, 0, 1, 2)))
    ]
    for one in starting:
        one |= {"restartPolicy": "Always"} if cluster.chance(0.5) else {}
    pod["spec"] |= {"initContainers": starting} if starting else {}
    for n, container in enumerate([*containers, *starting]):
        for name in dict.fromkeys(names):
            if n == 0 or cluster.chance(0.6):
                amount = cluster.one_of(("1", "1", "1", "2", "3", "0"))
                for kind in ("requests", "limits"):
                    container["resources"].setdefault(kind, {})[name] = amount
    if cluster.chance(0.08):
        _add_earlier_claim(cluster, pod)


def _add_earlier_claim(cluster: Cluster, pod: JSON) -> None:
    """Add the claim that an earlier cycle made for the extended resources."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "incoming", "uid": pod["metadata"]["uid"]}
    metadata = {
        "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
        "ownerReferences": [owner | {"controller": True}],
    }
    claim = add_claim(cluster, "incoming-extended-resources-x", requests=1, metadata=metadata)
    if cluster.free and cluster.chance(0.5):
        allocate(cluster, claim, cluster.free[0][2], cluster.free[:1])


def add_nominated_pods(cluster: Cluster) -> None:
    """Add pods that wait for a node which they are nominated to; without its claim, one counts nowhere.

    None has a claim that exists: in the judge, that may come too late for the pod to be queued.
    """
    for n in range(cluster.one_of((1, 2))):
        pod = _add_pod(cluster, f"waiting-{n}", cluster.one_of(("1", "3")), cluster.one_of((50, 100, 200)))
        pod["status"]["nominatedNodeName"] = cluster.one_of(cluster.nodes)
        if cluster.chance(0.3):
            _use(pod, [{"name": "c", "resourceClaimName": "absent"}])
