"""What changed between two verdicts of a scenario, of those keys that tests read.

Rule: what the judge notes beside verdicts does not count as a change, nor does what is random upstream.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from tests.parity.agreement import COMPARED
from tests.parity.exemptions import undetermined
from tests.parity.versions import normal_of

JSON = dict[str, Any]
Verdict = JSON
"""{"expected": …}, or {"error": …} where kube-scheduler refuses the configuration."""

READ: Final = (*COMPARED, "postFilter", "unstableSort", "budgetOrder", "unsettled")
"""Keys of a verdict that tests read; the others are notes of the judge."""


@dataclass(slots=True)
class Changes:
    """Changes of one category."""

    category: str
    scenarios: int
    panics: int = 0
    """Number of scenarios at which kube-scheduler panics."""
    lines: dict[str, dict[str, str]] = field(default_factory=dict)
    """Scenario -> key of the verdict -> its first difference, as a line."""
    kept: int = 0
    """Number of verdicts that differ by chance: those before them stay."""

    def note(
        self,
        scenario: JSON,
        before: Verdict,
        after: Verdict,
        minor: int,
        *,
        is_first: bool = False,
        again: Callable[[], Iterable[Verdict]] = tuple,
    ) -> bool:
        """Note down what changed in the minor's verdict; False if the verdict before it stays.

        `is_first`: the minor has not judged the scenario before. `again` asks the judge again, where upstream draws: a
        verdict that is among the answers stays.
        """
        found = changes_of(before, after, minor)
        if not found:
            return False
        stays = is_chance(scenario, after) or any(not changes_of(before, other, minor) for other in again())
        if stays and not is_first:
            self.kept += 1
            return False
        self.lines[name_of(scenario)] = found
        return True

    def __str__(self) -> str:
        keys = Counter(key for found in self.lines.values() for key in found)
        counts = "".join(f", {count} {key}" for key, count in sorted(keys.items()))
        panics = f"; {self.panics} removed, at which kube-scheduler panics" if self.panics else ""
        kept = f"; {self.kept} kept, which differ by chance" if self.kept else ""
        first = (f"\n  {name}: {line[:400]}" for name, found in self.lines.items() for line in [*found.values()][:1])
        return f"{self.category}: {len(self.lines)} of {self.scenarios} changed{counts}{panics}{kept}{''.join(first)}"


def name_of(line: JSON) -> str:
    """The id of a line of the corpus, in gates.jsonl.gz with the minor and its gates: one scenario may have several."""
    gates = "".join(f", {name}={str(value).lower()}" for name, value in line.get("gates", {}).items())
    return f"{line['id']} 1.{line['minor']}{gates}" if "minor" in line else line["id"]


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


def is_chance(scenario: JSON, verdict: Verdict) -> bool:
    """True if another run of the same kube-scheduler may say something else of the scenario."""
    return "unsettled" in verdict.get("expected", {}) or undetermined(scenario) == "reserved twice"


def panics(verdict: Verdict) -> bool:
    return "crash" in verdict.get("expected", {})
