"""The two hostile tenants of the soak: one has running pods, the other pods that wait to be scheduled.

The specs have as much of one field as an API server accepts in one object: terms, constraints, tolerations, ports,
resources, labels. The first tenant's pods are the business of the cluster's process (`world`), the second one's calls
that of the load process, as kube-scheduler makes them.

Rule: valid objects only; what an API server rejects, a tenant cannot send.
"""

import random
from collections.abc import Callable, Sequence

import msgspec

from benchmarks import generate
from benchmarks.bodies import names_body
from benchmarks.generate import JSON, Plan
from extender.k8s.objects import Pod

NAMESPACE = "hostile"
RUNNING_PODS = 8
TERMS = 4_000
"""Terms of one pod: about 0.7 MB of JSON."""

NODE_NAMES = 500
_MARK = "4000-8000-70b5"
"""Middle part of the UIDs of these pods, which no other UID has."""


def running(plan: Plan, slot: int, generation: int) -> JSON:
    """Return a running pod; its slot determines its node, both together the kind of its spec."""
    pod = _pod(f"running-{slot}-{generation}", f"{slot:08x}-{_MARK}{generation:08x}")
    pod["spec"] |= SPECS[(slot + generation) % len(SPECS)]() | {"nodeName": generate.node_name(slot % plan.nodes)}
    pod["status"] = {"phase": "Running", "startTime": "2025-06-01T08:00:00Z"}
    return pod


def of_uid(plan: Plan, uid: str) -> Pod | None:
    """Return the running pod with this UID; None for the UID of any other pod."""
    slot, _, rest = uid.partition("-")
    if not rest.startswith(_MARK):
        return None
    return msgspec.convert(running(plan, int(slot, 16), int(rest.removeprefix(_MARK), 16)), Pod)


def _pod(name: str, uid: str) -> JSON:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": uid, "labels": {"app": "hostile"}},
        "spec": {
            "priority": 0,
            "schedulerName": "default-scheduler",
            "containers": [{"name": "main", "image": "registry.example/a:v1", "resources": {}}],
        },
    }


# --- specs ----------------------------------------------------------------------------------------------------------


def _term(key: str, app: str) -> JSON:
    selector = {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [app]}]}
    return {"topologyKey": key, "namespaceSelector": {}, "labelSelector": selector}


def _affinity(kind: str, terms: Sequence[JSON]) -> JSON:
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def many_topology_keys() -> JSON:
    return _affinity("podAntiAffinity", [_term(f"example.com/key-{n}", "x") for n in range(TERMS)])


def many_selectors() -> JSON:
    """Return anti-affinity to pods that do not exist, on nodes that do."""
    terms = [{"topologyKey": "kubernetes.io/hostname", "namespaceSelector": {}} for _ in range(TERMS)]
    selectors = [{"labelSelector": {"matchLabels": {"app": f"nothing-{number}"}}} for number in range(TERMS)]
    return _affinity("podAntiAffinity", [term | selector for term, selector in zip(terms, selectors, strict=True)])


def many_affinity_terms() -> JSON:
    return _affinity("podAffinity", [_term(f"example.com/key-{n}", f"x-{n}") for n in range(TERMS)])


def many_preferred_terms() -> JSON:
    preferred = [{"weight": 1 + n % 100, "podAffinityTerm": _term(f"example.com/key-{n}", "x")} for n in range(TERMS)]
    return {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}


def many_constraints() -> JSON:
    constraints = [
        {
            "maxSkew": 1,
            "topologyKey": f"example.com/key-{number}",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": f"app-{number}"}},
        }
        for number in range(TERMS)
    ]
    return {"topologySpreadConstraints": constraints}


def many_tolerations() -> JSON:
    return {"tolerations": [{"key": f"example.com/key-{n}", "operator": "Exists"} for n in range(2 * TERMS)]}


def many_resources() -> JSON:
    requests = {f"example.com/device-{number}": "1" for number in range(2 * TERMS)}
    return {"containers": [{"name": "main", "image": "registry.example/a:v1", "resources": {"requests": requests}}]}


def many_containers() -> JSON:
    return {
        "containers": [
            {"name": f"c-{n}", "image": f"registry.example/a-{n}:v1", "resources": {"requests": {"cpu": "1m"}}}
            for n in range(TERMS)
        ]
    }


SPECS: tuple[Callable[[], JSON], ...] = (
    many_topology_keys,
    many_selectors,
    many_affinity_terms,
    many_preferred_terms,
    many_constraints,
    many_tolerations,
    many_resources,
    many_containers,
)


# --- waiting pods ---------------------------------------------------------------------------------------------------


def filter_bodies(plan: Plan) -> list[bytes]:
    """Return a /filter body for a pod of each spec, with 500 names of nodes."""
    every = [generate.node_name(row) for row in range(plan.nodes)]
    names = random.Random(plan.seed).sample(every, min(NODE_NAMES, len(every)))
    bodies = []
    for number, spec in enumerate(SPECS):
        pod = _pod(f"waiting-{number}", f"ffffffff-{_MARK}{number:08x}")
        pod["spec"] |= spec()
        bodies.append(names_body(pod, names))
    return bodies
