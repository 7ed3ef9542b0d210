"""What is mutated: calls of a real kube-scheduler, and the cluster that most of them are about."""

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

from extender.k8s.kinds import ClusterObjects
from tests.builders import stored_cluster

RECORDINGS = Path(__file__).parents[2] / "contract" / "recordings"

SCENARIO = "preempt-rich-preemptor"
"""Twelve nodes, a pod with nearly everything that a pod may have."""

LONGEST = 40_000
"""Bytes."""

_ALSO = ("fit-pod-level-resources", "fit-rich", "fit-volume", "preempt-rich-victims", "preempt-pdb-budget-left")
_KINDS = {"nodes": "Node", "pods": "Pod", "poddisruptionbudgets": "PodDisruptionBudget", "namespaces": "Namespace"}


@cache
def corpus(verb: str) -> tuple[bytes, ...]:
    """Bodies of a verb, with names and with whole nodes, the shortest first; the longest differ in their nodes only."""
    found = []
    for folder in sorted(RECORDINGS.glob("nodeCacheCapable-*")):
        entries = json.loads((folder / "index.json").read_bytes())
        calls = [name for entry in entries if entry["scenario"] in (SCENARIO, *_ALSO) for name in entry["calls"]]
        found += [_read(folder / f"{name}.request.json") for name in calls if name.endswith(f"-{verb}")]
    return tuple(sorted({body for body in found if len(body) < LONGEST}, key=lambda body: (len(body), body)))


@cache
def cluster() -> ClusterObjects:
    """The objects of the scenario."""
    whole = json.loads(_read(RECORDINGS / "nodeCacheCapable-true" / "cluster" / f"{SCENARIO}.json"))
    items = [{**one, "kind": kind} for key, kind in _KINDS.items() for one in whole.get(key, ())]
    return stored_cluster({"kind": "List", "items": items})


def _read(path: Path) -> bytes:
    """A recorded file; larger ones are gzipped."""
    return path.read_bytes() if path.exists() else gzip.decompress(path.with_name(path.name + ".gz").read_bytes())


@cache
def questions() -> tuple[bytes, ...]:
    """Bodies for POST /simulate: every key of it, and a `preemption` section with something of everything."""
    pods = [json.loads(body)["Pod"] for body in (corpus("filter")[0], corpus("preempt")[0])]
    rules = {
        "disruptionBudgets": "Strict",
        "ranking": ["PDBViolations", "VictimCount"],
        "protections": {
            "rules": [{"name": "databases", "selector": {"matchLabels": {"tier": "database"}}, "minRuntime": "5m"}]
        },
        "limits": {"maxVictims": 3},
    }
    asked: list[dict[str, Any]] = [
        {"pod": pods[0]},
        {"pods": pods, "seed": 7},
        {"pod": pods[1], "preset": "careful"},
        {"pod": pods[1], "preset": "careful", "preemption": rules},
        {"pod": pods[1], "compare": ["upstream", "careful"]},
        {"pending": True, "preemption": rules},
        *scenarios(pods[0]),
    ]
    return tuple(json.dumps(one).encode() for one in asked)


def scenarios(pod: dict[str, Any]) -> list[dict[str, Any]]:
    """Scenarios with every key, on nodes of the cluster."""
    names = sorted(one.metadata.name for one in cluster().nodes)
    node = {"metadata": {"name": "new", "labels": {"zone": "a"}}, "status": {"allocatable": {"cpu": "4", "pods": "9"}}}
    labels = {"app": "web"}
    claim = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    template = {"metadata": {"labels": labels}, "spec": pod["spec"]}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    workloads = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec},
        {"kind": "StatefulSet", "metadata": {"name": "db"}, "spec": {**spec, "volumeClaimTemplates": [claim]}},
        {"kind": "Job", "metadata": {"name": "job"}, "spec": {"parallelism": 2, "template": template}},
    ]
    return [
        {
            "drain": names[:2],
            "removeNodes": names[2:3],
            "cordon": names[3:4],
            "addNodes": [{"node": node, "count": 2}],
            "workloads": workloads,
            "pending": True,
        },
        {"pod": pod, "untilFull": True, "replaceEvicted": False},
        {"workloads": workloads[1:2], "untilFull": True},
        {"pods": [pod], "workloads": workloads[:1], "gang": True},
    ]
