"""Compute a pod's default selector from its Services and controller, for spreading without a selector.

Mirrors helper.DefaultSelector (pkg/scheduler/framework/plugins/helper/spread.go, v1.36).

Rule: pods of one namespace with equal labels and the same controller share one result.
"""

from dataclasses import dataclass
from typing import Self

from extender.core.snapshot.derived import derived_by
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.labels import LabelsKey, labels_key
from extender.k8s.objects import Labels, ObjectMeta, Pod, ReplicaSet, Service, StatefulSet
from extender.k8s.selectors import EVERYTHING, LabelMatcher, SelectorError, compile_label_selector


@dataclass(frozen=True, slots=True)
class _PodKey:
    """Parts of a pod that its default selector depends on."""

    namespace: str
    labels: LabelsKey
    controller: tuple[str, str, str] | None
    """Controller as (apiVersion, kind, name); None without one."""

    @classmethod
    def of(cls, pod: Pod) -> Self:
        owner = pod.metadata.controller
        controller = (owner.api_version, owner.kind, owner.name) if owner else None
        return cls(pod.metadata.namespace, labels_key(pod.metadata.labels), controller)


class ServiceIndex(Index):
    """Selectors of Services by namespace."""

    reads = ("services",)

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.by_namespace: dict[str, dict[str, Labels]] = {}
        """Namespace -> name of the Service -> selector; Services without a selector are left out."""

    def object_changed(self, _field: str, before: Service | None, after: Service | None) -> None:
        metadata = (after or before or _NO_SERVICE).metadata
        here = self.by_namespace.setdefault(metadata.namespace, {})
        here.pop(metadata.name, None)
        if after is not None and after.spec.selector:
            here[metadata.name] = after.spec.selector
        elif not here:
            del self.by_namespace[metadata.namespace]


_NO_SERVICE = Service(ObjectMeta())


def default_selector(snapshot: Snapshot, pod: Pod) -> LabelMatcher:
    """Return the labels that the pod's Services select by, merged with its controller's selector; empty without any.

    Where a Service and a ReplicationController have different values for a label, the latter wins.
    """
    return _selector(snapshot, _PodKey.of(pod))


@derived_by("services", "replication_controllers", "replica_sets", "stateful_sets")
def _selector(snapshot: Snapshot, pod: _PodKey) -> LabelMatcher:
    labels = dict(pod.labels)
    wanted: Labels = {}
    for selector in snapshot.index(ServiceIndex).by_namespace.get(pod.namespace, {}).values():
        if selector.items() <= labels.items():
            wanted |= selector
    return _controller_selector(snapshot, pod, wanted).with_labels(wanted)


def _controller_selector(snapshot: Snapshot, pod: _PodKey, wanted: Labels) -> LabelMatcher:
    """Return the controller's selector; a ReplicationController's labels are added to `wanted` instead, as upstream."""
    version, kind, name = pod.controller or ("", "", "")
    key, objects = (pod.namespace, name), snapshot.objects
    if (version, kind) == ("v1", "ReplicationController"):
        controller = objects.replication_controllers.get(key)
        wanted |= (controller.spec.selector if controller else None) or {}
        return EVERYTHING
    workload: ReplicaSet | StatefulSet | None = None
    if (version, kind) == ("apps/v1", "ReplicaSet"):
        workload = objects.replica_sets.get(key)
    elif (version, kind) == ("apps/v1", "StatefulSet"):
        workload = objects.stateful_sets.get(key)
    return EVERYTHING if workload is None else _selected(workload)


def _selected(workload: ReplicaSet | StatefulSet) -> LabelMatcher:
    """Return the selector, or EVERYTHING, which adds no condition, if it does not parse or selects no pod."""
    try:
        selector = compile_label_selector(workload.spec.selector)
    except SelectorError:
        return EVERYTHING
    return EVERYTHING if selector.is_nothing else selector
