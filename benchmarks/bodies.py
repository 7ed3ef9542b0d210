"""Request bodies as kube-scheduler sends them: Go's field names, `null` for the unused form."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.generate import JSON
from extender.core.engine import Candidate


def names_body(pod: JSON, names: Sequence[str]) -> bytes:
    """ExtenderArgs with node names (nodeCacheCapable: true)."""
    return compact({"Pod": pod, "Nodes": None, "NodeNames": names})


def nodes_body(pod: JSON, nodes: Iterable[JSON]) -> bytes:
    """ExtenderArgs with whole nodes (nodeCacheCapable: false)."""
    return compact({"Pod": pod, "Nodes": {"metadata": {}, "items": list(nodes)}, "NodeNames": None})


def victims_body(pod: JSON, candidates: Iterable[Candidate]) -> bytes:
    """ExtenderPreemptionArgs with the UIDs of the victims."""
    victims = {
        candidate.node: {
            "Pods": [{"UID": pod.metadata.uid} for pod in candidate.victims],
            "NumPDBViolations": candidate.num_pdb_violations,
        }
        for candidate in candidates
    }
    return compact({"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": victims})


def compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
