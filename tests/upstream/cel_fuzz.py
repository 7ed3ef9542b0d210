"""Differential fuzzing of selectors: random CEL expressions, asked of kube-scheduler's own code and of this project.

    tests/upstream/build cel 37 build
    python -m tests.upstream.cel_fuzz --cel build/cel-1.37 --minor 37 --expressions 20000 --seed mine

Prints the first difference made small, as a row for tests/k8s/cel/answers-1.37.jsonl.gz, then each other one
in a line, and how many there are of each kind. The exit code is 1 if any differ, 2 if the program fails, 130 after
Ctrl-C; what was counted until then is printed.

Rule: what this project does not follow is counted by its feature, never as agreement; a selector at which upstream
crashes is counted, never printed. Of an error of syntax the words may differ.
"""

# ruff: noqa: T201 - the output of a command

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Final

from benchmarks.measure import positive
from tests.k8s.cel.answers import agree, answer_or_feature
from tests.upstream.generate.expressions import selector
from tests.upstream.judge import ProgramFailed, check_minor, run_program
from tests.upstream.progress import Progress
from tests.upstream.workers import INTERRUPTED, ended_by_signals, in_processes

JSON = dict[str, Any]

BATCH: Final = 500
"""Selectors that one process of the program answers."""
SECONDS_PER_BATCH: Final = 120.0
"""Time limit of one process of the program."""
ASKED_AGAIN: Final = 16
"""Number of times that kube-scheduler's code is asked again: some answers change with the order of a Go map."""
LISTED: Final = 200
"""Differences that are printed, a line each."""


@dataclass
class Result:
    """Counts of what became of some selectors; `different` are (selector, upstream's answer, this project's).

    `undetermined`: upstream's own answers differ, and one of them is this project's.
    """

    compared: int = 0
    crashes: int = 0
    undetermined: int = 0
    not_followed: Counter[str] = field(default_factory=Counter)
    different: list[tuple[JSON, str, str]] = field(default_factory=list)

    def add(self, other: "Result") -> None:
        self.compared += other.compared
        self.crashes += other.crashes
        self.undetermined += other.undetermined
        self.not_followed += other.not_followed
        self.different += other.different


def upstream_answers(program: Path, selectors: Sequence[JSON]) -> list[str | None]:
    """Return what kube-scheduler's code says of each selector, None where it crashes. Raises ProgramFailed."""
    lines = "".join(f"{json.dumps(each)}\n" for each in selectors).encode()
    batch = f"{len(selectors)} selectors"
    told = run_program(program, ["-workers", "1"], lines, SECONDS_PER_BATCH, batch)
    found = [json.loads(line) for line in told.splitlines()]
    if len(found) != len(selectors):
        raise ProgramFailed(f"{program} gave {len(found)} answers, not one for each of {batch}")
    return [None if each.get("crash") else each["answer"] for each in found]


def _own_answer(asked: JSON, minor: int) -> tuple[str | None, str]:
    """Return this project's answer, or None and the feature not followed; an exception is an answer: a wrong one."""
    try:
        return answer_or_feature(**asked, minor=minor)
    except Exception as error:
        return f"{type(error).__name__}: {error}", ""


def compare(program: Path, minor: int, selectors: Sequence[JSON]) -> Result:
    """Count and collect what both say of each selector."""
    result = Result(compared=len(selectors))
    different = []
    for asked, wanted in zip(selectors, upstream_answers(program, selectors), strict=True):
        if wanted is None:
            result.crashes += 1
            continue
        found, feature = _own_answer(asked, minor)
        if found is None:
            result.not_followed[feature] += 1
        elif not agree(found, wanted):
            different.append((asked, wanted, found))
    again = upstream_answers(program, [each[0] for each in different for _ in range(ASKED_AGAIN)]) if different else []
    for number, each in enumerate(different):
        if each[2] in again[number * ASKED_AGAIN : (number + 1) * ASKED_AGAIN]:
            result.undetermined += 1
        else:
            result.different.append(each)
    return result


def _batch(program: Path, minor: int, seed: str, numbers: range) -> Result:
    return compare(program, minor, [selector(seed, number) for number in numbers])


def fuzz(program: Path, minor: int, seed: str, count: int, workers: int, result: Result) -> None:
    """Compare `count` random selectors in several processes, and add what comes of them to the result."""
    progress = Progress(count, sys.stderr)
    numbers = (range(start, min(start + BATCH, count)) for start in range(0, count, BATCH))
    try:
        with closing(in_processes(partial(_batch, program, minor, seed), numbers, workers)) as batches:
            for each in batches:
                result.add(each)
                progress.show(result.compared, f"{len(result.different)} differ")
    finally:
        progress.clear()


# --- shrinking -----------------------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""[rbRB]*(?:\"{3}.*?\"{3}|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|\w+|&&|\|\||[<>=!]=|\s+|.""", re.DOTALL
)
_OPENING, _CLOSING = "([{", ")]}"
_AT_ONCE: Final = 400
"""Smaller expressions that are asked about in one process of the program."""
_ASKS: Final = 40_000
_SECONDS: Final = 60.0
_SHORT = ("1", '"a"', "true")


