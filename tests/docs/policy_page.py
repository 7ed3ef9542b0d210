"""Parse docs/policies.md, and turn its examples into requests to the real service.

An example is a fenced YAML block with `nodes`. The page itself explains the abbreviations (POD); everything else in it
is spelled as in Kubernetes or in the configuration file.

Rule: an unknown key is an error, so that the page contains nothing that is not tested.
"""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import yaml

from extender.cluster.cache.cache import ClusterCache
from extender.cluster.cache.eviction_history import EvictionLog
from extender.cluster.files.manifests import load_cluster
from extender.config import Configuration
from extender.core import engine
from extender.core.profile import Profile
from extender.server.app import create_app
from tests.builders import JSON, built, candidates_sent_by_kube_scheduler, cluster, node, placed, pod, typed
from tests.server.conftest import client_for

PATH = Path(__file__).parents[2] / "docs" / "policies.md"
PAGE = PATH.read_text(encoding="utf-8")

NOW = datetime(2026, 1, 2, 12, tzinfo=UTC)
"""Time of all examples."""

EXAMPLE = {
    "nodes", "pods", "objects", "sent", "approved", "evicted", "attempts", "pod", "configuration",
    "kube-scheduler", "answer", "because", "log",
}  # fmt: skip

POD = (
    "name", "node", "nominated", "cpu", "priority", "namespace", "labels", "annotations", "owner", "class", "started",
    "created", "ready", "qos", "grace", "nodeSelector",
)  # fmt: skip
"""Keys of a pod, in the order of the page's table."""

HISTORY = ("name", "namespace", "owner", "ago")
"""Keys of a pod that was evicted earlier."""


# --- the page -------------------------------------------------------------------------------------------------------


def blocks() -> Iterator[tuple[str, Any]]:
    """Yield (heading above it, its value) for each fenced YAML block, in order."""
    heading = ""
    for match in re.finditer(r"^##+ (?P<heading>.+)$|^ *```yaml\n(?P<block>(?:.*\n)*?) *```$", PAGE, re.MULTILINE):
        if match["heading"]:
            heading = match["heading"].strip("`")
        else:
            yield heading, yaml.load(textwrap.dedent(match["block"]), _Loader)


class _Loader(yaml.SafeLoader):
    """Keeps timestamps as strings."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in known if tag != "tag:yaml.org,2002:timestamp"]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def examples() -> Iterator[tuple[str, JSON]]:
    """Yield (heading and number below it, example)."""
    numbers: dict[str, int] = {}
    for heading, block in blocks():
        if isinstance(block, dict) and "nodes" in block:
            numbers[heading] = numbers.get(heading, 0) + 1
            yield f"{heading} {numbers[heading]}", block


def table_below(heading: str) -> list[list[str]]:
    """Return the cells of the first table below a heading, without its header."""
    section = re.split(r"^##+ ", PAGE.partition(f" {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    table = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)
    assert table is not None, f"no table below {heading!r}"
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in table[0].splitlines()[2:]]


# --- an example -----------------------------------------------------------------------------------------------------


def pod_of(short: Mapping[str, Any], *, is_pending: bool = False) -> JSON:
    """Build a pod from its abbreviation; `is_pending`: it has no node."""
    unknown = short.keys() - set(POD)
    assert not unknown, f"no such key of a pod: {unknown}"
    metadata: JSON = {key: short[key] for key in ("annotations",) if key in short}
    if "created" in short:
        metadata["creationTimestamp"] = short["created"]
    if "owner" in short:
        kind, name = short["owner"].split("/")
        metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": kind, "name": name, "controller": True}]
    status: JSON = {"conditions": [{"type": "Ready", "status": str(short.get("ready", True))}]}
    if "qos" in short:
        status["qosClass"] = short["qos"]
    is_pending = is_pending or "node" not in short
    spec: JSON = {"priorityClassName": short["class"]} if "class" in short else {}
    if "nodeSelector" in short:
        spec["nodeSelector"] = short["nodeSelector"]
    if "grace" in short:
        spec["terminationGracePeriodSeconds"] = short["grace"]
    made = pod(
        short["name"],
        str(short["cpu"]),
        priority=short.get("priority", 0),
        namespace=short.get("namespace", "default"),
        labels=short.get("labels", {}),
        metadata=metadata,
        status={"nominatedNodeName": short.get("nominated", "")} if is_pending else status,
        phase="Pending" if is_pending else "Running",
        start=None if is_pending else short.get("started", "2026-01-01T00:00:00Z"),
        **spec,
    )
    return made if is_pending else placed(made, short["node"])


def cluster_of(example: JSON) -> JSON:
    """Build the List of the example's cluster."""
    nodes = {node(name, cpu=str(given["cpu"])): () for name, given in example["nodes"].items()}
    return cluster(nodes, others=[*map(pod_of, example.get("pods", ())), *example.get("objects", ())])


