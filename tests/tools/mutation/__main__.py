"""The mutation score of the guard (E13): how many small mistakes in it its tests notice. `make mutants` prints it.

Exit code 1 if it is too low, if a mutant survives that is not declared equivalent, or if one survives no more that is.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from time import monotonic

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # threads do not survive a fork; read when numpy is imported
os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"

from tests.tools.mutation import runner
from tests.tools.mutation.equivalent import EQUIVALENT
from tests.tools.mutation.operators import Mutant

LEAST = 0.90
"""Of all mutants, those that are equivalent included."""


def main() -> int:
    asked = _arguments()
    made = runner.all_mutants()
    chosen = [one for one in made[:: asked.every] if asked.only in one.id]
    if asked.list:
        _say(*(one.id for one in chosen))
        return 0
    began = monotonic()
    runner.prepare()
    if not runner.passes_unchanged():
        _say("the tests fail on the modules as they are")
        return 1
    survived = {fate.mutant.id: not fate.is_killed for fate in runner.run(chosen, asked.workers)}
    wrong = [*_wrong(survived, {one.id for one in made})]
    _say(
        *(f"equivalent: {one}\n            {EQUIVALENT[one]}" for one in _in_order(survived, made) if one in EQUIVALENT)
    )
    _say(*wrong)
    killed, equivalent = list(survived.values()).count(False), sum(one in EQUIVALENT for one in survived)
    score = killed / max(len(survived), 1)
    _say(
        f"mutation score of the guard: {killed} of {len(survived)} killed, {score:.1%}; {equivalent} are equivalent, "
        f"{killed / max(len(survived) - equivalent, 1):.1%} of the others killed; {monotonic() - began:.0f} s"
    )
    return int(score < LEAST or bool(wrong))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.tools.mutation", description=__doc__)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="a sample: every Nth mutant (default: 1)")
    parser.add_argument("--only", default="", metavar="TEXT", help="those with this text in their description")
    parser.add_argument("--list", action="store_true", help="print the mutants, run nothing")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="processes at a time (default: 2)")
    return parser.parse_args()


def _wrong(survived: dict[str, bool], known: set[str]) -> Iterator[str]:
    yield from (f"survived: {one}" for one, does in survived.items() if does and one not in EQUIVALENT)
    yield from (f"declared equivalent, but killed: {one}" for one in EQUIVALENT if survived.get(one) is False)
    yield from (f"declared equivalent, but not made: {one}" for one in EQUIVALENT if one not in known)


def _in_order(survived: dict[str, bool], made: Sequence[Mutant]) -> Iterator[str]:
    return (one.id for one in made if survived.get(one.id))


def _say(*lines: str) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
