"""`python -m benchmarks.compare REV`: is what is in this folder slower than another revision, work by work?

The present benchmarks measure both, in two processes on one core that take turns (A B A B …). A row is slower if the
median of the pairs' ratios is more than 1.1 and the middle halves of both sides do not overlap.

Rule: the exit code is 1 if a work is slower; run again before you believe it of a busy machine.
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
from typing import Any

from benchmarks import cores
from benchmarks.machine import ROOT, git
from benchmarks.measure import MALLOC
from benchmarks.printing import aligned, number
from benchmarks.service import end
from benchmarks.works import MODULES

SLOWER = 1.1
TURNS = 9
SECONDS_OF_A_TURN = 0.2
MOST_RUNS = 40
NODES = 5000
SEED = 20261121
HEADINGS = ("what", "old", "spread", "new", "spread", "new / old", "spread", "")
MISSING = "not in REV"


@dataclass(frozen=True, slots=True)
class Compared:
    """One work; seconds of a turn each (medians), pair by pair."""

    name: str
    old: Sequence[float] = ()
    new: Sequence[float] = ()
    missing: str = ""
    """Why there is nothing to compare with."""

    @property
    def ratios(self) -> list[float]:
        return [new / old for old, new in zip(self.old, self.new, strict=True)]

    @property
    def verdict(self) -> str:
        if self.missing:
            return MISSING
        ratio, (old_low, old_high), (new_low, new_high) = (
            statistics.median(self.ratios),
            middle_half(self.old),
            middle_half(self.new),
        )
        if ratio > SLOWER and new_low > old_high:
            return "slower"
        return "faster" if ratio < 1 / SLOWER and new_high < old_low else ""

    def cells(self) -> tuple[str, ...]:
        if self.missing:
            return (self.name, *[""] * (len(HEADINGS) - 2), f"{MISSING}: {self.missing}")
        of_ratios = self.ratios
        times = [cell for side in (self.old, self.new) for cell in (_ms(statistics.median(side)), _spread(side, 1000))]
        return (self.name, *times, number(statistics.median(of_ratios)), _spread(of_ratios, 1), self.verdict)


def middle_half(values: Sequence[float]) -> tuple[float, float]:
    """The quartiles."""
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def _ms(seconds: float) -> str:
    return f"{number(1000 * seconds)} ms"


def _spread(values: Sequence[float], factor: float) -> str:
    low, high = middle_half(values)
    return f"{number(factor * low)} .. {number(factor * high)}"


def table(rows: Sequence[Compared]) -> str:
    return aligned([HEADINGS, *(row.cells() for row in rows)], ("what", ""))


def main() -> None:
    given = options().parse_args()
    commit = git("rev-parse", "--verify", "--quiet", f"{given.revision}^{{commit}}")
    if not commit:
        raise SystemExit(f"there is no revision {given.revision!r} here")
    print(f"old: {given.revision} ({commit[:12]}); new: this folder; {given.nodes:,} nodes, seed {given.seed}")
    print(f"CPU time of a thread on one core; {cores.in_words()}; spread: the middle half of {TURNS} turns", flush=True)
    with both(commit, given.seed, given.nodes) as (old, new):
        rows = [row for name in names() if given.only in name for row in [compared(name, old, new)]]
    print(f"\n{table(rows)}\n")
    slower = [row.name for row in rows if row.verdict == "slower"]
    print("\n".join(f"slower: {name}" for name in slower) or "nothing is slower by more than a tenth and the noise")
    sys.exit(1 if slower else 0)


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("revision", metavar="REV", help="whatever git takes: a commit, a tag, HEAD~3")
    parser.add_argument("--nodes", metavar="N", type=int, default=NODES, help=f"size of the cluster ({NODES:,})")
    parser.add_argument("--seed", metavar="N", type=int, default=SEED, help="another cluster of the same kind")
    parser.add_argument("--only", metavar="TEXT", default="", help="works whose name has this text")
    return parser


def names() -> list[str]:
    """Of all works that there are now."""
    return [name for module in MODULES for name in importlib.import_module(f"benchmarks.works.{module}").WORKS]


def compared(name: str, old: "Side", new: "Side") -> Compared:
    print(f"comparing {name} …", file=sys.stderr, flush=True)
    found = old.taken(name, 1)
    if "missing" in found:
        return Compared(name, missing=found["missing"])
    new.taken(name, 1)
    start = time.perf_counter()
    new.taken(name, 1)
    runs = max(1, min(MOST_RUNS, int(SECONDS_OF_A_TURN / (time.perf_counter() - start))))
    pairs = [(old.median(name, runs), new.median(name, runs)) for _ in range(TURNS)]
    return Compared(name, [one for one, _ in pairs], [other for _, other in pairs])


# --- the two revisions ------------------------------------------------------------------------------------------------


class Side:
    """A process with one of the revisions."""

    def __init__(self, directory: Path, seed: int, nodes: int) -> None:
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
            if pipe:
                pipe.close()

    def answer(self) -> dict[str, Any]:
        line = self.process.stdout.readline() if self.process.stdout else ""
        if not line:
            raise SystemExit("a revision has ended: it cannot make the benchmarks' cluster")
        found: dict[str, Any] = json.loads(line)
        return found

    def taken(self, name: str, runs: int) -> dict[str, Any]:
        if self.process.stdin:
            self.process.stdin.write(json.dumps({"work": name, "runs": runs}) + "\n")
        return self.answer()

    def median(self, name: str, runs: int) -> float:
        """Seconds of one of so many runs."""
        times: list[float] = self.taken(name, runs)["times"]
        return statistics.median(times)


@contextlib.contextmanager
def both(commit: str, seed: int, nodes: int) -> Iterator[tuple[Side, Side]]:
    """Old and new, each with its cluster, from a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        sides = []
        for where, revision in (("old", commit), ("new", None)):
            side = Side(laid_out(Path(directory) / where, revision), seed, nodes)
            sides.append(stack.enter_context(contextlib.closing(side)))
        old, new = sides
        for side in sides:
            side.answer()
        yield old, new


def laid_out(directory: Path, commit: str | None) -> Path:
    """A folder with `extender` of a commit, or as it is (None), beside the present benchmarks."""
    directory.mkdir()
    for name in ("benchmarks", "tests", *([] if commit else ["extender"])):
        (directory / name).symlink_to(ROOT / name, target_is_directory=True)
    if commit:
        archive = subprocess.run(["git", "archive", commit, "extender"], cwd=ROOT, capture_output=True, check=True)
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
            files.extractall(directory, filter="data")
    return directory


if __name__ == "__main__":
    main()
