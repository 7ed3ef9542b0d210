"""Compare two answers to one request, node by node.

Rule: only status and body are compared, so the answers may be from any two extenders.
"""

import contextlib
from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Any, NamedTuple

import msgspec

from extender.report.schema import VerbName
from extender.utilities.text import join_names, pluralize

ABSENT = "not in the answer"

MAX_NAMES = 10
"""Maximum number of names in one list; the rest is summarized as `and 3 more`."""

BYTES_AROUND = 40
"""Bytes shown on each side of the first byte that differs."""


class RawAnswer(NamedTuple):
    """HTTP status and body of an answer."""

    status: int
    body: bytes


class Difference(NamedTuple):
    """A difference between two answers; None if missing from that answer."""

    what: str
    """`node NAME`, `order`, `answer` or `bytes`."""
    recorded: str | None
    now: str | None

    def __str__(self) -> str:
        return f"{self.what}: {self.recorded or ABSENT} -> {self.now or ABSENT}"


def compare_answers(
    verb: VerbName, recorded: RawAnswer, now: RawAnswer, pod_name: Callable[[str], str] = str, *, exact: bool = True
) -> tuple[Difference, ...]:
    """Return the differences; none if both answers are identical or, unless `exact`, equal as JSON.

    `pod_name`: UID -> name of the pod, for the messages.
    """
    # 1. Are the answers equal?
    if recorded == now:
        return ()
    if not exact and recorded.status == now.status:
        with contextlib.suppress(ValueError, RecursionError):
            if msgspec.json.decode(recorded.body) == msgspec.json.decode(now.body):
                return ()
    # 2. An error, or a body that is not an answer of the verb, is compared as a whole.
    before, after = _statements(verb, recorded, pod_name), _statements(verb, now, pod_name)
    if before is None or after is None:
        return (Difference("answer", _render_answer(recorded), _render_answer(now)),)
    # 3. Compare node by node.
    if found := tuple(
        Difference(what, before.get(what), after.get(what))
        for what in dict.fromkeys((*before, *after))
        if before.get(what) != after.get(what)
    ):
        return found
    # 4. The nodes are the same: the order differs, or only the spelling of the JSON.
    if list(before) != list(after):
        return (Difference("order", join_names(list(before), MAX_NAMES), join_names(list(after), MAX_NAMES)),)
    at = next((place for place, (a, b) in enumerate(zip_longest(recorded.body, now.body)) if a != b), 0)
    shown = slice(max(0, at - BYTES_AROUND), at + BYTES_AROUND)
    old, new = (f"at {at}: {one.body[shown].decode('utf-8', 'replace')}" for one in (recorded, now))
    return (Difference("bytes", old, new),)


def _statements(verb: VerbName, answered: RawAnswer, pod_name: Callable[[str], str]) -> dict[str, str] | None:
    """Return `node NAME` -> its result, in the order of the answer; None if the answer is an error or malformed."""
    if answered.status != 200:
        return None
    try:
        return dict(_STATEMENTS[verb](msgspec.json.decode(answered.body), pod_name))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _filter_statements(answer: Any, _: object) -> Iterator[tuple[str, str]]:
    if answer.get("Error"):
        raise ValueError(answer["Error"])
    whole, names = answer["Nodes"], answer["NodeNames"]
    accepted = names if whole is None else [node["metadata"]["name"] for node in whole["items"] or ()]
    yield from ((f"node {name}", "accepted") for name in accepted or ())
    yield from ((f"node {name}", f"rejected: {reason}") for name, reason in (answer["FailedNodes"] or {}).items())
    unresolvable = answer["FailedAndUnresolvableNodes"] or {}
    yield from ((f"node {name}", f"rejected as unresolvable: {reason}") for name, reason in unresolvable.items())


def _preempt_statements(answer: Any, pod_name: Callable[[str], str]) -> Iterator[tuple[str, str]]:
    for node, victims in answer["NodeNameToMetaVictims"].items():
        pods = join_names([pod_name(pod["UID"]) for pod in victims["Pods"] or ()], MAX_NAMES)
        violated = victims["NumPDBViolations"]
        violations = f", {pluralize(violated, 'PDB violation')}" if violated else ""
        yield f"node {node}", f"evicts {pods or 'no pods'}{violations}"


_STATEMENTS: dict[VerbName, Callable[[Any, Callable[[str], str]], Iterator[tuple[str, str]]]] = {
    "filter": _filter_statements,
    "prioritize": lambda answer, _: ((f"node {one['Host']}", f"score {one['Score']}") for one in answer),
    "preempt": _preempt_statements,
}


def _render_answer(answered: RawAnswer, max_length: int = 500) -> str:
    text = answered.body.decode("utf-8", "replace")
    return f"{answered.status} {text if len(text) <= max_length else f'{text[:max_length]}…'}"
