"""Decode API objects from JSON into validated structs that share equal parts in memory.

Pods of one template are nearly equal: their common parts are interned, so that each is stored and validated once. The
same applies to the images of nodes; for ResourceSlices and ResourceClaims see `interning`. Like a client-go transform
(TransformFunc), decoding drops fields that no decision reads: annotations except KEPT_ANNOTATIONS and configured ones,
generations except those of pods and disruption budgets, and volumes whose source does not matter, such as a pod's token
volume, whose name differs in every pod.

Rule: an object is decoded completely or not at all. Values are shared between objects and must not be modified.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from extender.cluster.watch.interning import DeviceInterning, InternPool
from extender.cluster.watch.list_watch import ListPage, decode_page
from extender.core.snapshot.pod_table import start_time
from extender.k8s import well_known
from extender.k8s.devices.objects import EXTENDED_RESOURCE_CLAIM, ResourceClaim, ResourceSlice
from extender.k8s.kinds import KINDS, Key, kind_without_group
from extender.k8s.objects import Condition, Node, Object, ObjectMeta, Pod, PodSpec, PodStatus, Volume
from extender.k8s.storage.csi_migration import MIGRATED_PLUGINS
from extender.k8s.storage.volumes import BETA_CLASS, BIND_COMPLETED, SELECTED_NODE
from extender.k8s.validation import decode_error_message, validate

KEPT_ANNOTATIONS: Mapping[str, frozenset[str]] = {
    "Pod": well_known.POD_ANNOTATIONS,
    "PriorityClass": well_known.PRIORITY_CLASS_ANNOTATIONS,
    "PersistentVolumeClaim": frozenset({BETA_CLASS, BIND_COMPLETED, SELECTED_NODE}),
    "PersistentVolume": frozenset({BETA_CLASS}),
    "StorageClass": well_known.DEFAULT_STORAGE_CLASS_ANNOTATIONS,
    "CSINode": frozenset({MIGRATED_PLUGINS}),
    "ResourceClaim": frozenset({EXTENDED_RESOURCE_CLAIM}),
}
"""Kind -> annotations that decisions or simulations read with any configuration; other kinds keep none."""

KEPT_GENERATIONS = frozenset({"Pod", "PodDisruptionBudget"})  # Of other kinds, it only makes equal objects unequal

_ENCODER = msgspec.json.Encoder()


class WatchedPod(Object, frozen=True):
    """A pod in a watch event; its spec stays raw JSON, because it nearly always equals the cached pod's."""

    kind: str = ""
    spec: Raw = Raw(b"{}")
    status: PodStatus = PodStatus()


_POD_SPEC_DECODER = msgspec.json.Decoder(PodSpec)


