"""`python -m benchmarks.compare REV`: compare this working tree with another revision, work by work.

The present benchmarks measure both, in two processes on one core that take turns (A B A B …). A row is slower if the
median of the pairs' ratios is more than 1.05 and the middle halves of both sides do not overlap.

The exit code is 0 if nothing is slower, 1 if a work is slower, and 2 if the two could not be compared: the command line
is wrong, a work failed on one side (whatever the others say), or there was no work to compare.

Rule: on a busy machine, repeat the run before trusting that a work is slower.
"""

import argparse
import contextlib
import importlib
import io
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from benchmarks import cores
from benchmarks.generate import NODES, SEED
from benchmarks.machine import ROOT, git
from benchmarks.measure import MALLOC, positive
from benchmarks.printing import aligned, number
from benchmarks.service import end
from benchmarks.works import MODULES

SLOWER = 1.05
TURNS = 9
SECONDS_OF_A_TURN = 0.2
MOST_RUNS = 40
HEADINGS = ("what", "old", "spread", "new", "spread", "new / old", "spread", "")
MISSING, LEFT_OUT, FAILED = "not in REV", "left out", "failed"
NOTHING_SLOWER, SOME_SLOWER, NOT_COMPARED = 0, 1, 2
"""Exit codes."""

OLD, NEW = "the old revision", "this folder"


@dataclass(frozen=True, slots=True)
class Compared:
    """Timing of one work on both sides: the median seconds of each turn, pair by pair."""

    name: str
    old: Sequence[float] = ()
    new: Sequence[float] = ()
    instead: str = ""
    """MISSING, LEFT_OUT or FAILED if no times exist."""
    why: str = ""
    """Detail of `instead`."""

    @property
    def ratios(self) -> list[float]:
        return [new / old for old, new in zip(self.old, self.new, strict=True)]

    @property
    def verdict(self) -> str:
        if self.instead:
            return self.instead
        ratio, (old_low, old_high), (new_low, new_high) = (
            statistics.median(self.ratios),
            middle_half(self.old),
            middle_half(self.new),
        )
        if ratio > SLOWER and new_low > old_high:
            return "slower"
        return "faster" if ratio < 1 / SLOWER and new_high < old_low else ""

    def cells(self) -> tuple[str, ...]:
        if self.instead:
            return (self.name, *[""] * (len(HEADINGS) - 2), f"{self.instead}: {self.why}")
        of_ratios = self.ratios
        times = [cell for side in (self.old, self.new) for cell in (_ms(statistics.median(side)), _spread(side, 1000))]
        return (self.name, *times, number(statistics.median(of_ratios)), _spread(of_ratios, 1), self.verdict)


def middle_half(values: Sequence[float]) -> tuple[float, float]:
    """Return the lower and upper quartile."""
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def _ms(seconds: float) -> str:
    return f"{number(1000 * seconds)} ms"


def _spread(values: Sequence[float], factor: float) -> str:
    low, high = middle_half(values)
    return f"{number(factor * low)} .. {number(factor * high)}"


def table(rows: Sequence[Compared]) -> str:
    return aligned([HEADINGS, *(row.cells() for row in rows)], ("what", ""))


class NotCompared(Exception):
    """The comparison as a whole is impossible; the message says why."""


class NoTimes(Exception):
    """One side could not time a work: MISSING, LEFT_OUT or FAILED, with the reason."""

    def __init__(self, instead: str, why: str) -> None:
        super().__init__(f"{instead}: {why}")
        self.instead, self.why = instead, why


def main() -> None:
    parser = options()
    given = parser.parse_args()
    commit = git("rev-parse", "--verify", "--quiet", f"{given.revision}^{{commit}}")
    if not commit:
        parser.error(f"unknown revision {given.revision!r}")
    try:
        every = names()
        chosen = [name for name in every if given.only in name]
        if not chosen:
            parser.error("\n  ".join([f"--only: no work has {given.only!r} in its name; there are", *every]))
        rows = all_compared(given, commit, chosen)
    except NotCompared as error:
        print(f"could not compare: {error}", file=sys.stderr)
        sys.exit(NOT_COMPARED)
    conclude(rows)


def all_compared(given: argparse.Namespace, commit: str, chosen: Sequence[str]) -> list[Compared]:
    """Compare the works of these names, one after another."""
    print(f"old: {given.revision} ({commit[:12]}); new: this folder; {given.nodes:,} nodes, seed {given.seed}")
    print(
        f"CPU time of a thread on one core; {cores.description()}; spread: the middle half of {TURNS} turns", flush=True
    )
    with both(commit, given.seed, given.nodes) as (old, new):
        return [compared(name, old, new) for name in chosen]


