"""A slow, independent kube-scheduler v1.36: node by node, pod by pod, on raw JSON objects.

It exists so that property tests can hold the engine against it, and as the slow side of benchmarks. It shares no code
with the project: plain Python, nothing imported from `extender`. Obviously right comes before fast.

In scope: all plugins of the default profile but DynamicResources, their PreFilter, Filter and Score; nominated pods,
eligibility, the dry run, the ranking. Not: dynamic resources, in-tree volumes that a CSI driver takes over, and objects
that an API server would not let in.

    cycle = prepare(Cluster.of(cluster), pod)    # PreFilter, and Filter on every node
    candidates, others = dry_run(cycle)          # may be timed alone
"""

from tests.parity.reference.filters import Cycle
from tests.parity.reference.objects import JSON
from tests.parity.reference.preemption import Candidate, dry_run, eligibility
from tests.parity.reference.ranking import best_nodes
from tests.parity.reference.scores import score
from tests.parity.reference.state import Cluster, Pod

VERSION = "1.36"
"""What the engine is asked as, to be compared."""

__all__ = [
    "VERSION",
    "Candidate",
    "Cluster",
    "Cycle",
    "Pod",
    "best_nodes",
    "dry_run",
    "eligibility",
    "evaluate",
    "prepare",
    "score",
]


def prepare(cluster: Cluster, pod: JSON) -> Cycle:
    """One attempt to place the pod, filtered, with the cluster's state worked out."""
    return Cycle.start(cluster, Pod.of(pod))


def evaluate(cluster: JSON, pod: JSON) -> JSON:
    """All verdicts on one pod, in the shape of the corpus' `expected` (tests/parity/corpus/README.md)."""
    cycle = prepare(Cluster.of(cluster), pod)
    feasible = [cycle.cluster.nodes[name] for name, verdict in cycle.verdicts.items() if verdict.fits]
    found, others = dry_run(cycle)
    candidates = {node: candidate.to_dict() for node, candidate in found.items()}
    ties = best_nodes(candidates, [victim.raw for candidate in found.values() for victim in candidate.victims])
    answer: JSON = {
        "filter": {node: verdict.to_dict() for node, verdict in cycle.verdicts.items()},
        "feasible": len(feasible),
        "scores": score(cycle.cluster, cycle.pod, feasible),
        "eligible": list(eligibility(cycle)),
        "candidates": candidates,
        "nonCandidates": {node: verdict.to_dict() for node, verdict in others.items()},
        "selected": ties[0] if ties else None,
        "selectedTies": ties,
    }
    if cycle.rejected:
        answer["prefilter"] = cycle.rejected.to_dict()
    if cycle.allowed is not None:
        answer["prefilterNodes"] = sorted(cycle.allowed)
    return answer
