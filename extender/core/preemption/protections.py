"""Decide which pods are protected from preemption, and render the reasons.

Four policies protect pods: protection rules, the preemption tolerations of PriorityClasses, tenant separation, and the
cooldown of workloads. A terminating pod is never protected: its eviction can no longer be prevented.

The engine needs one mask of all pods (`ProtectionIndex.protected`); explanations and the guard need all reasons for one
pod (`protection_reasons`). Both use `rule_matches`, so they always agree on the pods that a rule covers.

Rule: policies only remove pods from the potential victims; they never add any.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt

from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.profile import PreemptionPolicy, Protection
from extender.core.snapshot.arrays import NEVER, BoolArray, IntArray, grown
from extender.core.snapshot.pod_table import start_time
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.core.snapshot.workloads import NamespaceIndex, PriorityClassIndex, WorkloadIndex
from extender.k8s.objects import Namespace, Pod, PriorityClass
from extender.k8s.priority import BELOW_ALL_PRIORITIES, SYSTEM_CRITICAL_PRIORITY
from extender.k8s.time import SECOND
from extender.k8s.well_known import MINIMUM_PREEMPTABLE_PRIORITY, MIRROR, TOLERATION_SECONDS
from extender.k8s.workloads import workload_of

UNREQUESTED_SYSTEM_POD = "a mirror pod, system-critical or terminating already, and not chosen by kube-scheduler"
"""Reason why a pod may not be evicted if `is_system_victim` holds and kube-scheduler did not choose it."""

_FOREVER_NANOSECONDS = 2**62
"""Maximum duration, 146 years: adding it to a timestamp does not overflow int64."""


def rule_matches(rule: Protection, pod: Pod) -> bool:
    """Return whether the pod meets all conditions of the rule that depend on the pod alone.

    Conditions on the preemptor's priority and on the pod's runtime are checked per decision.
    """
    metadata, owner = pod.metadata, pod.metadata.controller
    annotations = metadata.annotations or {}
    return (
        (not rule.namespaces or metadata.namespace in rule.namespaces)
        and (not rule.priority_classes or pod.spec.priority_class_name in rule.priority_classes)
        and (not rule.owner_kinds or (owner is not None and owner.kind in rule.owner_kinds))
        and (
            not rule.annotations
            or any(key in annotations and value in (None, annotations[key]) for key, value in rule.annotations)
        )
        and rule.selector.matches(metadata.labels)
    )


# --- preemption tolerations of PriorityClasses ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PreemptionToleration:
    """Temporary protection of a PriorityClass's pods from preemptors of low priority (scheduler-plugins)."""

    minimum_preemptable_priority: int
    """Preemptors of this priority or higher may evict the pods at once."""
    duration: int
    """Nanoseconds after its start for which a pod is protected from all other preemptors."""


NO_PREEMPTION_TOLERATION = PreemptionToleration(BELOW_ALL_PRIORITIES, 0)


def parse_preemption_toleration(priority_class: PriorityClass | None) -> PreemptionToleration:
    """Parse the annotations of a PriorityClass; a toleration that does not parse is ignored.

    Mirrors parsePreemptionTolerationPolicy (scheduler-plugins preemptiontoleration).
    """
    if priority_class is None:
        return NO_PREEMPTION_TOLERATION
    annotations = priority_class.metadata.annotations or {}
    try:
        minimum = _parse_integer(annotations, MINIMUM_PREEMPTABLE_PRIORITY, 32)
        seconds = _parse_integer(annotations, TOLERATION_SECONDS, 64)
    except ValueError:
        return NO_PREEMPTION_TOLERATION
    duration = 0 if seconds is None else seconds * SECOND
    return PreemptionToleration(
        priority_class.value + 1 if minimum is None else minimum,
        _FOREVER_NANOSECONDS if duration < 0 else min(duration, _FOREVER_NANOSECONDS),
    )


def _parse_integer(annotations: Mapping[str, str], keys: tuple[str, ...], bits: int) -> int | None:
    """Parse the first annotation of `keys` that is set, like strconv.ParseInt; raises ValueError if it is invalid."""
    text = next((annotations[key] for key in keys if key in annotations), None)
    if text is None:
        return None
    if not text.isascii() or "_" in text or text != text.strip():
        raise ValueError(text)
    value = int(text)
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ValueError(text)
    return value


# --- all pods at once -------------------------------------------------------------------------------------------------


