"""The last decisions of each verb, with all that led to them.

Every verb has a ring of its own: a cluster that schedules a hundred pods a second must not push out the preemption that
somebody asks about an hour later. Decisions are kept as arrays and told when somebody asks (`core.explain.render`).

Rule: used by the thread that decides; what is kept never changes, and may be told on any other thread.
"""

import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Literal

from extender.core.explain import render
from extender.core.explain import summary as sentences
from extender.core.explain.record import SAMPLED, Capture, PreemptCapture
from extender.core.explain.schema import Decision, Summary, Verb
from extender.core.profile import Profile
from extender.k8s.objects import Pod
from extender.k8s.time import SECOND, format_time, parse_time

VERBS: tuple[Verb, ...] = ("filter", "prioritize", "preempt")

Mode = Literal["answered", "observed", "handsOff", "failed"]

POD_BYTES = 1000
"""Of a pod, without what it shares with others of its template."""


@dataclass(frozen=True)
class Kept:
    """One decision."""

    id: str
    verb: Verb
    now: int
    """Nanoseconds since 1970."""
    milliseconds: float
    pod: Pod
    profile: Profile
    mode: Mode
    picture: str
    capture: Capture | None
    """None: nothing was decided."""
    error: str | None = None
    """Why no decision could be made."""

    @cached_property
    def size(self) -> int:
        """Bytes, about."""
        return 1000 + (0 if self.capture is None else self.capture.size)

    @cached_property
    def victims(self) -> tuple[Pod, ...]:
        """To be evicted, on all nodes of the answer."""
        if not isinstance(self.capture, PreemptCapture):
            return ()
        return tuple(victim for candidate in self.capture.decision.kept for victim in candidate.victims)

    @property
    def sample(self) -> tuple[Pod, ...]:
        """Some of the pods that it refers to."""
        tried = self.capture.tried if isinstance(self.capture, PreemptCapture) else None
        return () if tried is None else tried.sample

    @property
    def nodes(self) -> Collection[str]:
        """Names of the nodes that it speaks of; not remembered, because of many decisions that is much."""
        if self.capture is None:
            return ()
        if not isinstance(self.capture, PreemptCapture):
            return self.capture.names
        tried = self.capture.tried
        return frozenset(self.capture.offered) | {node.metadata.name for node in (tried.nodes if tried else ())}

    @property
    def time(self) -> str:
        return format_time(self.now, 3)

    @cached_property
    def summary(self) -> Summary:
        """Its line in the list."""
        return Summary(
            id=self.id,
            verb=self.verb,
            time=self.time,
            milliseconds=round(self.milliseconds, 3),
            outcome=self._outcome,
            sentence=self._sentence,
            pod=self.pod.key,
            uid=self.pod.metadata.uid,
            priority=self.pod.priority,
            chosen=self._chosen,
            victims=[victim.key for victim in self.victims],
        )

    def decision(self, node: str | None = None, *, every_pod: bool = True) -> Decision:
        """All of it, or what it says of one node; with the pods of every node, or of that one only."""
        summary, capture = self.summary, self.capture
        told = render.Told([])
        if capture is not None:
            told = render.tell(capture, node=node, every_pod=every_pod)
        return Decision(
            **{name: getattr(summary, name) for name in summary.__struct_fields__},
            picture=self.picture,
            policies=render.policies(self.profile),
            incoming=render.incoming_pod(self.pod),
            filters=list(capture.asked.filters) if capture else [],
            nodes=told.nodes,
            ranking=told.ranking,
            highest=told.highest,
            not_evaluated=list(capture.not_evaluated) if capture else [],
            rejected=dict(capture.decision.rejected) if isinstance(capture, PreemptCapture) else {},
            error=self.error,
        )

    @property
    def _chosen(self) -> list[str]:
        if not isinstance(self.capture, PreemptCapture):
            return []
        return [candidate.node for candidate in self.capture.decision.kept]

    @property
    def _sentence(self) -> str:
        if self.capture is not None:
            return sentences.sentence(self.capture, observed=self.mode == "observed")
        if self.error is not None:
            return f"no decision for {self.pod.key}: {self.error}"
        return f"nothing was decided for {self.pod.key}: the kill switch is on"

    @property
    def _outcome(self) -> Literal["answered", "nobody", "vetoed", "observed", "handsOff", "failed"]:
        if self.mode == "answered" and isinstance(self.capture, PreemptCapture) and not self.capture.decision.kept:
            return "nobody" if self.capture.decision.vetoed is None else "vetoed"
        return self.mode


def read_time(text: str, now: Callable[[], int]) -> int:
    """`2026-03-01T12:00:00Z`, or `15m` before now -> nanoseconds since 1970; ValueError if it is neither."""
    duration = _DURATION.fullmatch(text)
    if duration:
        return now() - int(duration[1]) * _SECONDS[duration[2]] * SECOND
    return parse_time(text) // _MILLISECOND * _MILLISECOND


