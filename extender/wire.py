"""Decode requests and encode answers of `k8s.io/kube-scheduler/extender/v1`.

Keys are Go's field names, each spelled out below. A body that lacks a required key in that spelling is read once more
with the keys of the extender types in any case (`pod`, `nodenames`, `uid`), which older schedulers and manual curl
calls use. The keys of the Kubernetes objects inside have one spelling, the API's. Unknown keys are ignored, of
duplicate keys the last one counts, and `null` is what Go writes for the form that is not used.

A node that is sent twice is answered twice in `/filter` (the scheduler accepts that), and once in `/prioritize` (the
scheduler adds up the scores of a host that occurs twice).

Rule: a body that cannot be understood is a RequestError that says what and where, and never repeats the input; nothing
that was sent is ever treated as absent.
"""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Protocol, TypeVar, cast

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta, Raw, field
from msgspec.json import Decoder, Encoder

from extender.errors import RequestError, RequestTooLarge
from extender.k8s import quantity
from extender.k8s.candidates import UID_BYTES, SentCandidate, SentCandidates, UIDArray
from extender.k8s.limits.limits import (
    MAX_NAME_CHARACTERS,
    MAX_NODE_BYTES,
    MAX_POD_BYTES,
    MAX_QUALIFIED_NAME_CHARACTERS,
)
from extender.k8s.objects import Int64, Node, Pod, ResourceList
from extender.k8s.time import parse_time

T = TypeVar("T")
_ENCODER = Encoder()
_EMPTY = Raw(b"{}")
_NULL = Raw(b"null")

# --- requests: ExtenderArgs, ExtenderPreemptionArgs, ExtenderBindingArgs ----------------------------------------------

AnyObject = Annotated[Raw, Meta(extra_json_schema={"type": "object"})]
"""A JSON object, kept as the bytes that were sent."""

PodBytes = Annotated[Raw, Meta(extra_json_schema={"$ref": "#/components/schemas/Pod"})]
"""The bytes of the incoming pod, which `_decode_pod` decodes if they are not too many."""


class NodeList(msgspec.Struct, kw_only=True):
    metadata: AnyObject = field(default_factory=lambda: _EMPTY)
    items: list[AnyObject] | None


class ExtenderArgs(msgspec.Struct):
    pod: PodBytes = field(name="Pod")
    nodes: NodeList | None = field(default=None, name="Nodes")
    node_names: list[str] | None = field(default=None, name="NodeNames")


class MetaPod(msgspec.Struct, gc=False):
    uid: str = field(name="UID")


class MetaVictims(msgspec.Struct, gc=False):
    pods: list[MetaPod] | None = field(name="Pods")
    num_pdb_violations: Int64 = field(name="NumPDBViolations")


class VictimMetadata(msgspec.Struct, gc=False):
    uid: str
    deletion_timestamp: str | None = field(default=None, name="deletionTimestamp")


class VictimPod(msgspec.Struct, gc=False):
    """Whole Pod, of which only what follows is read: the rest is in the cluster cache."""

    metadata: VictimMetadata


class Victims(msgspec.Struct):
    pods: list[VictimPod] | None = field(name="Pods")
    num_pdb_violations: Int64 = field(name="NumPDBViolations")


class ExtenderPreemptionArgs(msgspec.Struct):
    pod: PodBytes = field(name="Pod")
    victims: dict[str, Victims] | None = field(default=None, name="NodeNameToVictims")
    meta_victims: dict[str, MetaVictims] | None = field(default=None, name="NodeNameToMetaVictims")


RequiredString = Annotated[str, Meta(min_length=1)]
"""Type of a key that must be present and not empty."""


class ExtenderBindingArgs(msgspec.Struct, frozen=True):
    pod_name: RequiredString = field(name="PodName")
    pod_namespace: RequiredString = field(name="PodNamespace")
    pod_uid: RequiredString = field(name="PodUID")
    node: RequiredString = field(name="Node")


