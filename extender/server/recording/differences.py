"""What two answers to one request say differently, node by node.

Rule: nothing is decided here, and any two answers can be compared, whoever gave them.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

import msgspec

from extender.core.explain.schema import Verb

ABSENT = "not in the answer"

MOST_NAMES = 10
"""How many nodes or pods are named in a row."""


class Answered(NamedTuple):
    """What was answered."""

    status: int
    body: bytes


class Difference(NamedTuple):
    """Something of which they say different things; None: one of them says nothing of it."""

    what: str
    """A node, the order of nodes, or the answer as a whole."""
    recorded: str | None
    now: str | None

    def __str__(self) -> str:
        return f"{self.what}: {self.recorded or ABSENT} -> {self.now or ABSENT}"


def differences(
    verb: Verb, recorded: Answered, now: Answered, pod_name: Callable[[str], str] = str, *, exact: bool = True
) -> tuple[Difference, ...]:
    """Nothing if both are the same, byte for byte; or, not `exact`, the same JSON. `pod_name`: of a UID."""
    if recorded == now or (not exact and recorded.status == now.status and _is_same_json(recorded.body, now.body)):
        return ()
    return tuple(_found(verb, recorded, now, pod_name))


def _found(verb: Verb, recorded: Answered, now: Answered, pod_name: Callable[[str], str]) -> Iterator[Difference]:
    before, after = _said(verb, recorded, pod_name), _said(verb, now, pod_name)
    if before is None or after is None:
        yield Difference("answer", _whole(recorded), _whole(now))
        return
    found = [
        Difference(what, before.get(what), after.get(what))
        for what in dict.fromkeys((*before, *after))
        if before.get(what) != after.get(what)
    ]
    yield from found
    if not found and list(before) != list(after):
        yield Difference("order", _some(list(before)), _some(list(after)))
    elif not found:
        yield Difference("bytes", *_first_difference(recorded.body, now.body))


def _said(verb: Verb, answered: Answered, pod_name: Callable[[str], str]) -> dict[str, str] | None:
    """`node a` -> what is said of it, in the order of the answer; None: it is no answer of that verb."""
    if answered.status != 200:
        return None
    try:
        return dict(_READ[verb](msgspec.json.decode(answered.body), pod_name))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _of_filter(answer: Any, _: object) -> Iterator[tuple[str, str]]:
    if answer.get("Error"):
        raise ValueError(answer["Error"])
    whole, names = answer["Nodes"], answer["NodeNames"]
    accepted = names if whole is None else [node["metadata"]["name"] for node in whole["items"] or ()]
    yield from ((f"node {name}", "accepted") for name in accepted or ())
    yield from ((f"node {name}", f"rejected: {reason}") for name, reason in (answer["FailedNodes"] or {}).items())
    unresolvable = answer["FailedAndUnresolvableNodes"] or {}
    yield from ((f"node {name}", f"rejected for good: {reason}") for name, reason in unresolvable.items())


def _of_prioritize(answer: Any, _: object) -> Iterator[tuple[str, str]]:
    yield from ((f"node {one['Host']}", f"score {one['Score']}") for one in answer)


def _of_preempt(answer: Any, pod_name: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    for node, victims in answer["NodeNameToMetaVictims"].items():
        pods = _some([pod_name(pod["UID"]) for pod in victims["Pods"] or ()])
        broken = victims["NumPDBViolations"]
        violations = f", {broken} budget violation{'s' if broken > 1 else ''}" if broken else ""
        yield f"node {node}", f"evicts {pods or 'nobody'}{violations}"


_READ: dict[Verb, Callable[[Any, Callable[[str], str]], Iterator[tuple[str, str]]]] = {
    "filter": _of_filter,
    "prioritize": _of_prioritize,
    "preempt": _of_preempt,
}


def _whole(answered: Answered, most: int = 500) -> str:
    text = answered.body.decode("utf-8", "replace")
    return f"{answered.status} {text if len(text) <= most else f'{text[:most]}…'}"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more


def _first_difference(a: bytes, b: bytes, around: int = 40) -> tuple[str, str]:
    at = next((place for place, (x, y) in enumerate(zip_longest(a, b)) if x != y), 0)
    start = max(0, at - around)
    return tuple(f"at {at}: {one[start : at + around].decode('utf-8', 'replace')}" for one in (a, b))  # type: ignore[return-value]


def _is_same_json(a: bytes, b: bytes) -> bool:
    try:
        return bool(msgspec.json.decode(a) == msgspec.json.decode(b))
    except ValueError:
        return False
