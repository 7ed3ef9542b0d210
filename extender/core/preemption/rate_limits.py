"""Not now, or not so many: how long a pod waits before it preempts, how often it may, and how much is evicted at once.

What was approved before is in the Moment that a decision is made in. What is refused for a time says until when.

Rule: a limit only ever refuses.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from extender.core.eviction_history import EvictionHistory
from extender.core.framework.constraint import SchedulingContext
from extender.core.preemption.dry_run import DryRun, PolicyVeto
from extender.core.snapshot.arrays import BoolArray, IntArray, Taken, columns, count_per_node, exceeding
from extender.core.snapshot.workloads import Namespaces
from extender.k8s.objects import Pod
from extender.k8s.time import MINUTE, SECOND, parse_time

# --- the preemptor ----------------------------------------------------------------------------------------------------


def veto(incoming: SchedulingContext) -> str | None:
    """Why the pod may evict nobody now, and until when; None: it may."""
    return next(_vetoes(incoming), None)


def _vetoes(incoming: SchedulingContext) -> Iterator[str]:
    yield from _in_the_dark(incoming)
    policy, history = incoming.profile.preemption, incoming.history
    limits, pod = policy.limits, incoming.pod
    created = pod.metadata.creation_timestamp
    pending = history.now - parse_time(created) if policy.min_pending_duration and created else 0
    if pending < policy.min_pending_duration:
        yield (
            f"a pod may preempt once it has been pending for {policy.min_pending_duration / SECOND:g}s: not "
            f"{history.until(policy.min_pending_duration - pending)}"
        )
    if limits.max_attempts is not None:
        attempts = [one.ago for one in history.attempts if one.preemptor == pod.metadata.uid]
        wait = _wait(attempts, limits.attempts_within, limits.max_attempts)
        if wait is not None:
            yield (
                f"the pod has preempted {limits.max_attempts} times without coming to run: not {history.until(wait)}"
            )
    if limits.evictions_per_minute is not None:
        wait = _wait([one.ago for one in history.evictions], MINUTE, limits.evictions_per_minute)
        if wait is not None:
            yield f"{limits.evictions_per_minute} evictions a minute are the limit: not {history.until(wait)}"


def _in_the_dark(incoming: SchedulingContext) -> Iterator[str]:
    """What protects pods must not be guessed."""
    policy, unread = incoming.profile.preemption, incoming.snapshot.unread
    if policy.tenant_label is not None and "namespaces" in unread:
        yield "nobody knows of which tenant a pod is: Namespaces may not be read"
    if policy.preemption_toleration and "priority_classes" in unread:
        yield "nobody knows who tolerates preemption: PriorityClasses may not be read"


def _wait(ages: Iterable[int], window: int, at_most: int, wanted: int = 1) -> int | None:
    """Nanoseconds until so many more are within the limit of the window; None: they are now.

    If they never are, until the window is empty.
    """
    within = sorted(age for age in ages if age < window)
    if len(within) + wanted <= at_most:
        return None
    keep = max(at_most - wanted, 0)
    return window - within[keep] if keep < len(within) else 0


# --- the candidates ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Limit:
    """On the victims of one node; who is leaving already is not among them: nobody evicts it again."""

    harmless: int
    """So many victims are never too many."""
    exceeded: Callable[[Taken], BoolArray] | None
    """[node] of the victims of nodes that have more; None: there they are too many."""
    why: Callable[[Sequence[Pod]], str]


def barriers(run: DryRun, places: IntArray) -> Iterator[PolicyVeto]:
    """Which of these nodes have too many victims, [place]."""
    limits = tuple(_limits(run.incoming))
    if not limits:
        return
    evicted = _without_the_leaving(run, places)
    count = count_per_node(evicted)
    for limit in limits:
        nodes = count > limit.harmless
        if limit.exceeded is not None:
            crowded = np.flatnonzero(nodes)
            nodes[crowded] = limit.exceeded(run.taken_on(places[crowded], evicted[:, crowded]))
        yield PolicyVeto(nodes, _of_each(limit.why))


def _of_each(why: Callable[[Sequence[Pod]], str]) -> Callable[[DryRun, IntArray], list[str]]:
    return lambda run, places: [why(run.victims_on(place)) for place in places.tolist()]


def rule_out_victims(incoming: SchedulingContext) -> bool:
    """Is there a limit on the victims of one node?"""
    return next(_limits(incoming), None) is not None


def _without_the_leaving(run: DryRun, places: IntArray) -> BoolArray:
    """[k, place]: victims."""
    victims: BoolArray = columns(run.victims, places)
    leaving = run.snapshot.pod_table.terminating
    return victims & ~leaving[columns(run.pods, places)] if leaving.any() else victims


def _limits(incoming: SchedulingContext) -> Iterator[_Limit]:
    limits = incoming.profile.preemption.limits
    if limits.max_victims is not None:
        yield _at_once(limits.max_victims)
    if limits.evictions_per_minute is not None:
        yield _per_minute(incoming.history, limits.evictions_per_minute)
    if limits.namespace_evictions_per_minute is not None:
        yield _per_namespace(incoming, limits.namespace_evictions_per_minute)


def _at_once(limit: int) -> _Limit:
    def why(victims: Sequence[Pod]) -> str:
        return f"{len(_evicted(victims))} victims are more than the {limit} of a preemption"

    return _Limit(limit, None, why)


def _per_minute(history: EvictionHistory, limit: int) -> _Limit:
    ages = [one.ago for one in history.evictions if one.ago < MINUTE]
    left = limit - len(ages)

    def why(victims: Sequence[Pod]) -> str:
        wanted = len(_evicted(victims))
        wait = _wait(ages, MINUTE, limit, wanted) or 0
        when = f"not {history.until(wait)}" if wanted <= limit else "never"
        return f"{wanted} victims are more than what is left of {limit} evictions a minute: {when}"

    return _Limit(left, None, why)


def _per_namespace(incoming: SchedulingContext, limit: int) -> _Limit:
    ages: dict[str, list[int]] = {}
    for one in incoming.history.evictions:
        if one.ago < MINUTE:
            ages.setdefault(one.namespace, []).append(one.ago)
    namespaces = incoming.snapshot.index(Namespaces)
    left = np.full(max(namespaces.things, default=0) + 1, limit, np.int64)
    for number, namespace in namespaces.things.items():
        left[number] -= len(ages.get(str(namespace), ()))

    def exceeded(taken: Taken) -> BoolArray:
        return exceeding(taken.places, namespaces.of_pod[taken.pods], left, taken.size)

    def why(victims: Sequence[Pod]) -> str:
        wanted = sorted(Counter(pod.metadata.namespace for pod in _evicted(victims)).items())
        said = (_why(incoming.history, limit, ages.get(name, ()), name, count) for name, count in wanted)
        return "; ".join(filter(None, said))

    return _Limit(int(left.min()), exceeded, why)


def _why(history: EvictionHistory, limit: int, ages: Iterable[int], namespace: str, wanted: int) -> str:
    wait = _wait(ages, MINUTE, limit, wanted)
    if wait is None:
        return ""
    when = f"not {history.until(wait)}" if wanted <= limit else "never"
    victims, are = ("1 victim", "is") if wanted == 1 else (f"{wanted} victims", "are")
    return f"{victims} in {namespace} {are} more than what is left of {limit} evictions a minute there: {when}"


def _evicted(victims: Sequence[Pod]) -> list[Pod]:
    return [pod for pod in victims if pod.metadata.deletion_timestamp is None]