class NameOnlyMetadata(msgspec.Struct, gc=False):
    name: str = ""


class NameOnlyNode(msgspec.Struct, gc=False):
    metadata: NameOnlyMetadata


class NameOnlyNodeList(msgspec.Struct, kw_only=True):
    """NodeList, of which only the names of the Nodes are read."""

    metadata: AnyObject = field(default_factory=lambda: _EMPTY)
    items: list[NameOnlyNode] | None


class NameOnlyArgs(msgspec.Struct):
    """ExtenderArgs, of which only the pod and the names of the nodes are read."""

    pod: PodBytes = field(name="Pod")
    nodes: NameOnlyNodeList | None = field(default=None, name="Nodes")
    node_names: Raw = field(default_factory=lambda: _NULL, name="NodeNames")


class RawVictims(msgspec.Struct, gc=False):
    """MetaVictims, of which the pods stay as they were sent."""

    pods: Raw = field(name="Pods")
    num_pdb_violations: Int64 = field(name="NumPDBViolations")


class NodesOnlyArgs(msgspec.Struct):
    """ExtenderArgs, of which only the whole Nodes are read."""

    nodes: NodeList | None = field(default=None, name="Nodes")


# --- answers: ExtenderFilterResult, HostPriorityList, ExtenderPreemptionResult, ExtenderBindingResult -----------------


class ExtenderFilterResult(msgspec.Struct):
    nodes: NodeList | None = field(name="Nodes")
    node_names: list[str] | None = field(name="NodeNames")
    failed: dict[str, str] = field(name="FailedNodes")
    unresolvable: dict[str, str] = field(name="FailedAndUnresolvableNodes")
    error: str = field(name="Error", default="")


class HostPriority(msgspec.Struct, gc=False):
    host: str = field(name="Host")
    score: Int64 = field(name="Score")


class ExtenderPreemptionResult(msgspec.Struct):
    meta_victims: dict[str, MetaVictims] = field(name="NodeNameToMetaVictims")


class ExtenderBindingResult(msgspec.Struct):
    error: str = field(name="Error", default="")


# --- decoded requests -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FilterRequest:
    """The pod and the nodes of a `/filter` or `/prioritize` request."""

    pod: Pod
    nodes: list[str]
    """Node names in the order in which they were sent."""
    body: bytes | None
    """The request body if it has whole Nodes; None when only names were sent."""
    list_metadata: Raw
    """`metadata` of the NodeList that was sent."""
    items: memoryview | Raw | None = None
    """The bytes of the list of whole Nodes, if its place in the body is known, or of a compact list of names."""

    @property
    def has_whole_nodes(self) -> bool:
        """Return whether whole Nodes were sent (nodeCacheCapable: false)."""
        return self.body is not None

    def raw_nodes(self) -> list[Raw]:
        """Return the bytes of each Node, parallel to `nodes`; located only when an answer contains whole Nodes."""
        if self.body is None:
            return []
        if self.items is not None:
            return _RAW_ITEMS_DECODER.decode(self.items)
        args = _read(self.body, _NODES_ONLY_ARGS_DECODER, _ARGS_KEYS, ("nodes",))
        return (args.nodes and args.nodes.items) or []


class LastNames:
    """The last request with names: where all nodes fit, kube-scheduler sends /prioritize the bytes of /filter."""

    def __init__(self) -> None:
        self._last: tuple[bytes, FilterRequest] | None = None

    def decode(self, body: bytes, max_names_bytes: int) -> FilterRequest:
        """Decode as `decode_filter` does, unless these bytes were the last request."""
        if self._last is not None and self._last[0] == body:
            return self._last[1]
        request = decode_filter(body, max_names_bytes)
        if not request.has_whole_nodes:
            self._last = body, request
        return request


