"""The latest decisions of each verb, with the records that explain them.

Each verb has its own ring: in a cluster that schedules a hundred pods per second, an operator can still look up the
preemption of an hour ago. Decisions are kept as arrays and rendered on demand (`report.render`).

Rule: only the thread that decides uses the log; a kept decision is immutable, and any thread may render it.
"""

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from sys import getsizeof
from typing import Literal, cast, get_args

import msgspec

from extender.core.profile import UNCONFIGURED, KubeScheduler, Profile
from extender.core.record import DecisionRecord, PreemptRecord, PrioritizeRecord, RecordedPod
from extender.k8s.objects import Pod
from extender.k8s.time import format_time
from extender.report import summary as sentences
from extender.report.facts.node_facts import NO_FACTS, DecisionFacts
from extender.report.ranking_report import report_ranking
from extender.report.render import render_nodes, render_pod_claims, with_facts
from extender.report.scheduler_report import changed_policies, report_scheduler
from extender.report.schema import (
    DecisionMode,
    DecisionOutcome,
    DecisionReport,
    DecisionSort,
    DecisionSummary,
    VerbName,
)
from extender.report.tried_node import report_pod
from extender.utilities.time_share import TimeShare

VERBS: tuple[VerbName, ...] = get_args(VerbName)

ALLOCATOR_SHARE = 6
"""Share of debug.decisionsSize, as 1/n, that is reserved for memory that the allocator cannot give back."""

MAX_SHARE_OF_ONE = 8
"""Share of the memory limit, as 1/n, above which a decision is kept without its details."""

MIN_LARGE_BYTES = 1 << 20
"""Decisions up to this size keep their details, however low the memory limit."""

MAX_SUMMARIZED = 100
"""Maximum number of nodes, and of victims, in the summary of a decision without details."""

FACTS_SHARE = 0.05
"""Share of the time in which facts of decisions are computed; beyond it, decisions are kept without facts."""

MAX_FACTS_SECONDS = 0.25
"""Time for facts that is saved up while no decision has any."""

_SUMMARY_BYTES = 1000
"""Memory of a summary, without the names in it."""


