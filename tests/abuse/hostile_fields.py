"""Pods that are hostile in one field: every field of a pod that a tenant controls, with n entries.

Rule: a pod is what an API server would accept, but for its number of entries; fields with text of any length, such as
the name of a claim, also occur with n characters.
"""

import random
from collections.abc import Callable, Iterator
from typing import Any

from tests.builders import JSON, budget, pod

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _spec(**spec: Any) -> JSON:
    return {"spec": spec}


def _pod_affinity(kind: str, terms: list[JSON], *, preferred: bool = False) -> JSON:
    """`kind`: podAffinity or podAntiAffinity."""
    weighted = [{"weight": 1 + nth % 100, "podAffinityTerm": term} for nth, term in enumerate(terms)]
    return _spec(affinity={kind: {_PREFERRED: weighted} if preferred else {_REQUIRED: terms}})


def _node_affinity(terms: list[JSON]) -> JSON:
    return _spec(affinity={"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}})


def _term(topology: str = ZONE, **fields: Any) -> JSON:
    return {"topologyKey": topology, "labelSelector": {"matchLabels": {"app": "web"}}} | fields


def _containers(containers: list[JSON]) -> JSON:
    return _spec(containers=containers)


def _requests(amounts: JSON) -> JSON:
    return {"requests": {"cpu": "100m"} | amounts}


def _expressions(keys: Iterator[str], operator: str = "NotIn") -> list[JSON]:
    values = ["x"] if operator in ("In", "NotIn") else []
    return [{"key": key, "operator": operator, "values": values} for key in keys]


def _keys(n: int) -> Iterator[str]:
    return (f"example.com/key-{nth}" for nth in range(n))


def _values(n: int) -> list[str]:
    return [f"value-{nth}" for nth in range(n)]


def _spread(n: int, when: str) -> JSON:
    return _spec(
        topologySpreadConstraints=[
            {
                "maxSkew": 1 + nth,
                "topologyKey": f"example.com/key-{nth}",
                "whenUnsatisfiable": when,
                "labelSelector": {"matchLabels": {"app": "web"}, "matchExpressions": _expressions(iter([f"k{nth}"]))},
            }
            for nth in range(n)
        ]
    )


def _affinities() -> Iterator[tuple[str, Callable[[int], JSON]]]:
    for kind in ("podAffinity", "podAntiAffinity"):
        for preferred in (False, True):
            strength = "preferred" if preferred else "required"

            def build(terms: Callable[[int], list[JSON]], kind=kind, preferred=preferred) -> Callable[[int], JSON]:
                return lambda n: _pod_affinity(kind, terms(n), preferred=preferred)

            yield f"{strength} {kind}: topology keys", build(lambda n: [_term(key) for key in _keys(n)])
            yield (
                f"{strength} {kind}: selectors",
                build(
                    lambda n: [
                        _term(HOSTNAME, labelSelector={"matchLabels": {"app": "web", key: "x"}}) for key in _keys(n)
                    ]
                ),
            )
            yield (
                f"{strength} {kind}: selectors that match",
                build(
                    lambda n: [_term(labelSelector={"matchExpressions": _expressions(iter([key]))}) for key in _keys(n)]
                ),
            )
            yield f"{strength} {kind}: namespaces", build(lambda n: [_term(namespaces=_values(n))])
    yield (
        "podAntiAffinity: expressions",
        lambda n: _pod_affinity("podAntiAffinity", [_term(labelSelector={"matchExpressions": _expressions(_keys(n))})]),
    )
    yield (
        "podAntiAffinity: values",
        lambda n: _pod_affinity(
            "podAntiAffinity",
            [_term(labelSelector={"matchExpressions": [{"key": "app", "operator": "NotIn", "values": _values(n)}]})],
        ),
    )
    yield (
        "podAntiAffinity: namespaceSelector",
        lambda n: _pod_affinity(
            "podAntiAffinity", [_term(namespaceSelector={"matchExpressions": _expressions(_keys(n))})]
        ),
    )
    yield (
        "podAntiAffinity: namespaceSelectors",
        lambda n: _pod_affinity(
            "podAntiAffinity",
            [_term(namespaceSelector={"matchExpressions": _expressions(iter([k]))}) for k in _keys(n)],
        ),
    )


def _node_selections() -> Iterator[tuple[str, Callable[[int], JSON]]]:
    yield "nodeSelector", lambda n: _spec(nodeSelector=dict.fromkeys(_keys(n), "x"))
    yield (
        "nodeAffinity: terms",
        lambda n: _node_affinity([{"matchExpressions": _expressions(iter([key]), "Exists")} for key in _keys(n)]),
    )
    yield "nodeAffinity: expressions", lambda n: _node_affinity([{"matchExpressions": _expressions(_keys(n))}])
    yield (
        "nodeAffinity: values",
        lambda n: _node_affinity(
            [{"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [f"n{nth}" for nth in range(n)]}]}]
        ),
    )
    yield (
        "nodeAffinity: fields",
        lambda n: _node_affinity(
            [
                {
                    "matchFields": [
                        {"key": "metadata.name", "operator": "NotIn", "values": [value]} for value in _values(n)
                    ]
                },
            ]
        ),
    )
    yield (
        "nodeAffinity: terms of fields",
        lambda n: _node_affinity(
            [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [f"n{nth}"]}]} for nth in range(n)]
        ),
    )
    yield (
        "nodeAffinity: preferred",
        lambda n: _spec(
            affinity={
                "nodeAffinity": {
                    _PREFERRED: [
                        {"weight": 1, "preference": {"matchExpressions": _expressions(iter([k]))}} for k in _keys(n)
                    ]
                }
            }
        ),
    )
    yield "tolerations", lambda n: _spec(tolerations=[{"key": key, "operator": "Exists"} for key in _keys(n)])
    # An API server refuses two constraints with the same key and whenUnsatisfiable (ValidateSpreadConstraintNotRepeat).
    yield "topologySpreadConstraints: keys", lambda n: _spread(n, "DoNotSchedule")
    yield "topologySpreadConstraints: soft keys", lambda n: _spread(n, "ScheduleAnyway")


def _container_fields() -> Iterator[tuple[str, Callable[[int], JSON]]]:
    small = {"resources": {"requests": {"memory": "1Ki"}, "limits": {"cpu": "1", "memory": "1Gi"}}}

    def many(n: int, **fields: Any) -> list[JSON]:
        return [{"name": f"c{nth}", "image": f"app:{nth}"} | small | fields for nth in range(n)]

    def ports(n: int) -> list[JSON]:
        return [{"containerPort": 80, "hostPort": 1 + nth, "hostIP": f"10.0.{nth % 200}.1"} for nth in range(n)]

    def extended(n: int) -> JSON:
        return {f"example.com/gpu-{nth}": "1" for nth in range(n)}

    yield "containers", lambda n: _containers(many(n))
    yield "initContainers", lambda n: _spec(initContainers=many(n))
    yield "initContainers: sidecars", lambda n: _spec(initContainers=many(n, restartPolicy="Always"))
    yield (
        "initContainers: sidecars with a resource each",
        lambda n: _spec(
            initContainers=[
                {"name": f"c{nth}", "restartPolicy": "Always", "resources": {"requests": {f"example.com/r{nth}": "1"}}}
                for nth in range(n)
            ]
        ),
    )
    yield (
        "initContainers: sidecars and steps with a resource each",
        lambda n: _spec(
            initContainers=[
                {
                    "name": f"c{nth}",
                    "restartPolicy": "Always" if nth % 2 else None,
                    "resources": {"requests": {f"example.com/r{nth}": "1"}},
                }
                for nth in range(n)
            ]
        ),
    )
    yield "ports", lambda n: _containers([{"name": "c", "ports": ports(n)}])
    yield "ports of containers", lambda n: _containers([{"name": "c", "ports": [port]} for port in ports(n)])
    yield (
        "resources: extended",
        lambda n: _containers([{"name": "c", "resources": _requests(extended(n)) | {"limits": extended(n)}}]),
    )
    yield (
        "resources: hugepages",
        lambda n: _containers([{"name": "c", "resources": _requests({f"hugepages-{k}Ki": "1" for k in range(n)})}]),
    )
    yield "overhead", lambda n: _spec(overhead=extended(n))
    yield "resources of the pod", lambda n: _spec(resources=_requests({f"hugepages-{k}Ki": "1" for k in range(n)}))
    yield (
        "restartPolicyRules",
        lambda n: _containers([{"name": "c", "restartPolicyRules": [{"action": "Restart"}] * n}]),
    )
    yield (
        "containerStatuses",
        lambda n: {
            "spec": {"containers": many(n)},
            "status": {
                "containerStatuses": [
                    {"name": f"c{nth}", "resources": small["resources"], "allocatedResources": {"memory": "1Ki"}}
                    for nth in range(n)
                ]
            },
        },
    )
    yield "conditions", lambda n: {"status": {"conditions": [{"type": f"t{k}", "status": "True"} for k in range(n)]}}


def _volumes() -> Iterator[tuple[str, Callable[[int], JSON]]]:
    def volumes(source: Callable[[int], JSON]) -> Callable[[int], JSON]:
        return lambda n: _spec(volumes=[{"name": f"v{nth}"} | source(nth) for nth in range(n)])

    yield "volumes: claims", volumes(lambda nth: {"persistentVolumeClaim": {"claimName": f"claim-{nth}"}})
    yield "volumes: unbound claims", volumes(lambda nth: {"persistentVolumeClaim": {"claimName": f"waiting-{nth}"}})
    yield "volumes: one claim", volumes(lambda _: {"persistentVolumeClaim": {"claimName": "claim-0"}})
    yield "volumes: unknown claims", volumes(lambda nth: {"persistentVolumeClaim": {"claimName": f"unknown-{nth}"}})
    yield "volumes: ephemeral", volumes(lambda _: {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}})
    yield "volumes: disks", volumes(lambda nth: {"gcePersistentDisk": {"pdName": f"disk-{nth}"}})
    yield "volumes: aws", volumes(lambda nth: {"awsElasticBlockStore": {"volumeID": f"vol-{nth}"}})
    yield "volumes: iscsi", volumes(lambda nth: {"iscsi": {"iqn": f"iqn-{nth}"}})
    yield "volumes: empty", volumes(lambda _: {"emptyDir": {}})
    yield "volumes: images", volumes(lambda nth: {"image": {"reference": f"image-{nth}"}})
    yield (
        "volumes: monitors",
        lambda n: _spec(volumes=[{"name": "v", "rbd": {"monitors": _values(n), "image": "i"}}]),
    )