class Decoder:
    """Decodes the objects of one kind. Not thread-safe: every reflector has its own."""

    def __init__(self, kind: str, extra_annotations: frozenset[str] = frozenset()) -> None:
        """`kind` is a key of KINDS; `extra_annotations`: annotations to keep in addition to KEPT_ANNOTATIONS."""
        self._kind = kind
        self._extra_annotations = extra_annotations
        self._type = KINDS[kind].type
        self._accepted_kinds = ("", kind_without_group(kind))
        self._accepted_lists = ("", f"{kind_without_group(kind)}List")
        # Our types have no `kind` field; the JSON has one, which is checked.
        sent = msgspec.defstruct("Sent", [("kind", str, "")], bases=(self._type,), frozen=True, gc=self._type is Pod)
        page = msgspec.defstruct("Page", [("items", list[sent] | None, None)], bases=(ListPage,))  # type: ignore[valid-type]
        watched: Any = WatchedPod if self._type is Pod else sent
        event = msgspec.defstruct("Event", [("type", str), ("object", watched)], gc=False)
        self._items = msgspec.json.Decoder(sent)
        self._pages: msgspec.json.Decoder[Any] = msgspec.json.Decoder(page)
        self._events: msgspec.json.Decoder[Any] = msgspec.json.Decoder(event)
        self._devices = DeviceInterning()
        # A pool per field, because parts of different types may have the same JSON.
        self._pools: defaultdict[str, InternPool] = defaultdict(InternPool)

    def decode(self, raw: bytes | Raw) -> Object:
        """Decode an object from JSON; ValueError, with the path of the field, if it is invalid."""
        try:
            return self.prepare_item(self._items.decode(raw))
        except msgspec.MsgspecError as error:
            raise ValueError(decode_error_message(error)) from error
        except RecursionError as error:
            raise ValueError("nested too deeply") from error

    def decode_page(self, body: bytes) -> ListPage:
        """Decode a page of a list in one pass; pass each item to `prepare_item`.

        If any item cannot be decoded, all items stay raw JSON. ApiUnreachable if the response is not such a list.
        """
        try:
            page = self._pages.decode(body)
        except (ValueError, RecursionError):
            return decode_page(body, self._kind)
        listed: ListPage = page if page.kind in self._accepted_lists else decode_page(body, self._kind)
        return listed

    def prepare_item(self, sent: Any) -> Object:
        """Return the object for an item of `decode_page`; ValueError if it is invalid."""
        if isinstance(sent, Raw):
            return self.decode(sent)
        found = self._checked(sent)
        if found is None:
            raise ValueError(f"unexpected kind {sent.kind[:100]!r}")
        return found

    def decode_event(self, line: bytes, get_cached: Callable[[Key], Object | None]) -> tuple[str, Object] | None:
        """Return (event type, object) of a watch line; None if the object's kind differs or it is invalid.

        On None, the caller decodes the line part by part to find the reason. Parts that equal the cached object's are
        shared with it, and a pod's spec is not parsed if its generation shows that it has not changed.
        """
        try:
            event = self._events.decode(line)
            sent = event.object
            found = self._pod_from_event(sent, get_cached) if type(sent) is WatchedPod else self._checked(sent)
            return None if found is None else (event.type, found)
        except (ValueError, RecursionError):
            return None

    def _checked(self, sent: Any) -> Object | None:
        """Convert a decoded object to its own type; None if its kind differs."""
        if sent.kind not in self._accepted_kinds:
            return None
        if isinstance(sent, Pod):
            return self._prepare(sent)  # which makes a new Pod from its parts
        return self._prepare(self._type(*[getattr(sent, field) for field in self._type.__struct_fields__]))

    def _prepare(self, found: Any) -> Object:
        found = self._strip(found)
        if isinstance(found, Pod):
            return self._intern_pod(found)
        validate(found)
        if isinstance(found, ResourceSlice):
            return self._devices.slice(found)
        if isinstance(found, ResourceClaim):
            return self._devices.claim(found)
        if isinstance(found, Node):
            images = found.status.images and [self._pools["parts"].intern(image) for image in found.status.images]
            allocatable = self._pools["parts"].intern(found.status.allocatable)
            found = replace(found, status=replace(found.status, images=images, allocatable=allocatable))
        changed: Object = replace(found, metadata=self._intern_metadata(found.metadata, self._kind in KEPT_GENERATIONS))
        return changed

    def _pod_from_event(self, sent: WatchedPod, get_cached: Callable[[Key], Any]) -> Object | None:
        if sent.kind not in self._accepted_kinds:
            return None
        cached = get_cached((sent.metadata.namespace, sent.metadata.name))
        if cached is None or cached.metadata.uid != sent.metadata.uid:
            return self._prepare(Pod(sent.metadata, _POD_SPEC_DECODER.decode(sent.spec), sent.status))
        # The spec has not changed if generation and node name are the same. The generation does not count the binding
        # to a node (registry/core/pod, v1.36), which may differ after a restore of etcd. It is 0 before v1.33.
        node, generation = cached.spec.node_name, sent.metadata.generation
        is_same = node and 0 < generation == cached.metadata.generation
        is_same = is_same and b'"nodeName":' + _ENCODER.encode(node) in bytes(sent.spec)
        spec = cached.spec if is_same else _POD_SPEC_DECODER.decode(sent.spec)
        return self._updated_pod(self._strip(Pod(sent.metadata, spec, sent.status)), cached)

    def _strip(self, found: Any) -> Any:
        if not found.metadata.name:
            raise ValueError("metadata.name is missing")
        if isinstance(found, Pod) and not found.metadata.uid:
            raise ValueError("metadata.uid is missing")
        if isinstance(found, Pod) and found.status.message and found.status.phase != "Failed":
            # Only `why` shows a message, and only why a pod has failed.
            found = replace(found, status=replace(found.status, message=""))
        return _strip_annotations(self._kind, found, self._extra_annotations) if found.metadata.annotations else found

    def _intern_metadata(self, found: ObjectMeta, has_generation: bool) -> ObjectMeta:
        return replace(
            found,
            namespace=self._pools["parts"].text(found.namespace),
            generation=found.generation if has_generation else 0,
            creation_timestamp=found.creation_timestamp and self._pools["times"].text(found.creation_timestamp),
            labels=self._pools["labels"].intern(found.labels),
            annotations=self._pools["labels"].intern(found.annotations),
            owner_references=self._pools["parts"].intern(found.owner_references),
        )

    def _updated_pod(self, found: Pod, cached: Pod) -> Pod:
        """Return the new state of a pod, with unchanged parts taken from the cached state."""
        a, b = cached.metadata, found.metadata
        if a.creation_timestamp != b.creation_timestamp:
            return self._intern_pod(found)
        spec = found.spec
        if spec is not cached.spec:
            relevant = replace(spec, volumes=_relevant_volumes(spec.volumes))
            spec = cached.spec if relevant == cached.spec else self._intern_spec(found)

        def shared(field: str, pool: str) -> Any:
            before, now = getattr(a, field), getattr(b, field)
            return before if before == now else self._pools[pool].intern(now)

        metadata = replace(
            a,
            resource_version=b.resource_version,
            generation=b.generation,
            deletion_timestamp=b.deletion_timestamp,
            labels=shared("labels", "labels"),
            annotations=shared("annotations", "labels"),
            owner_references=shared("owner_references", "parts"),
        )
        status = replace(found.status, conditions=self._kept_conditions(found))
        return Pod(metadata, spec, cached.status if status == cached.status else self._intern_status(found))

    def _intern_pod(self, found: Pod) -> Pod:
        metadata = self._intern_metadata(found.metadata, has_generation=True)
        return Pod(metadata, self._intern_spec(found), self._intern_status(found))

    def _intern_spec(self, found: Pod) -> PodSpec:
        """Return the interned spec; validate it unless an equal spec is interned."""
        # Pods of a template differ in node, volumes (StatefulSet), affinity (DaemonSet), scheduling group (Job) and
        # the names of resource claims.
        spec = replace(
            found.spec, node_name="", volumes=None, affinity=None, scheduling_group=None, resource_claims=None
        )
        key = _ENCODER.encode(spec)
        if not self._pools["specs"].has(key):
            validate(found)
        return replace(
            self._pools["specs"].get(key, spec),
            node_name=self._pools["parts"].text(found.spec.node_name),
            volumes=self._pools["parts"].intern(_relevant_volumes(found.spec.volumes)),
            affinity=self._pools["parts"].intern(found.spec.affinity),
            scheduling_group=self._pools["groups"].intern(found.spec.scheduling_group),
            resource_claims=self._pools["claims"].intern(found.spec.resource_claims),
        )

    def _intern_status(self, found: Pod) -> PodStatus:
        # Pods of a template share everything except message, start time, nominated node, conditions and generated
        # claims.
        status = replace(
            found.status,
            message="",
            start_time=None,
            nominated_node_name="",
            conditions=None,
            resource_claim_statuses=None,
            extended_resource_claim_status=None,
        )
        key = _ENCODER.encode(status)
        if not self._pools["statuses"].has(key):
            validate(found)
        start_time(found)  # ValueError if it is invalid
        return replace(
            self._pools["statuses"].get(key, status),
            message=found.status.message,
            start_time=found.status.start_time and self._pools["times"].text(found.status.start_time),
            nominated_node_name=self._pools["parts"].text(found.status.nominated_node_name),
            conditions=self._kept_conditions(found),
            resource_claim_statuses=found.status.resource_claim_statuses,
            extended_resource_claim_status=found.status.extended_resource_claim_status,
        )

    def _kept_conditions(self, found: Pod) -> list[Condition] | None:
        """Return the conditions as `kept_conditions` does; those of pods with a node are shared."""
        conditions, pool = found.status.conditions, self._pools["conditions"]
        if not conditions or not found.spec.node_name:
            return kept_conditions(found)
        key = _ENCODER.encode([(one.type, one.status, one.reason) for one in conditions])
        return pool.get(key, conditions if pool.has(key) else kept_conditions(found))


