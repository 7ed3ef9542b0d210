"""Which nodes a pod asks for, by node selector, node affinity and tolerations.

Mirrors `RequiredNodeAffinity` of k8s.io/component-helpers/scheduling/corev1/nodeaffinity and
`FindMatchingUntoleratedTaint` of k8s.io/component-helpers/scheduling/corev1 (v1.36).
"""

from tests.parity.reference.objects import JSON
from tests.parity.reference.selectors import node_matches_terms, tolerates
from tests.parity.reference.state import Node, Pod


def is_wanted_by(pod: Pod, node: Node) -> bool:
    """Node selector and required node affinity."""
    wanted = pod.raw["spec"].get("nodeSelector") or {}
    terms = required_node_terms(pod.raw)
    return all(node.labels.get(key) == value for key, value in wanted.items()) and (
        terms is None or node_matches_terms(node.raw, terms)
    )


def is_closed_to(pod: Pod, node: Node) -> bool:
    """A taint that the pod does not tolerate keeps it off the node."""
    return any(
        taint["effect"] in ("NoSchedule", "NoExecute") and not tolerates(tolerations(pod), taint)
        for taint in node.raw["spec"].get("taints") or ()
    )


def tolerations(pod: Pod) -> list[JSON]:
    return pod.raw["spec"].get("tolerations") or []


def required_node_terms(pod: JSON) -> list[JSON] | None:
    """None: without a required node affinity; an empty list matches no node."""
    required = node_affinity_of(pod).get("requiredDuringSchedulingIgnoredDuringExecution")
    return None if required is None else required.get("nodeSelectorTerms") or []


def node_affinity_of(pod: JSON) -> JSON:
    return (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
