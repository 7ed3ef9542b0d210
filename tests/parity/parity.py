"""How far the engine agrees with kube-scheduler, as the table in docs/parity.md: `make parity` writes it.

Rule: the table says what was found, also where that is not full agreement; the tests judge.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

from extender import Pod, Snapshot
from extender.config.scheduler.load import kube_scheduler_of
from extender.core.evaluation import Evaluation
from extender.core.eviction_history import EvictionHistory
from extender.core.profile import KubeScheduler, Profile
from tests.builders import stored_cluster, typed
from tests.parity.agreement import EVERY_CATEGORY, JSON, compare, load
from tests.parity.exemptions import excused_by, exempt_nodes
from tests.parity.judged import BASE_MINOR, patches, shown

PAGE = Path(__file__).parents[2] / "docs" / "parity.md"
BEGIN, END = "<!-- written by make parity -->\n", "<!-- end -->"
JUDGED_BY = shown(BASE_MINOR, EVERY_CATEGORY, patches())
HEADER = f"""\
| category | agree with {JUDGED_BY} | exempt by rule | nodes filtered | scored | in the dry run | victims exempt |
|---|---|---|---|---|---|---|
"""
NOW = EvictionHistory(now=1_780_000_000 * 10**9)
"""In 2026, when upstream was asked: every time in the corpus is long ago or far ahead."""

_configured = partial(kube_scheduler_of, version=f"1.{BASE_MINOR}")
_UNCONFIGURED = _configured({})

Normal = Callable[[JSON], JSON]


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A scenario and what the engine makes of it; the snapshot must not be changed."""

    scenario: JSON
    scheduler: KubeScheduler
    snapshot: Snapshot
    pod: Pod
    not_evaluated: int
    """Number of nodes where the engine says that a plugin is not evaluated."""
    differences: list[str]
    """What the engine says otherwise than kube-scheduler."""

    @classmethod
    def of(
        cls,
        scenario: JSON,
        scheduler: KubeScheduler | None = None,
        normal: Normal = dict,
        snapshot: Snapshot | None = None,
    ) -> "Evaluated":
        """Evaluate the scenario as this kube-scheduler; None: of BASE_MINOR with the scenario's own configuration.

        `normal` is applied to both verdicts before they are compared. `snapshot`: of the scenario's cluster and the
        scheduler's features, if there is one already.
        """
        if scheduler is None:
            scheduler = _configured(scenario["config"]) if "config" in scenario else _UNCONFIGURED
        # The verdicts are of kube-scheduler's own plugins: other extenders of the configuration were not asked.
        scheduler = scheduler.for_calls()
        if snapshot is None:
            snapshot = Snapshot.build(stored_cluster(scenario["cluster"]), scheduler.features)
        pod = typed(scenario["pod"])
        found = Evaluation(snapshot, pod, cls.profile_of(scheduler, pod), NOW).to_dict()
        not_evaluated = len({node for nodes in found.get("notEvaluated", {}).values() for node in nodes})
        expected = scenario | {"expected": normal(scenario["expected"])}
        differences = compare(expected, normal(found), excuse=False)
        return cls(scenario, scheduler, snapshot, pod, not_evaluated, differences)

    @property
    def profile(self) -> Profile:
        return self.profile_of(self.scheduler, self.pod)

    @staticmethod
    def profile_of(scheduler: KubeScheduler, pod: Pod) -> Profile:
        """The pod's own profile; the judge takes the first one, as there is only one, for other pods."""
        return scheduler.profile_of(pod) or scheduler.profiles[0]

    @property
    def excuse(self) -> str | None:
        """The rule that exempts the scenario; None also where nothing differs."""
        return self.excused(self.differences)

    def excused(self, differences: Sequence[object]) -> str | None:
        """The rule that exempts these differences, of the verdict, the cycle or the diagnosis."""
        return excused_by(self.scenario, [one if isinstance(one, str) else "cycle" for one in differences])


@lru_cache(maxsize=1)
def evaluated(category: str, nth: int = 1) -> tuple[Evaluated, ...]:
    """Every nth scenario of the category; the last category is kept, for all that is asked about it."""
    return tuple(map(Evaluated.of, load(category, nth)))


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far the engine agrees in one category."""

    scenarios: int
    excused: Counter[str]
    """Rule -> how many scenarios that differ are exempt by it."""
    filtered: int
    """Nodes whose filter verdict was compared."""
    not_evaluated: int
    """Those among them where a plugin is not evaluated; they are compared all the same."""
    scored: int
    dry_run: int
    exempt: int
    """Candidates of the dry run of which the victims are not compared."""
    wrong: dict[str, list[str]]
    """Scenario -> what differs."""

    def row(self, category: str) -> str:
        agree = f"{self.scenarios - self.excused.total() - len(self.wrong)} of {self.scenarios}"
        excused = ", ".join(f"{count} {rule}" for rule, count in sorted(self.excused.items()))
        numbers = (self.filtered, self.scored, self.dry_run, self.exempt)
        return f"| {' | '.join((category, agree, excused, *(f'{count:,}' for count in numbers)))} |\n"


def agreement(category: str, nth: int = 1) -> Agreement:
    every = evaluated(category, nth)
    wrong = {one.scenario["id"]: one.differences for one in every if one.differences and not one.excuse}
    scenarios = [one.scenario for one in every]
    expected = [one["expected"] for one in scenarios]
    return Agreement(
        len(scenarios),
        Counter(one.excuse for one in every if one.excuse),
        sum(len(one["filter"]) for one in expected),
        sum(one.not_evaluated for one in every),
        sum(len(one["scores"]) for one in expected),
        sum(len(one["candidates"]) + len(one["nonCandidates"]) for one in expected),
        sum(len(exempt_nodes(one) & one["expected"]["candidates"].keys()) for one in scenarios),
        wrong,
    )


def with_table(page: str, rows: str) -> str:
    """The page with these rows in its table."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name} has no place for the table, between {BEGIN.strip()} and {END}")
    return f"{before}{BEGIN}{HEADER}{rows}{END}{after}"


def main() -> None:
    """Write the table; the exit code is 1 if something disagrees."""
    argparse.ArgumentParser(prog="python -m tests.parity.parity", description=__doc__).parse_args()
    found = {category: agreement(category) for category in EVERY_CATEGORY}
    rows = "".join(one.row(category) for category, one in found.items())
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")
    wrong = {name: lines for one in found.values() for name, lines in one.wrong.items()}
    for name, lines in wrong.items():
        print(f"{name}: {lines[0]}")  # noqa: T201 - the output of a command
    print(HEADER + rows)  # noqa: T201
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
