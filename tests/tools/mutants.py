"""The verdict on the mutants of the guard (E13), after `mutmut run`: each is killed, or equivalent for a reason.

    make mutants                  all mutants
    make mutants ARGS='"*7"'      a sample: those whose name matches

Exit code 1 if another mutant survives, or if one that is listed here is made no more or is killed.
"""

import subprocess
import sys
from pathlib import Path

_ANY_NAME = "the name of the share is read nowhere, and no other share has this name"

EQUIVALENT = {
    'return [("XXpodsXX", index) for index in selecting if not self._is_disrupted(index, pod)]': _ANY_NAME,
    'return [("PODS", index) for index in selecting if not self._is_disrupted(index, pod)]': _ANY_NAME,
    'return [("pods" if pod.is_ready or self._counts_unready_pods(index) else "XXunreadyXX", index)]': _ANY_NAME,
    'return [("pods" if pod.is_ready or self._counts_unready_pods(index) else "UNREADY", index)]': _ANY_NAME,
    "is_healthy = status.desired_healthy >= 0 and min(healthy, status.current_healthy) >= status.desired_healthy": (
        "with desiredHealthy 0 unready pods count like ready pods, so this line is reached only with AlwaysAllow, "
        "which allows them anyway"
    ),
    "return lambda _: None": "None is as false as False",
    "context, candidates = SchedulingContext(preemptor, snapshot, profile, None, history), tuple(candidates)": (
        "no rule of the guard reads the nominated pods"
    ),
    "rejected_count = None": "without the short cuts that compare it, the result is computed",
}
"""Changed line of a mutant that no test can distinguish from the original -> reason."""


def mutmut(*arguments: str) -> str:
    command = [str(Path(sys.executable).with_name("mutmut")), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def changed_line(mutant: str) -> str:
    """The line that the mutant has instead."""
    lines = mutmut("show", mutant).splitlines()
    return " ".join(line[1:].strip() for line in lines if line[:1] == "+" and line[:3] != "+++")


def main() -> int:
    lines = mutmut("results", "--all", "true").splitlines()
    fates = dict(line.strip().rsplit(": ", 1) for line in lines if ": " in line)
    tried = {one: fate for one, fate in fates.items() if fate != "not checked"}
    survived = {changed_line(one): one for one, fate in tried.items() if fate not in ("killed", "timeout")}
    wrong = [f"survived: {one}: {line}" for line, one in survived.items() if line not in EQUIVALENT]
    if len(tried) == len(fates):
        wrong += [f"equivalent, but killed or not made: {line}" for line in EQUIVALENT if line not in survived]
    equivalent = [f"equivalent: {line}\n            {EQUIVALENT[line]}" for line in survived if line in EQUIVALENT]
    killed = len(tried) - len(survived)
    score = f"mutation score of the guard: {killed} of {len(tried)} killed, {len(equivalent)} are equivalent"
    sys.stdout.write("\n".join([*equivalent, *wrong, score, ""]))
    return 1 if wrong or not tried else 0


if __name__ == "__main__":
    sys.exit(main())
