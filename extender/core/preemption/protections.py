"""Who may not be a victim, and why.

Protection rules, the tolerations of PriorityClasses, tenant fences and the cooldown of workloads. A pod that is leaving
already is never protected: there is nothing left to protect it from.

The engine asks for all pods at once (`Protections.mask`), people and the guard for one pod, with every reason there is
(`reasons`). Both ask the same `means` whom a rule means at all.

Rule: a policy only ever takes pods away from those that may be evicted.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from extender.core.framework.constraint import SchedulingContext
from extender.core.profile import IMPORTANCE, PreemptionPolicy, Protection
from extender.core.snapshot.arrays import NEVER, BoolArray, IntArray
from extender.core.snapshot.pod_table import start_time
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.core.snapshot.workloads import Workloads
from extender.k8s.annotations import MINIMUM_PREEMPTABLE_PRIORITY, MIRROR, TOLERATION_SECONDS
from extender.k8s.objects import Namespace, Pod, PriorityClass
from extender.k8s.time import SECOND
from extender.k8s.workloads import Workload, workload_of

SYSTEM_CRITICAL = 2_000_000_000
"""Priority of system-cluster-critical (scheduling.SystemCriticalPriority, v1.36)."""

_FOREVER = 2**62
"""Nanoseconds, 146 years."""

_LOWEST = -(2**31) - 1
"""Below every priority."""


def protects(policy: PreemptionPolicy) -> bool:
    """Is anybody protected, or may a victim be another one than kube-scheduler's own?

    Then those are protected too that we never add (`is_special`).
    """
    return bool(
        policy.protections
        or policy.preemption_toleration
        or policy.tenant_label is not None
        or policy.limits.cooldown
        or policy.candidates == "AllNodes"
        or policy.victims == "Fewest"
        or policy.importance != IMPORTANCE
        or policy.reads_pod_groups
    )


def means(rule: Protection, pod: Pod) -> bool:
    """Does the pod meet every condition that depends on it alone?"""
    metadata, owner = pod.metadata, pod.metadata.controller
    annotations = metadata.annotations or {}
    return (
        (not rule.namespaces or metadata.namespace in rule.namespaces)
        and (not rule.priority_classes or pod.spec.priority_class_name in rule.priority_classes)
        and (not rule.owner_kinds or (owner is not None and owner.kind in rule.owner_kinds))
        and (not rule.annotations or any(_has(annotations, key, value) for key, value in rule.annotations))
        and rule.selector.matches(metadata.labels)
    )


def _has(annotations: Mapping[str, str], key: str, value: str | None) -> bool:
    return key in annotations and value in (None, annotations[key])


# --- PriorityClasses that tolerate ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Toleration:
    """What a PriorityClass says of its pods: preemptors below `minimum` wait until they have run for so long."""

    minimum: int
    """Priority from which on a preemptor need not wait."""
    duration: int
    """Nanoseconds."""


NO_TOLERATION = Toleration(_LOWEST, 0)


def toleration_of(priority_class: PriorityClass | None) -> Toleration:
    """Mirrors parsePreemptionTolerationPolicy (scheduler-plugins preemptiontoleration): what does not parse is none."""
    if priority_class is None:
        return NO_TOLERATION
    annotations = priority_class.metadata.annotations or {}
    try:
        minimum = _integer(annotations, MINIMUM_PREEMPTABLE_PRIORITY, 32)
        seconds = _integer(annotations, TOLERATION_SECONDS, 64)
    except ValueError:
        return NO_TOLERATION
    duration = 0 if seconds is None else seconds * SECOND
    return Toleration(
        priority_class.value + 1 if minimum is None else minimum,
        _FOREVER if duration < 0 else min(duration, _FOREVER),
    )


def _integer(annotations: Mapping[str, str], keys: tuple[str, ...], bits: int) -> int | None:
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


class Protections(Index):
    """What the policy says of every running pod, as far as it does not depend on preemptor and time."""

    reads = ("namespaces", "priority_classes")

    def __init__(self, snapshot: Snapshot, policy: PreemptionPolicy) -> None:
        super().__init__(snapshot)
        self._policy = policy
        self._workloads = snapshot.index(Workloads) if policy.limits.cooldown else None
        self._tenants: dict[str, str | None] = {}
        self._classes: dict[str, Toleration] = {}
        self._codes: dict[object, int] = {}
        """Tenant that some namespace has, or None -> its code; never given to another one."""
        self._newest_code = -1
        self._by_namespace: dict[str, set[int]] = {}
        self._by_class: dict[str, set[int]] = {}
        self._holding_always = [number for number, rule in enumerate(policy.protections) if _holds_always(rule)]
        self._allocate(64)

    def _allocate(self, size: int) -> None:
        self._meant: BoolArray = np.zeros((len(self._policy.protections), size), np.bool_)
        """[rule, pod]."""
        self._always: BoolArray = np.zeros(size, np.bool_)
        """[pod]: one of the rules that always hold means it."""
        self._tenant: npt.NDArray[np.int32] = np.zeros(size, np.int32)
        """[pod] -> code of the value of its namespace's tenant label."""
        self._minimum: IntArray = np.full(size, _LOWEST, np.int64)
        self._duration: IntArray = np.zeros(size, np.int64)
        """[pod]: its Toleration."""
        self._special: BoolArray = np.zeros(size, np.bool_)
        """[pod]: never a victim unless kube-scheduler chose it: mirror pods, system-critical and leaving ones."""

    def _reserve(self, row: int) -> None:
        size = self._special.size
        if row >= size:
            held = self._columns()
            self._allocate(2 * (row + 1))
            for after, before in zip(self._columns(), held, strict=True):
                after[..., :size] = before

    def _columns(self) -> tuple[npt.NDArray[Any], ...]:
        return self._meant, self._always, self._tenant, self._minimum, self._duration, self._special

    # --- pods and what they belong to ---

    def pod_added(self, row: int, pod: Pod) -> None:
        self._reserve(row)
        meant = [means(rule, pod) for rule in self._policy.protections]
        self._meant[:, row] = meant
        self._always[row] = any(meant[number] for number in self._holding_always)
        self._special[row] = is_special(pod)
        if self._policy.tenant_label is not None:
            self._by_namespace.setdefault(pod.metadata.namespace, set()).add(row)
            self._tenant[row] = self._code_of(pod.metadata.namespace)
        if self._policy.preemption_toleration:
            self._by_class.setdefault(pod.spec.priority_class_name, set()).add(row)
            self._tolerate(row, self._classes.get(pod.spec.priority_class_name, NO_TOLERATION))

    def pod_removed(self, row: int, pod: Pod) -> None:
        for rows in (self._by_namespace, pod.metadata.namespace), (self._by_class, pod.spec.priority_class_name):
            _take_out(*rows, row)

    def object_changed(self, field: str, before: object, after: object) -> None:
        one = after or before
        if isinstance(one, Namespace) and self._policy.tenant_label is not None:
            name = one.metadata.name
            tenant = self._tenants.pop(name, None)
            if after is not None:
                self._tenants[name] = (one.metadata.labels or {}).get(self._policy.tenant_label)
            self._tenant[list(self._by_namespace.get(name, ()))] = self._code_of(name)
            if tenant is not None and tenant not in self._tenants.values():
                self._codes.pop(tenant, None)  # no pod has it any more
        elif isinstance(one, PriorityClass) and self._policy.preemption_toleration:
            name, toleration = one.metadata.name, toleration_of(one if after else None)
            if after is None:
                self._classes.pop(name, None)
            else:
                self._classes[name] = toleration
            for row in self._by_class.get(name, ()):
                self._tolerate(row, toleration)

    def _tolerate(self, row: int, toleration: Toleration) -> None:
        self._minimum[row], self._duration[row] = toleration.minimum, toleration.duration

    def _code_of(self, namespace: str) -> int:
        tenant = self._tenants.get(namespace)
        code = self._codes.get(tenant)
        if code is None:
            self._newest_code += 1
            code = self._codes[tenant] = self._newest_code
        return code

    # --- asked ---

    def key(self, incoming: SchedulingContext) -> tuple[object, ...]:
        """Preemptors with the same key meet nearly the same protections."""
        tenant = self._tenants.get(incoming.pod.metadata.namespace)
        return tenant, tuple(_withstands(rule, incoming.pod) for rule in self._policy.protections)

    def mask(self, incoming: SchedulingContext, chosen: BoolArray | None) -> BoolArray:
        """[pod]: may not be a victim. `chosen`: [pod] that kube-scheduler chose; None: nobody is special."""
        running = incoming.snapshot.pod_table
        count = min(len(self._special), len(running.pods))
        protected = self._always[:count].copy()
        for means_them, until in self._for_a_time(incoming, count):
            protected |= means_them if until is None else means_them & (running.start[:count] > until)
        own = self._code_of(incoming.pod.metadata.namespace)
        if len(self._codes) > 1:
            protected |= self._tenant[:count] != own
        if self._workloads is not None:
            for workload in cooling(incoming):
                protected[self._workloads.rows_of(workload)] = True
        protected &= ~running.terminating[:count]
        if chosen is not None:
            protected |= self._special[:count] & ~chosen[:count]
        return _padded(protected, len(running.start))

    def _for_a_time(self, incoming: SchedulingContext, count: int) -> Iterator[tuple[BoolArray, int | IntArray | None]]:
        """[pod] that rules mean which hold for some preemptors, or of pods that have started after some time only."""
        now = incoming.history.now
        for rule, meant in zip(self._policy.protections, self._meant[:, :count], strict=True):
            if not _holds_always(rule) and _withstands(rule, incoming.pod):
                yield meant, None if rule.min_runtime is None else now - rule.min_runtime
        if any(toleration.duration for toleration in self._classes.values()):
            duration = self._duration[:count]
            yield (incoming.pod.priority < self._minimum[:count]) & (duration > 0), now - duration


