"""How far the engine agrees with kube-scheduler of the minors beside v1.36, each judged by its own code: `make parity`.

corpus/versions holds the verdicts that differ from the scenario's own, which is v1.36's or, in v1.37/, that minor's: a
line {"id", "minors", "expected"}, or {"id", "minors", "error"} where those minors refuse the configuration; a scenario
without a line is judged as it says itself. To see the first difference of every scenario:

    python -m tests.parity.versions --minor 29 33 --category volumes wide/podlevel

Rule: nothing is exempt but by `exemptions`.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from extender import Snapshot
from extender.config.scheduler.load import kube_scheduler_of
from extender.core.profile import KubeScheduler
from extender.errors import ConfigError
from extender.k8s.kinds import ClusterObjects
from extender.k8s.version.features import Features
from extender.k8s.version.versions import Version
from tests.builders import stored_cluster
from tests.parity.agreement import CATEGORIES_OF_1_37, CORPUS, EVERY_CATEGORY, JSON, lines_of
from tests.parity.judged import BASE_MINOR, base_minor, patches, shown
from tests.parity.parity import PAGE, Evaluated, Normal

_PATCHES = patches()
VERSIONED = (*(one for one in EVERY_CATEGORY if len(_PATCHES[one]) > 1), *CATEGORIES_OF_1_37)
"""Categories that other minors than v1.36 judged."""
MINORS = tuple(sorted({minor for category in VERSIONED for minor in _PATCHES[category]} - {BASE_MINOR}))
VERDICTS = CORPUS / "versions"
TAINT_RULES: Final = {34: "v1alpha3", 35: "v1alpha3", 36: "v1beta2", 37: "v1"}
"""Minor -> version of resource.k8s.io in which it has DeviceTaintRule, with the same fields in all; later ones as 37.