@dataclass(frozen=True, slots=True)
class PreemptRequest:
    """The preemptor and the candidates that kube-scheduler sent."""

    pod: Pod
    sent: SentCandidates
    """Node -> candidate, in the order in which they were sent."""
    terminating: frozenset[str] = frozenset()
    """UIDs of victims that terminate in kube-scheduler's cache too; only whole pods tell."""


# --- bytes -> requests ----------------------------------------------------------------------------------------------

_NODES_ONLY_ARGS_DECODER = Decoder(NodesOnlyArgs)
_NAMES_DECODER = Decoder(list[str] | None)
_NAME_ONLY_ARGS_DECODER = Decoder(NameOnlyArgs)
_POD_DECODER = Decoder(Pod)
_NODE_DECODER = Decoder(Node)
_RAW_DECODER = Decoder(Raw)
_NAME_ONLY_ITEMS_DECODER = Decoder(list[NameOnlyNode])
_RAW_ITEMS_DECODER = Decoder(list[Raw])
_RAW_VICTIMS_DECODER = Decoder(dict[str, RawVictims])
_PREEMPTION_ARGS_DECODER = Decoder(ExtenderPreemptionArgs)
_BINDING_ARGS_DECODER = Decoder(ExtenderBindingArgs)


Shape = Mapping[str, "Shape"] | list["Shape"] | None
"""The keys of an object, each with the shape of its value; [shape of every member] of a list or map; None: any value,
left as it is."""

_ARGS_KEYS: Shape = {"Pod": None, "Nodes": None, "NodeNames": None}
_PREEMPTION_KEYS: Shape = {
    "Pod": None,
    "NodeNameToVictims": [{"Pods": None, "NumPDBViolations": None}],
    "NodeNameToMetaVictims": [{"Pods": [{"UID": None}], "NumPDBViolations": None}],
}
_BINDING_KEYS: Shape = dict.fromkeys(("PodName", "PodNamespace", "PodUID", "Node"))

_DEFAULTS = {"NumPDBViolations": Raw(b"0")}
"""Keys that may be left out, as in Go, with their default values."""


def decode_filter(body: bytes, max_names_bytes: int | None = None) -> FilterRequest:
    """Decode an ExtenderArgs body. Raises RequestError if it is not one.

    `max_names_bytes`: limit for NodeNames, checked before it is decoded.
    """
    args, items = _decode_as_sent(body) or (_decode(body, _NAME_ONLY_ARGS_DECODER, _ARGS_KEYS, _NODES_OR_NAMES), None)
    pod = _decode_pod(args.pod)
    if args.nodes is None and args.node_names == _NULL:
        raise RequestError("neither Nodes nor NodeNames is there (or both are null): one of them must be a list")
    if args.nodes is None:
        names, sent = _decode_names(args.node_names, max_names_bytes), bytes(args.node_names)
        # An answer is compact, as recordings are.
        return FilterRequest(pod, names, None, _EMPTY, None if any(map(sent.__contains__, _WHITESPACE)) else Raw(sent))
    if args.node_names != _NULL:
        raise RequestError("both Nodes and NodeNames are there: one of them must be null")
    names = [node.metadata.name for node in args.nodes.items or ()]
    if "" in names:
        raise RequestError(f"Nodes.items[{names.index('')}].metadata.name is missing or empty")
    return FilterRequest(pod, names, body, args.nodes.metadata, items)


def _decode_names(raw: Raw, max_bytes: int | None) -> list[str]:
    size = memoryview(raw).nbytes
    if max_bytes is not None and size > max_bytes:
        raise RequestTooLarge(f"NodeNames: {size} bytes, at most {max_bytes} are accepted")
    try:
        return _NAMES_DECODER.decode(raw) or []
    except ValueError as error:
        raise _request_error(error, raw, of="NodeNames") from None


_NODES_OR_NAMES = ("nodes", "node_names")
_WHITESPACE = (b" ", b"\t", b"\n", b"\r")
"""Whitespace of JSON, searched for one by one: a regular expression takes 50 times as long."""
_BEFORE_POD, _BEFORE_ITEMS, _AFTER_ITEMS = b'{"Pod":', b',"Nodes":{"metadata":{},"items":', b'},"NodeNames":null}'
"""The bytes that kube-scheduler writes around the pod and the whole Nodes."""


