"""Differential fuzzing: random scenarios, judged by kube-scheduler's own code and by the engine.

    python -m tests.upstream.fuzz --judge build/judge-1.37 --minor 37 --scenarios 5000 --seed mine

The first scenario that differs is shrunk and printed, to be pasted into a test; further ones are named. The exit code
is 1 if one differs or is not judged, or too many are not evaluated by the engine, 2 if the judge fails, 130 after
Ctrl-C; what was counted until then is printed.

Rule: a category, a seed and a number make the same scenario again; what is found does not depend on the workers.
"""

# ruff: noqa: T201 - the output of a command

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO, Final

import msgspec

from benchmarks.measure import positive
from extender.k8s.version.versions import parse_version
from tests.upstream.differential import Case, Differential, Found, Generate, generated
from tests.upstream.finding import Finding, Outcome
from tests.upstream.generate import CATEGORIES
from tests.upstream.judge import SECONDS_PER_BATCH, Judge, ProgramFailed, check_minor
from tests.upstream.progress import Progress
from tests.upstream.shrink import as_text, shrink
from tests.upstream.workers import INTERRUPTED, ended_by_signals

JSON = dict[str, Any]

BATCH: Final = 100
JUDGED_AT_A_TIME: Final = 4
"""Scenarios in each judge: older ones wait more than they work."""
NOT_EVALUATED_AT_MOST: Final = 3
NOT_EVALUATED_SHARE: Final = 0.01
"""Share of the scenarios, and number, that the engine may leave unevaluated: a run with more says too little."""
LINE: Final = 600
"""Characters that are shown of a difference."""


@dataclass(slots=True)
class Count:
    """Counts of scenarios by outcome."""

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    categories: Counter[str] = field(default_factory=Counter)
    """Category -> scenarios that differ."""
    kinds: Counter[str] = field(default_factory=Counter)
    """Kind of the first difference -> scenarios."""
    without_cycle: int = 0

    def add(self, found: Found) -> None:
        finding = found.finding
        self.outcomes[finding.outcome] += 1
        self.without_cycle += finding.without_cycle
        if finding.rule and finding.outcome is Outcome.EXEMPT:
            self.rules[finding.rule] += 1
        if finding.kinds:
            self.categories[found.case[0]] += 1
            self.kinds[finding.kinds[0]] += 1

    @property
    def failed(self) -> bool:
        return self.incomplete or self.outcomes[Outcome.DIFFERS] > 0

    @property
    def incomplete(self) -> bool:
        """True if too much was not compared, which a run that only reports differences does not forgive."""
        allowed = max(NOT_EVALUATED_AT_MOST, NOT_EVALUATED_SHARE * self.outcomes.total())
        return self.outcomes[Outcome.NOT_JUDGED] > 0 or self.outcomes[Outcome.NOT_EVALUATED] > allowed

    def __str__(self) -> str:
        """The closing line."""
        exempt = [f"{count} exempt by {rule}" for rule, count in sorted(self.rules.items())] or ["0 exempt"]
        others = (Outcome.REFUSED, Outcome.PANICKED, Outcome.NOT_EVALUATED, Outcome.NOT_JUDGED)
        counted = [f"{self.outcomes[one]} {one}" for one in others if self.outcomes[one]]
        counted += [f"{self.without_cycle} without a cycle to compare"] if self.without_cycle else []
        parts = (f"{self.outcomes.total()} scenarios", f"{self.outcomes[Outcome.DIFFERS]} differ", *exempt, *counted)
        return ", ".join(parts)


