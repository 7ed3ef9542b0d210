"""The latest decisions of each verb, with the records that explain them.

Each verb has a ring of its own: a cluster that schedules a hundred pods per second must not displace the preemption
that an operator looks up an hour later. Decisions are kept as arrays and rendered on demand (`core.explain.render`).

Rule: only the thread that decides uses the log; a kept decision is immutable and may be rendered on any other thread.
"""

import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Literal, get_args

from extender.core.explain import render
from extender.core.explain import summary as sentences
from extender.core.explain.record import POD_SAMPLE_STRIDE, DecisionRecord, PreemptRecord
from extender.core.explain.schema import DecisionReport, DecisionSummary, VerbName
from extender.core.profile import Profile
from extender.k8s.objects import Pod
from extender.k8s.time import SECOND, format_time, parse_time

VERBS: tuple[VerbName, ...] = get_args(VerbName)

DecisionMode = Literal["answered", "observed", "passthrough", "failed"]

POD_SIZE_BYTES = 1000
"""Estimated memory of a pod, without the objects that it shares with other pods of its template."""


@dataclass(frozen=True)
class KeptDecision:
    """A kept decision: the call, the profile in effect, and the record of the decision."""

    id: str
    verb: VerbName
    now: int
    """Time of the decision, nanoseconds since the Unix epoch."""
    milliseconds: float
    pod: Pod
    profile: Profile
    mode: DecisionMode
    cache: str
    record: DecisionRecord | None
    """Record of the decision; None: no decision was made."""
    error: str | None = None
    """Reason why the decision failed."""

    @cached_property
    def size(self) -> int:
        """Estimated memory in bytes."""
        return 1000 + (0 if self.record is None else self.record.size)

    @cached_property
    def victims(self) -> tuple[Pod, ...]:
        """The victims on all nodes of the answer."""
        if not isinstance(self.record, PreemptRecord):
            return ()
        return tuple(victim for candidate in self.record.decision.kept for victim in candidate.victims)

    @property
    def sample(self) -> tuple[Pod, ...]:
        """A sample of the pods that the record refers to."""
        dry_run = self.record.dry_run if isinstance(self.record, PreemptRecord) else None
        return () if dry_run is None else dry_run.sampled_pods

    @property
    def nodes(self) -> Collection[str]:
        """Names of the nodes that the decision considered; not cached, to save memory in a full log."""
        if self.record is None:
            return ()
        if not isinstance(self.record, PreemptRecord):
            return self.record.names
        dry_run = self.record.dry_run
        return frozenset(self.record.sent_nodes) | {node.metadata.name for node in (dry_run.nodes if dry_run else ())}

    @cached_property
    def summary(self) -> DecisionSummary:
        """The decision's line in the list of decisions."""
        record = self.record
        outcome: DecisionMode | Literal["noVictims", "vetoed"] = self.mode
        chosen = [one.node for one in record.decision.kept] if isinstance(record, PreemptRecord) else []
        if isinstance(record, PreemptRecord) and self.mode == "answered" and not chosen:
            outcome = "noVictims" if record.decision.vetoed is None else "vetoed"
        if record is not None:
            sentence = sentences.summarize(record, observed=self.mode == "observed")
        else:
            sentence = f"no decision for {self.pod.key}: {self.error or 'the kill switch is on'}"
        return DecisionSummary(
            id=self.id,
            verb=self.verb,
            time=format_time(self.now, 3),
            milliseconds=round(self.milliseconds, 3),
            outcome=outcome,
            sentence=sentence,
            pod=self.pod.key,
            uid=self.pod.metadata.uid,
            priority=self.pod.priority,
            chosen=chosen,
            victims=[victim.key for victim in self.victims],
        )

    def decision(self, node: str | None = None, *, every_pod: bool = True) -> DecisionReport:
        """Render the whole decision, or only one node; with the pods of every node, or of that node only."""
        summary, record = self.summary, self.record
        rendered = render.render(record, node=node, every_pod=every_pod) if record else render.RenderedDecision([])
        return DecisionReport(
            **{name: getattr(summary, name) for name in summary.__struct_fields__},
            cache=self.cache,
            policies=render.changed_policies(self.profile),
            incoming=render.render_incoming_pod(self.pod),
            filters=list(record.request.filters) if record else [],
            nodes=rendered.nodes,
            ranking=rendered.ranking,
            highest=rendered.highest,
            not_evaluated=list(record.not_evaluated) if record else [],
            rejected=dict(record.decision.rejected) if isinstance(record, PreemptRecord) else {},
            error=self.error,
        )


def read_time(text: str, now: Callable[[], int]) -> int:
    """Parse `2026-03-01T12:00:00Z` or an age such as `15m` into Unix nanoseconds; ValueError for anything else."""
    duration = _DURATION.fullmatch(text)
    if duration:
        return now() - int(duration[1]) * _SECONDS[duration[2]] * SECOND
    return parse_time(text) // _MILLISECOND * _MILLISECOND


_MILLISECOND = 10**6
"""One millisecond in nanoseconds: decisions display milliseconds, so time filters round to them."""