def shrink(
    asked: JSON, differ: Callable[[Sequence[JSON]], int | None], asks: int = _ASKS, seconds: float = _SECONDS
) -> JSON:
    """Return a small selector that differs; `differ` returns the index of the first that does, or None.

    Ends with what was found until `asks` selectors were tried, or the seconds are over.
    """
    deadline = monotonic() + seconds
    alone = {"expression": asked["expression"]}
    waiting = [] if asked == alone else [alone]
    waiting += _smaller_than(asked)
    while waiting and asks > 0 and monotonic() < deadline:
        batch, waiting = waiting[: min(_AT_ONCE, asks)], waiting[min(_AT_ONCE, asks) :]
        asks -= len(batch)
        found = differ(batch)
        if found is not None:
            asked = batch[found]
            waiting = _smaller_than(asked)
    return asked


def _smaller_than(asked: JSON) -> list[JSON]:
    return [{**asked, "expression": text} for text in _smaller(asked["expression"])]


def _smaller(expression: str) -> list[str]:
    """Return shorter expressions, the shortest first: one with a part alone, without it, or with a literal for it."""
    tokens = _TOKEN.findall(expression)
    found = set()
    for start, end in _parts(tokens):
        before, part, after = "".join(tokens[:start]), "".join(tokens[start:end]), "".join(tokens[end:])
        found |= {part, before + after, *(before + short + after for short in _SHORT)}
        if tokens[start] in _OPENING and end - start > 2:
            found.add(before + "".join(tokens[start + 1 : end - 1]) + after)
    return sorted(
        (each for each in found if each.strip() and len(each) < len(expression)), key=lambda each: (len(each), each)
    )


def _parts(tokens: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of tokens in which each bracket has its other half."""
    for start in range(len(tokens)):
        depth = 0
        for end in range(start, len(tokens)):
            depth += (tokens[end] in _OPENING) - (tokens[end] in _CLOSING)
            if depth < 0:
                break
            if depth == 0:
                yield start, end + 1


def first_different(program: Path, minor: int, kind: str, selectors: Sequence[JSON]) -> int | None:
    """Return the index of the first selector whose two answers differ in a way of that kind."""
    different = compare(program, minor, selectors).different
    return next((selectors.index(asked) for asked, wanted, found in different if kind_of(wanted, found) == kind), None)


# --- report --------------------------------------------------------------------------------------------------------


def row(asked: JSON, wanted: str) -> str:
    """Return the selector and its answer as a row of recorded answers."""
    about = [asked["device"], asked["driver"]] if "device" in asked else []
    return json.dumps([asked["expression"], wanted, *about])


def kind_of(wanted: str, found: str) -> str:
    """Return what is different, without the particulars."""
    one, other = (
        "syntax error" if "Syntax error: " in text else text.partition(":")[0].removeprefix("CEL ")
        for text in (wanted, found)
    )
    return f"other words of a {one}" if one == other else f"kube-scheduler: {one}, here: {other}"


def report(program: Path, minor: int, result: Result) -> Iterator[str]:
    """Yield the lines that are printed; asks the program again to make the first difference small."""
    if result.different:
        asked, wanted, found = result.different[0]
        small = shrink(asked, partial(first_different, program, minor, kind_of(wanted, found)))
        again = compare(program, minor, [small]).different
        if again:
            (small, wanted, found) = again[0]
            yield f"differs, made small: {row(small, wanted)}"
            yield f"             but here: {json.dumps(found)}"
        else:  # upstream itself may be of two minds
            yield f"differs: {row(asked, wanted)} but here {json.dumps(found)}"
    for asked, wanted, found in result.different[1:LISTED]:
        yield f"differs: {row(asked, wanted)} but here {json.dumps(found)}"
    if len(result.different) > LISTED:
        yield f"and {len(result.different) - LISTED} more"
    for kind, count in Counter(kind_of(wanted, found) for _, wanted, found in result.different).most_common():
        yield f"{count} differ: {kind}"
    yield closing_line(result)


def closing_line(result: Result) -> str:
    """Return how many selectors came out how."""
    features = ", ".join(f"{count} {feature}" for feature, count in result.not_followed.most_common())
    counts = f"{result.compared} expressions, {len(result.different)} differ"
    not_followed = f"{result.not_followed.total()} not followed{f' ({features})' if features else ''}"
    undetermined = f", {result.undetermined} not determined" if result.undetermined else ""
    return f"{counts}, {not_followed}, {result.crashes} crashes{undetermined}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cel", type=Path, required=True, help="the program, as tests/upstream/build makes it")
    parser.add_argument("--minor", type=int, required=True, help="the minor of Kubernetes that the program must be of")
    parser.add_argument("--expressions", type=positive, default=20000)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--workers", type=positive, default=2, help="processes (2)")
    given = parser.parse_args(arguments)
    program, result = given.cel.absolute(), Result()
    try:
        with ended_by_signals():
            check_minor(program, given.minor)
            fuzz(program, given.minor, given.seed, given.expressions, given.workers, result)
            for line in report(program, given.minor, result):
                print(line)
    except (ProgramFailed, OSError) as error:
        print(closing_line(result))
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(closing_line(result))
        return INTERRUPTED
    return 1 if result.different else 0


if __name__ == "__main__":
    sys.exit(main())