@dataclass(frozen=True)
class KeptDecision:
    """A decision with its call, the profile in effect, and the record that explains it."""

    id: str
    """The verb and a number, such as `filter-17`."""
    now: int
    """Time of the decision in nanoseconds since the Unix epoch."""
    milliseconds: float
    pod: RecordedPod
    profile: Profile | None
    """Profile of the pod; None if no profile has its schedulerName."""
    mode: DecisionMode
    cache: str
    record: DecisionRecord | None
    """Record of the decision; None if no decision was made."""
    error: str | None = None
    """Reason why the decision failed, or why its details are not kept."""
    kept_summary: DecisionSummary | None = None
    """Summary of a decision without details; None if the summary is made from the record."""
    scheduler: KubeScheduler = UNCONFIGURED
    """The kube-scheduler in effect."""
    facts: DecisionFacts = NO_FACTS
    """What exactly rejects nodes."""

    @property
    def verb(self) -> VerbName:
        return cast(VerbName, self.id.partition("-")[0])

    @cached_property
    def size(self) -> int:
        """Estimated memory in bytes, including the summary that a listing adds."""
        # The key counts twice: it is in this object and in the summary.
        texts = getsizeof(self.cache) + getsizeof(self.error) + 2 * getsizeof(self.pod.identity.key)
        return (
            500
            + _SUMMARY_BYTES
            + texts
            + self.facts.size
            + (self.pod.size if self.record is None else self.record.size)
        )

    def without_details(self) -> "KeptDecision":
        """Return the decision with only its summary."""
        error = f"the details are not kept: they take {self.size >> 10} KiB, too much of debug.decisionsSize"
        shown = {"chosen": self.summary.chosen[:MAX_SUMMARIZED], "victims": self.summary.victims[:MAX_SUMMARIZED]}
        summary = msgspec.structs.replace(self.summary, **shown)
        small = self.pod.without_details()
        return replace(self, pod=small, record=None, error=error, kept_summary=summary, facts=NO_FACTS)

    @cached_property
    def victims(self) -> tuple[Pod, ...]:
        """The victims on all nodes of the answer."""
        if not isinstance(self.record, PreemptRecord):
            return ()
        return tuple(victim for candidate in self.record.decision.kept for victim in candidate.victims)

    @property
    def nodes(self) -> Collection[str]:
        """Names of the nodes that the decision considered; not cached, to save memory in a full log."""
        if self.record is None:
            return ()
        if not isinstance(self.record, PreemptRecord):
            return self.record.names
        dry_run = self.record.dry_run
        return frozenset(self.record.sent_nodes).union(dry_run.names if dry_run else ())

    @cached_property
    def summary(self) -> DecisionSummary:
        """The entry in the list of decisions."""
        if self.kept_summary is not None:
            return self.kept_summary
        record = self.record
        outcome: DecisionOutcome = self.mode
        chosen = [one.node for one in record.decision.kept] if isinstance(record, PreemptRecord) else []
        if isinstance(record, PreemptRecord) and self.mode == "answered" and not chosen:
            outcome = "noVictims" if record.decision.vetoed is None else "vetoed"
        if record is not None:
            sentence = sentences.summarize(record, self.facts.of_node, observed=self.mode == "observed")
        else:
            sentence = f"no decision for {self.pod.identity.key}: {self.error or 'the kill switch is on'}"
        return DecisionSummary(
            id=self.id,
            verb=self.verb,
            time=format_time(self.now, 3),
            milliseconds=round(self.milliseconds, 3),
            outcome=outcome,
            sentence=sentence,
            pod=self.pod.identity.key,
            uid=self.pod.identity.metadata.uid,
            priority=self.pod.identity.priority,
            chosen=chosen,
            victims=[victim.key for victim in self.victims],
        )

    def decision(self, node: str | None = None, *, every_pod: bool = True) -> DecisionReport:
        """Render the decision, or only one node of it; `every_pod`: with the pods of every node, not only of `node`."""
        summary, record = self.summary, self.record
        nodes = render_nodes(record, node=node, every_pod=every_pod) if record else []
        return DecisionReport(
            **{name: getattr(summary, name) for name in summary.__struct_fields__},
            cache=self.cache,
            scheduler=report_scheduler(self.scheduler, self.profile),
            policies=changed_policies(self.profile or self.scheduler.profiles[0]),
            incoming=report_pod(self.pod.decode(), self.scheduler.features, render_pod_claims(record)),
            filters=list(record.request.filters) if record else [],
            nodes=[with_facts(one, self.facts.of_node) for one in nodes],
            ranking=report_ranking(record) if isinstance(record, PreemptRecord) else None,
            highest=record.highest if isinstance(record, PrioritizeRecord) else None,
            not_evaluated=list(record.not_evaluated) if record else [],
            rejected=dict(record.decision.rejected) if isinstance(record, PreemptRecord) else {},
            facts_left_out=self.facts.left_out,
            error=self.error,
        )