_DURATION = re.compile(r"(\d{1,9})(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class DecisionQuery:
    """A filter on decisions; a field that is None does not filter."""

    pod: str | None = None
    """`namespace/name`, name or UID of the pod to be scheduled or of a victim."""
    node: str | None = None
    verb: str | None = None
    since: int | None = None
    until: int | None = None
    """`since` and `until`: nanoseconds since the Unix epoch, inclusive."""
    limit: int = 100

    def select(self, decisions: Iterable[KeptDecision]) -> list[KeptDecision]:
        """Return the first `limit` decisions that match, in order."""
        return list(islice(filter(self.matches, decisions), self.limit))

    def matches(self, kept: KeptDecision) -> bool:
        pods = (kept.pod, *kept.victims) if self.pod is not None else ()
        return (
            (self.verb is None or kept.verb == self.verb)
            and (self.since is None or kept.now >= self.since)
            and (self.until is None or kept.now <= self.until)
            and (not pods or any(self.pod in (pod.key, pod.metadata.name, pod.metadata.uid) for pod in pods))
            and (self.node is None or self.node in kept.nodes)
        )


class DecisionLog:
    """One ring of kept decisions per verb, within a limit of count and of memory.

    Records of preemptions refer to the pods of the nodes of the dry run. While the cluster cache holds such a pod too,
    the reference costs no memory; a pod that has changed or been deleted since lives on only in this log. Their number
    is estimated from a sample of the pods (`core.explain.record.POD_SAMPLE_STRIDE`), about once a second.
    """

    def __init__(self, max_per_verb: int, max_bytes: int, is_in_cache: Callable[[Pod], bool] = lambda _: True) -> None:
        """`max_per_verb`: limit of each ring; `max_bytes`: limit of all rings together.

        `is_in_cache`: predicate: the cluster cache holds this very object.
        """
        self._is_in_cache = is_in_cache
        self._max_per_verb = max_per_verb
        self._max_bytes = max_bytes
        self._bytes: dict[VerbName, int] = dict.fromkeys(VERBS, 0)
        self._rings: dict[VerbName, deque[KeptDecision]] = {verb: deque() for verb in VERBS}
        self._numbers: dict[str, int] = dict.fromkeys((*VERBS, "bind"), 0)
        self._sampled: dict[int, Pod] = {}
        """`id()` of a sampled pod -> the pod."""
        self._referring: Counter[int] = Counter()
        """`id()` of a sampled pod -> number of decisions that refer to it."""
        self._held_alone: set[int] = set()
        """`id()` of the sampled pods that only this log holds: the cluster cache has replaced or deleted them."""
        self._sampled_at = 0
        """Time of the last comparison with the cluster cache, nanoseconds since the Unix epoch."""

    @property
    def is_enabled(self) -> bool:
        return self._max_per_verb > 0

    def counts(self) -> dict[str, int]:
        """Return verb -> number of kept decisions."""
        return {verb: len(ring) for verb, ring in self._rings.items()}

    def next_id(self, verb: VerbName | Literal["bind"]) -> str:
        """Return the ID of a new decision or binding; bindings are numbered but not kept."""
        self._numbers[verb] += 1
        return f"{verb}-{self._numbers[verb]}"

    def keep(self, kept: KeptDecision) -> None:
        """Add a decision; drop the oldest of its ring above its limit, of the largest ring above the memory limit."""
        self._rings[kept.verb].append(kept)
        self._bytes[kept.verb] += kept.size
        self._sampled.update(zip(map(id, kept.sample), kept.sample, strict=True))
        self._referring.update(map(id, kept.sample))
        if len(self._rings[kept.verb]) > self._max_per_verb:
            self._drop(kept.verb)
        if abs(kept.now - self._sampled_at) >= SECOND:
            self._sampled_at = kept.now
            self._held_alone = {one for one, pod in self._sampled.items() if not self._is_in_cache(pod)}
        while sum(map(self._memory_of, VERBS)) > self._max_bytes:
            self._drop(max(VERBS, key=self._memory_of))

    def _memory_of(self, verb: VerbName) -> int:
        """Return the estimated memory of a ring in bytes."""
        held_alone = POD_SAMPLE_STRIDE * len(self._held_alone) if verb == "preempt" else 0
        return self._bytes[verb] + POD_SIZE_BYTES * held_alone

    def _drop(self, verb: VerbName) -> None:
        dropped = self._rings[verb].popleft()
        self._bytes[verb] -= dropped.size
        for one in map(id, dropped.sample):
            self._referring[one] -= 1
            if not self._referring[one]:
                del self._referring[one], self._sampled[one]
                self._held_alone.discard(one)

    def get(self, id: str) -> KeptDecision | None:  # noqa: A002  # the name of the key in the API
        verb = id.partition("-")[0]
        return next((kept for kept in self._rings.get(verb, ()) if kept.id == id), None)  # type: ignore[call-overload]

    def newest_first(self) -> list[KeptDecision]:
        """Return a copy of all kept decisions, newest first, that any thread may read."""
        decisions = [kept for ring in self._rings.values() for kept in reversed(ring)]
        return sorted(decisions, key=lambda kept: kept.now, reverse=True)