class ProtectionIndex(Index):
    """Protections of all running pods by the policy, updated pod by pod.

    The index holds the part that depends on neither preemptor nor time; `protected` evaluates the rest per decision.
    """

    reads = ("namespaces", "priority_classes")

    def __init__(self, snapshot: Snapshot, policy: PreemptionPolicy) -> None:
        super().__init__(snapshot)
        self._policy = policy
        if policy.limits.workload_cooldown:
            snapshot.index(WorkloadIndex)  # built together with this index, so that no decision waits for it
        self._tenants: dict[str, str | None] = {}
        self._classes: dict[str, PreemptionToleration] = {}
        self._codes: defaultdict[str | None, int] = defaultdict(count().__next__)
        """Tenant (None: no label) -> its code. Codes are never reused, so a stale code cannot match another tenant."""
        self._by_namespace = snapshot.index(NamespaceIndex) if policy.tenant_label is not None else None
        self._by_class = snapshot.index(PriorityClassIndex) if policy.preemption_toleration else None
        self._always_protected: BoolArray = np.zeros(64, np.bool_)
        """[pod]: whether a rule without conditions on preemptor or runtime covers it."""
        self._conditional = [(rule, np.zeros(64, np.bool_)) for rule in policy.protections if _is_conditional(rule)]
        """Rules with conditions on preemptor or runtime, each with [pod]: whether `rule_matches`."""
        self._tenant: npt.NDArray[np.int32] = np.zeros(64, np.int32)
        """[pod]: code of its namespace's tenant label."""
        self._minimum: IntArray = np.full(64, BELOW_ALL_PRIORITIES, np.int64)
        """[pod]: minimum_preemptable_priority of its PriorityClass."""
        self._duration: IntArray = np.zeros(64, np.int64)
        """[pod]: nanoseconds of its PriorityClass's toleration; 0: none."""
        self._system: BoolArray = np.zeros(64, np.bool_)
        """[pod]: whether only kube-scheduler may choose it as a victim (`is_system_victim`)."""
        self._reserve(len(snapshot.pod_table.start) - 1)

    def _reserve(self, row: int) -> None:
        if row < len(self._system):
            return
        self._always_protected = grown(self._always_protected, row, 0)
        self._conditional = [(rule, grown(matched, row, 0)) for rule, matched in self._conditional]
        self._tenant = grown(self._tenant, row, 0)
        self._minimum = grown(self._minimum, row, BELOW_ALL_PRIORITIES)
        self._duration = grown(self._duration, row, 0)
        self._system = grown(self._system, row, 0)

    # --- updates ---

    def pod_added(self, row: int, pod: Pod) -> None:
        self._reserve(row)
        self._always_protected[row] = any(
            rule_matches(rule, pod) for rule in self._policy.protections if not _is_conditional(rule)
        )
        for rule, matched in self._conditional:
            matched[row] = rule_matches(rule, pod)
        self._system[row] = is_system_victim(pod)
        if self._by_namespace is not None:
            self._tenant[row] = self._codes[self._tenants.get(pod.metadata.namespace)]
        if self._by_class is not None:
            toleration = self._classes.get(pod.spec.priority_class_name, NO_PREEMPTION_TOLERATION)
            self._minimum[row], self._duration[row] = toleration.minimum_preemptable_priority, toleration.duration

    def object_changed(self, field: str, before: object, after: object) -> None:
        one = after or before
        if isinstance(one, Namespace) and self._by_namespace is not None:
            name = one.metadata.name
            tenant = self._tenants.pop(name, None)
            if after is not None:
                self._tenants[name] = (one.metadata.labels or {}).get(self._policy.tenant_label or "")
            self._tenant[self._by_namespace.rows_of(name)] = self._codes[self._tenants.get(name)]
            if tenant is not None and tenant not in self._tenants.values():
                self._codes.pop(tenant, None)  # no namespace has this tenant now
        elif isinstance(one, PriorityClass) and self._by_class is not None:
            name, toleration = one.metadata.name, parse_preemption_toleration(one if after else None)
            if after is None:
                self._classes.pop(name, None)
            else:
                self._classes[name] = toleration
            rows = self._by_class.rows_of(name)
            self._minimum[rows], self._duration[rows] = toleration.minimum_preemptable_priority, toleration.duration

    # --- queries ---

    def cache_key(self, context: SchedulingContext) -> tuple[object, ...]:
        """Return a cache key shared by preemptors with the same protections, apart from runtimes and cooldowns."""
        tenant = self._tenants.get(context.pod.metadata.namespace)
        return tenant, tuple(_applies_to_preemptor(rule, context.pod) for rule in self._policy.protections)

    def protected(self, context: SchedulingContext, scheduler_victims: BoolArray | None) -> BoolArray:
        """Return [pod]: whether it is protected from this preemptor at this time.

        `scheduler_victims`: [pod], kube-scheduler's victims; all other system pods are protected. None: system pods are
        treated like other pods.
        """
        pod_table, cooldown = context.snapshot.pod_table, self._policy.limits.workload_cooldown
        size = len(pod_table.start)
        self._reserve(size - 1)
        protected: BoolArray = self._always_protected[:size].copy()
        for matched, started_after in self._conditional_protections(context, size):
            protected |= matched if started_after is None else matched & (pod_table.start > started_after)
        own = self._codes[self._tenants.get(context.pod.metadata.namespace)]
        if len(self._codes) > 1:
            protected |= self._tenant[:size] != own
        for workload, ago in context.history.last_evicted.items() if cooldown else ():
            if ago < cooldown:
                protected[context.snapshot.index(WorkloadIndex).rows_of(workload)] = True
        # The eviction of a terminating pod can no longer be prevented.
        protected &= ~pod_table.terminating
        if scheduler_victims is not None:
            protected |= self._system[:size] & ~scheduler_victims
        return protected

    def _conditional_protections(
        self, context: SchedulingContext, size: int
    ) -> Iterator[tuple[BoolArray, int | IntArray | None]]:
        """Yield protections that depend on preemptor or runtime: ([pod]: whether it is covered, start time).

        Only covered pods that started after the start time are protected; None: all covered pods.
        """
        now = context.history.now
        for rule, matched in self._conditional:
            if _applies_to_preemptor(rule, context.pod):
                yield matched[:size], None if rule.min_runtime is None else now - rule.min_runtime
        if any(toleration.duration for toleration in self._classes.values()):
            duration = self._duration[:size]
            yield (context.pod.priority < self._minimum[:size]) & (duration > 0), now - duration