def _decode_as_sent(body: bytes) -> tuple[NameOnlyArgs, memoryview] | None:
    """Decode a body in the layout in which kube-scheduler writes whole Nodes; None for any other layout.

    The place of the list of Nodes, the second value, is then known: what stands there and what stands before it decode
    as one value each. An answer that accepts all Nodes repeats those bytes.
    """
    at = body.find(_BEFORE_ITEMS)
    if at < 0 or not (body.startswith(_BEFORE_POD) and body.endswith(_AFTER_ITEMS)):
        return None
    items = memoryview(body)[at + len(_BEFORE_ITEMS) : -len(_AFTER_ITEMS)]
    try:
        _check_text(body)
        pod = _RAW_DECODER.decode(memoryview(body)[len(_BEFORE_POD) : at])
        return NameOnlyArgs(pod, NameOnlyNodeList(items=_NAME_ONLY_ITEMS_DECODER.decode(items))), items
    except (ValueError, RecursionError):  # another layout or invalid: the caller decodes the whole body and finds out
        return None


def decode_preempt(body: bytes) -> PreemptRequest:
    """Decode an ExtenderPreemptionArgs body. Raises RequestError if it is not one."""
    as_sent = _decode_victims_as_sent(body)
    if as_sent is not None:
        incoming = _decode_pod(as_sent[0])
        if len(as_sent[1]) > MAX_CANDIDATES:
            raise RequestTooLarge(f"more than {MAX_CANDIDATES} nodes")
        return PreemptRequest(incoming, as_sent[1])
    args = _decode(body, _PREEMPTION_ARGS_DECODER, _PREEMPTION_KEYS, ("victims", "meta_victims"))
    incoming = _decode_pod(args.pod)
    if len(args.victims or args.meta_victims or ()) > MAX_CANDIDATES:
        raise RequestTooLarge(f"more than {MAX_CANDIDATES} nodes")
    if args.victims is not None and args.meta_victims is not None:
        raise RequestError("both NodeNameToVictims and NodeNameToMetaVictims are there: one of them must be null")
    if args.meta_victims is not None:
        sent = {
            node: SentCandidate(tuple([pod.uid for pod in victims.pods or ()]), victims.num_pdb_violations)
            for node, victims in args.meta_victims.items()
        }
    elif args.victims is not None:
        sent = {
            node: SentCandidate(tuple([pod.metadata.uid for pod in victims.pods or ()]), victims.num_pdb_violations)
            for node, victims in args.victims.items()
        }
    else:
        raise RequestError("neither NodeNameToVictims nor NodeNameToMetaVictims is there (or both are null)")
    pods = (pod.metadata for victims in (args.victims or {}).values() for pod in victims.pods or ())
    terminating = frozenset(pod.uid for pod in pods if pod.deletion_timestamp is not None)
    return PreemptRequest(incoming, SentCandidates.of(sent), terminating)


_BEFORE_META_VICTIMS = b',"NodeNameToVictims":null,"NodeNameToMetaVictims":'
"""The bytes that kube-scheduler writes between the pod and the victims by UID."""

_META_POD = np.dtype([("before", "u1"), ("key", "<u8"), ("uid", f"S{UID_BYTES}"), ("end", "<u2")])
"""A MetaPod in a list: `[` or `,`, then `{"UID":"`, the UID, and `"}`."""

_KEY, _END = int.from_bytes(b'{"UID":"', "little"), int.from_bytes(b'"}', "little")


