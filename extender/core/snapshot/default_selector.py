"""Which pods belong together with a pod: those that its Services and its controller select.

Mirrors helper.DefaultSelector (pkg/scheduler/framework/plugins/helper/spread.go, v1.36).
"""

from dataclasses import dataclass
from typing import Self

from extender.core.snapshot.derived import derived_by
from extender.core.snapshot.index import Index
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.labels import LabelsKey, labels_key
from extender.k8s.objects import Labels, ObjectMeta, Pod, ReplicaSet, Service, StatefulSet
from extender.k8s.selectors import EVERYTHING, LabelMatcher, SelectorError, compile_label_selector


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the selector of a pod depends on."""

    namespace: str
    labels: LabelsKey
    controller: tuple[str, str, str] | None
    """apiVersion, kind, name."""

    @classmethod
    def of(cls, pod: Pod) -> Self:
        owner = pod.metadata.controller
        controller = (owner.api_version, owner.kind, owner.name) if owner else None
        return cls(pod.metadata.namespace, labels_key(pod.metadata.labels), controller)


class ServiceIndex(Index):
    """Whom Services select, by namespace."""

    reads = ("services",)

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.by_namespace: dict[str, dict[str, Labels]] = {}
        """Namespace -> name -> selector, unset and empty ones left out."""

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
    """The labels that its Services select by, and its controller's selector; empty if there are none.

    Of labels that both a Service and a ReplicationController name, the latter's value counts.
    """
    return _selector(snapshot, _Asked.of(pod))


@derived_by("services", "replication_controllers", "replica_sets", "stateful_sets")
def _selector(snapshot: Snapshot, pod: _Asked) -> LabelMatcher:
    labels = dict(pod.labels)
    wanted: Labels = {}
    for selector in snapshot.index(ServiceIndex).by_namespace.get(pod.namespace, {}).values():
        if selector.items() <= labels.items():
            wanted |= selector
    return _controllers(snapshot, pod, wanted).with_labels(wanted)


def _controllers(snapshot: Snapshot, pod: _Asked, wanted: Labels) -> LabelMatcher:
    """What the controller selects; a ReplicationController's labels are added to `wanted`."""
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
    """A selector that does not parse, or selects nobody, says nothing."""
    try:
        selector = compile_label_selector(workload.spec.selector)
    except SelectorError:
        return EVERYTHING
    return EVERYTHING if selector.is_nothing else selector