def sent_candidates_of(example: JSON) -> JSON:
    """Return the candidates that kube-scheduler sends: those of its dry run, on all nodes or on those in `sent`."""
    return kube_scheduler(example, None, example.get("sent", list(example["nodes"])))


def kube_scheduler(example: JSON, keep: int | None, nodes: list[str]) -> JSON:
    """Return node -> names of the victims, for the best `keep` of these nodes, by the unconfigured engine."""
    snapshot, preemptor = built(cluster_of(example)), typed(pod_of(example["pod"], is_pending=True))
    sent = candidates_sent_by_kube_scheduler(snapshot, preemptor, nodes)
    decision = engine.preempt(snapshot, preemptor, sent, Profile(keep_candidates=keep))
    return {one.node: [victim.metadata.name for victim in one.victims] for one in decision.kept}


def served(example: JSON) -> httpx.AsyncClient:
    """Return a client of the service, configured as in the example, with the example's earlier evictions."""
    cache = ClusterCache()
    cache.replace(load_cluster(cluster_of(example)))
    app = create_app(cache, Configuration.model_validate(example["configuration"]))
    app.server_context = replace(app.server_context, eviction_log=history_of(example))
    for name in example.get("approved", ()):
        (victim,) = (one for one in cache.snapshot().objects.pods.values() if one.metadata.name == name)
        other = typed(pod("another-preemptor", None, start=None, phase="Pending"))
        cache.assumed.assume_preempted(other, victim.spec.node_name, [victim])
    return client_for(app)


def history_of(example: JSON) -> EvictionLog:
    """Return the earlier evictions: `evicted` by other preemptors, `attempts` by the pod itself."""
    other, own = typed(pod("another-preemptor")), typed(pod_of(example["pod"], is_pending=True))
    past = [(seconds(one["ago"]), other, victim_of(one)) for one in example.get("evicted", ())]
    past += [(seconds(ago), own, typed(pod("earlier-victim"))) for ago in example.get("attempts", ())]
    elapsed = 0
    eviction_log = EvictionLog(lambda: elapsed, lambda: round(NOW.timestamp()) * 10**9)
    for ago, preemptor, victim in sorted(past, key=lambda one: -one[0]):
        elapsed = -ago * 10**9
        eviction_log.record(preemptor, [victim])
    elapsed = 0
    return eviction_log


def victim_of(short: JSON) -> Any:
    unknown = short.keys() - set(HISTORY)
    assert not unknown, f"no such key of an evicted pod: {unknown}"
    about = {key: value for key, value in short.items() if key != "ago"}
    return typed(pod_of(about | {"cpu": 0, "node": "n1"}))


def seconds(text: str) -> int:
    amount, unit = int(text[:-1]), text[-1]
    return amount * {"s": 1, "m": 60}[unit]


def body_of(example: JSON) -> bytes:
    """Return the body of kube-scheduler's request."""
    sent = sent_candidates_of(example).items()
    meta = {name: {"Pods": [{"UID": f"uid-{one}"} for one in victims]} for name, victims in sent}
    return json.dumps({"Pod": pod_of(example["pod"], is_pending=True), "NodeNameToMetaVictims": meta}).encode()


def named(answer: httpx.Response) -> JSON:
    """Return node -> names of the victims."""
    nodes = answer.json()["NodeNameToMetaVictims"].items()
    return {name: [one["UID"].removeprefix("uid-") for one in victims["Pods"]] for name, victims in nodes}
