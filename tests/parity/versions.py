"""How far the engine agrees with kube-scheduler v1.29 to v1.35, each judged by its own code: `make parity`.

corpus/versions holds the verdicts that differ from v1.36's: a line {"id", "minors", "expected"} or {"id", "minors",
"error"} for those minors; a scenario without a line for a minor is judged there as by v1.36. Run by hand for the first
difference of every scenario:

    python -m tests.parity.versions --minor 33 --category volumes taints --workers 2

Rule: what is exempt is named in `exempt_here` and nowhere else.
"""

import argparse
import dataclasses
import gzip
import json
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import lru_cache
from typing import Any

from extender.cluster.files.manifests import load_cluster
from extender.core.evaluation import evaluate
from extender.core.profile import UPSTREAM, Profile
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.version.features import Features
from tests.builders import typed
from tests.parity.agreement import CATEGORIES, CORPUS, JSON, UNSCORED, compare, load

MINORS = tuple(range(29, 36))
VERDICTS = CORPUS / "versions"
RESOURCE_API_FROM = 34
"""Minor since which the judge has read objects of resource.k8s.io."""
STATUSES_OF_LEFT_OUT_NODES_FROM = 32


@lru_cache(maxsize=1)
def verdicts(category: str) -> dict[tuple[str, int], JSON]:
    """(scenario, minor) -> line, where that minor says otherwise than v1.36."""
    path = VERDICTS / f"{category.removeprefix('wide/')}.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        found = map(json.loads, lines)
        return {(line["id"], minor): line for line in found for minor in line["minors"]}


def scenarios(category: str, minor: int) -> Iterable[JSON]:
    """The scenarios of a category with that minor's own verdict; those that it refuses are left out."""
    for scenario in load(category):
        line = verdicts(category).get((scenario["id"], minor), scenario)
        if "error" not in line:
            yield scenario | {"expected": plain(line["expected"], minor)}


def refused(category: str, minor: int) -> list[JSON]:
    """The scenarios with configurations that the minor refuses, with its `error`."""
    lines = verdicts(category)
    return [one | lines[one["id"], minor] for one in load(category) if "error" in lines.get((one["id"], minor), ())]


def plain(verdict: JSON, minor: int) -> JSON:
    """Leave out the scores of 0, which some minors list and others do not.

    Up to v1.31 a node that a PreFilterResult leaves out has no status of its own; the judge wrote a code for it.
    """
    scores = verdict.get("scores") or {}
    return verdict | {"scores": {node: _without_zeros(of_node) for node, of_node in scores.items()}}


def _without_zeros(score: JSON) -> JSON:
    return score | {"plugins": {name: n for name, n in score["plugins"].items() if n and name != UNSCORED}}


def cluster_of(scenario: JSON, minor: int) -> JSON:
    """The scenario's List as the judge read it."""
    if minor >= RESOURCE_API_FROM:
        return scenario["cluster"]
    items = [item for item in scenario["cluster"]["items"] if not item["apiVersion"].startswith("resource.k8s.io/")]
    return scenario["cluster"] | {"items": items}


def profile_of(scenario: JSON, minor: int, features: Features) -> Profile:
    """The profile of the scenario's pod: of its own configuration, or else the minor's default."""
    absent = {name for name, has in _OPTIONAL.items() if not getattr(features, has)}
    points = {
        one.name: tuple(name for name in getattr(UPSTREAM, one.name) if name not in absent)
        for one in dataclasses.fields(Profile)
        if one.name.endswith("_plugins")
    }
    weights = tuple((name, weight) for name, weight in UPSTREAM.score_weights if name not in absent)
    return replace(UPSTREAM, **points, score_weights=weights)


_OPTIONAL = {"NodeDeclaredFeatures": "node_declared_features", "DynamicResources": "dynamic_resource_allocation"}


def evaluated(scenario: JSON, minor: int) -> JSON:
    features = Features.of(minor)
    snapshot = Snapshot.build(load_cluster(cluster_of(scenario, minor)), features)
    found = evaluate(snapshot, typed(scenario["pod"]), profile_of(scenario, minor, features))
    return plain(found.to_dict(), minor)


def differences(category: str, minor: int, every: int = 1) -> tuple[int, dict[str, list[str]]]:
    """How many scenarios were compared (each `every`th), and what differs: scenario -> lines."""
    compared, wrong = 0, {}
    for scenario in list(scenarios(category, minor))[::every]:
        compared += 1
        if found := _differences(scenario, minor):
            wrong[scenario["id"]] = found
    return compared, wrong


def _differences(scenario: JSON, minor: int) -> list[str]:
    try:
        return compare(scenario, evaluated(scenario, minor))
    except Exception as error:  # a crash of one scenario must not hide the others
        return [f"{type(error).__name__}: {error}"]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.parity.versions", description=__doc__.split("\n")[0])
    parser.add_argument("--minor", type=int, nargs="*", default=MINORS)
    parser.add_argument("--category", nargs="*", default=CATEGORIES)
    parser.add_argument("--every", type=int, default=1, help="compare each Nth scenario only")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--all", action="store_true", help="print every difference, not the first of a scenario")
    options = parser.parse_args(arguments)
    tasks = [(category, minor, options.every) for minor in options.minor for category in options.category]
    total: dict[str, Any] = {}
    with ProcessPoolExecutor(options.workers) as pool:
        for (category, minor, _), (compared, wrong) in zip(tasks, pool.map(differences, *zip(*tasks)), strict=True):
            for name, lines in wrong.items():
                for line in lines if options.all else lines[:1]:
                    print(f"1.{minor} {name}: {line[:400]}", flush=True)
            total[f"1.{minor} {category}"] = f"{compared - len(wrong)} of {compared}"
    for name, agree in total.items():
        print(f"{name}: {agree}")
    sys.exit(any(len(set(agree.split(" of "))) > 1 for agree in total.values()))


if __name__ == "__main__":
    main()
