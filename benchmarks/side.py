"""Serve one of two compared revisions: time the works named on standard input.

A request line is {"work": name, "runs": N}; the reply is one of
- {"times": [seconds, …]}
- {"missing": why}: this revision lacks something that building the work needs
- {"left_out": why}: the cluster is too small for the work
- {"failed": what was raised}: while building the work for another reason, or while running it
The first line written says that the cluster has been generated.

Rule: the `extender` that is measured is the one in the current directory.
"""

import argparse
import gc
import importlib
import json
import sys
import traceback
from pathlib import Path
from typing import Any

import extender
from benchmarks import cores
from benchmarks.generate import Plan
from benchmarks.measure import Work, start_over
from benchmarks.works import MODULES, Maker, TooFewNodes
from benchmarks.world import World

LACKING = (ImportError, AttributeError, TypeError, KeyError)
"""Exceptions raised while building a work if a name is missing or has another signature."""


def main() -> None:
    start_over("benchmarks.side")
    parser = argparse.ArgumentParser(prog="python -m benchmarks.side", description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--nodes", type=int, required=True)
    given = parser.parse_args()
    if not Path(extender.__file__).is_relative_to(Path.cwd()):
        raise SystemExit(f"{extender.__file__} does not belong to this revision")
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
    """Return the makers of all works that this revision can import."""
    found: dict[str, Maker] = {}
    for module in MODULES:
        try:
            found |= importlib.import_module(f"benchmarks.works.{module}").WORKS
        except LACKING as error:
            print(f"{module}: {error}", file=sys.stderr)
    return found


def error_message(error: Exception) -> str:
    """Return the type and message of an error on one line of at most 200 characters."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]


class Works:
    """Cache of the last work, built and warmed up."""

    def __init__(self, world: World, makers: dict[str, Maker]) -> None:
        self._world, self._makers = world, makers
        self._name, self._work = "", Work(lambda: None)

    def taken(self, name: str, runs: int) -> dict[str, Any]:
        """Handle one request; a work that failed is rebuilt the next time."""
        try:
            self._make(name)
        except TooFewNodes as error:
            return {"left_out": str(error)}
        except LACKING as error:
            return {"missing": error_message(error)}
        except Exception as error:
            return self._failed(error)
        try:
            return {"times": [self._work.seconds() for _ in range(runs)]}
        except Exception as error:
            return self._failed(error)

    def _make(self, name: str) -> None:
        """Build the work unless it is the cached one."""
        if name != self._name:
            self._name = ""
            self._work = self._makers[name](self._world)
            self._name = name

    def _failed(self, error: Exception) -> dict[str, Any]:
        """Print the traceback to stderr and return the reply."""
        self._name = ""
        traceback.print_exception(error)
        return {"failed": error_message(error)}


if __name__ == "__main__":
    main()