def cases_of(categories: Sequence[str], scenarios: int) -> Iterator[Case]:
    """Return cases of each category in turn, so that each batch has something of all."""
    return ((categories[place % len(categories)], place // len(categories)) for place in range(scenarios))


@dataclass(slots=True)
class Fuzzer:
    """Runs the cases and prints what is found."""

    differential: Differential
    options: argparse.Namespace
    count: Count = field(default_factory=Count)

    def run(self, cases: Sequence[Case], keep: BinaryIO | None) -> None:
        progress = Progress(len(cases), sys.stderr)
        try:
            with closing(self.differential.batches(cases, self.options.batch, self.options.workers)) as batches:
                self._compare(batches, progress, keep)
        finally:
            progress.clear()
            self._close(progress.seconds)

    def _compare(self, batches: Iterator[list[Found]], progress: Progress, keep: BinaryIO | None) -> None:
        for batch in batches:
            for found in batch:
                self.count.add(found)
                if found.finding.outcome in (Outcome.DIFFERS, Outcome.NOT_JUDGED):
                    progress.clear()
                    self._report(found, keep)
                    if self.options.first and found.scenario is not None:
                        break
            progress.show(self.count.outcomes.total(), f"{self.count.outcomes[Outcome.DIFFERS]} differ")
            if self.options.first and self.count.outcomes[Outcome.DIFFERS]:
                break

    def _report(self, found: Found, keep: BinaryIO | None) -> None:
        print(f"{found.id}: {found.finding.lines[0][:LINE]}")
        print(f"  repeat: {self._command(found.case)}")
        if found.scenario is not None and keep is not None:
            keep.write(msgspec.json.encode(found.scenario | {"differences": found.finding.lines}) + b"\n")
        if found.scenario is not None and self.count.outcomes[Outcome.DIFFERS] == 1:
            self._print_small(found.scenario, found.finding)

    def _command(self, case: Case) -> str:
        judge, minor = str(self.differential.judge.binary), str(self.differential.minor)
        words = ("--judge", judge, "--minor", minor, "--seed", self.differential.seed)
        return shlex.join(
            ("python", "-m", "tests.upstream.fuzz", *words, "--category", case[0], "--number", str(case[1]))
        )

    def _print_small(self, scenario: JSON, finding: Finding) -> None:
        small = shrink(scenario, finding.kinds[0], self.differential.kinds)
        (judged,) = self.differential.judged([small])
        again = self.differential.finding(judged)
        if again.outcome is not Outcome.DIFFERS:  # upstream itself may be of two minds
            judged, again = scenario, finding
        print(as_text(judged))
        for line in again.lines:
            print(f"  {line[:LINE]}")

    def _close(self, seconds: float) -> None:
        for what, counts in (("category", self.count.categories), ("kind", self.count.kinds)):
            for name, number in counts.most_common():
                print(f"  {number} differ, {what} {name}")
        print(f"{self.count.outcomes.total() / max(seconds, 1e-3):.0f} scenarios a second")
        print(self.count)


def main(arguments: Sequence[str] | None = None, generate: Generate = generated) -> int:
    """Run the scenarios of a seed; returns the exit code."""
    options = _parser().parse_args(arguments)
    judge = Judge(options.judge.absolute(), JUDGED_AT_A_TIME, options.time_limit)
    categories = options.category or [name for name, one in CATEGORIES.items() if one.since <= options.minor]
    if not categories:
        print(f"error: no category of scenarios means anything in 1.{options.minor}", file=sys.stderr)
        return 2
    if options.number is not None:
        cases = [(category, options.number) for category in categories]
    else:
        cases = list(cases_of(categories, options.scenarios))
    try:
        with ExitStack() as stack:
            stack.enter_context(ended_by_signals())
            keep = stack.enter_context(options.keep.open("wb")) if options.keep else None
            version = check_minor(judge.binary, options.minor)
            print(f"kube-scheduler {version}, {len(cases)} scenarios of seed {options.seed}")
            patch = parse_version(version).patch
            differential = Differential(judge, options.minor, options.seed, generate, patch)
            fuzzer = Fuzzer(differential, options)
            fuzzer.run(cases, keep)
    except (ProgramFailed, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED
    return int(fuzzer.count.incomplete if options.report_only else fuzzer.count.failed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.upstream.fuzz", description=(__doc__ or "").split("\n")[0])
    add = parser.add_argument
    add("--judge", type=Path, required=True, help="the judge's program")
    add("--minor", type=int, required=True, help="its minor: 37")
    add("--seed", default=token_hex(4), help="a random one by default")
    add("--scenarios", type=positive, default=1000)
    add("--category", nargs="*", choices=[*CATEGORIES], help="all by default", metavar="CATEGORY")
    add("--number", type=int, help="only this scenario of each category")
    add("--workers", type=positive, default=2)
    add("--batch", type=positive, default=BATCH, help="scenarios per batch")
    add("--time-limit", type=float, default=SECONDS_PER_BATCH, help="seconds per batch")
    add("--first", action="store_true", help="end at the first scenario that differs")
    add("--keep", type=Path, help="write scenarios that differ here, as JSON lines")
    add("--report-only", action="store_true", help="exit with 0 also if something differs")
    return parser


if __name__ == "__main__":
    sys.exit(main())
