"""Which pods belong together with a pod: those that its Services and its controller select.

Mirrors helper.DefaultSelector (pkg/scheduler/framework/plugins/helper/spread.go, v1.36).
"""

import contextlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from extender.core.snapshot import Snapshot
from extender.k8s.labels import LabelsKey, labels_key
from extender.k8s.objects import Labels, ObjectMeta, Pod, ReplicaSet, StatefulSet
from extender.k8s.selectors import EVERYTHING, LabelMatcher, SelectorError, compile_label_selector

NamedInside = tuple[str, str]
"""(namespace, name)."""


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


@dataclass(frozen=True, slots=True)
class Selecting:
    """What selects pods, found by what a pod says of itself."""

    services: Mapping[str, Sequence[Labels]]
    """Namespace -> the selectors of its Services, unset and empty ones left out."""
    replication_controllers: Mapping[NamedInside, Labels]
    workloads: Mapping[tuple[str, NamedInside], LabelMatcher]
    """(kind, name) of ReplicaSets and StatefulSets -> whom they select, where that parses and is not nobody."""

    @classmethod
    def of(cls, snapshot: Snapshot) -> Self:
        """Take it from `snapshot.memo`."""
        objects, services, workloads = snapshot.objects, defaultdict(list), {}
        for service in objects.services:
            if service.spec.selector:
                services[service.metadata.namespace].append(service.spec.selector)
        of_kind: tuple[tuple[str, Sequence[ReplicaSet | StatefulSet]], ...]
        of_kind = (("ReplicaSet", objects.replica_sets), ("StatefulSet", objects.stateful_sets))
        for kind, found in of_kind:
            for one in found:
                with contextlib.suppress(SelectorError):
                    workloads[kind, _name(one.metadata)] = compile_label_selector(one.spec.selector)
        controllers = {_name(one.metadata): one.spec.selector or {} for one in objects.replication_controllers}
        return cls(services, controllers, {key: own for key, own in workloads.items() if not own.is_nothing})


def _name(metadata: ObjectMeta) -> NamedInside:
    return metadata.namespace, metadata.name


def default_selector(snapshot: Snapshot, pod: Pod) -> LabelMatcher:
    """The labels that its Services select by, and its controller's selector; empty if there are none.

    Of labels that both a Service and a ReplicationController name, the latter's value counts.
    """
    return snapshot.memo_by(_selector, _Asked.of(pod))


def _selector(snapshot: Snapshot, pod: _Asked) -> LabelMatcher:
    selecting, labels = snapshot.memo(Selecting.of), dict(pod.labels)
    wanted: Labels = {}
    for selector in selecting.services.get(pod.namespace, ()):
        if selector.items() <= labels.items():
            wanted |= selector
    own = EVERYTHING
    if pod.controller is not None:
        version, kind, name = pod.controller
        if (version, kind) == ("v1", "ReplicationController"):
            wanted |= selecting.replication_controllers.get((pod.namespace, name), {})
        elif version == "apps/v1":
            own = selecting.workloads.get((kind, (pod.namespace, name)), EVERYTHING)
    return own.with_labels(wanted)
