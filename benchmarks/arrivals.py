"""Pods that kube-scheduler is asked to schedule: of one template that scales up, and those that stay pending."""

import msgspec

from benchmarks import generate
from benchmarks.bodies import names_body
from benchmarks.generate import HOSTNAME, JSON, REQUIRED, ZONE, Plan

PENDING, TEMPLATES = 500, 50


class HostPriority(msgspec.Struct, rename="pascal"):
    """A node's score in the answer of /prioritize."""

    host: str
    score: int


_SCORES = msgspec.json.Decoder(list[HostPriority])


def replica_set(plan: Plan) -> JSON:
    """Return the ReplicaSet of the arriving pods that are owned by one."""
    metadata = generate.undemanding(plan)["metadata"]
    return {
        "metadata": {"name": "arriving", "namespace": metadata["namespace"]},
        "spec": {"selector": {"matchLabels": metadata["labels"]}},
    }


def arriving(plan: Plan, number: int, owned: bool = False) -> JSON:
    """Return the pod of this number, which fits everywhere; only name and UID differ from the others.

    `owned`: by the ReplicaSet.
    """
    pod = generate.undemanding(plan)
    own = {"name": f"{pod['metadata']['name']}-{number}", "uid": f"{pod['metadata']['uid'][:-6]}{number:06}"}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "arriving", "controller": True}
    owners = {"ownerReferences": [owner]} if owned else {}
    return pod | {"metadata": pod["metadata"] | own | owners}


def bound(plan: Plan, number: int, node: str, owned: bool = False) -> JSON:
    pod = arriving(plan, number, owned)
    return pod | {"spec": pod["spec"] | {"nodeName": node}}


def arriving_body(plan: Plan, number: int, count: int, owned: bool = False) -> bytes:
    """Body for the pod of this number, with the `count` nodes behind those of the pod before (nextStartNodeIndex)."""
    first = number * count
    names = [generate.node_name(row % plan.nodes) for row in range(first, first + min(count, plan.nodes))]
    return names_body(arriving(plan, number, owned), names)


def best(answer: bytes) -> str:
    """Return the first of the nodes with the highest score."""
    return max(_SCORES.decode(answer), key=lambda one: one.score).host


def pending(plan: Plan) -> list[JSON]:
    """Return pods that fit on few nodes or on none: too large, pinned to a zone, apart from their like, or spread."""
    found = []
    for number in range(PENDING):
        template = number % TEMPLATES
        pod = generate.incoming(plan)
        labels = {"app": f"waiting-{template}"}
        pod["apiVersion"], pod["kind"] = "v1", "Pod"
        pod["metadata"] |= {"name": f"waiting-{template}-{number}", "uid": f"waiting-{number}", "labels": labels}
        spec, selector = pod["spec"], {"matchLabels": labels}
        spec["priority"] = (0, 1000, 50_000)[template % 3]
        spec["containers"][0]["resources"]["requests"] = {"cpu": str(4 + template), "memory": "8Gi"}
        if template % 5 == 1:
            spec["nodeSelector"] = {ZONE: f"zone-{template % 3}"}
        elif template % 5 == 2:
            term = {"labelSelector": selector, "topologyKey": HOSTNAME}
            spec["affinity"] = {"podAntiAffinity": {REQUIRED: [term]}}
        elif template % 5 == 3:
            spread = {"whenUnsatisfiable": "DoNotSchedule", "topologyKey": ZONE, "maxSkew": 1}
            spec["topologySpreadConstraints"] = [spread | {"labelSelector": selector}]
        found.append(pod)
    return found
