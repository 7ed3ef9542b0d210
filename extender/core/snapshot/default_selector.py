"""Compute a pod's default selector from its Services and controller, for topology spreading without a selector.

Mirrors helper.DefaultSelector (pkg/scheduler/framework/plugins/helper/spread.go, v1.36).

Rule: pods of one namespace with equal labels and the same controller share one result.
"""

from contextlib import suppress

from extender.core.snapshot.derived import derived_by
from extender.core.snapshot.snapshot import Index, Snapshot
from extender.k8s.objects import Labels, LabelsKey, Pod, labels_key
from extender.k8s.selectors import EVERYTHING, LabelMatcher, SelectorError, compile_label_selector
from extender.k8s.workloads import ReplicaSet, Service, StatefulSet
from extender.utilities.groups import remove_member


class ServiceIndex(Index):
    """Selectors of Services by namespace."""

    reads = ("services",)

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.by_namespace: dict[str, dict[str, Labels]] = {}
        """Namespace -> name of the Service -> selector; Services without a selector are left out."""

    def object_changed(self, _field: str, before: Service | None, after: Service | None) -> None:
        if before is not None and before.spec.selector:
            remove_member(self.by_namespace, before.metadata.namespace, before.metadata.name)
        if after is not None and after.spec.selector:
            self.by_namespace.setdefault(after.metadata.namespace, {})[after.metadata.name] = after.spec.selector


def default_selector(snapshot: Snapshot, pod: Pod) -> LabelMatcher:
    """Return the selectors of the pod's Services, merged with its controller's selector; empty without any."""
    metadata, owner = pod.metadata, pod.metadata.controller
    controller = (owner.api_version, owner.kind, owner.name) if owner else ("", "", "")
    return _selector(snapshot, (metadata.namespace, labels_key(metadata.labels), controller))


@derived_by("services", "replication_controllers", "replica_sets", "stateful_sets")
def _selector(snapshot: Snapshot, pod: tuple[str, LabelsKey, tuple[str, str, str]]) -> LabelMatcher:
    """Return the default selector; `pod`: namespace, labels and controller (apiVersion, kind, name) of the pod."""
    namespace, labels, (version, kind, name) = pod[0], dict(pod[1]), pod[2]
    wanted: Labels = {}
    for selector in snapshot.index(ServiceIndex).by_namespace.get(namespace, {}).values():
        if selector.items() <= labels.items():
            wanted |= selector
    key, objects = (namespace, name), snapshot.objects
    workload: ReplicaSet | StatefulSet | None = None
    if (version, kind) == ("v1", "ReplicationController"):
        # The controller's selector overrides the selectors of Services.
        controller = objects.replication_controllers.get(key)
        wanted |= (controller.spec.selector if controller else None) or {}
    elif (version, kind) == ("apps/v1", "ReplicaSet"):
        workload = objects.replica_sets.get(key)
    elif (version, kind) == ("apps/v1", "StatefulSet"):
        workload = objects.stateful_sets.get(key)
    # A selector that does not parse or that selects no pod adds no condition.
    selected = EVERYTHING
    with suppress(SelectorError):
        compiled = EVERYTHING if workload is None else compile_label_selector(workload.spec.selector)
        selected = EVERYTHING if compiled.is_nothing else compiled
    return selected.with_labels(wanted)