def _is_conditional(rule: Protection) -> bool:
    return rule.min_runtime is not None or rule.unless_priority_at_least is not None


def is_system_victim(pod: Pod) -> bool:
    """Return whether we must not choose this pod as a victim unless kube-scheduler did.

    Evicting a mirror pod does not stop its static pod, a terminating pod need not be evicted again, and a
    system-critical pod should keep running.
    """
    return (
        MIRROR in (pod.metadata.annotations or {})
        or pod.metadata.deletion_timestamp is not None
        or pod.priority >= SYSTEM_CRITICAL_PRIORITY
    )


def _applies_to_preemptor(rule: Protection, preemptor: Pod) -> bool:
    return rule.unless_priority_at_least is None or preemptor.priority < rule.unless_priority_at_least


# --- one pod, with reasons --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProtectionReason:
    """A reason why a pod may not be a victim."""

    text: str
    until: int | None = None
    """When the reason expires, in nanoseconds since 1970; None if it does not expire, or the time is unknown."""


def protection_reasons(context: SchedulingContext, pod: Pod) -> tuple[str, ...]:
    """Return all reasons why the pod may not be a victim; a reason that expires includes the time."""
    return tuple(one.text for one in protections_of(context, pod))


def protections_of(context: SchedulingContext, pod: Pod) -> Iterator[ProtectionReason]:
    """Yield all reasons why the pod may not be a victim."""
    if pod.metadata.deletion_timestamp is not None:
        return
    policy, history, started = context.profile.preemption, context.history, start_time(pod)
    for rule in policy.protections:
        if rule_matches(rule, pod) and _applies_to_preemptor(rule, context.pod):
            if rule.min_runtime is None:
                yield ProtectionReason(f"protected by {rule.name}")
            elif started + rule.min_runtime > history.now:
                yield _expiring(context, f"protected by {rule.name}", started, rule.min_runtime)
    if policy.preemption_toleration:
        name = pod.spec.priority_class_name
        toleration = parse_preemption_toleration(context.snapshot.objects.priority_classes.get(("", name)))
        minimum = toleration.minimum_preemptable_priority
        is_protected = context.pod.priority < minimum and toleration.duration > 0
        if is_protected and started + toleration.duration > history.now:
            text = f"protected by PriorityClass {name} from priorities below {minimum}"
            yield _expiring(context, text, started, toleration.duration)
    if policy.tenant_label is not None:
        own, other = (_tenant(context, one) for one in (context.pod, pod))
        if own != other:
            tenants = f"{policy.tenant_label} is {_render_tenant(other)}, not {_render_tenant(own)}"
            yield ProtectionReason(f"in another tenant: {tenants}")
    cooldown = policy.limits.workload_cooldown
    wait = cooldown - history.last_evicted.get(workload_of(pod), cooldown) if cooldown else 0
    if wait > 0:
        text = f"cooling down after an eviction from its workload, {history.until(wait)}"
        yield ProtectionReason(text, history.now + wait)


def _expiring(context: SchedulingContext, text: str, started: int, duration: int) -> ProtectionReason:
    """Return the reason for a protection that lasts for `duration` nanoseconds after `started`."""
    if duration >= _FOREVER_NANOSECONDS:
        return ProtectionReason(text)
    if started == NEVER:
        return ProtectionReason(f"{text} until it has run for {duration / SECOND:g}s")
    until = started + duration
    return ProtectionReason(f"{text} {context.history.until(until - context.history.now)}", until)


def _tenant(context: SchedulingContext, pod: Pod) -> str | None:
    labels = context.snapshot.namespace_labels.get(pod.metadata.namespace, {})
    return labels.get(context.profile.preemption.tenant_label or "")


def _render_tenant(tenant: str | None) -> str:
    return "unset" if tenant is None else tenant or '""'
