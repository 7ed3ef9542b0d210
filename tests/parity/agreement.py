"""Does an answer agree with kube-scheduler's? The one place that says what is compared; `exemptions` says what is not.

On some nodes only *which* pods are the victims is exempt, and how many budgets they break: that such a node is a
candidate must still be found, and the victims must be sound: distinct pods of the node, all of lower priority.
"""

import gzip
import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any, TypedDict

import msgspec

from tests.parity.exemptions import evictable_pods, excused_by, exempt_nodes
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
"""The files of the corpus that need no configuration."""
WIDE_CATEGORIES = (
    "wide/podlevel",
    "wide/volumes2",
    "wide/owners",
    "wide/devices",
    "wide/dra",
    "wide/features",
    "wide/config",
    "wide/everything",
    "wide/quirks",
    "wide/framework",
)
"""The files in wide/, whose scenarios may have a `config`, a KubeSchedulerConfiguration."""
OWN_CATEGORIES = ("own/configurations", "own/dra")
"""Scenarios of all categories under those of `generate.configurations`, and those of `generate.own_devices`."""
EVERY_CATEGORY = (*CATEGORIES, *WIDE_CATEGORIES, *OWN_CATEGORIES)
"""The files whose `expected` is v1.36's."""
CATEGORIES_OF_1_37 = (
    "v1.37/resize",
    "v1.37/unstarted",
    "v1.37/budgets37",
    "v1.37/gated",
    "v1.37/namespaces",
    "v1.37/taintrules",
    "v1.37/capacity",
    "v1.37/constraints",
    "v1.37/counters",
    "v1.37/extended",
    "v1.37/imagevols",
    "v1.37/declared",
    "v1.37/volumes37",
    "v1.37/config37",
    "v1.37/quirks37",
)
"""The files in v1.37/, whose `expected` is v1.37's; a scenario may have an `error` instead."""
WHOLE = ("prefilter", "prefilterNodes", "feasible", "eligible", "preEnqueue", "cycleError", "scoreError", "dryRunError")
"""Keys of which the values are compared as they are."""
COMPARED = (*WHOLE, "filter", "scores", "candidates", "nonCandidates", "selected", "selectedTies")
NEVER_SKIPPED = "DynamicResources"
"""Without a PreScore of its own, it is among upstream's scores of every pod, with 0 where it has nothing to say."""


class Verdicts(TypedDict):
    """A scenario without its cluster and pod, which take longer to decode than all else."""

    id: str
    expected: JSON


_VERDICTS = msgspec.json.Decoder(Verdicts)


def lines_of(path: Path) -> list[bytes]:
    with gzip.open(path) as file:
        return file.read().splitlines()


def load(category: str, nth: int = 1, count: int | None = None) -> list[JSON]:
    """Every nth scenario of one file of the corpus, in its order; with `count`, no more than that many."""
    lines = lines_of(CORPUS / f"{category}.jsonl.gz")[::nth]
    return [msgspec.json.decode(line) for line in lines[:count]]


def load_verdicts(category: str) -> list[Verdicts]:
    """Every scenario of one file, for tests that read only what kube-scheduler said."""
    return [_VERDICTS.decode(line) for line in lines_of(CORPUS / f"{category}.jsonl.gz")]


def compare(scenario: JSON, got: JSON, keys: Collection[str] = COMPARED, *, excuse: bool = True) -> list[str]:
    """What differs between the scenario's `expected` and `got`, a readable line each; empty if they agree.

    `got` has the shape of `expected`; a key absent on one side counts as different, except that those of `WHOLE` are
    absent on both sides where they do not apply. `keys` narrows what is compared. `excuse`: nothing differs where a
    rule exempts all that does.
    """
    expected = scenario["expected"]
    if got.get("cycleError") in errors_of_nodes(expected):  # filtered in parallel: the first is chance
        expected = expected | {"cycleError": got["cycleError"]}
    if got.get("dryRunError") in errors_of_the_dry_run(expected):
        expected = expected | {"dryRunError": got["dryRunError"]}
    found = [
        _line(key, expected.get(key), got.get(key))
        for key in WHOLE
        if key in keys and expected.get(key) != got.get(key)
    ]
    if "filter" in keys:
        found += _per_node("filter", expected["filter"], got.get("filter"))
    if "scores" in keys:
        found += _per_node("scores", _scores(expected["scores"]) or {}, _scores(got.get("scores")))
    if "nonCandidates" in keys:
        found += _per_node("nonCandidates", expected["nonCandidates"], got.get("nonCandidates"))
    if "candidates" in keys:
        found += _candidates(scenario, expected["candidates"], got.get("candidates"))
    if "selected" in keys or "selectedTies" in keys:
        found += _selection(scenario, got, keys)
    return [] if excuse and excused_by(scenario, found) else found


def errors_of_nodes(expected: JSON) -> set[str]:
    return {", ".join(of["reasons"]) for of in expected["filter"].values() if of["code"] == "Error"}


def errors_of_the_dry_run(expected: JSON) -> set[str]:
    """Which of them upstream comes to is chance; the judge, which tries all nodes, lists those that differ."""
    text: str = expected.get("dryRunError", "")
    listed = text.startswith("[") and text.endswith("]")
    return set(re.split(r", (?=running \")", text[1:-1])) if listed else {text}


def _candidates(scenario: JSON, expected: JSON, found: JSON | None) -> list[str]:
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
    evictable = {pod["metadata"]["uid"] for pod in evictable_pods(scenario, node)}
    return bool(victims) and len(victims) == len(set(victims)) and evictable.issuperset(victims)


def _selection(scenario: JSON, got: JSON, keys: Collection[str]) -> list[str]:
    """Compare the selected nodes; if exempt candidates differ, judge the ranking on either set of candidates instead.

    Both the reference's ranking of the expected candidates and the given selection must then be right for their
    own candidates.
    """
    expected, candidates = scenario["expected"], got.get("candidates")
    exempt = exempt_nodes(scenario)
    if candidates is None or any(candidates.get(node) != expected["candidates"].get(node) for node in exempt):
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
        node: of_node
        | {"plugins": {name: value for name, value in of_node["plugins"].items() if value or name != NEVER_SKIPPED}}
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