def _decode_victims_as_sent(body: bytes) -> tuple[Raw, SentCandidates] | None:
    """Decode a body in the layout in which kube-scheduler writes victims by UID; None for any other layout."""
    at = body.find(_BEFORE_META_VICTIMS)
    if at < 0 or not (body.startswith(_BEFORE_POD) and body.endswith(b"}")):
        return None
    try:
        _check_text(body)
        pod = _RAW_DECODER.decode(memoryview(body)[len(_BEFORE_POD) : at])
        victims = _RAW_VICTIMS_DECODER.decode(memoryview(body)[at + len(_BEFORE_META_VICTIMS) : -1])
    except (ValueError, RecursionError):  # another layout or invalid: the caller decodes the whole body and finds out
        return None
    found = _read_uids(b"".join([one.pods for one in victims.values()]), len(victims))
    if found is None:
        return None
    sizes, uids = found
    return pod, SentCandidates(list(victims), [one.num_pdb_violations for one in victims.values()], sizes, uids)


def _read_uids(text: bytes, lists: int) -> tuple[npt.NDArray[np.int64], UIDArray] | None:
    """Return [list], how many UIDs it has, and all UIDs; None if the lists, one after the other, are not of _META_POD.

    The bytes are valid JSON: what stands in each place where a UID is expected, without quotes, is one.
    """
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("]"))
    sizes, rest = np.divmod(np.diff(ends, prepend=-1) - 1, _META_POD.itemsize)
    count = int(sizes.sum())
    if not count or len(ends) != lists or rest.any() or 0 in sizes or len(text) != count * _META_POD.itemsize + lists:
        return None
    starts = np.arange(count) * _META_POD.itemsize + np.repeat(np.arange(lists), sizes)
    pods = np.ndarray(len(text) - _META_POD.itemsize + 1, f"V{_META_POD.itemsize}", text, strides=(1,))[starts]
    pods = pods.view(_META_POD)
    before = np.full(count, ord(","))
    before[np.cumsum(sizes) - sizes] = ord("[")
    uids = np.ascontiguousarray(pods["uid"])
    characters = uids.view(np.uint8)
    is_plain = (characters > ord('"')).all() and (characters != ord("\\")).all()
    if not is_plain or (pods["before"] != before).any() or (pods["key"] != _KEY).any() or (pods["end"] != _END).any():
        return None
    return sizes, uids


def decode_bind(body: bytes) -> ExtenderBindingArgs:
    """Decode an ExtenderBindingArgs body. Raises RequestError if one of the four keys is missing or empty."""
    return _decode(body, _BINDING_ARGS_DECODER, _BINDING_KEYS)


# --- decoding -------------------------------------------------------------------------------------------------------

MAX_OBJECTS = 4_000_000
"""JSON objects in a body. A decoded object takes up to 150 bytes, however short its JSON is; of whole Nodes and Pods,
one object has about 90 bytes."""

MAX_CANDIDATES = 100_000
"""Nodes of a `/preempt` request; a cluster has at most some 10,000. One costs up to 10 us, and has as little as 40
bytes."""

MIN_OBJECT_BYTES = len('{"UID":""},')
"""Size of the shortest object that is decoded."""

MAX_RESPELLED_BYTES = 2 << 20
"""Size of a body whose keys may have any case: spelling the keys of each victim takes 4 us."""

_RAW_OBJECT_DECODER = Decoder(dict[str, Raw])
_RAW_LIST_DECODER = Decoder(list[Raw])
_UTF8_CHUNK_BYTES = 1 << 20
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_ERROR_LOCATION = re.compile(r"(?P<what>.*?)(?: - at (?P<where>.*))?", re.DOTALL)
_MAX_MESSAGE_LENGTH = 250
_RESOURCE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9./_-]{0,62}")


def _decode(body: bytes, decoder: Decoder[T], shape: Shape, one_of: tuple[str, ...] = ()) -> T:
    """Decode the body after checking that it is text. Raises RequestError."""
    try:
        _check_text(body)
        return _read(body, decoder, shape, one_of)
    except (ValueError, RecursionError) as error:
        raise _request_error(error, body) from None