Minors before are not shown the objects of resource.k8s.io."""


# --- what they say ----------------------------------------------------------------------------------------------------


def minors_of(category: str) -> tuple[int, ...]:
    return tuple(minor for minor in MINORS if minor in _PATCHES[category])


def verdicts_file(category: str, corpus: Path = CORPUS) -> Path:
    """The file of what other minors say of the category; quirks and wide/quirks share one."""
    return corpus / "versions" / f"{category.rpartition('/')[2]}.jsonl.gz"


@lru_cache(maxsize=1)
def verdicts(category: str) -> dict[tuple[str, int], JSON]:
    """(scenario, minor) -> line, where that minor says otherwise than the scenario."""
    path = verdicts_file(category)
    lines = map(msgspec.json.decode, lines_of(path) if path.exists() else ())
    return {(line["id"], minor): line for line in lines for minor in line["minors"]}


class _Named(msgspec.Struct):
    id: str


@lru_cache(maxsize=1)
def _corpus(category: str) -> list[tuple[str, bytes]]:
    """(scenario, its line): decoded where it is needed, because that takes longer than all else."""
    decoder = msgspec.json.Decoder(_Named)
    return [(decoder.decode(line).id, line) for line in lines_of(CORPUS / f"{category}.jsonl.gz")]


def names_of(category: str, minor: int = 0, every: int = 1) -> list[str]:
    """The scenarios of a category; with `every`, each Nth of those of which the minor has a verdict of its own."""
    names = [name for name, _ in _corpus(category)]
    if every > 1:
        lines = verdicts(category)
        names = [name for name in names if minor == base_minor(category) or (name, minor) in lines]
        names = names[minor % min(every, len(names)) :: every]
    return names


def without_zero_scores(verdict: JSON) -> JSON:
    """Leave out the scores of 0, which v1.29 lists of plugins that later minors skip."""
    scores = {
        node: score | {"plugins": {name: value for name, value in score["plugins"].items() if value}}
        for node, score in (verdict.get("scores") or {}).items()
    }
    return verdict | {"scores": scores}


def normal_of(minor: int) -> Normal:
    """What is applied to a verdict of the minor before it is compared."""
    return without_zero_scores if minor == 29 else dict


# --- what the engine says ---------------------------------------------------------------------------------------------


def scheduler_of(scenario: JSON, minor: int, patch: int | None = None) -> KubeScheduler:
    """The kube-scheduler of the scenario: of its `config` and feature `gates`, if it has any. No patch: the newest."""
    gates, version = scenario.get("gates", {}), str(Version(minor, patch))
    if "config" not in scenario:
        return _unconfigured(version, tuple(gates.items()))
    return kube_scheduler_of(scenario["config"], version=version, feature_gates=gates)


@lru_cache
def _unconfigured(version: str, gates: tuple[tuple[str, bool], ...]) -> KubeScheduler:
    return kube_scheduler_of({}, version=version, feature_gates=dict(gates))


def _taint_rules(minor: int) -> str | None:
    return TAINT_RULES.get(min(minor, max(TAINT_RULES)))


def as_served(scenario: JSON, minor: int) -> JSON:
    """The scenario with the objects that an API server of the minor has, as the judge reads it."""
    version, cluster = _taint_rules(minor), scenario["cluster"]
    items = [
        item | {"apiVersion": f"resource.k8s.io/{version}"} if item["kind"] == "DeviceTaintRule" else item
        for item in cluster["items"]
        if version is not None or not item["apiVersion"].startswith("resource.k8s.io/")
    ]
    return scenario | {"cluster": cluster | {"items": items}}


class Snapshots:
    """Snapshots of one scenario, each built once for the minors that do the same with the cluster."""

    def __init__(self, scenario: JSON) -> None:
        self._scenario = scenario
        self._objects: dict[str | None, ClusterObjects] = {}
        self._built: dict[tuple[str | None, Features], Snapshot] = {}

    def of(self, minor: int, features: Features) -> Snapshot:
        served = _taint_rules(minor)
        if served not in self._objects:
            self._objects[served] = stored_cluster(as_served(self._scenario, minor)["cluster"])
        if (served, features) not in self._built:
            self._built[served, features] = Snapshot.build(self._objects[served], features)
        return self._built[served, features]


def evaluated(scenario: JSON, minor: int, snapshots: Snapshots | None = None, *, patch: int | None = None) -> Evaluated:
    """What the engine makes of the scenario as a kube-scheduler of that minor; no patch: its newest."""
    served = as_served(scenario, minor)
    scheduler = scheduler_of(scenario, minor, patch)
    snapshot = (snapshots or Snapshots(scenario)).of(minor, scheduler.features)
    return Evaluated.of(served, scheduler, normal_of(minor), snapshot)


def judged(category: str, minors: Sequence[int], every: int = 1) -> Iterator[tuple[int, JSON, Evaluated | None]]:
    """(minor, scenario with its `expected`, what the engine makes of it): every scenario, one minor after the other.

    None, and the scenario has an `error`, where the minor refuses the configuration. `every`: see `names_of`.
    """
    lines = verdicts(category)
    chosen: dict[int, Collection[str]] = {minor: {*names_of(category, minor, every)} for minor in minors}
    for name, line in _corpus(category):
        asked = [minor for minor in minors if name in chosen[minor]]
        if asked:
            given = msgspec.json.decode(line)
            snapshots = Snapshots(given)
            for minor in asked:
                scenario = given | lines.get((name, minor), {})
                yield minor, scenario, None if "error" in scenario else evaluated(scenario, minor, snapshots)


def accepted(scenario: JSON, minor: int, patch: int | None = None) -> list[str]:
    """What is wrong about a configuration that the minor refuses: that its plugin is accepted, or another one is named.

    Other rules of kube-scheduler are its own: it does not start with such a file, and nothing is decided by it.
    """
    plugins = re.findall(r'Plugin "(\w+)"', scenario["error"])
    try:
        scheduler_of(scenario, minor, patch)
    except ConfigError as error:
        missing = [name for name in plugins if name not in str(error)]
        return [f"{error}: kube-scheduler names {name}" for name in missing]
    return [f"the configuration is accepted, but kube-scheduler says: {scenario['error']}"] if plugins else []


# --- how they differ --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VersionAgreement:
    """Agreement of one category with one minor."""

    category: str
    minor: int
    scenarios: int
    exempt: int
    """Scenarios that differ and are exempt by a rule."""
    wrong: dict[str, list[str]]
    """Scenario -> what differs."""

    def __str__(self) -> str:
        agree = str(self.scenarios - len(self.wrong) - self.exempt)
        return f"{agree}, {self.exempt} exempt" if self.exempt else agree


def agreement(category: str, minors: Sequence[int]) -> list[VersionAgreement]:
    compared, exempt = Counter[int](), Counter[int]()
    wrong: dict[int, dict[str, list[str]]] = {minor: {} for minor in minors}
    for minor, scenario, one in judged(category, minors):
        compared[minor] += 1
        found, excused = (one.differences, one.excuse) if one else (accepted(scenario, minor), None)
        exempt[minor] += excused is not None
        if found and not excused:
            wrong[minor][scenario["id"]] = found
    return [VersionAgreement(category, minor, compared[minor], exempt[minor], wrong[minor]) for minor in minors]


def row(found: Sequence[VersionAgreement]) -> str:
    """A row of the table in docs/parity.md: of one category with all minors that judged it."""
    cells = {one.minor: str(one) for one in found}
    columns = (found[0].category, str(found[0].scenarios), *(cells.get(minor, "") for minor in MINORS))
    return f"| {' | '.join(columns)} |\n"


_COLUMNS = (shown(minor, VERSIONED, _PATCHES) for minor in MINORS)
HEADER = f"| category | scenarios | {' | '.join(_COLUMNS)} |\n|{'---|' * (len(MINORS) + 2)}\n"
BEGIN, END = "<!-- versions, written by make parity -->\n", "<!-- end of versions -->"


def write_table(found: Sequence[VersionAgreement]) -> None:
    """Write the rows of all categories into docs/parity.md."""
    rows = [row([one for one in found if one.category == category]) for category in VERSIONED]
    page = PAGE.read_text(encoding="utf-8")
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name} has no place for the table, between {BEGIN.strip()} and {END}")
    PAGE.write_text(f"{before}{BEGIN}{HEADER}{''.join(rows)}{END}{after}", encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the first difference of every scenario, and the table; the exit code is 1 if something disagrees."""
    parser = argparse.ArgumentParser(prog="python -m tests.parity.versions", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--minor", type=int, nargs="*", default=MINORS, choices=MINORS)
    parser.add_argument("--category", nargs="*", default=VERSIONED, choices=VERSIONED)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="write the table in docs/parity.md, of everything")
    options = parser.parse_args(arguments)
    minors = [[minor for minor in minors_of(category) if minor in options.minor] for category in options.category]
    with ProcessPoolExecutor(options.workers) as pool:
        found = [one for of_category in pool.map(agreement, options.category, minors) for one in of_category]
    for one in found:
        for name, lines in one.wrong.items():
            print(f"1.{one.minor} {name}: {lines[0][:500]}")  # noqa: T201 - the output of a command
        print(f"1.{one.minor} {one.category}: {one} of {one.scenarios}")  # noqa: T201
    if options.write:
        write_table(found)
    sys.exit(any(one.wrong for one in found))


if __name__ == "__main__":
    main()