def conclude(rows: Sequence[Compared]) -> NoReturn:
    """Print the table and the conclusion, and exit with its code."""
    print(f"\n{table(rows)}\n", flush=True)
    slower = [row.name for row in rows if row.verdict == "slower"]
    problems = [f"{row.name}: {row.why}" for row in rows if row.verdict == FAILED]
    if all(row.instead for row in rows):
        problems.append("both sides have no work in common")
    elif not slower:
        print("nothing is slower by more than 5 % beyond noise")
    for name in slower:
        print(f"slower: {name}")
    for problem in problems:
        print(f"could not compare: {problem}", file=sys.stderr)
    sys.exit(NOT_COMPARED if problems else SOME_SLOWER if slower else NOTHING_SLOWER)


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("revision", metavar="REV", help="any git revision: a commit, a tag, HEAD~3")
    parser.add_argument("--nodes", metavar="N", type=positive, default=NODES, help=f"size of the cluster ({NODES:,})")
    parser.add_argument("--seed", metavar="N", type=int, default=SEED, help="another cluster of the same kind")
    parser.add_argument("--only", metavar="TEXT", default="", help="only works whose name contains this text")
    return parser


def names() -> list[str]:
    """Return the names of all works; raise NotCompared if this folder cannot import them."""
    try:
        return [name for module in MODULES for name in importlib.import_module(f"benchmarks.works.{module}").WORKS]
    except Exception as error:
        raise NotCompared(f"{NEW} cannot import its works: {type(error).__name__}: {error}") from error


def compared(name: str, old: "Side", new: "Side") -> Compared:
    print(f"comparing {name} …", file=sys.stderr, flush=True)
    try:
        pairs = in_pairs(name, old, new)
    except NoTimes as error:
        return Compared(name, instead=error.instead, why=error.why)
    return Compared(name, [one for one, _ in pairs], [other for _, other in pairs])


def in_pairs(name: str, old: "Side", new: "Side") -> list[tuple[float, float]]:
    """Time both sides in turns, in seconds.

    The working tree runs first: its failure must not look like a work missing in REV.
    """
    new.taken(name, 1)
    old.taken(name, 1)
    start = time.perf_counter()
    new.taken(name, 1)
    runs = max(1, min(MOST_RUNS, int(SECONDS_OF_A_TURN / (time.perf_counter() - start))))
    return [(old.median(name, runs), new.median(name, runs)) for _ in range(TURNS)]


# --- the two revisions ------------------------------------------------------------------------------------------------


class Side:
    """The process of one of the two revisions."""

    def __init__(self, whose: str, directory: Path, seed: int, nodes: int) -> None:
        self.whose = whose
        """OLD or NEW."""
        command = [sys.executable, "-m", "benchmarks.side", "--seed", str(seed), "--nodes", str(nodes)]
        safe = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONSAFEPATH")}
        self.process = subprocess.Popen(
            command,
            cwd=directory,
            env=safe | MALLOC,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def close(self) -> None:
        end(self.process)
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                if pipe:
                    pipe.close()

    def wait_until_ready(self) -> None:
        """Wait until the process has generated its cluster."""
        self._answer("while generating the cluster")

    def taken(self, name: str, runs: int) -> list[float]:
        """Return the seconds of each run; raise NoTimes if the work is missing or fails."""
        with contextlib.suppress(BrokenPipeError):  # a dead process is reported by _answer
            if self.process.stdin:
                self.process.stdin.write(json.dumps({"work": name, "runs": runs}) + "\n")
        return times_of(self._answer(f"while running {name!r}"), self.whose)

    def median(self, name: str, runs: int) -> float:
        """Return the median seconds of `runs` runs."""
        return statistics.median(self.taken(name, runs))

    def _answer(self, doing: str) -> dict[str, Any]:
        line = self.process.stdout.readline() if self.process.stdout else ""
        if not line:
            raise NotCompared(f"the process of {self.whose} exited {doing}")
        found: dict[str, Any] = json.loads(line)
        return found


def times_of(answer: dict[str, Any], whose: str) -> list[float]:
    """Parse the reply of `benchmarks.side`; only the old revision may report a work as missing."""
    if "times" in answer:
        times: list[float] = answer["times"]
        return times
    if "left_out" in answer:
        raise NoTimes(LEFT_OUT, answer["left_out"])
    if "missing" in answer and whose == OLD:
        raise NoTimes(MISSING, answer["missing"])
    raise NoTimes(FAILED, f"{whose}: {answer.get('failed') or answer['missing']}")


@contextlib.contextmanager
def both(commit: str, seed: int, nodes: int) -> Iterator[tuple[Side, Side]]:
    """Start the old and the new side, each with its cluster, in a temporary directory."""
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        sides = []
        for whose, where, revision in ((OLD, "old", commit), (NEW, "new", None)):
            side = Side(whose, laid_out(Path(directory) / where, revision), seed, nodes)
            sides.append(stack.enter_context(contextlib.closing(side)))
        old, new = sides
        for side in sides:
            side.wait_until_ready()
        yield old, new


def laid_out(directory: Path, commit: str | None) -> Path:
    """Create a directory with `extender` of a commit, or of the working tree (None), beside the current benchmarks."""
    directory.mkdir()
    for name in ("benchmarks", "tests", *([] if commit else ["extender"])):
        (directory / name).symlink_to(ROOT / name, target_is_directory=True)
    if commit:
        archive = subprocess.run(["git", "archive", commit, "extender"], cwd=ROOT, capture_output=True, check=False)
        if archive.returncode:
            raise NotCompared(f"{OLD}: {archive.stderr.decode().strip()}")
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
            files.extractall(directory, filter="data")
    return directory


if __name__ == "__main__":
    main()
