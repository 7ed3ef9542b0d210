"""Objects as the Kubernetes API server sends them -> our Structs, checked, and small in memory.

Pods made from one template are nearly the same: what they have in common becomes one value for all of them, which is
checked once. The same holds for the images of nodes.

Left out, although our types have a place for it: annotations that nothing reads (all but KEPT_ANNOTATIONS and those
that are configured), generations except those of pods and disruption budgets, and a pod's volumes that no decision
looks at, such as the one for its token, whose name is different for every pod.

Rule: an object is decoded whole or not at all. Values are shared between objects, and so nobody changes them.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from extender.core.snapshot.pod_table import start_time
from extender.k8s import annotations
from extender.k8s.kinds import KINDS, Key, kind_without_group
from extender.k8s.objects import Node, ObjectMeta, Pod, PodSpec, PodStatus, Value, Volume
from extender.k8s.storage.csi_migration import MIGRATED_PLUGINS
from extender.k8s.storage.volumes import BETA_CLASS, BIND_COMPLETED, SELECTED_NODE
from extender.k8s.validation import decode_error_message, validate

KEPT_ANNOTATIONS: Mapping[str, frozenset[str]] = {
    "Pod": annotations.POD_ANNOTATIONS,
    "PriorityClass": annotations.PRIORITY_CLASS_ANNOTATIONS,
    "PersistentVolumeClaim": frozenset({BETA_CLASS, BIND_COMPLETED, SELECTED_NODE}),
    "PersistentVolume": frozenset({BETA_CLASS}),
    "CSINode": frozenset({MIGRATED_PLUGINS}),
}
"""Kind -> the annotations that decisions read, whatever is configured; of other kinds, none."""

KEPT_GENERATIONS = frozenset({"Pod", "PodDisruptionBudget"})

MAX_INTERNED_VALUES = 10_000
"""Values of a sort that are remembered, and as many that were asked for before these."""

T = TypeVar("T")

_ENCODER = msgspec.json.Encoder()


GetCached = Callable[[Key], Value | None]
"""Key -> the object of that name that is held."""


class WatchedPod(Value, frozen=True):
    """A pod in a line of a watch. Its spec is nearly always known: it is read only if it may not be."""

    metadata: ObjectMeta
    kind: str = ""
    spec: Raw = Raw(b"{}")
    status: PodStatus = PodStatus()


_POD_SPECS = msgspec.json.Decoder(PodSpec)


def _event_decoder(kind: type[Value]) -> msgspec.json.Decoder[Any]:
    """Of lines of a watch; `object` is of that type, and also says what kind it is."""
    sent: type[msgspec.Struct] = WatchedPod
    if kind is not Pod:
        sent = msgspec.defstruct("Sent", [("kind", str, "")], bases=(kind,), frozen=True, gc=False)
    return msgspec.json.Decoder(msgspec.defstruct("Event", [("type", str), ("object", sent)], gc=False))


class InternPool:
    """Gives for equal values of one sort always the same one, unless it was not asked for in a long time."""

    def __init__(self) -> None:
        self._lately: dict[Any, Any] = {}
        self._before: dict[Any, Any] = {}

    def get(self, key: object, value: T) -> T:
        """The first value that came with this key."""
        known: T | None = self._lately.get(key)
        if known is not None:
            return known
        if len(self._lately) >= MAX_INTERNED_VALUES:
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
        self._type = KINDS[kind].type
        self._says = ("", kind_without_group(kind))
        self._decoder = msgspec.json.Decoder(self._type)
        self._events = _event_decoder(self._type)
        self._labels = InternPool()
        self._parts = InternPool()
        self._groups = InternPool()
        self._specs = InternPool()
        self._statuses = InternPool()

    def decode(self, raw: bytes | Raw) -> Value:
        """Return the object of a JSON text; ValueError, with the field's path, if decisions could not read it."""
        try:
            return self._kept(self._decoder.decode(raw))
        except msgspec.MsgspecError as error:
            raise ValueError(decode_error_message(error)) from error
        except RecursionError as error:
            raise ValueError("nested too deeply") from error

    def event(self, line: bytes, held: GetCached) -> tuple[str, Value] | None:
        """(type, object) of a watch's line; None if it is not about an object of this kind that decisions could read.

        Read in one pass, where a line that is None has to be looked at part by part. `held`: key -> the object of that
        name before; what is the same in it becomes the same value, and a pod's spec that is the same is not looked at.
        """
        try:
            event = self._events.decode(line)
            found = event.object
            if found.kind not in self._says:
                return None
            if isinstance(found, WatchedPod):
                before = held((found.metadata.namespace, found.metadata.name))
                return event.type, self._pod_after(before, found)
            plain = self._type(*[getattr(found, field) for field in self._type.__struct_fields__])
            return event.type, self._kept(plain)
        except (ValueError, RecursionError):
            return None

    def _kept(self, found: Any) -> Value:
        found = self._identified(found)
        if isinstance(found, Pod):
            return self._pod(found)
        validate(found)
        if isinstance(found, Node):
            found = self._node(found)
        changed: Value = replace(found, metadata=self._metadata(found.metadata, self._kind in KEPT_GENERATIONS))
        return changed

    def _pod_after(self, before: Any, sent: WatchedPod) -> Value:
        """The next state of a pod, or another pod of that name, or a new one."""
        if before is None or before.metadata.uid != sent.metadata.uid:
            return self._kept(Pod(sent.metadata, _POD_SPECS.decode(sent.spec), sent.status))
        spec = before.spec if _has_same_spec(before, sent) else _POD_SPECS.decode(sent.spec)
        return self._changed(self._identified(Pod(sent.metadata, spec, sent.status)), before)

    def _identified(self, found: Any) -> Any:
        """The object without annotations that nothing reads; ValueError if it does not say which one it is."""
        _check_identity(found)
        return strip_unread_fields(self._kind, found, self._also) if found.metadata.annotations else found

    def _metadata(self, found: ObjectMeta, has_generation: bool) -> ObjectMeta:
        return replace(
            found,
            namespace=self._parts.text(found.namespace),
            generation=found.generation if has_generation else 0,
            labels=self._labels.equal(found.labels),
            annotations=self._labels.equal(found.annotations),
            owner_references=self._parts.equal(found.owner_references),
        )

    def _changed(self, found: Pod, before: Pod) -> Pod:
        """The pod's next state: what did not change is taken from the one before."""
        a, b = before.metadata, found.metadata
        if a.creation_timestamp != b.creation_timestamp:
            return self._pod(found)
        spec = found.spec
        if spec is not before.spec:
            looked_at = replace(spec, volumes=_relevant_volumes(spec.volumes))
            spec = before.spec if looked_at == before.spec else self._spec(found)
        metadata = replace(
            a,
            resource_version=b.resource_version,
            generation=b.generation,
            deletion_timestamp=b.deletion_timestamp,
            labels=a.labels if a.labels == b.labels else self._labels.equal(b.labels),
            annotations=a.annotations if a.annotations == b.annotations else self._labels.equal(b.annotations),
            owner_references=(
                a.owner_references
                if a.owner_references == b.owner_references
                else self._parts.equal(b.owner_references)
            ),
        )
        status = before.status if found.status == before.status else self._status(found)
        return Pod(metadata, spec, status)

    def _pod(self, found: Pod) -> Pod:
        return Pod(self._metadata(found.metadata, has_generation=True), self._spec(found), self._status(found))

    def _spec(self, found: Pod) -> PodSpec:
        """What another pod had too has been checked.

        Pods of a template have in common all but volumes (of a StatefulSet's), affinity (of a DaemonSet's), and the
        group (of a job that runs many).
        """
        spec = replace(found.spec, node_name="", volumes=None, affinity=None, scheduling_group=None)
        key = _ENCODER.encode(spec)
        if not self._specs.has(key):
            validate(found)
        return replace(
            self._specs.get(key, spec),
            node_name=self._parts.text(found.spec.node_name),
            volumes=self._parts.equal(_relevant_volumes(found.spec.volumes)),
            affinity=self._parts.equal(found.spec.affinity),
            scheduling_group=self._groups.equal(found.spec.scheduling_group),
        )

    def _status(self, found: Pod) -> PodStatus:
        """The same of the status."""
        status = replace(found.status, start_time=None, nominated_node_name="")
        key = _ENCODER.encode(status)
        if not self._statuses.has(key):
            validate(found)
        start_time(found)
        created, started = found.metadata.creation_timestamp, found.status.start_time
        return replace(
            self._statuses.get(key, status),
            start_time=created if created == started else started,
            nominated_node_name=self._parts.text(found.status.nominated_node_name),
        )

    def _node(self, found: Node) -> Node:
        images = found.status.images and [self._parts.equal(image) for image in found.status.images]
        status = replace(found.status, images=images, allocatable=self._parts.equal(found.status.allocatable))
        return replace(found, status=status)


def strip_unread_fields(kind: str, one: Any, also: frozenset[str] = frozenset()) -> Value:
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


def _has_same_spec(before: Pod, sent: WatchedPod) -> bool:
    """Is the spec that was sent the one before, of a pod that is bound, as its generation says?

    A generation counts the changes of the spec, but not that a node is set (registry/core/pod, v1.36): an API server
    that was set back may have bound the pod elsewhere since. It is 0 before v1.33.
    """
    node, generation = before.spec.node_name, sent.metadata.generation
    if not node or not 0 < generation == before.metadata.generation:
        return False
    return b'"nodeName":' + _ENCODER.encode(node) in bytes(sent.spec)


def _relevant_volumes(volumes: list[Volume] | None) -> list[Volume] | None:
    return [volume for volume in volumes or () if volume != Volume(name=volume.name)] or None
