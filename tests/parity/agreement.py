"""Does an answer agree with kube-scheduler's? The one place that says what is compared, and what is exempt.

Exempt is, on two kinds of nodes, only *which* pods are the victims and how many budgets they break:

- `unstableSort`: more than 12 evictable pods with ties of importance, which Go's unstable sort shuffles;
- `orderSensitive` nodes with two evictable pods of equal priority that both lack a start time: upstream takes the clock
  for it, anew at each comparison, so that the answer depends on which of the two is asked first.

That such a node is a candidate must still be found, and the victims must be sound: distinct pods of the node,
all of lower priority.
"""

import gzip
import json
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any

from tests.parity.reference.objects import finished, priority, status
from tests.parity.reference.ranking import best_nodes

JSON = dict[str, Any]

CORPUS = Path(__file__).parent / "corpus"
CATEGORIES = (
    "resources",
    "pdb",
    "priorities",
    "taints",
    "affinity",
    "ports",
    "nominated",
    "eligibility",
    "images",
    "interpod",
    "spread",
    "volumes",
    "mixed",
    "quirks",
)
"""The files of the corpus."""
COMPARED = (
    "prefilter",
    "prefilterNodes",
    "filter",
    "feasible",
    "scores",
    "eligible",
    "candidates",
    "nonCandidates",
    "selected",
    "selectedTies",
)
UNSCORED = "DynamicResources"
"""In upstream's scores with 0 everywhere; nobody else answers it."""


def load(category: str) -> list[JSON]:
    """The scenarios of one file of the corpus, in its order."""
    with gzip.open(CORPUS / f"{category}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def compare(scenario: JSON, got: JSON, keys: Collection[str] = COMPARED) -> list[str]:
    """What differs between the scenario's `expected` and `got`, a readable line each; empty if they agree.

    `got` has the shape of `expected`; a key absent on one side counts as different, except that `prefilter` and
    `prefilterNodes` are absent on both sides where they do not apply. `keys` narrows what is compared.
    """
    expected = scenario["expected"]
    found = []
    for key in ("prefilter", "prefilterNodes", "feasible", "eligible"):
        if key in keys and expected.get(key) != got.get(key):
            found.append(_line(key, expected.get(key), got.get(key)))
    if "filter" in keys:
        found += _per_node("filter", expected["filter"], got.get("filter"))
    if "scores" in keys:
        found += _per_node("scores", _scores(expected["scores"]) or {}, _scores(got.get("scores")))
    if "nonCandidates" in keys:
        found += _per_node("nonCandidates", expected["nonCandidates"], got.get("nonCandidates"))
    if "candidates" in keys:
        found += _candidates(scenario, got)
    if "selected" in keys or "selectedTies" in keys:
        found += _selection(scenario, got, keys)
    return found


def exempt_nodes(scenario: JSON) -> frozenset[str]:
    """Nodes on which upstream's choice of victims hangs on Go's unstable sort or on its clock."""
    expected = scenario["expected"]
    sensitive = expected.get("orderSensitive", ())
    return frozenset(expected.get("unstableSort", ())) | {node for node in sensitive if _clock_decides(scenario, node)}


def _clock_decides(scenario: JSON, node: str) -> bool:
    not_started = Counter(priority(pod) for pod in _evictable(scenario, node) if not status(pod).get("startTime"))
    return any(count > 1 for count in not_started.values())


def _candidates(scenario: JSON, got: JSON) -> list[str]:
    expected, found = scenario["expected"]["candidates"], got.get("candidates")
    if found is None:
        return ["candidates: none given"]
    exempt = exempt_nodes(scenario) & expected.keys() & found.keys()
    unsound = [
        f"candidates[{node}]: not distinct pods of the node with lower priority: {json.dumps(found[node])}"
        for node in sorted(exempt)
        if not _is_sound(scenario, node, found[node])
    ]
    return unsound + _per_node("candidates", _without(expected, exempt), _without(found, exempt))


def _is_sound(scenario: JSON, node: str, candidate: JSON) -> bool:
    victims = candidate["victims"]
    evictable = {pod["metadata"]["uid"] for pod in _evictable(scenario, node)}
    return bool(victims) and len(victims) == len(set(victims)) and evictable.issuperset(victims)


def _selection(scenario: JSON, got: JSON, keys: Collection[str]) -> list[str]:
    """Compare the selected nodes; if exempt victims differ, judge the ranking on either set of candidates instead.

    Both the reference's ranking of the expected candidates and the given selection must then be right for their
    own candidates.
    """
    expected, candidates = scenario["expected"], got.get("candidates")
    if candidates is None or any(
        candidates[node] != expected["candidates"][node]
        for node in exempt_nodes(scenario) & candidates.keys() & expected["candidates"].keys()
    ):
        found = []
        ranked = best_nodes(expected["candidates"], _pods(scenario))
        if ranked != expected["selectedTies"]:
            found.append(_line("selectedTies of the expected candidates", expected["selectedTies"], ranked))
        if candidates is None or not all(_is_sound(scenario, *entry) for entry in candidates.items()):
            return found
        ties = best_nodes(candidates, _pods(scenario))
    else:
        found, ties = [], expected["selectedTies"]
    right = {"selectedTies": ties, "selected": ties[0] if ties else None}
    missing = object()
    return found + [
        _line(key, right[key], got.get(key)) for key in right if key in keys and got.get(key, missing) != right[key]
    ]


def _scores(scores: JSON | None) -> JSON | None:
    if scores is None:
        return None
    return {
        node: {**of_node, "plugins": {name: value for name, value in of_node["plugins"].items() if name != UNSCORED}}
        for node, of_node in scores.items()
    }


def _per_node(key: str, expected: JSON, got: JSON | None) -> list[str]:
    if got is None:
        return [f"{key}: none given"]
    return [
        _line(f"{key}[{node}]", expected.get(node), got.get(node))
        for node in sorted(expected.keys() | got.keys())
        if expected.get(node) != got.get(node)
    ]


def _line(what: str, expected: object, got: object) -> str:
    return f"{what}: expected {json.dumps(expected)}, got {json.dumps(got, default=str)}"


def _without(nodes: JSON, exempt: Collection[str]) -> JSON:
    return {node: value for node, value in nodes.items() if node not in exempt}


def _pods(scenario: JSON) -> list[JSON]:
    return [item for item in scenario["cluster"]["items"] if item["kind"] == "Pod"]


def _evictable(scenario: JSON, node: str) -> list[JSON]:
    limit = priority(scenario["pod"])
    on_node = [pod for pod in _pods(scenario) if pod["spec"].get("nodeName") == node]
    return [pod for pod in on_node if priority(pod) < limit and not finished(pod)]