def _metadata() -> Iterator[tuple[str, Callable[[int], JSON]]]:
    def owner(nth: int, name: str = "web") -> JSON:
        return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": f"o{nth}", "controller": nth == 0}

    yield "labels", lambda n: {"metadata": {"labels": {"app": "web"} | dict.fromkeys(_keys(n), "x")}}
    yield "annotations", lambda n: {"metadata": {"annotations": dict.fromkeys(_keys(n), "x")}}
    yield "ownerReferences", lambda n: {"metadata": {"ownerReferences": [owner(nth) for nth in range(n)]}}
    yield "schedulingGates", lambda n: _spec(schedulingGates=[{"name": key} for key in _keys(n)])
    yield "resourceClaims", lambda n: _spec(resourceClaims=[{"name": f"claim-{k}"} for k in range(n)])
    yield "characters of an owner", lambda n: {"metadata": {"ownerReferences": [owner(0, "o" * 100 * n)]}}
    yield "characters of an image", lambda n: _containers([{"name": "c", "image": "i" * 100 * n}])
    yield "characters of an annotation", lambda n: {"metadata": {"annotations": {"example.com/a": "a" * 100 * n}}}
    yield (
        "characters of a claim",
        lambda n: _spec(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c" * 100 * n}}]),
    )
    yield (
        "characters of a disk",
        lambda n: _spec(volumes=[{"name": "v", "gcePersistentDisk": {"pdName": "d" * 100 * n}}]),
    )


FIELDS: dict[str, Callable[[int], JSON]] = dict(
    [*_affinities(), *_node_selections(), *_container_fields(), *_volumes(), *_metadata()]
)
"""Field -> function from the number of its entries to the parts of a pod that hold them."""


def hostile(name: str, field: str, n: int, *, priority: int, **others: Any) -> JSON:
    """A pod with `n` entries in the field; `others`: further fields of its spec."""
    parts = FIELDS[field](n)
    made = pod(name, "100m", priority=priority, labels={"app": "web"}, **{**others, **parts.get("spec", {})})
    return made | {
        "metadata": made["metadata"] | parts.get("metadata", {}),
        "status": made["status"] | parts.get("status", {}),
    }


def pods_that_share_claims(pods: int, claims: int, claim: str, **spec: Any) -> list[JSON]:
    """Pods each of which uses half of the claims `claim`0, `claim`1 …, so that most claims have users of their own."""
    chance = random.Random(1)
    users = [set(chance.sample(range(pods), pods // 2)) for _ in range(claims)]
    return [
        pod(
            f"evil-{one}",
            "1m",
            priority=1,
            volumes=[
                {"name": f"v{nth}", "persistentVolumeClaim": {"claimName": f"{claim}{nth}"}}
                for nth in range(claims)
                if one in users[nth]
            ],
            **spec,
        )
        for one in range(pods)
    ]


def _budgets(n: int, selector: JSON) -> list[JSON]:
    return [budget(f"evil-{nth}", 1, selector=selector) for nth in range(n)]


BUDGETS: dict[str, Callable[[int], list[JSON]]] = {
    "requirements": lambda n: _budgets(1, {"matchExpressions": _expressions(_keys(n), "DoesNotExist")}),
    "requirements of one key": lambda n: _budgets(
        1, {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [value]} for value in _values(n)]}
    ),
    "values": lambda n: _budgets(
        1, {"matchExpressions": [{"key": "app", "operator": "In", "values": [*_values(n), "web"]}]}
    ),
    "budgets of each pod": lambda n: _budgets(n, {"matchLabels": {"app": "web"}}),
    "budgets of other pods": lambda n: _budgets(n, {"matchLabels": {"app": "other"}}),
}
"""Field -> function from the number of its entries to PodDisruptionBudgets of the namespace `default` with them."""
