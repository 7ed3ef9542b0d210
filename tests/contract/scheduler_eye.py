"""What kube-scheduler does with an extender's answer: a port of its rules for accepting one (v1.36).

From pkg/scheduler: extender.go (HTTPExtender: send, Filter, Prioritize, ProcessPreemption, convertToVictims),
schedule_one.go (findNodesThatPassExtenders), framework/preemption (callExtenders, pickOneNodeForPreemption), and
from what encoding/json takes for an integer or a key.

Rule: lenient exactly where kube-scheduler is; what it refuses is raised with its own words. It does not check for null
where an object belongs: an assertion here, which no test calls for.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from extender.k8s.objects import Pod


class SchedulerRefuses(Exception):
    """kube-scheduler takes the answer for an error, and says this."""


@dataclass(frozen=True)
class Filtered:
    nodes: list[str]
    """That are left, in order."""
    whole: list[Any] | None
    """The Nodes that the scheduler builds its records from, if whole ones were answered."""
    failed: dict[str, str]
    unresolvable: dict[str, str]


@dataclass(frozen=True)
class Victims:
    pods: list[Pod]
    violations: int


@dataclass(frozen=True)
class SchedulerEye:
    """A kube-scheduler that knows these pods, by node and UID."""

    pods: Mapping[str, Mapping[str, Pod]]
    ignorable: bool = False

    def filter(self, request: bytes, status: int, answer: bytes) -> Filtered:
        """The nodes that are left; SchedulerRefuses if the call counts as failed."""
        result = _object(_read("filter", status, answer), "ExtenderFilterResult")
        error = _string(_field(result, "Error")) or ""
        if error:
            raise SchedulerRefuses(error)
        offered = _sent_names(request)
        names, nodes = _field(result, "NodeNames"), _field(result, "Nodes")
        failed, unresolvable = (_string_map(_field(result, k)) for k in ("FailedNodes", "FailedAndUnresolvableNodes"))
        left, whole = [], None
        if offered is not None and names is not None:
            left = [_string(name) or "" for name in _list(names)]
            for name in left:
                if name not in offered:
                    raise SchedulerRefuses(f'claims a filtered node "{name}" which is not found in the input node list')
        elif nodes is not None:
            whole = _list(_field(_object(nodes, "NodeList"), "Items"))
            left = [item["metadata"]["name"] for item in whole]
        return Filtered(left, whole, {n: m for n, m in failed.items() if n not in unresolvable}, unresolvable)

    def prioritize(self, status: int, answer: bytes) -> dict[str, int]:
        """What is added per host; SchedulerRefuses where the scheduler drops the whole answer."""
        totals: dict[str, int] = {}
        for entry in _list(_read("prioritize", status, answer)):
            host = _object(entry, "HostPriority")
            name, score = _string(_field(host, "Host")) or "", _int64(_field(host, "Score"), "Score")
            totals[name] = totals.get(name, 0) + score
        return totals

    def preempt(self, status: int, answer: bytes) -> dict[str, Victims]:
        """The candidates that are left; SchedulerRefuses if the call counts as failed."""
        result = _object(_read("preempt", status, answer), "ExtenderPreemptionResult")
        candidates = {}
        for node, victims in (_field(result, "NodeNameToMetaVictims") or {}).items():
            if node not in self.pods:
                raise SchedulerRefuses(f'nodeinfo not found for node name "{node}"')
            assert victims is not None
            candidates[node] = self._victims(node, _object(victims, "MetaVictims"))
        for node in [node for node, victims in candidates.items() if not victims.pods]:
            if not self.ignorable:
                raise SchedulerRefuses(f'expected at least one victim pod on node "{node}"')
            del candidates[node]
        return candidates

    def _victims(self, node: str, victims: dict[str, Any]) -> Victims:
        pods = []
        for entry in _list(_field(victims, "Pods") or []):
            assert entry is not None
            uid = _string(_field(_object(entry, "MetaPod"), "UID")) or ""
            if uid not in self.pods[node]:
                raise SchedulerRefuses(
                    f"claims to preempt pod (UID: {uid}) on node: {node}, but the pod is not found on that node"
                )
            pods.append(self.pods[node][uid])
        return Victims(pods, _int64(_field(victims, "NumPDBViolations"), "NumPDBViolations"))


# --- choosing among candidates ------------------------------------------------------------------------------------


def choices(candidates: Mapping[str, Victims], now: datetime) -> set[str]:
    """The nodes among which pickOneNodeForPreemption chooses by chance."""
    left = dict(candidates)
    for cost in _COSTS:
        costs = {node: cost(victims, now) for node, victims in left.items()}
        left = {node: victims for node, victims in left.items() if costs[node] == min(costs.values())}
    return set(left)


def _earliest_start_of_the_highest(victims: Victims, now: datetime) -> float:
    highest = max(pod.priority for pod in victims.pods)
    starts = [pod.status.start_time for pod in victims.pods if pod.priority == highest]
    return -min(datetime.fromisoformat(start) if start else now for start in starts).timestamp()


_COSTS: tuple[Callable[[Victims, datetime], float], ...] = (
    lambda victims, _: victims.violations,
    lambda victims, _: victims.pods[0].priority,  # the first one is taken for the highest
    lambda victims, _: sum(pod.priority + 2**31 for pod in victims.pods),
    lambda victims, _: len(victims.pods),
    _earliest_start_of_the_highest,
)

NOW = datetime(2100, 1, 1, tzinfo=UTC)
"""Later than any start time in the recordings."""


# --- encoding/json ----------------------------------------------------------------------------------------------------


class _Fraction(float):
    """A number that was not written as an integer."""


def _read(verb: str, status: int, answer: bytes) -> Any:
    """The first JSON value of a 200; what follows it is not looked at."""
    if status != 200:
        raise SchedulerRefuses(f"failed {verb} with extender, code {status}")
    text = answer.decode("utf-8", "replace").lstrip(" \t\r\n")
    if not text:
        raise SchedulerRefuses("EOF")
    try:
        return json.JSONDecoder(parse_float=_Fraction, parse_constant=_no_constant).raw_decode(text)[0]
    except ValueError as error:
        raise SchedulerRefuses(f"invalid character: {error}") from error


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _field(value: dict[str, Any], name: str) -> Any:
    """The field of that name in any case, the last one that is there."""
    found = None
    for key, below in value.items():
        if key.casefold() == name.casefold():
            found = below
    return found


def _object(value: Any, kind: str) -> dict[str, Any]:
    if value is not None and not isinstance(value, dict):
        raise SchedulerRefuses(f"json: cannot unmarshal {type(value).__name__} into Go value of type v1.{kind}")
    return value or {}


def _list(value: Any) -> list[Any]:
    if value is not None and not isinstance(value, list):
        raise SchedulerRefuses(f"json: cannot unmarshal {type(value).__name__} into a Go slice")
    return value or []


def _string(value: Any) -> str | None:
    if value is not None and not isinstance(value, str):
        raise SchedulerRefuses(f"json: cannot unmarshal {type(value).__name__} into Go value of type string")
    return value


def _string_map(value: Any) -> dict[str, str]:
    return {key: _string(text) or "" for key, text in _object(value, "FailedNodesMap").items()}


def _int64(value: Any, name: str) -> int:
    if value is None:
        return 0
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise SchedulerRefuses(f"json: cannot unmarshal {value!r} into Go struct field {name} of type int64")
    return value


def _sent_names(request: bytes) -> set[str] | None:
    """The names that were sent; None if whole nodes were, of which nothing is checked."""
    names: list[str] | None = json.loads(request)["NodeNames"]
    return None if names is None else set(names)
