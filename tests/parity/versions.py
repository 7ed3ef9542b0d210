"""How far the engine agrees with kube-scheduler v1.29 to v1.35, each judged by its own code: `make parity`.

corpus/versions holds the verdicts that differ from v1.36's: a line {"id", "minors", "expected"}, or {"id", "minors",
"error"} where those minors refuse the configuration; a scenario without a line is judged as by v1.36. To see the first
difference of every scenario:

    python -m tests.parity.versions --minor 29 33 --category volumes wide/podlevel

Rule: nothing is exempt but by `exemptions`.
"""

import argparse
import gzip
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec

from extender.cluster.files.manifests import load_cluster
from extender.config.scheduler import kube_scheduler_of
from extender.core.evaluation import evaluate
from extender.core.profile import KubeScheduler
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import ConfigError
from tests.builders import typed
from tests.parity.agreement import CATEGORIES, CORPUS, JSON, WIDE_CATEGORIES, compare

MINORS = tuple(range(29, 36))
VERSIONED = (*CATEGORIES, *WIDE_CATEGORIES)
VERDICTS = CORPUS / "versions"
JUDGED_BY = {"wide/quirks": (33,)}
"""Category -> minors that judged it, where these are not all."""
RESOURCE_API_SINCE = 34
"""First minor that the judge showed the objects of resource.k8s.io."""


# --- what they say ----------------------------------------------------------------------------------------------------


def minors_of(category: str) -> tuple[int, ...]:
    return JUDGED_BY.get(category, MINORS)


@lru_cache(maxsize=1)
def verdicts(category: str) -> dict[tuple[str, int], JSON]:
    """(scenario, minor) -> line, where that minor says otherwise than v1.36."""
    lines = map(msgspec.json.decode, _lines(VERDICTS / f"{category.removeprefix('wide/')}.jsonl.gz"))
    return {(line["id"], minor): line for line in lines for minor in line["minors"]}


class _Named(msgspec.Struct):
    id: str


@lru_cache(maxsize=1)
def _corpus(category: str) -> list[tuple[str, bytes]]:
    """(scenario, its line): decoded where it is needed, because that takes longer than all else."""
    decoder = msgspec.json.Decoder(_Named)
    return [(decoder.decode(line).id, line) for line in _lines(CORPUS / f"{category}.jsonl.gz")]


def _lines(path: Path) -> list[bytes]:
    with gzip.open(path) as file:
        return file.read().splitlines()


def scenarios(category: str, minor: int, every: int = 1) -> Iterator[JSON]:
    """The scenarios of a category with that minor's own `expected`, or `error` where it refuses the configuration.

    With `every`, each Nth of those of which the minor says otherwise than v1.36.
    """
    lines, corpus = verdicts(category), _corpus(category)
    if every > 1:
        corpus = [one for one in corpus if (one[0], minor) in lines]
        corpus = corpus[minor % min(every, len(corpus)) :: every]
    for name, line in corpus:
        yield msgspec.json.decode(line) | lines.get((name, minor), {})


def without_zero_scores(verdict: JSON) -> JSON:
    """Leave out the scores of 0, which v1.29 lists of plugins that later minors skip."""
    scores = {
        node: score | {"plugins": {name: value for name, value in score["plugins"].items() if value}}
        for node, score in (verdict.get("scores") or {}).items()
    }
    return verdict | {"scores": scores}


# --- what the engine says ---------------------------------------------------------------------------------------------


def scheduler_of(scenario: JSON, minor: int) -> KubeScheduler:
    """The kube-scheduler of the scenario: of its `config` and feature `gates`, if it has any."""
    gates = scenario.get("gates", {})
    if "config" not in scenario:
        return _unconfigured(minor, tuple(gates.items()))
    return kube_scheduler_of(scenario["config"], version=f"1.{minor}", feature_gates=gates)


@lru_cache
def _unconfigured(minor: int, gates: tuple[tuple[str, bool], ...]) -> KubeScheduler:
    return kube_scheduler_of({}, version=f"1.{minor}", feature_gates=dict(gates))


def cluster_of(scenario: JSON, minor: int) -> JSON:
    """The scenario's List as the judge read it."""
    if minor >= RESOURCE_API_SINCE:
        return scenario["cluster"]
    items = [item for item in scenario["cluster"]["items"] if not item["apiVersion"].startswith("resource.k8s.io/")]
    return scenario["cluster"] | {"items": items}


def evaluated(scenario: JSON, minor: int) -> JSON:
    """What the engine says of the scenario as a kube-scheduler of that minor."""
    scheduler, pod = scheduler_of(scenario, minor), typed(scenario["pod"])
    profile = scheduler.profile_of(pod)
    assert profile is not None
    snapshot = Snapshot.build(load_cluster(cluster_of(scenario, minor)), scheduler.features)
    return evaluate(snapshot, pod, profile).to_dict()


# --- how they differ --------------------------------------------------------------------------------------------------


def differences(scenario: JSON, minor: int) -> list[str]:
    """What the engine says otherwise than that minor, a readable line each."""
    if "error" in scenario:
        return _accepted(scenario, minor)
    try:
        expected = without_zero_scores(scenario["expected"])
        return compare(scenario | {"expected": expected}, without_zero_scores(evaluated(scenario, minor)))
    except Exception as error:  # a crash in one scenario must not hide the others
        return [f"{type(error).__name__}: {error}"]


def _accepted(scenario: JSON, minor: int) -> list[str]:
    try:
        scheduler_of(scenario, minor)
    except ConfigError:
        return []
    return [f"the configuration is accepted, but kube-scheduler says: {scenario['error']}"]


@dataclass(frozen=True, slots=True)
class VersionAgreement:
    """Of one category with one minor."""

    category: str
    minor: int
    scenarios: int
    wrong: dict[str, list[str]]
    """Scenario -> what differs."""

    def __str__(self) -> str:
        return f"{self.scenarios - len(self.wrong)} of {self.scenarios}"


def agreement(category: str, minor: int) -> VersionAgreement:
    every = list(scenarios(category, minor))
    found = {one["id"]: differences(one, minor) for one in every}
    return VersionAgreement(category, minor, len(every), {name: lines for name, lines in found.items() if lines})


def row(found: Sequence[VersionAgreement]) -> str:
    """A row of the table in docs/parity.md: of one category with all minors that judged it."""
    cells = {one.minor: str(one) for one in found}
    return f"| {' | '.join((found[0].category, *(cells.get(minor, '') for minor in MINORS)))} |\n"


HEADER = f"| category | {' | '.join(f'1.{minor}' for minor in MINORS)} |\n|{'---|' * (len(MINORS) + 1)}\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the first difference of every scenario, and the table; the exit code is 1 if something disagrees."""
    parser = argparse.ArgumentParser(prog="python -m tests.parity.versions", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minor", type=int, nargs="*", default=MINORS, choices=MINORS)
    parser.add_argument("--category", nargs="*", default=VERSIONED, choices=VERSIONED)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args(arguments)
    tasks = [
        (category, minor) for category in options.category for minor in minors_of(category) if minor in options.minor
    ]
    with ProcessPoolExecutor(options.workers) as pool:
        found = list(pool.map(agreement, *zip(*tasks, strict=True), chunksize=len(options.minor)))
    for one in found:
        for name, lines in one.wrong.items():
            print(f"1.{one.minor} {name}: {lines[0][:500]}")  # noqa: T201 - the output of a command
    for one in found:
        print(f"1.{one.minor} {one.category}: {one}")  # noqa: T201
    sys.exit(any(one.wrong for one in found))


if __name__ == "__main__":
    main()