@dataclass(frozen=True, slots=True)
class DecisionQuery:
    """A filter on decisions; a field that is None matches every decision."""

    pod: str | None = None
    """`namespace/name`, name or UID of the pod to be scheduled or of a victim."""
    node: str | None = None
    verb: str | None = None
    since: int | None = None
    until: int | None = None
    """`since` and `until`: nanoseconds since the Unix epoch, inclusive."""
    limit: int = 100
    outcome: DecisionOutcome | None = None
    text: str = ""
    """Part of the ID, the sentence, or the pod's key or UID, in any case."""
    sort: DecisionSort = "time"

    offset: int = 0
    """Number of matching decisions to leave out."""

    def select(self, decisions: Iterable[KeptDecision]) -> tuple[list[KeptDecision], int]:
        """Return at most `limit` matching decisions after the first `offset`, and the number of all that match."""
        found = self.matching(decisions)
        return found[self.offset : self.offset + self.limit], len(found)

    def matching(self, decisions: Iterable[KeptDecision]) -> list[KeptDecision]:
        """Return all matching decisions in the order of `sort`; equal ones keep theirs."""
        found = list(filter(self.matches, decisions))
        if self.sort == "milliseconds":
            return sorted(found, key=lambda kept: -kept.milliseconds)
        return sorted(found, key=lambda kept: kept.pod.identity.key) if self.sort == "pod" else found

    def matches(self, kept: KeptDecision) -> bool:
        pods = (kept.pod.identity, *kept.victims) if self.pod is not None else ()
        return (
            (self.verb is None or kept.verb == self.verb)
            and (self.since is None or kept.now >= self.since)
            and (self.until is None or kept.now <= self.until)
            and (not pods or any(self.pod in (pod.key, pod.metadata.name, pod.metadata.uid) for pod in pods))
            and (self.node is None or self.node in kept.nodes)
            and (self.outcome is None or kept.summary.outcome == self.outcome)
            and (not self.text or self._has_text(kept.summary))
        )

    def _has_text(self, summary: DecisionSummary) -> bool:
        texts = summary.id, summary.sentence, summary.pod, summary.uid
        return self.text.lower() in "\n".join(texts).lower()


class DecisionLog:
    """One ring of decisions per verb, limited in number and memory.

    Cluster objects in the records do not count: the cluster cache holds nearly all of them anyway.
    """

    def __init__(self, max_per_verb: int, max_bytes: int, facts_share: float = FACTS_SHARE) -> None:
        """`max_per_verb`: maximum number of decisions in each ring; `max_bytes`: maximum size of all rings together.

        `facts_share`: share of the time in which facts are computed.
        """
        self.time_for_facts = TimeShare(facts_share, MAX_FACTS_SECONDS)
        self.stripped = 0
        """Number of decisions whose details were too large to keep."""
        self._max_per_verb = max_per_verb
        self._max_bytes = max_bytes
        self._bytes: dict[VerbName, int] = dict.fromkeys(VERBS, 0)
        self._rings: dict[VerbName, deque[KeptDecision]] = {verb: deque() for verb in VERBS}
        self._numbers: dict[str, int] = dict.fromkeys((*VERBS, "bind"), 0)

    @property
    def is_enabled(self) -> bool:
        return self._max_per_verb > 0

    def counts(self) -> dict[str, int]:
        """Return verb -> number of kept decisions."""
        return {verb: len(ring) for verb, ring in self._rings.items()}

    def next_id(self, verb: VerbName | Literal["bind"]) -> str:
        """Return the ID of a new decision or binding; bindings are only numbered, not kept."""
        self._numbers[verb] += 1
        return f"{verb}-{self._numbers[verb]}"

    def keep(self, kept: KeptDecision) -> None:
        """Add a decision, and drop the oldest ones above the limits."""
        # 1. One decision must not displace many.
        if kept.size > max(self._max_bytes // MAX_SHARE_OF_ONE, MIN_LARGE_BYTES):
            kept = kept.without_details()
            self.stripped += 1
        # 2. Append it; above the limit in number, its own ring loses the oldest.
        self._rings[kept.verb].append(kept)
        self._bytes[kept.verb] += kept.size
        if len(self._rings[kept.verb]) > self._max_per_verb:
            self._drop(kept.verb)
        # 3. Above the limit in memory, the largest ring loses its oldest.
        while sum(self._bytes.values()) > self._max_bytes:
            self._drop(max(VERBS, key=self._bytes.__getitem__))

    def _drop(self, verb: VerbName) -> None:
        self._bytes[verb] -= self._rings[verb].popleft().size

    def get(self, id: str) -> KeptDecision | None:  # noqa: A002  # the name of the key in the API
        verb = id.partition("-")[0]
        return next((kept for kept in self._rings.get(verb, ()) if kept.id == id), None)  # type: ignore[call-overload]

    def newest_first(self) -> list[KeptDecision]:
        """Return a list of all decisions, newest first, that any thread may read."""
        decisions = [kept for ring in self._rings.values() for kept in reversed(ring)]
        return sorted(decisions, key=lambda kept: kept.now, reverse=True)
