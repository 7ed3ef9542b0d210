"""One of two revisions that are compared: takes times of the works that its standard input names.

A line is {"work": name, "runs": N}; the answer is {"times": [seconds, …]}, or {"missing": why} where this revision
does not have what the work needs. The first line that is written says that the cluster is there.

Rule: the `extender` that is measured is the one in the current directory.
"""

import argparse
import gc
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import extender
from benchmarks import cores
from benchmarks.generate import Plan
from benchmarks.measure import Work, start_over
from benchmarks.works import MODULES, Maker
from benchmarks.world import World

LACKING = (ImportError, AttributeError, TypeError, KeyError)
"""What comes of calling what is not there, or was called otherwise."""


def main() -> None:
    start_over("benchmarks.side")
    parser = argparse.ArgumentParser(prog="python -m benchmarks.side", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--nodes", type=int, required=True)
    given = parser.parse_args()
    if not Path(extender.__file__).is_relative_to(Path.cwd()):
        raise SystemExit(f"{extender.__file__} is not of this revision")
    world = World(Plan(given.seed, given.nodes))
    _ = world.candidates
    gc.collect()
    gc.freeze()
    cores.pin()
    say({"ready": True})
    works = Works(world, makers())
    for line in sys.stdin:
        asked = json.loads(line)
        say(works.taken(asked["work"], asked["runs"]))


def say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


def makers() -> dict[str, Maker]:
    """Those that this revision can import."""
    found: dict[str, Maker] = {}
    for module in MODULES:
        try:
            found |= importlib.import_module(f"benchmarks.works.{module}").WORKS
        except LACKING as error:
            print(f"{module}: {error}", file=sys.stderr)
    return found


class Works:
    """One work is kept at a time, as it was made and warmed up."""

    def __init__(self, world: World, makers: dict[str, Maker]) -> None:
        self._world, self._makers = world, makers
        self._name, self._work = "", Work(lambda: None)

    def taken(self, name: str, runs: int) -> dict[str, Any]:
        try:
            if name != self._name:
                self._name, self._work = name, self._makers[name](self._world)
            return {"times": [self._work.seconds() for _ in range(runs)]}
        except LACKING as error:
            self._name = ""
            return {"missing": f"{type(error).__name__}: {str(error)[:100]}"}


if __name__ == "__main__":
    main()
