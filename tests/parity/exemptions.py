"""What of kube-scheduler's verdicts is chance, or no API server can bring about: each exemption is a rule here.

Victims (`exempt_nodes`), on the nodes that the judge lists in `unstableSort`: more than 12 evictable pods with ties of
importance, as Go's sort is unstable. Since v1.37 it also lists nodes whose victims depend on the order of the budgets
(`budgetOrder`), which is that of a Go map: there the victims must be those in the order of the List, as the judge gives
them.

Whole scenarios (`excused_by`), which are compared all the same and excused only where they differ:

- uncanonical: the incoming pod has a pod-level request with a fraction of a binary unit ("512.0Mi") and overhead. Go
  holds that as a big decimal and adds the overhead to the pod itself at each summing; an API server stores "512Mi".
- overflow: an amount above 9*10^16, with which upstream's int64 arithmetic wraps around.
- reserved twice: two volumes name a claim of the pod in their claimRef; upstream takes the first of its index.
- unsettled: the judge saw upstream say something else of these keys in another run; only they, and what follows from
  them (`FOLLOWING`), are excused. Up to v1.35 upstream tries devices in the order in which a Go map has their slices,
  and two runs may agree by chance: upstream/draws asks many times then, and one of the answers must be the engine's.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from tests.parity.reference import quantities
from tests.parity.reference.objects import finished, priority

JSON = dict[str, Any]

_CHOICE: Final = frozenset({"selected", "selectedTies", "postFilter"})
_DRY_RUN: Final = _CHOICE | {"candidates", "nonCandidates", "dryRunError"}
_FILTERED: Final = _DRY_RUN | {"feasible", "cycleError", "scores", "scoreError"}
FOLLOWING: Final[Mapping[str, frozenset[str]]] = {
    "prefilter": _FILTERED | {"prefilterNodes", "filter"},
    "prefilterNodes": _FILTERED | {"filter"},
    "filter": _FILTERED,
    "feasible": frozenset(),
    "cycleError": frozenset(),
    "scores": frozenset(),
    "scoreError": frozenset({"scores"}),
    "eligible": _DRY_RUN,
    "candidates": _DRY_RUN,
    "nonCandidates": _DRY_RUN,
    "dryRunError": _DRY_RUN,
    "selected": _CHOICE,
    "selectedTies": _CHOICE,
    "postFilter": frozenset(),
    "preEnqueue": frozenset(),
}
"""Key of a verdict -> the keys that follow from it."""
_KEY: Final = re.compile(r"(?:(cycle|diagnosis)\b[ :]*)?(?:(\w+)\b)?")
_VOLUME = "PersistentVolume"
_OVERFLOW = 9 * 10**16
_STABLY_SORTED: Final = 12
"""Number of pods up to which Go's sort keeps the order of equal ones."""
_BINARY_FRACTION = re.compile(r"[+-]?\d*\.\d+[KMGTPE]i")


def exempt_nodes(scenario: Mapping[str, Any]) -> frozenset[str]:
    """Nodes on which upstream's choice of victims hangs on Go's unstable sort."""
    expected = scenario["expected"]
    by_budgets = (
        node for node in expected.get("budgetOrder", ()) if len(evictable_pods(scenario, node)) <= _STABLY_SORTED
    )
    return frozenset(expected.get("unstableSort", ())).difference(by_budgets)


def excused_by(scenario: JSON, lines: Sequence[str]) -> str | None:
    """The rule by which all of these differences are exempt, lines as `agreement.compare` gives them.

    Those that begin with "cycle" or "diagnosis" are of what was derived from the verdict; None also without any line.
    """
    if not lines:
        return None
    if rule := undetermined(scenario):
        return rule
    unsettled = [key for key in scenario["expected"].get("unsettled", ()) if key in FOLLOWING]
    return "unsettled" if unsettled and _excused_keys(unsettled).issuperset(map(_key_of, lines)) else None


def _excused_keys(unsettled: Iterable[str]) -> frozenset[str]:
    """The keys, what follows from them, and "" for the end of the cycle, which follows from each."""
    return frozenset({""}).union(*(FOLLOWING[key] | {key} for key in unsettled))


def _key_of(line: str) -> str:
    """The key of a verdict that the line is about; "" if it is about the cycle."""
    match = _KEY.match(line)
    derived, key = match.groups() if match else (None, None)
    return "" if derived and key not in FOLLOWING else key or line


def undetermined(scenario: JSON) -> str | None:
    """The rule by which nothing of the scenario's verdict binds; None: there is none."""
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


def evictable_pods(scenario: Mapping[str, Any], node: str) -> list[JSON]:
    """The running pods of the node that the incoming pod may evict."""
    limit = priority(scenario["pod"])
    pods = (item for item in scenario["cluster"]["items"] if item["kind"] == "Pod")
    on_node = [pod for pod in pods if pod["spec"].get("nodeName") == node]
    return [pod for pod in on_node if priority(pod) < limit and not finished(pod)]