def kept_conditions(pod: Pod) -> list[Condition] | None:
    """Return the conditions; only a pod without a node keeps their times, and kube-scheduler's message of PodScheduled.

    Pods with a node share the rest.
    """
    conditions, has_node = pod.status.conditions, bool(pod.spec.node_name)
    return conditions and [
        Condition(
            one.type,
            one.status,
            one.reason,
            one.message if one.type == "PodScheduled" and not has_node else "",
            None if has_node else one.last_transition_time,
        )
        for one in conditions
    ]


def strip_unread_fields(kind: str, one: Any, extra_annotations: frozenset[str] = frozenset()) -> Object:
    """Return the object without what no decision reads and may be confidential: annotations, messages, templates."""
    if isinstance(one, Pod) and (one.status.conditions or one.status.message):
        # Only `why` shows the message of a pod, of a cluster that it reads.
        one = replace(one, status=replace(one.status, conditions=kept_conditions(one), message=""))
    return _strip_annotations(kind, one, extra_annotations)


def _strip_annotations(kind: str, one: Any, extra_annotations: frozenset[str]) -> Object:
    if one.metadata.annotations:
        kept = KEPT_ANNOTATIONS.get(kind, frozenset())
        found = one.metadata.annotations.items()
        kept_annotations = {name: value for name, value in found if name in kept or name in extra_annotations}
        one = replace(one, metadata=replace(one.metadata, annotations=kept_annotations or None))
    volumes = (one.spec.volumes if isinstance(one, Pod) else None) or []
    if any(volume.ephemeral for volume in volumes):
        volumes = [volume if volume.ephemeral is None else replace(volume, ephemeral={}) for volume in volumes]
        one = replace(one, spec=replace(one.spec, volumes=volumes))  # only the existence of a claim template matters
    stripped: Object = one
    return stripped


def _relevant_volumes(volumes: list[Volume] | None) -> list[Volume] | None:
    return [volume for volume in volumes or () if volume != Volume(name=volume.name)] or None