_MILLISECOND = 10**6
"""Nanoseconds; decisions show their time in milliseconds."""

_DURATION = re.compile(r"(\d{1,9})(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class Query:
    """Which decisions are wanted; what is None is not asked."""

    pod: str | None = None
    """`namespace/name`, a name or a UID, of the pod to be scheduled or of a victim."""
    node: str | None = None
    verb: str | None = None
    since: int | None = None
    until: int | None = None
    """Nanoseconds since 1970, both included."""
    limit: int = 100

    def of(self, decisions: Iterable[Kept]) -> list[Kept]:
        """Those that are wanted, in their order."""
        return list(islice(filter(self.wants, decisions), self.limit))

    def wants(self, kept: Kept) -> bool:
        return (
            (self.verb is None or kept.verb == self.verb)
            and (self.since is None or kept.now >= self.since)
            and (self.until is None or kept.now <= self.until)
            and (self.pod is None or any(self._is_named(pod) for pod in (kept.pod, *kept.victims)))
            and (self.node is None or self.node in kept.nodes)
        )

    def _is_named(self, pod: Pod) -> bool:
        return self.pod in (pod.key, pod.metadata.name, pod.metadata.uid)


class Decisions:
    """The rings.

    Preemptions refer to the pods of the nodes that were tried. As long as the picture holds a pod as well, that takes
    nothing; of a pod that has changed or gone since, only we hold it as it was. How many of these there are is told by
    samples (`core.explain.record.SAMPLED`), about once a second.
    """

    def __init__(self, most: int, most_bytes: int, is_in_picture: Callable[[Pod], bool] = lambda _: True) -> None:
        """`most`: of each verb; `most_bytes`: of all together; `is_in_picture`: does it hold this very object?"""
        self._is_in_picture = is_in_picture
        self._most = most
        self._most_bytes = most_bytes
        self._bytes: dict[Verb, int] = dict.fromkeys(VERBS, 0)
        self._rings: dict[Verb, deque[Kept]] = {verb: deque() for verb in VERBS}
        self._numbers: dict[str, int] = dict.fromkeys((*VERBS, "bind"), 0)
        self._sampled: dict[int, Pod] = {}
        """By `id`."""
        self._referring: Counter[int] = Counter()
        """How many decisions refer to each of them."""
        self._alone: set[int] = set()
        """Those that the picture did not hold any more when that was looked at."""
        self._looked = 0
        """When that was looked at, in nanoseconds since 1970."""

    @property
    def are_kept(self) -> bool:
        return self._most > 0

    def counts(self) -> dict[str, int]:
        """How many of each verb are kept."""
        return {verb: len(ring) for verb, ring in self._rings.items()}

    def next_id(self, verb: Verb | Literal["bind"]) -> str:
        """Of a decision that is being made, or of a binding: these are not kept, but numbered all the same."""
        self._numbers[verb] += 1
        return f"{verb}-{self._numbers[verb]}"

    def keep(self, kept: Kept) -> None:
        """The oldest of the verb goes if there are too many; of the verb that takes most if they take too much."""
        self._rings[kept.verb].append(kept)
        self._bytes[kept.verb] += kept.size
        self._sampled.update(zip(map(id, kept.sample), kept.sample, strict=True))
        self._referring.update(map(id, kept.sample))
        if len(self._rings[kept.verb]) > self._most:
            self._drop(kept.verb)
        if abs(kept.now - self._looked) >= SECOND:
            self._looked = kept.now
            self._look()
        while sum(map(self._taken, VERBS)) > self._most_bytes:
            self._drop(max(VERBS, key=self._taken))

    def _taken(self, verb: Verb) -> int:
        """Bytes, about."""
        return self._bytes[verb] + (SAMPLED * POD_BYTES * len(self._alone) if verb == "preempt" else 0)

    def _look(self) -> None:
        self._alone = {one for one, pod in self._sampled.items() if not self._is_in_picture(pod)}

    def _drop(self, verb: Verb) -> None:
        dropped = self._rings[verb].popleft()
        self._bytes[verb] -= dropped.size
        for one in map(id, dropped.sample):
            self._referring[one] -= 1
            if not self._referring[one]:
                del self._referring[one], self._sampled[one]
                self._alone.discard(one)

    def get(self, id: str) -> Kept | None:  # noqa: A002  # what it is called everywhere
        verb = id.partition("-")[0]
        return next((kept for kept in self._rings.get(verb, ()) if kept.id == id), None)  # type: ignore[call-overload]

    def every(self) -> list[Kept]:
        """The latest first; to be looked through on any thread."""
        every = [kept for ring in self._rings.values() for kept in reversed(ring)]
        return sorted(every, key=lambda kept: kept.now, reverse=True)

    def find(self, query: Query) -> list[Kept]:
        """Those that are wanted, the latest first."""
        return query.of(self.every())
