"""Pods of one template that kube-scheduler schedules one after another, as a Deployment scales up."""

import msgspec

from benchmarks import generate
from benchmarks.bodies import names_body
from benchmarks.generate import JSON, Plan


class HostPriority(msgspec.Struct, rename="pascal"):
    """A node's score in the answer of /prioritize."""

    host: str
    score: int


_SCORES = msgspec.json.Decoder(list[HostPriority])


def arriving(plan: Plan, number: int) -> JSON:
    """Return the pod of this number, which fits everywhere; only name and UID differ from the others."""
    pod = generate.undemanding(plan)
    own = {"name": f"{pod['metadata']['name']}-{number}", "uid": f"{pod['metadata']['uid'][:-6]}{number:06}"}
    return pod | {"metadata": pod["metadata"] | own}


def bound(plan: Plan, number: int, node: str) -> JSON:
    pod = arriving(plan, number)
    return pod | {"spec": pod["spec"] | {"nodeName": node}}


def arriving_body(plan: Plan, number: int, count: int) -> bytes:
    """Body for the pod of this number, with the `count` nodes behind those of the pod before (nextStartNodeIndex)."""
    first = number * count
    names = [generate.node_name(row % plan.nodes) for row in range(first, first + min(count, plan.nodes))]
    return names_body(arriving(plan, number), names)


def best(answer: bytes) -> str:
    """Return the first of the nodes with the highest score."""
    return max(_SCORES.decode(answer), key=lambda one: one.score).host
