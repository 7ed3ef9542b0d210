"""Requests and small clusters for tests of single plugins, which see an object after decoding and defaulting."""

from typing import Any

import msgspec

from extender.admission.cluster import AdmissionCluster
from extender.admission.request import Request
from extender.k8s.kinds import KINDS, ObjectTables, key_of
from extender.k8s.version.features import Features

JSON = dict[str, Any]

WHOLE = {"kind": "PriorityClass", "metadata": {"name": "of-a-whole-cluster"}, "value": 1}
"""Any PriorityClass: a cluster with one is not a hand-written part."""


def cluster(*objects: JSON, minor: int = 37, unreadable: tuple[str, ...] = ()) -> AdmissionCluster:
    """A cluster of the objects, which are in namespace `shop` unless they say otherwise."""
    tables = ObjectTables()
    for one in objects:
        put(tables, one)
    return AdmissionCluster(tables, Features.of(minor), minor, unreadable)


def put(tables: ObjectTables, one: JSON) -> None:
    kind = one["kind"]
    metadata = {"namespace": "shop"} if KINDS[kind].namespaced else {}
    decoded = msgspec.convert({**one, "metadata": {**metadata, **one["metadata"]}}, KINDS[kind].type)
    tables.of(kind)[key_of(kind, decoded)] = decoded


def pod(name: str = "a", *containers: JSON, **spec: Any) -> JSON:
    """A pod; `containers`: their `resources`."""
    listed = [{"name": f"c{number}", "resources": one} for number, one in enumerate(containers or ({},))]
    return {"metadata": {"name": name, "namespace": "shop"}, "spec": {"containers": listed, **spec}}


def claim(name: str = "data", storage: str = "1Gi", **spec: Any) -> JSON:
    return {
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"resources": {"requests": {"storage": storage}}, **spec},
    }


def request(kind: str, one: JSON, among: AdmissionCluster, *, is_state: bool = False) -> Request:
    return Request(kind, one, among, is_state)