def _holds_always(rule: Protection) -> bool:
    return rule.min_runtime is None and rule.unless_priority_at_least is None


def is_special(pod: Pod) -> bool:
    """No victim that we add: evicting a mirror pod stops nothing, and who leaves already need not be evicted."""
    return (
        MIRROR in (pod.metadata.annotations or {})
        or pod.metadata.deletion_timestamp is not None
        or pod.priority >= SYSTEM_CRITICAL
    )


def _padded(mask: BoolArray, size: int) -> BoolArray:
    return mask if len(mask) == size else np.concatenate((mask, np.zeros(size - len(mask), np.bool_)))


def _take_out(groups: dict[str, set[int]], name: str, row: int) -> None:
    rows = groups.get(name)
    if rows is not None:
        rows.discard(row)
        if not rows:
            del groups[name]


def _withstands(rule: Protection, preemptor: Pod) -> bool:
    return rule.unless_priority_at_least is None or preemptor.priority < rule.unless_priority_at_least


def cooling(incoming: SchedulingContext) -> dict[Workload, int]:
    """Workloads of which a pod was evicted lately -> nanoseconds for which no other one may be."""
    cooldown, last = incoming.profile.preemption.limits.cooldown, incoming.history.last_evicted
    return {workload: cooldown - ago for workload, ago in last.items() if ago < cooldown}


