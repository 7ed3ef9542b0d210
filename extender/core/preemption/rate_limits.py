"""Apply the rate limits on preemption: how soon and how often a pod may preempt, and how many pods one call may evict.

Earlier evictions come from the EvictionHistory of the decision. A message about a temporary limit includes its end.

Rule: a limit only refuses; it never changes which victims are selected.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from extender.core.eviction_history import EvictionHistory
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.preemption.dry_run import DryRun, PolicyVeto
from extender.core.snapshot.arrays import (
    NEVER,
    BoolArray,
    IntArray,
    VictimRows,
    count_per_node,
    over_limit,
    select_columns,
)
from extender.core.snapshot.workloads import NamespaceIndex
from extender.k8s.objects import Pod
from extender.k8s.time import MINUTE, SECOND, parse_time
from extender.utilities.text import pluralize

# --- the preemptor ----------------------------------------------------------------------------------------------------


def preemption_refusal(context: SchedulingContext) -> str | None:
    """Return why the pod may not preempt on any node now, and until when; None if it may."""
    policy, history, unread = context.profile.preemption, context.history, context.snapshot.unreadable_tables
    # Without permission to list the objects that a protection reads, evicting a pod could violate the protection.
    if policy.tenant_label is not None and "namespaces" in unread:
        return "cannot determine the pod's tenant: no permission to list Namespaces"
    if policy.preemption_toleration and "priority_classes" in unread:
        return "cannot determine preemption tolerations: no permission to list PriorityClasses"
    limits, pod = policy.limits, context.pod
    created = pod.metadata.creation_timestamp
    pending = history.now - parse_time(created) if policy.min_pending_duration and created else 0
    if pending < policy.min_pending_duration:
        return (
            f"pending for less than {policy.min_pending_duration / SECOND:g}s: may not preempt "
            f"{history.until(policy.min_pending_duration - pending)}"
        )
    if limits.max_attempts is not None:
        attempts = [attempt.ago for attempt in history.attempts if attempt.preemptor == pod.metadata.uid]
        wait = _wait_nanoseconds(attempts, limits.attempts_within, limits.max_attempts)
        if wait is not None:
            return (
                f"the pod has preempted {limits.max_attempts} times without starting to run: "
                f"may not preempt {history.until(wait)}"
            )
    if limits.evictions_per_minute is not None:
        ages = [eviction.ago for eviction in history.evictions]
        wait = _wait_nanoseconds(ages, MINUTE, limits.evictions_per_minute)
        if wait is not None:
            return f"eviction rate limit ({limits.evictions_per_minute} per minute) reached: not {history.until(wait)}"
    return None


def _wait_nanoseconds(ages: Iterable[int], window: int, limit: int, wanted: int = 1) -> int | None:
    """Return the wait in nanoseconds until `wanted` more events stay within `limit` per sliding window; None: no wait.

    `ages`: nanoseconds since the earlier events. If `wanted` alone exceeds the limit, the wait ends when the window is
    empty.
    """
    within = sorted(age for age in ages if age < window)
    if len(within) + wanted <= limit:
        return None
    # The newest `limit - wanted` events may still be in the window; the event before them must have left it.
    keep = max(limit - wanted, 0)
    return window - within[keep] if keep < len(within) else 0


# --- the candidates ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _VictimLimit:
    """A limit on the victims of one node. Terminating pods do not count, as they are not evicted again."""

    policy: str
    """Key and value of the limit in the configuration."""
    always_allowed: int
    """Number of victims up to which the limit is never exceeded."""
    exceeds: Callable[[VictimRows], BoolArray] | None
    """Victims of nodes with more than `always_allowed` -> [node]: whether they exceed the limit. None: always."""
    message: Callable[[Sequence[Pod]], str]
    """Victims of one node -> reason why the limit rejects them."""
    wait: Callable[[VictimRows], int | None] = lambda _: None
    """Victims of nodes -> shortest wait in nanoseconds until the limit may allow the victims of one node."""

    def messages(self, run: DryRun, places: IntArray) -> list[str]:
        """Return [entry of `places`]: the reason, see `PolicyVeto.messages`."""
        return [self.message(run.victims_on(place)) for place in places.tolist()]

    def wait_of_first(self, run: DryRun, places: IntArray) -> int | None:
        """Return the shortest wait until the limit may allow the victims of a node, see `PolicyVeto.wait`."""
        return self.wait(run.victim_rows(places, _evicted(run, places)))


def victim_limit_vetoes(run: DryRun, places: IntArray) -> Iterator[PolicyVeto]:
    """Yield one veto per configured limit on the victims of a node; its `nodes` is parallel to `places`."""
    limits = list(_victim_limits(run.context))
    if not limits:
        return
    evicted = _evicted(run, places)
    count = count_per_node(evicted)
    for limit in limits:
        nodes = count > limit.always_allowed
        if limit.exceeds is not None:
            suspects = np.flatnonzero(nodes)
            nodes[suspects] = limit.exceeds(run.victim_rows(places[suspects], evicted[:, suspects]))
        yield PolicyVeto(limit.policy, nodes, limit.messages, limit.wait_of_first)


def _evicted(run: DryRun, places: IntArray) -> BoolArray:
    """Return [k, entry of `places`]: the victims that are not already terminating."""
    terminating = run.snapshot.pod_table.terminating[select_columns(run.pods, places)]
    evicted: BoolArray = select_columns(run.victims, places) & ~terminating
    return evicted


def _victim_limits(context: SchedulingContext) -> Iterator[_VictimLimit]:
    limits = context.profile.preemption.limits
    if limits.max_victims is not None:
        yield _per_preemption(limits.max_victims)
    if limits.evictions_per_minute is not None:
        yield _per_minute(context.history, limits.evictions_per_minute)
    if limits.namespace_evictions_per_minute is not None:
        yield _per_namespace(context, limits.namespace_evictions_per_minute)


def _per_preemption(limit: int) -> _VictimLimit:
    def message(victims: Sequence[Pod]) -> str:
        return f"{len(_not_terminating(victims))} victims exceed the limit of {limit} per preemption"

    return _VictimLimit(f"limits.maxVictims: {limit}", limit, None, message)


def _per_minute(history: EvictionHistory, limit: int) -> _VictimLimit:
    ages = [eviction.ago for eviction in history.evictions if eviction.ago < MINUTE]
    remaining = limit - len(ages)

    def message(victims: Sequence[Pod]) -> str:
        wanted = len(_not_terminating(victims))
        wait = _wait_nanoseconds(ages, MINUTE, limit, wanted) or 0
        when = f"not {history.until(wait)}" if wanted <= limit else "never"
        return f"{wanted} victims exceed what remains of the eviction rate limit ({limit} per minute): {when}"

    def wait(taken: VictimRows) -> int | None:
        fewest = int(np.bincount(taken.candidate_index, minlength=taken.size).min())
        return _wait_nanoseconds(ages, MINUTE, limit, fewest) if fewest <= limit else None

    return _VictimLimit(f"limits.evictionsPerMinute: {limit}", remaining, None, message, wait)


def _per_namespace(context: SchedulingContext, limit: int) -> _VictimLimit:
    ages: dict[str, list[int]] = {}
    for eviction in context.history.evictions:
        if eviction.ago < MINUTE:
            ages.setdefault(eviction.namespace, []).append(eviction.ago)
    namespaces = context.snapshot.index(NamespaceIndex)
    remaining = np.full(max(namespaces.groups, default=0) + 1, limit, np.int64)
    for number, namespace in namespaces.groups.items():
        remaining[number] -= len(ages.get(str(namespace), ()))

    def exceeds(taken: VictimRows) -> BoolArray:
        return over_limit(taken.candidate_index, namespaces.of_pod[taken.pods], remaining, taken.size)

    def message(victims: Sequence[Pod]) -> str:
        messages = []
        for name, wanted in sorted(Counter(pod.metadata.namespace for pod in _not_terminating(victims)).items()):
            wait = _wait_nanoseconds(ages.get(name, ()), MINUTE, limit, wanted)
            if wait is not None:
                when = f"not {context.history.until(wait)}" if wanted <= limit else "never"
                count, exceed = pluralize(wanted, "victim"), "exceeds" if wanted == 1 else "exceed"
                messages.append(
                    f"{count} in {name} {exceed} what remains of its eviction rate limit ({limit} per minute): {when}"
                )
        return "; ".join(messages)

    def wait(taken: VictimRows) -> int | None:
        keys, counts = np.unique(
            taken.candidate_index * len(remaining) + namespaces.of_pod[taken.pods], return_counts=True
        )
        longest = np.zeros(taken.size, np.int64)
        for key, wanted in zip(keys.tolist(), counts.tolist(), strict=True):
            place, number = divmod(key, len(remaining))
            own = ages.get(str(namespaces.groups[number]), ())
            waits = NEVER if wanted > limit else _wait_nanoseconds(own, MINUTE, limit, wanted) or 0
            longest[place] = max(longest[place], waits)
        first = int(longest.min())
        return None if first == NEVER else first

    policy = f"limits.evictionsPerMinutePerNamespace: {limit}"
    return _VictimLimit(policy, int(remaining.min()), exceeds, message, wait)


def _not_terminating(victims: Sequence[Pod]) -> list[Pod]:
    return [pod for pod in victims if pod.metadata.deletion_timestamp is None]