def _read(body: bytes, decoder: Decoder[T], shape: Shape, one_of: tuple[str, ...]) -> T:
    """Decode; if keys are missing, or each field in `one_of` is, decode once more with the keys in any case."""
    is_small = len(body) <= MAX_RESPELLED_BYTES
    try:
        value = decoder.decode(body)
        if not (is_small and one_of) or any(getattr(value, name) not in (None, _NULL) for name in one_of):
            return value
    except msgspec.ValidationError:
        if not is_small:
            raise
    return decoder.decode(_respell(Raw(body.strip(b" \t\r\n")), shape))


def _check_text(body: bytes) -> None:
    """Refuse an empty body, a byte order mark and bytes that are not UTF-8, before a JSON decoder reads it."""
    if not body or body.isspace():
        raise RequestError("the body is empty: a JSON object is expected")
    if body.startswith(b"\xef\xbb\xbf"):
        raise RequestError("the body starts with a byte order mark (byte 0): send UTF-8 without one")
    if len(body) > MAX_OBJECTS * MIN_OBJECT_BYTES and body.count(b"{") > MAX_OBJECTS:
        raise RequestTooLarge(f"the body: more than {MAX_OBJECTS} objects")
    if body.isascii():
        return
    utf8 = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(body), _UTF8_CHUNK_BYTES):
        utf8.decode(body[start : start + _UTF8_CHUNK_BYTES], final=start + _UTF8_CHUNK_BYTES >= len(body))


def _respell(raw: Raw, shape: Shape) -> Raw:
    """Spell the keys in the value as Go does; the exact spelling wins, unknown keys are left out.

    A value of another shape stays as it is, and the decoder refuses it.
    """
    kind = bytes(memoryview(raw)[:1])
    if isinstance(shape, list) and kind == b"[":
        return Raw(_ENCODER.encode([_respell(item, shape[0]) for item in _RAW_LIST_DECODER.decode(raw)]))
    if shape is None or kind != b"{":
        return raw
    sent = _RAW_OBJECT_DECODER.decode(raw)
    if isinstance(shape, list):
        return Raw(_ENCODER.encode({key: _respell(item, shape[0]) for key, item in sent.items()}))
    by_fold = {name.casefold(): name for name in shape}
    found = {name: default for name, default in _DEFAULTS.items() if name in shape}
    for key, value in sent.items():
        name = by_fold.get(key.casefold())
        if name is not None and (key == name or name not in sent):
            found[name] = _respell(value, shape[name])
    return Raw(_ENCODER.encode(found))


def _request_error(error: Exception, body: bytes | Raw, of: str = "") -> RequestError:
    """Render a decoder's error with a JSON path and without input: `Pod.spec.priority: expected …`.

    `of`: path of what was decoded, within the body.
    """
    if isinstance(error, RequestError):
        return error
    if isinstance(error, RecursionError):
        return RequestError("the body: nested too deeply")
    if isinstance(error, UnicodeDecodeError):
        return RequestError("the body: text that is not valid UTF-8")
    match = _ERROR_LOCATION.fullmatch(str(error))
    what, path = (match["what"], match["where"] or "") if match else (str(error), "")
    path = path.replace("`", "").replace("$.", f"{of}." if of else "").replace("$", of)
    if not isinstance(error, msgspec.ValidationError) and _SURROGATE_ESCAPE.search(memoryview(body)):
        what += " (or a lone surrogate escape, \\ud800 to \\udfff)"
    return RequestError(f"{path or of or 'the body'}: {what}"[:_MAX_MESSAGE_LENGTH])


# --- the incoming pod -----------------------------------------------------------------------------------------------


def _decode_pod(raw: Raw) -> Pod:
    """Decode and check the incoming pod. Raises RequestError, for one that no API server accepts as well."""
    size = memoryview(raw).nbytes
    if size > MAX_POD_BYTES:
        raise RequestTooLarge(f"Pod: {size} bytes, at most {MAX_POD_BYTES} are accepted")
    try:
        pod = _POD_DECODER.decode(raw)
    except (ValueError, RecursionError) as error:
        raise _request_error(error, raw, of="Pod") from None
    _check_pod(pod)
    return pod


