"""Comparison of what the engine says of a scenario with kube-scheduler's verdict, in all that the parity tests compare.

Rule: only tests/parity/exemptions.py exempts anything; what the engine does not evaluate is not an agreement.
"""

import json
import re
import traceback
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from extender.core.evaluation import Evaluation
from extender.core.scheduling_cycle.schedule_one import Cycle
from extender.report.pod_schema import NodeDiagnosis
from tests.parity.agreement import compare
from tests.parity.cycles import cycle_differences, is_told
from tests.parity.diagnoses import diagnosis_differences
from tests.parity.exemptions import excused_by, exempt_nodes
from tests.parity.parity import NOW, Evaluated
from tests.parity.versions import accepted, evaluated, normal_of
from tests.upstream.judge import REFUSAL

JSON = dict[str, Any]

NAMED_LAST: Final = ("feasible", "selected")
"""Keys of differences that follow from others: named last, as the first difference is the one that is looked into."""
_LINE: Final = re.compile(r"([\w ]+)(?:\[([^\]]*)\])?: ")
_NAMES: Final = re.compile(r"\d+|\[[^\]]*\]|\{[^}]*\}|(?<=')[^']*(?=')")
"""Parts that differ between two sentences of the same kind."""
_DECODER: Final = json.JSONDecoder()


class Outcome(StrEnum):
    AGREES = "agree"
    REFUSED = "refused by both"
    DIFFERS = "differ"
    EXEMPT = "exempt"
    PANICKED = "at which kube-scheduler panics"
    NOT_EVALUATED = "not evaluated by the engine"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one scenario."""

    outcome: Outcome
    lines: tuple[str, ...] = ()
    """Differences, or why the scenario was not judged."""
    rule: str | None = None
    """Rule by which it is exempt."""
    without_cycle: bool = False
    """True if the verdict does not say how the cycle ends, so that nothing of that is compared."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of difference, without names and numbers, in the order of the lines; empty unless it differs."""
        return tuple(dict.fromkeys(map(kind_of, self.lines))) if self.outcome is Outcome.DIFFERS else ()


def examine(scenario: JSON, minor: int, patch: int | None = None) -> Finding:
    """Compare the engine, as kube-scheduler of that version, with the scenario's `expected` or `error`."""
    if "error" in scenario and not REFUSAL.match(scenario["error"]):
        return Finding(Outcome.NOT_JUDGED, (scenario["error"],))
    if "crash" in scenario.get("expected", {}):
        return Finding(Outcome.PANICKED)
    try:
        if "error" in scenario:
            lines = tuple(f"refusal: {line}" for line in accepted(scenario, minor, patch))
            return Finding(Outcome.DIFFERS if lines else Outcome.REFUSED, lines)
        return _compared(evaluated(scenario, minor, patch=patch), minor)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        last = traceback.format_exception_only(error)[-1].strip()
        return Finding(Outcome.DIFFERS, (f"exception: {last} ({Path(place.filename).name}, {place.name})",))


def _finding(scenario: JSON, lines: list[str]) -> Finding:
    rule = excused_by(scenario, lines)
    return Finding(Outcome.EXEMPT if rule else Outcome.DIFFERS, tuple(lines), rule)


def _compared(one: Evaluated, minor: int) -> Finding:
    if one.not_evaluated:
        lines = _filtered_otherwise(one)
        return _finding(one.scenario, lines) if lines else Finding(Outcome.NOT_EVALUATED)
    told = is_told(one)
    lines = sorted(one.differences, key=lambda line: line.startswith(NAMED_LAST))
    lines += _told("cycle", cycle_differences(one)) if told else []
    lines += _told("diagnosis", diagnosis_differences(one, normal_of(minor)))
    if lines:
        return replace(_finding(one.scenario, lines), without_cycle=not told)
    if _victims_differ(one, minor):
        return Finding(Outcome.EXEMPT, rule="unstableSort", without_cycle=not told)
    return Finding(Outcome.AGREES, without_cycle=not told)


