"""What changed between two verdicts of a scenario, of those keys that tests read.

Rule: what the judge notes down beside them is no change, and what is chance upstream is none either.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from tests.parity.agreement import COMPARED
from tests.parity.exemptions import undetermined
from tests.parity.versions import normal_of

JSON = dict[str, Any]
Verdict = JSON
"""{"expected": …}, or {"error": …} where kube-scheduler refuses the configuration."""

READ: Final = (*COMPARED, "postFilter", "unstableSort", "unsettled")
"""Keys of a verdict that tests read; the others are notes of the judge."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Of one category."""

    category: str
    scenarios: int
    lines: dict[str, dict[str, str]] = field(default_factory=dict)
    """Scenario -> key of the verdict -> its first difference, as a line."""
    panics: int = 0
    """Number of scenarios at which kube-scheduler panics."""

    def __str__(self) -> str:
        keys = Counter(key for found in self.lines.values() for key in found)
        counts = "".join(f", {count} {key}" for key, count in sorted(keys.items()))
        panics = f"; removed {self.panics} at which kube-scheduler panics" if self.panics else ""
        first = (f"\n  {name}: {line[:400]}" for name, found in self.lines.items() for line in [*found.values()][:1])
        return f"{self.category}: {len(self.lines)} of {self.scenarios} changed{counts}{panics}{''.join(first)}"


def changes_of(before: Verdict, after: Verdict, minor: int) -> dict[str, str]:
    """Key -> what differs first, as a line; empty if the verdicts count as the same."""
    if "error" in before or "error" in after:
        same = before.get("error") == after.get("error")
        return {} if same else {"error": f"error: {before.get('error')} -> {after.get('error')}"}
    old, new = map(normal_of(minor), (before["expected"], after["expected"]))
    return {key: _line(key, old.get(key), new.get(key)) for key in READ if old.get(key) != new.get(key)}


def _line(key: str, before: object, after: object) -> str:
    if isinstance(before, dict) and isinstance(after, dict):
        part = next(part for part in sorted(before.keys() | after.keys()) if before.get(part) != after.get(part))
        return _line(f"{key}[{part}]", before.get(part), after.get(part))
    return f"{key}: {json.dumps(before)} -> {json.dumps(after)}"


def is_chance(scenario: JSON) -> bool:
    """True if another run of the same kube-scheduler may say something else of the scenario."""
    return undetermined(scenario) in ("reserved twice", "unsettled")


def panics(verdict: Verdict) -> bool:
    return "crash" in verdict.get("expected", {})