def _check_pod(pod: Pod) -> None:
    """Raise RequestError with the path of a name, quantity or creation timestamp that Kubernetes would not accept."""
    metadata = pod.metadata
    for key, name in (("name", metadata.name), ("namespace", metadata.namespace), ("uid", metadata.uid)):
        if len(name) > MAX_NAME_CHARACTERS:
            limit = f"at most {MAX_NAME_CHARACTERS} are accepted"
            raise RequestError(f"Pod.metadata.{key}: {len(name)} characters, {limit}")
    for path, amounts in _resource_lists(pod):
        _check_amounts(f"Pod.{path}", amounts)
    try:
        if metadata.creation_timestamp:
            parse_time(metadata.creation_timestamp)
    except ValueError:
        raise RequestError("Pod.metadata.creationTimestamp: not a time such as 2026-01-31T08:00:00Z") from None


def _check_amounts(path: str, amounts: ResourceList | None) -> None:
    """Raise RequestError with the path of a resource's name or quantity that Kubernetes would not accept."""
    for name, amount in (amounts or {}).items():
        if len(name) > MAX_QUALIFIED_NAME_CHARACTERS:
            limit = f"at most {MAX_QUALIFIED_NAME_CHARACTERS} are accepted"
            raise RequestError(f"{path}: the name of a resource has {len(name)} characters, {limit}")
        try:
            quantity.parse(amount)
        except ValueError:
            resource = name if _RESOURCE_NAME.fullmatch(name) else "…"
            raise RequestError(f"{path}[{resource}]: not a quantity (such as 500m, 2 or 1Gi)") from None


def _resource_lists(pod: Pod) -> Iterator[tuple[str, ResourceList | None]]:
    spec, status = pod.spec, pod.status
    owners = [("spec", spec.resources), ("status", status.resources)]
    for kind, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        owners += [(f"spec.{kind}[{i}]", c.resources) for i, c in enumerate(containers or ())]
    yield "spec.overhead", spec.overhead
    yield "status.allocatedResources", status.allocated_resources
    states = (
        ("initContainerStatuses", status.init_container_statuses),
        ("containerStatuses", status.container_statuses),
    )
    for kind, statuses in states:
        owners += [(f"status.{kind}[{i}]", s.resources) for i, s in enumerate(statuses or ())]
        for i, state in enumerate(statuses or ()):
            yield f"status.{kind}[{i}].allocatedResources", state.allocated_resources
    for owner, resources in owners:
        if resources is not None:
            yield f"{owner}.resources.requests", resources.requests
            yield f"{owner}.resources.limits", resources.limits


# --- whole nodes ----------------------------------------------------------------------------------------------------


def decode_node(raw: Raw, position: int) -> Node:
    """Decode and check the whole Node in this position of a request. Raises RequestError."""
    path, size = f"Nodes.items[{position}]", memoryview(raw).nbytes
    if size > MAX_NODE_BYTES:
        raise RequestTooLarge(f"{path}: {size} bytes, at most {MAX_NODE_BYTES} are accepted")
    try:
        node = _NODE_DECODER.decode(raw)
    except (ValueError, RecursionError) as error:
        raise _request_error(error, raw, of=path) from None
    if len(node.metadata.name) > MAX_NAME_CHARACTERS:
        limit = f"at most {MAX_NAME_CHARACTERS} are accepted"
        raise RequestError(f"{path}.metadata.name: {len(node.metadata.name)} characters, {limit}")
    _check_amounts(f"{path}.status.allocatable", node.status.allocatable)
    return node


# --- encoding -------------------------------------------------------------------------------------------------------


