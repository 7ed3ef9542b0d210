"""How far the engine agrees with kube-scheduler, as the table in docs/parity.md: `make parity` writes it.

Rule: the table says what was found, also where that is not full agreement; the tests judge.
"""

import argparse
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import extender
from extender import Pod, Snapshot
from tests.builders import built, typed
from tests.parity.agreement import CATEGORIES, JSON, compare, exempt_nodes, load

PAGE = Path(__file__).parents[2] / "docs" / "parity.md"
BEGIN, END = "<!-- written by make parity -->\n", "<!-- end -->"
HEADER = """\
| category | agree | nodes filtered | nodes scored | nodes in the dry run | of these exempt |
|---|---|---|---|---|---|
"""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A scenario and what the engine makes of it; nobody changes the snapshot."""

    scenario: JSON
    snapshot: Snapshot
    pod: Pod
    differences: list[str]
    """What the engine says otherwise than kube-scheduler."""

    @classmethod
    def of(cls, scenario: JSON) -> "Evaluated":
        snapshot, pod = built(scenario["cluster"]), typed(scenario["pod"])
        return cls(scenario, snapshot, pod, compare(scenario, extender.evaluate(snapshot, pod).to_dict()))


@lru_cache(maxsize=1)
def evaluated(category: str) -> tuple[Evaluated, ...]:
    """Every scenario of the category; the last category is kept, for all that is asked about it."""
    return tuple(map(Evaluated.of, load(category)))


@dataclass(frozen=True, slots=True)
class Agreement:
    """Of one category."""

    scenarios: int
    filtered: int
    """Nodes whose filter verdict was compared."""
    scored: int
    dry_run: int
    exempt: int
    """Candidates of the dry run of which the victims are not compared."""
    wrong: dict[str, list[str]]
    """Scenario -> what differs."""

    def row(self, category: str) -> str:
        agree = f"{self.scenarios - len(self.wrong)} of {self.scenarios}"
        counts = (f"{count:,}" for count in (self.filtered, self.scored, self.dry_run, self.exempt))
        return f"| {' | '.join((category, agree, *counts))} |\n"


def agreement(category: str) -> Agreement:
    every = evaluated(category)
    wrong = {one.scenario["id"]: one.differences for one in every if one.differences}
    scenarios = [one.scenario for one in every]
    expected = [one["expected"] for one in scenarios]
    return Agreement(
        len(scenarios),
        sum(len(one["filter"]) for one in expected),
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
    found = {category: agreement(category) for category in CATEGORIES}
    rows = "".join(one.row(category) for category, one in found.items())
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")
    wrong = {name: lines for one in found.values() for name, lines in one.wrong.items()}
    for name, lines in wrong.items():
        print(f"{name}: {lines[0]}")  # noqa: T201 - the output of a command
    print(HEADER + rows)  # noqa: T201
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
