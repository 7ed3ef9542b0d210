"""What of kube-scheduler's verdicts is chance, or no API server can bring about: each exemption is a rule here.

Victims (`exempt_nodes`), on the nodes that the judge lists in `unstableSort`: more than 12 evictable pods with ties of
importance, as Go's sort is unstable; since v1.37 also nodes whose victims depend on the order of the budgets
(`budgetOrder`), which is that of a Go map.

Whole scenarios (`undetermined`), which are compared all the same and excused only where they differ:

- uncanonical: the incoming pod has a pod-level request with a fraction of a binary unit ("512.0Mi") and overhead. Go
  holds that as a big decimal and adds the overhead to the pod itself at each summing; an API server stores "512Mi".
- overflow: an amount above 9*10^16, with which upstream's int64 arithmetic wraps around.
- reserved twice: two volumes name a claim of the pod in their claimRef; upstream takes the first of its index.
- crash: upstream panicked.
- unsettled: the judge saw upstream say something else in another run. Up to v1.35 it tries devices in the order in
  which a Go map has their slices; upstream/differential asks many times then, as two runs may agree by chance.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from tests.parity.reference import quantities
from tests.parity.reference.objects import finished, priority

JSON = dict[str, Any]

_VOLUME = "PersistentVolume"
_OVERFLOW = 9 * 10**16
_BINARY_FRACTION = re.compile(r"[+-]?\d*\.\d+[KMGTPE]i")


def exempt_nodes(scenario: Mapping[str, Any]) -> frozenset[str]:
    """Nodes on which upstream's choice of victims hangs on Go's unstable sort."""
    return frozenset(scenario["expected"].get("unstableSort", ()))


def undetermined(scenario: JSON) -> str | None:
    """The rule by which the scenario's verdicts do not bind; None: they do."""
    if "crash" in scenario["expected"]:
        return "crash"
    if scenario["expected"].get("unsettled"):
        return "unsettled"
    if _is_uncanonical(scenario["pod"]):
        return "uncanonical"
    if _is_reserved_twice(scenario):
        return "reserved twice"
    return "overflow" if any(_overflows(*amount) for amount in _amounts(scenario)) else None


def _is_uncanonical(pod: JSON) -> bool:
    spec, overhead = (pod["spec"].get("resources") or {}).get("requests") or {}, pod["spec"].get("overhead") or {}
    return any(name in overhead and _BINARY_FRACTION.fullmatch(str(text)) for name, text in spec.items())


def _is_reserved_twice(scenario: JSON) -> bool:
    volumes = scenario["pod"]["spec"].get("volumes") or ()
    claims = {one["persistentVolumeClaim"]["claimName"] for one in volumes if "persistentVolumeClaim" in one}
    namespace = scenario["pod"]["metadata"].get("namespace", "default")
    of_volumes = (one["spec"].get("claimRef") for one in scenario["cluster"]["items"] if one["kind"] == _VOLUME)
    reserved = Counter(one["name"] for one in of_volumes if one and one["namespace"] == namespace)
    return any(reserved[name] > 1 for name in claims)


@cache  # clusters have few different amounts
def _overflows(resource: str, text: str | float) -> bool:
    """Whether the amount is too large, in units, cpu in millicores."""
    return quantities.parse(text) // (10**6 if resource == "cpu" else 10**9) > _OVERFLOW


def _amounts(scenario: JSON) -> Iterator[tuple[str, str | float]]:
    """Resource and text of every amount that pods request and nodes have."""
    for one in (scenario["pod"], *scenario["cluster"]["items"]):
        lists = [one.get("status", {}).get("allocatable")] if one["kind"] == "Node" else []
        if one["kind"] == "Pod":
            spec = one["spec"]
            holders = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ()), spec]
            lists = [spec.get("overhead"), *((holder.get("resources") or {}).get("requests") for holder in holders)]
        for amounts in lists:
            if amounts:
                yield from amounts.items()


def evictable_pods(scenario: JSON, node: str) -> list[JSON]:
    """The running pods of the node that the incoming pod may evict."""
    limit = priority(scenario["pod"])
    pods = (item for item in scenario["cluster"]["items"] if item["kind"] == "Pod")
    on_node = [pod for pod in pods if pod["spec"].get("nodeName") == node]
    return [pod for pod in on_node if priority(pod) < limit and not finished(pod)]
