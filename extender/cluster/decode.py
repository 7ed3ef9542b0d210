"""Objects as the Kubernetes API server sends them -> our Structs, checked, and small in memory.

Pods made from one template are nearly the same: what they have in common becomes one value for all of them, which is
checked once. The same holds for the images of nodes.

Left out, although our types have a place for it: annotations that nothing reads (all but KEPT_ANNOTATIONS and those
that are configured), generations except those of disruption budgets, and a pod's volumes that no decision looks at,
such as the one for its token, whose name is different for every pod.

Rule: an object is decoded whole or not at all. Values are shared between objects, and so nobody changes them.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from extender.cluster.validation import sentence, validate
from extender.core.running import start_time
from extender.k8s import annotations
from extender.k8s.csi_migration import MIGRATED_PLUGINS
from extender.k8s.kinds import KINDS
from extender.k8s.objects import Node, ObjectMeta, Pod, PodDisruptionBudget, PodSpec, PodStatus, Value, Volume
from extender.k8s.volumes import BETA_CLASS, BIND_COMPLETED, SELECTED_NODE

KEPT_ANNOTATIONS: Mapping[str, frozenset[str]] = {
    "Pod": annotations.OF_PODS,
    "PriorityClass": annotations.OF_PRIORITY_CLASSES,
    "PersistentVolumeClaim": frozenset({BETA_CLASS, BIND_COMPLETED, SELECTED_NODE}),
    "PersistentVolume": frozenset({BETA_CLASS}),
    "CSINode": frozenset({MIGRATED_PLUGINS}),
}
"""Kind -> the annotations that decisions read, whatever is configured; of other kinds, none."""

MOST_SHARED = 10_000
"""Values of a sort that are remembered, and as many that were asked for before these."""

T = TypeVar("T")

_ENCODER = msgspec.json.Encoder()


class Shared:
    """Gives for equal values of one sort always the same one, unless it was not asked for in a long time."""

    def __init__(self) -> None:
        self._lately: dict[Any, Any] = {}
        self._before: dict[Any, Any] = {}

    def get(self, key: object, value: T) -> T:
        """The first value that came with this key."""
        known: T | None = self._lately.get(key)
        if known is not None:
            return known
        if len(self._lately) >= MOST_SHARED:
            self._lately, self._before = {}, self._lately
        kept: T = self._before.get(key, value)
        self._lately[key] = kept
        return kept

    def has(self, key: object) -> bool:
        return key in self._lately or key in self._before

    def text(self, value: str) -> str:
        """One string for all that are equal."""
        return self.get(value, value) if value else value

    def equal(self, value: T) -> T:
        """The same for any value that can be written as JSON; None and what is empty need no sharing."""
        return self.get(_ENCODER.encode(value), value) if value else value


class Decoder:
    """Decodes objects of one kind. Every thread needs its own."""

    def __init__(self, kind: str, also: frozenset[str] = frozenset()) -> None:
        """`kind` is a key of KINDS; `also`: annotations that are kept beside KEPT_ANNOTATIONS."""
        self._kind = kind
        self._also = also
        self._decoder = msgspec.json.Decoder(KINDS[kind].type)
        self._labels = Shared()
        self._parts = Shared()
        self._groups = Shared()
        self._specs = Shared()
        self._statuses = Shared()

    def decode(self, raw: bytes | Raw) -> Value:
        """Return the object of a JSON text; ValueError, with the field's path, if decisions could not read it."""
        try:
            return self._decode(raw)
        except msgspec.MsgspecError as error:
            raise ValueError(sentence(error)) from error
        except RecursionError as error:
            raise ValueError("nested too deeply") from error

    def _decode(self, raw: bytes | Raw) -> Value:
        found: Any = self._decoder.decode(raw)
        _check_identity(found)
        found = slim(self._kind, found, self._also) if found.metadata.annotations else found
        if isinstance(found, Pod):
            return self._pod(found)
        validate(found)
        if isinstance(found, Node):
            found = self._node(found)
        generation = found.metadata.generation if isinstance(found, PodDisruptionBudget) else 0
        changed: Value = replace(found, metadata=self._metadata(found.metadata, generation))
        return changed

    def _metadata(self, found: ObjectMeta, generation: int = 0) -> ObjectMeta:
        return replace(
            found,
            namespace=self._parts.text(found.namespace),
            generation=generation,
            labels=self._labels.equal(found.labels),
            annotations=self._labels.equal(found.annotations),
            owner_references=self._parts.equal(found.owner_references),
        )

    def _pod(self, found: Pod) -> Pod:
        """A part that another pod had too has been checked."""
        spec, status = _in_common(found)
        of_spec, of_status = _ENCODER.encode(spec), _ENCODER.encode(status)
        if not (self._specs.has(of_spec) and self._statuses.has(of_status)):
            validate(found)
        start_time(found)
        created, started = found.metadata.creation_timestamp, found.status.start_time
        return Pod(
            self._metadata(found.metadata),
            replace(
                self._specs.get(of_spec, spec),
                node_name=self._parts.text(found.spec.node_name),
                volumes=self._parts.equal(_looked_at(found.spec.volumes)),
                affinity=self._parts.equal(found.spec.affinity),
                scheduling_group=self._groups.equal(found.spec.scheduling_group),
            ),
            replace(
                self._statuses.get(of_status, status),
                start_time=created if created == started else started,
                nominated_node_name=self._parts.text(found.status.nominated_node_name),
            ),
        )

    def _node(self, found: Node) -> Node:
        images = found.status.images and [self._parts.equal(image) for image in found.status.images]
        status = replace(found.status, images=images, allocatable=self._parts.equal(found.status.allocatable))
        return replace(found, status=status)


def slim(kind: str, one: Any, also: frozenset[str] = frozenset()) -> Value:
    """The object without what nothing reads and may be nobody's business: annotations, templates of claims.

    `also`: annotations that are read beside KEPT_ANNOTATIONS.
    """
    if one.metadata.annotations:
        kept = KEPT_ANNOTATIONS.get(kind, frozenset())
        left = {key: value for key, value in one.metadata.annotations.items() if key in kept or key in also}
        one = replace(one, metadata=replace(one.metadata, annotations=left or None))
    slimmed: Value = _without_templates(one) if isinstance(one, Pod) else one
    return slimmed


def _without_templates(pod: Pod) -> Pod:
    """That claims are made for its volumes is read; what they are made of, annotations included, is not."""
    volumes = pod.spec.volumes or []
    if not any(volume.ephemeral for volume in volumes):
        return pod
    plain = [volume if volume.ephemeral is None else replace(volume, ephemeral={}) for volume in volumes]
    without: Pod = replace(pod, spec=replace(pod.spec, volumes=plain))
    return without


def _check_identity(found: Any) -> None:
    if not found.metadata.name:
        raise ValueError("metadata.name is missing")
    if isinstance(found, Pod) and not found.metadata.uid:
        raise ValueError("metadata.uid is missing")


def _in_common(pod: Pod) -> tuple[PodSpec, PodStatus]:
    """What pods of one template have in common.

    Not volumes (of a StatefulSet's), nor affinity (of a DaemonSet's), nor the group (of a job that runs many).
    """
    return (
        replace(pod.spec, node_name="", volumes=None, affinity=None, scheduling_group=None),
        replace(pod.status, start_time=None, nominated_node_name=""),
    )


def _looked_at(volumes: list[Volume] | None) -> list[Volume] | None:
    return [volume for volume in volumes or () if volume != Volume(name=volume.name)] or None
