"""How far the engine agrees with kube-scheduler, as the table in docs/parity.md: `make parity` writes it.

Rule: the table says what was found, also where that is not full agreement; the tests judge.
"""

import argparse
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import extender
from tests.parity.agreement import CATEGORIES, JSON, compare, exempt_nodes, load

PAGE = Path(__file__).parents[2] / "docs" / "parity.md"
BEGIN, END = "<!-- written by make parity -->\n", "<!-- end -->"


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

    def cells(self) -> tuple[str, ...]:
        agree = f"{self.scenarios - len(self.wrong)} of {self.scenarios}"
        return agree, *(f"{count:,}" for count in (self.filtered, self.scored, self.dry_run, self.exempt))


@lru_cache
def agreement(category: str) -> Agreement:
    """Evaluate every scenario of the category."""
    scenarios = load(category)
    wrong = {one["id"]: found for one in scenarios if (found := differences(one))}
    expected = [one["expected"] for one in scenarios]
    return Agreement(
        len(scenarios),
        sum(len(one["filter"]) for one in expected),
        sum(len(one["scores"]) for one in expected),
        sum(len(one["candidates"]) + len(one["nonCandidates"]) for one in expected),
        sum(len(exempt_nodes(one) & one["expected"]["candidates"].keys()) for one in scenarios),
        wrong,
    )


def differences(scenario: JSON) -> list[str]:
    """What the engine says otherwise than kube-scheduler."""
    return compare(scenario, extender.evaluate(scenario["cluster"], scenario["pod"]).to_dict())


def table() -> str:
    """In Markdown."""
    lines = [
        "| category | agree | nodes filtered | nodes scored | nodes in the dry run | of these exempt |",
        "|---|---|---|---|---|---|",
    ]
    lines += [f"| {category} | {' | '.join(agreement(category).cells())} |" for category in CATEGORIES]
    return "\n".join(lines) + "\n"


def with_table(page: str) -> str:
    """The page with the table as it is now."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE.name} has no place for the table, between {BEGIN.strip()} and {END}")
    return f"{before}{BEGIN}{table()}{END}{after}"


def main() -> None:
    """Write the table; the exit code is 1 if something disagrees."""
    argparse.ArgumentParser(prog="python -m tests.parity.parity", description=__doc__).parse_args()
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    wrong = {name: found for category in CATEGORIES for name, found in agreement(category).wrong.items()}
    for name, found in wrong.items():
        print(f"{name}: {found[0]}")  # noqa: T201 - the output of a command
    print(table())  # noqa: T201
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