# --- one pod, with reasons --------------------------------------------------------------------------------------------


def reasons(incoming: SchedulingContext, pod: Pod) -> tuple[str, ...]:
    """Everything that forbids that the pod be a victim; where that ends by itself, until when."""
    return () if pod.metadata.deletion_timestamp is not None else tuple(_reasons(incoming, pod))


def _reasons(incoming: SchedulingContext, pod: Pod) -> Iterator[str]:
    policy, history, started = incoming.profile.preemption, incoming.history, start_time(pod)
    for rule in policy.protections:
        if means(rule, pod) and _withstands(rule, incoming.pod):
            if rule.min_runtime is None:
                yield f"protected by {rule.name}"
            elif started + rule.min_runtime > history.now:
                yield f"protected by {rule.name} {_until(incoming, started, rule.min_runtime)}"
    if policy.preemption_toleration:
        name = pod.spec.priority_class_name
        toleration = toleration_of(incoming.snapshot.objects.priority_classes.get(("", name)))
        waits = incoming.pod.priority < toleration.minimum and toleration.duration > 0
        if waits and started + toleration.duration > history.now:
            until = _until(incoming, started, toleration.duration)
            yield f"protected by PriorityClass {name} from priorities below {toleration.minimum} {until}".rstrip()
    if policy.tenant_label is not None:
        own, other = (_tenant(incoming, one) for one in (incoming.pod, pod))
        if own != other:
            yield f"of another tenant: {policy.tenant_label} is {_shown(other)}, not {_shown(own)}"
    cooldown = policy.limits.cooldown
    wait = cooldown - history.last_evicted.get(workload_of(pod), cooldown) if cooldown else 0
    if wait > 0:
        yield f"cooling down after an eviction from its workload, {history.until(wait)}"


def _until(incoming: SchedulingContext, started: int, duration: int) -> str:
    """Of a pod that has not started, and for what lasts for ever, there is no such time."""
    if duration >= _FOREVER:
        return ""
    if started == NEVER:
        return f"until it has run for {duration / SECOND:g}s"
    return incoming.history.until(started + duration - incoming.history.now)


def _tenant(incoming: SchedulingContext, pod: Pod) -> str | None:
    labels = incoming.snapshot.namespace_labels.get(pod.metadata.namespace, {})
    return labels.get(incoming.profile.preemption.tenant_label or "")


def _shown(tenant: str | None) -> str:
    return "unset" if tenant is None else tenant or '""'
