"""Not now, or not so many: how long a pod waits before it preempts, how often it may, and how much is evicted at once.

What was approved before is in the Moment that a decision is made in. What is refused for a time says until when.

Rule: a limit only ever refuses.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from extender.core.checks import Incoming
from extender.core.columns import BoolArray, IntArray
from extender.core.moment import MINUTE, SECOND
from extender.core.preemption import Barrier, DryRun
from extender.core.running import nanoseconds
from extender.core.workloads import Namespaces

# --- the preemptor ----------------------------------------------------------------------------------------------------


def veto(incoming: Incoming) -> str | None:
    """Why the pod may evict nobody now, and until when; None: it may."""
    return next(_vetoes(incoming), None)


def _vetoes(incoming: Incoming) -> Iterator[str]:
    policy, moment = incoming.profile.preemption, incoming.moment
    limits, pod = policy.limits, incoming.pod
    created = pod.metadata.creation_timestamp
    pending = moment.now - nanoseconds(created) if created else 0
    if pending < policy.preempt_after:
        yield (
            f"a pod may preempt once it has been pending for {policy.preempt_after / SECOND:g}s: not "
            f"{moment.until(policy.preempt_after - pending)}"
        )
    if limits.max_attempts is not None:
        attempts = [one.ago for one in moment.attempts if one.preemptor == pod.metadata.uid]
        wait = _wait(attempts, limits.attempts_within, limits.max_attempts)
        if wait is not None:
            yield (f"the pod has preempted {limits.max_attempts} times without coming to run: not {moment.until(wait)}")
    if limits.evictions_per_minute is not None:
        wait = _wait([one.ago for one in moment.evictions], MINUTE, limits.evictions_per_minute)
        if wait is not None:
            yield f"{limits.evictions_per_minute} evictions a minute are the limit: not {moment.until(wait)}"


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


def barriers(run: DryRun) -> Iterator[Barrier]:
    """Nodes whose victims are too many."""
    limits = run.incoming.profile.preemption.limits
    count: IntArray = np.count_nonzero(run.victims, axis=0)
    if limits.max_victims is not None:
        yield Barrier(
            count > limits.max_victims,
            lambda place: f"{count[place]} victims are more than the {limits.max_victims} of a preemption",
        )
    if limits.evictions_per_minute is not None:
        yield _per_minute(run, count, limits.evictions_per_minute)
    if limits.namespace_evictions_per_minute is not None:
        yield _per_namespace(run, limits.namespace_evictions_per_minute)


def _per_minute(run: DryRun, count: IntArray, limit: int) -> Barrier:
    moment = run.incoming.moment
    ages = [one.ago for one in moment.evictions if one.ago < MINUTE]

    def why(place: int) -> str:
        wanted = int(count[place])
        wait = _wait(ages, MINUTE, limit, wanted) or 0
        when = f"not {moment.until(wait)}" if wanted <= limit else "never"
        return f"{wanted} victims are more than what is left of {limit} evictions a minute: {when}"

    return Barrier(count > limit - len(ages), why)


def _per_namespace(run: DryRun, limit: int) -> Barrier:
    ages: dict[str, list[int]] = {}
    for one in run.incoming.moment.evictions:
        if one.ago < MINUTE:
            ages.setdefault(one.namespace, []).append(one.ago)
    left = {namespace: limit - len(found) for namespace, found in ages.items()}

    def why(place: int) -> str:
        said = (_why(run, limit, ages, name, wanted) for name, wanted in sorted(_by_namespace(run, place).items()))
        return "; ".join(filter(None, said))

    return Barrier(_too_many(run, limit, left), why)


def _why(run: DryRun, limit: int, ages: Mapping[str, list[int]], namespace: str, wanted: int) -> str:
    wait = _wait(ages.get(namespace, ()), MINUTE, limit, wanted)
    if wait is None:
        return ""
    when = f"not {run.incoming.moment.until(wait)}" if wanted <= limit else "never"
    return f"{wanted} victims in {namespace} are more than what is left of {limit} evictions a minute there: {when}"


def _by_namespace(run: DryRun, place: int) -> Counter[str]:
    return Counter(pod.metadata.namespace for pod in run.victims_on(place))


def _too_many(run: DryRun, limit: int, left: Mapping[str, int]) -> BoolArray:
    """[node]: has some namespace more victims there than it has evictions left?"""
    namespaces = run.snapshot.index(Namespaces)
    allowed = np.full(max(namespaces.things, default=0) + 1, limit, np.int64)
    for number, namespace in namespaces.things.items():
        allowed[number] = left.get(str(namespace), limit)
    k, node = np.nonzero(run.victims)
    numbers = namespaces.of_pod[run.pods[k, node]]
    keys, counts = np.unique(node * len(allowed) + numbers, return_counts=True)
    too_many = np.zeros(len(run.rows), np.bool_)
    too_many[keys[counts > allowed[keys % len(allowed)]] // len(allowed)] = True
    return too_many