class FilterAnswer(Protocol):
    """What `/filter` decided, as the engine returns it."""

    @property
    def accepted(self) -> Sequence[int]:
        """Positions in the requested list, ascending."""

    @property
    def failed(self) -> dict[str, str]:
        """Node -> message, where evicting pods would help."""

    @property
    def unresolvable(self) -> dict[str, str]:
        """Node -> message, where it would not."""


class VictimsOnNode(Protocol):
    """A node with the pods to evict from it, as the engine returns it."""

    @property
    def node(self) -> str: ...
    @property
    def victims(self) -> Sequence[Pod]: ...
    @property
    def num_pdb_violations(self) -> int: ...


def encode_filter(request: FilterRequest, decision: FilterAnswer) -> bytes:
    """Encode ExtenderFilterResult in the form of the request; accepted Nodes byte for byte as they were sent."""
    nodes = names = None
    if request.has_whole_nodes:
        nodes = NodeList(metadata=request.list_metadata, items=_accepted(request, decision.accepted, request.raw_nodes))
    else:
        names = _accepted(request, decision.accepted, lambda: request.nodes)
    return _ENCODER.encode(ExtenderFilterResult(nodes, names, decision.failed, decision.unresolvable))


def encode_filter_error(error: str) -> bytes:
    """Encode an ExtenderFilterResult without nodes, for that reason, cut to MAX_ERROR_BYTES."""
    return _ENCODER.encode(ExtenderFilterResult(None, None, {}, {}, _cut(error)))


def encode_prioritize(nodes: Sequence[str], scores: Sequence[int]) -> bytes:
    """Encode HostPriorityList with each host once: the scheduler adds up the scores of a host that occurs twice."""
    by_host = dict(zip(nodes, scores, strict=True))
    return _ENCODER.encode(list(map(HostPriority, by_host, by_host.values())))


def encode_preempt(kept: Iterable[VictimsOnNode]) -> bytes:
    """Encode ExtenderPreemptionResult: always NodeNameToMetaVictims, also when whole Pods were sent."""
    uids = {one.node: ([pod.metadata.uid for pod in one.victims], one.num_pdb_violations) for one in kept}
    return _encode_victims(uids)


def encode_sent_candidates(sent: Mapping[str, SentCandidate]) -> bytes:
    """Encode ExtenderPreemptionResult with every candidate unchanged, so that kube-scheduler keeps its own choice."""
    return _encode_victims({node: (one.victims, one.num_pdb_violations) for node, one in sent.items()})


def _encode_victims(victims: Mapping[str, tuple[Sequence[str], int]]) -> bytes:
    """Encode node -> (UIDs of the victims, PDB violations)."""
    meta = {node: MetaVictims([MetaPod(uid) for uid in uids], count) for node, (uids, count) in victims.items()}
    return _ENCODER.encode(ExtenderPreemptionResult(meta))


MAX_ERROR_BYTES = 1 << 10
"""Bytes of UTF-8 to which the error of an answer is cut."""


def encode_bind(error: str = "") -> bytes:
    """Encode ExtenderBindingResult: "" for a bound pod, else the error, cut to MAX_ERROR_BYTES."""
    return _ENCODER.encode(ExtenderBindingResult(_cut(error)))


def _cut(error: str) -> str:
    return error.encode("utf-8", "replace")[:MAX_ERROR_BYTES].decode("utf-8", "ignore")


def _accepted(request: FilterRequest, positions: Sequence[int], sent: Callable[[], list[T]]) -> list[T]:
    """Return the sent Nodes or names in these positions; all of them are the bytes of the request, none is nothing."""
    if not positions:
        return []
    if request.items is not None and len(positions) == len(request.nodes):
        return cast(list[T], Raw(request.items))
    return _pick(sent(), positions)


def _pick(elements: list[T], positions: Sequence[int]) -> list[T]:
    """Return the elements at these positions, which are ascending and distinct."""
    return elements if len(positions) == len(elements) else list(map(elements.__getitem__, positions))