def _filtered_otherwise(one: Evaluated) -> list[str]:
    """Return what filters say otherwise of nodes that are evaluated completely; scores depend on the other nodes."""
    nodes = {node for named in _engine(one)["notEvaluated"].values() for node in named}
    parts = [(line, _LINE.match(line)) for line in one.differences]
    return [line for line, part in parts if part and part[1] == "filter" and part[2] not in nodes]


def _victims_differ(one: Evaluated, minor: int) -> bool:
    """Return whether the scenario agrees only because on some nodes the victims are not compared."""
    expected = one.scenario["expected"]
    if exempt_nodes(one.scenario).isdisjoint(expected["candidates"]):
        return False
    strict = {key: value for key, value in normal_of(minor)(expected).items() if key != "unstableSort"}
    keys = ("candidates", "selected", "selectedTies")
    return bool(compare(one.scenario | {"expected": strict}, _engine(one), keys))


def _engine(one: Evaluated) -> JSON:
    return Evaluation(one.snapshot, one.pod, one.profile, NOW).to_dict()


def _told(what: str, found: list[object]) -> list[str]:
    """Return a line for each difference: ready ones, nodes diagnosed otherwise, and pairs of expected and got."""
    lines = [f"{what} {one}" for one in found if _is_line(one)]
    lines += [f"{what} node: got {one}" for one in found if isinstance(one, NodeDiagnosis)]
    values = [_plain(one) for one in found if not _is_line(one) and not isinstance(one, NodeDiagnosis)]
    pairs = zip(values[::2], values[1::2], strict=True)
    return lines + [f"{what}: expected {right}, got {got}" for right, got in pairs]


def _is_line(one: object) -> bool:
    return isinstance(one, str) and ": expected " in one


def _plain(one: object) -> str:
    if isinstance(one, Cycle):
        victims = [pod.metadata.uid for pod in one.victims]
        return json.dumps([one.outcome, one.node, one.message, victims])
    return json.dumps(one, default=repr)


def kind_of(line: str) -> str:
    """Return the kind of a difference: its key, with the plugins that say so on both sides."""
    match = _LINE.match(line)
    if match is None:
        return line.partition(":")[0]
    if match[1] in ("exception", "refusal"):
        return _NAMES.sub("…", line)
    sides = _sides(line[match.end() :])
    return " ".join(filter(None, (match[1], _of_sides(*sides) if sides else "")))


def _sides(text: str) -> tuple[Any, Any] | None:
    """Return the values of `expected …, got …`; None if the text is not such a line."""
    try:
        expected, end = _DECODER.raw_decode(text, len("expected "))
        got, _ = _DECODER.raw_decode(text, end + len(", got "))
    except (json.JSONDecodeError, IndexError):
        return None
    return expected, got


def _of_sides(expected: Any, got: Any) -> str:
    if not (isinstance(expected, dict) and isinstance(got, dict)):
        return f"{_shape(expected)} -> {_shape(got)}"
    if "plugins" in expected and "plugins" in got:
        ours, theirs = got["plugins"], expected["plugins"]
        return ", ".join(sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name)))
    if {"code", "reasons"} <= expected.keys() & got.keys():
        if expected | {"reasons": 0} == got | {"reasons": 0}:
            return f"reasons of {expected.get('plugin', expected['code'])}"
        return f"{_shape(expected)} -> {_shape(got)}"
    return ", ".join(sorted(key for key in {*expected, *got} if expected.get(key) != got.get(key)))


def _shape(value: Any) -> str:
    if isinstance(value, dict) and "code" in value:
        return " ".join(filter(None, (value["code"], value.get("plugin", ""))))
    if isinstance(value, list) and value and isinstance(value[0], str):
        return value[0] if value[0].istitle() else "list"
    return type(value).__name__ if value is not None else "none"
