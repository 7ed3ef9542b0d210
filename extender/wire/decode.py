"""Decode the requests of the four verbs (extender/v1): ExtenderArgs, ExtenderPreemptionArgs, ExtenderBindingArgs.

1. A body in exactly the layout that kube-scheduler writes is split into its parts, each decoded as one value.
2. Any other body is decoded key by key, with Go's field names.
3. If a required key is missing, the body is decoded once more with the keys of the extender types in any case (`pod`,
   `nodenames`, `uid`), which older schedulers and manual curl calls use.

Keys of the Kubernetes objects inside must be spelled as in the API. Unknown keys are ignored, the last of duplicate
keys counts, and Go writes `null` for the form that is not used.

Rule: a body that cannot be decoded is a RequestError with place and reason, which never repeats the input; nothing
that was sent is ever treated as absent.
"""

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Raw
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
from extender.k8s.objects import Node, Pod, ResourceList
from extender.k8s.time import parse_time
from extender.k8s.validation import pod_resource_lists
from extender.wire import (
    EMPTY_OBJECT,
    NULL,
    ExtenderBindingArgs,
    ExtenderPreemptionArgs,
    NameOnlyArgs,
    NameOnlyNode,
    NameOnlyNodeList,
    NodesOnlyArgs,
    RawVictims,
)

# Maximum number of JSON objects in a body. A decoded object takes up to 150 bytes, however short its JSON is; in whole
# Nodes and Pods, an object has about 90 bytes of JSON.
MAX_OBJECTS: Final = 4_000_000
MIN_OBJECT_BYTES: Final = len('{"UID":""},')
# Maximum number of nodes in a `/preempt` request; a cluster has at most about 10,000. A node costs up to 10 us, and
# takes as little as 40 bytes.
MAX_CANDIDATES: Final = 100_000
# Maximum size of a body whose keys may have any case: respelling the keys of a victim takes 4 us.
MAX_RESPELLED_BYTES: Final = 2 << 20
_UTF8_CHUNK_BYTES = 1 << 20
_MAX_MESSAGE_CHARACTERS = 250

T = TypeVar("T")

# --- decoded requests -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FilterRequest:
    """The pod and the nodes of a `/filter` or `/prioritize` request."""

    pod: Pod
    nodes: list[str]
    """Node names in the order in which they were sent."""
    body: bytes | None
    """The request body if it has whole Nodes; None if only names were sent."""
    list_metadata: Raw
    """`metadata` of the NodeList that was sent."""
    items: memoryview | Raw | None = None
    """The bytes of the list of whole Nodes, if its position in the body is known, or of a compact list of names."""

    @property
    def has_whole_nodes(self) -> bool:
        """Return whether whole Nodes were sent (nodeCacheCapable: false)."""
        return self.body is not None

    def raw_nodes(self) -> list[Raw]:
        """Return the bytes of each Node, parallel to `nodes`; located only if a response contains whole Nodes."""
        if self.body is None:
            return []
        if self.items is not None:
            return _RAW_LIST_DECODER.decode(self.items)
        args = _read(self.body, _NODES_ONLY_ARGS_DECODER, _ARGS_KEYS, ("nodes",))
        return (args.nodes and args.nodes.items) or []


class LastNames:
    """Cache of the last request with names: if all nodes fit, /prioritize gets the same bytes as /filter."""

    def __init__(self) -> None:
        self._last: tuple[bytes, FilterRequest] | None = None

    def decode(self, body: bytes, max_names_bytes: int) -> FilterRequest:
        """Decode as `decode_filter` does, or return the last request if its bytes were the same."""
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
    """UIDs of victims that are already terminating in kube-scheduler's cache; known only from whole Pods."""


# --- shapes and decoders --------------------------------------------------------------------------------------------

Shape = Mapping[str, "Shape"] | list["Shape"] | None
"""Keys of an object with the shapes of their values; [shape of every member] of a list or map; None for any value, left
as it is."""

_ARGS_KEYS: Shape = {"Pod": None, "Nodes": None, "NodeNames": None}
_PREEMPTION_KEYS: Shape = {
    "Pod": None,
    "NodeNameToVictims": [{"Pods": None, "NumPDBViolations": None}],
    "NodeNameToMetaVictims": [{"Pods": [{"UID": None}], "NumPDBViolations": None}],
}
_BINDING_KEYS: Shape = dict.fromkeys(("PodName", "PodNamespace", "PodUID", "Node"))
# Keys that may be left out, as in Go, with their default values.
_DEFAULTS = {"NumPDBViolations": Raw(b"0")}

_NAME_ONLY_ARGS_DECODER = Decoder(NameOnlyArgs)
_NODES_ONLY_ARGS_DECODER = Decoder(NodesOnlyArgs)
_NAME_ONLY_ITEMS_DECODER = Decoder(list[NameOnlyNode])
_NAMES_DECODER = Decoder(list[str] | None)
_PREEMPTION_ARGS_DECODER = Decoder(ExtenderPreemptionArgs)
_RAW_VICTIMS_DECODER = Decoder(dict[str, RawVictims])
_BINDING_ARGS_DECODER = Decoder(ExtenderBindingArgs)
_POD_DECODER = Decoder(Pod)
_NODE_DECODER = Decoder(Node)
_RAW_DECODER = Decoder(Raw)
_RAW_LIST_DECODER = Decoder(list[Raw])
_RAW_OBJECT_DECODER = Decoder(dict[str, Raw])
_ENCODER = Encoder()

# --- /filter and /prioritize ----------------------------------------------------------------------------------------

# Whitespace of JSON, searched for one by one: a regular expression takes 50 times as long.
_WHITESPACE = (b" ", b"\t", b"\n", b"\r")
# The bytes that kube-scheduler writes around the pod and the whole Nodes.
_BEFORE_POD, _BEFORE_ITEMS, _AFTER_ITEMS = b'{"Pod":', b',"Nodes":{"metadata":{},"items":', b'},"NodeNames":null}'


def decode_filter(body: bytes, max_names_bytes: int | None = None) -> FilterRequest:
    """Decode ExtenderArgs. Raises RequestError.

    `max_names_bytes`: maximum size of NodeNames, checked before it is decoded.
    """
    # 1. Decode the layout that kube-scheduler writes, else any other layout.
    args, items = _decode_as_sent(body) or (
        _decode(body, _NAME_ONLY_ARGS_DECODER, _ARGS_KEYS, ("nodes", "node_names")),
        None,
    )
    # 2. Decode the pod, then the one list that was sent: names, or whole Nodes of which only the names are needed.
    pod = _decode_pod(args.pod)
    if args.nodes is None and args.node_names == NULL:
        raise RequestError("neither Nodes nor NodeNames is there (or both are null): one of them must be a list")
    if args.nodes is None:
        names, sent = _decode_names(args.node_names, max_names_bytes), bytes(args.node_names)
        # Only compact bytes are repeated in a response: responses have no whitespace, and recordings compare bytes.
        is_compact = not any(map(sent.__contains__, _WHITESPACE))
        return FilterRequest(pod, names, None, EMPTY_OBJECT, Raw(sent) if is_compact else None)
    if args.node_names != NULL:
        raise RequestError("both Nodes and NodeNames are there: one of them must be null")
    names = [node.metadata.name for node in args.nodes.items or ()]
    if "" in names:
        raise RequestError(f"Nodes.items[{names.index('')}].metadata.name is missing or empty")
    return FilterRequest(pod, names, body, args.nodes.metadata, items)


def _decode_as_sent(body: bytes) -> tuple[NameOnlyArgs, memoryview] | None:
    """Decode whole Nodes in kube-scheduler's layout; None for any other layout.

    The second value has the bytes of the list of Nodes, which a response that accepts all Nodes repeats.
    """
    at = body.find(_BEFORE_ITEMS)
    if at < 0 or not (body.startswith(_BEFORE_POD) and body.endswith(_AFTER_ITEMS)):
        return None
    items = memoryview(body)[at + len(_BEFORE_ITEMS) : -len(_AFTER_ITEMS)]
    try:
        _check_text(body)
        pod = _RAW_DECODER.decode(memoryview(body)[len(_BEFORE_POD) : at])
        return NameOnlyArgs(pod, NameOnlyNodeList(items=_NAME_ONLY_ITEMS_DECODER.decode(items))), items
    except (ValueError, RecursionError):  # a different layout or invalid: the caller decodes the whole body to find out
        return None


def _decode_names(raw: Raw, max_bytes: int | None) -> list[str]:
    size = memoryview(raw).nbytes
    if max_bytes is not None and size > max_bytes:
        raise RequestTooLarge(f"NodeNames: {size} bytes, at most {max_bytes} are accepted")
    try:
        return _NAMES_DECODER.decode(raw) or []
    except ValueError as error:
        raise _request_error(error, raw, of="NodeNames") from None


# --- /preempt -------------------------------------------------------------------------------------------------------

# The bytes that kube-scheduler writes between the pod and the victims by UID.
_BEFORE_META_VICTIMS = b',"NodeNameToVictims":null,"NodeNameToMetaVictims":'

# A MetaPod in a list: `[` or `,`, then `{"UID":"`, the UID, and `"}`.
_META_POD = np.dtype([("before", "u1"), ("key", "<u8"), ("uid", f"S{UID_BYTES}"), ("end", "<u2")])

_KEY, _END = int.from_bytes(b'{"UID":"', "little"), int.from_bytes(b'"}', "little")


def decode_preempt(body: bytes) -> PreemptRequest:
    """Decode ExtenderPreemptionArgs. Raises RequestError."""
    # 1. The layout that kube-scheduler writes for nodeCacheCapable extenders.
    as_sent = _decode_victims_as_sent(body)
    if as_sent is not None:
        incoming = _decode_pod(as_sent[0])
        if len(as_sent[1]) > MAX_CANDIDATES:
            raise RequestTooLarge(f"more than {MAX_CANDIDATES} nodes")
        return PreemptRequest(incoming, as_sent[1])
    # 2. Any other layout, and whole Pods as victims.
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


def _decode_victims_as_sent(body: bytes) -> tuple[Raw, SentCandidates] | None:
    """Decode victims by UID in kube-scheduler's layout; None for any other layout."""
    at = body.find(_BEFORE_META_VICTIMS)
    if at < 0 or not (body.startswith(_BEFORE_POD) and body.endswith(b"}")):
        return None
    try:
        _check_text(body)
        pod = _RAW_DECODER.decode(memoryview(body)[len(_BEFORE_POD) : at])
        victims = _RAW_VICTIMS_DECODER.decode(memoryview(body)[at + len(_BEFORE_META_VICTIMS) : -1])
    except (ValueError, RecursionError):  # a different layout or invalid: the caller decodes the whole body to find out
        return None
    found = _read_uids(b"".join([one.pods for one in victims.values()]), len(victims))
    if found is None:
        return None
    sizes, uids = found
    return pod, SentCandidates(list(victims), [one.num_pdb_violations for one in victims.values()], sizes, uids)


def _read_uids(text: bytes, lists: int) -> tuple[npt.NDArray[np.int64], UIDArray] | None:
    """Return the number of UIDs in each of the concatenated lists of MetaPods, and all UIDs.

    None if a list is empty or not compact, or has a UID with escapes or of a length other than UID_BYTES.
    """
    # Decoding 5,000 candidates takes 9 ms this way, and 46 ms as Structs.
    # 1. Find the end of each list; its size follows, if all its elements are as long as _META_POD.
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("]"))
    sizes, rest = np.divmod(np.diff(ends, prepend=-1) - 1, _META_POD.itemsize)
    count = int(sizes.sum())
    if not count or len(ends) != lists or rest.any() or 0 in sizes or len(text) != count * _META_POD.itemsize + lists:
        return None
    # 2. Look at each element in place: element k of list n starts after k elements and n closing brackets.
    starts = np.arange(count) * _META_POD.itemsize + np.repeat(np.arange(lists), sizes)
    pods = np.ndarray(len(text) - _META_POD.itemsize + 1, f"V{_META_POD.itemsize}", text, strides=(1,))[starts]
    pods = pods.view(_META_POD)
    # 3. Check the bytes around the UIDs. The text is valid JSON, so the bytes between the quotes are a string.
    before = np.full(count, ord(","))
    before[np.cumsum(sizes) - sizes] = ord("[")
    uids = np.ascontiguousarray(pods["uid"])
    characters = uids.view(np.uint8)
    is_plain = (characters > ord('"')).all() and (characters != ord("\\")).all()
    if not is_plain or (pods["before"] != before).any() or (pods["key"] != _KEY).any() or (pods["end"] != _END).any():
        return None
    return sizes, uids


# --- /bind ----------------------------------------------------------------------------------------------------------


def decode_bind(body: bytes) -> ExtenderBindingArgs:
    """Decode ExtenderBindingArgs. Raises RequestError, also if one of the four keys is missing or empty."""
    return _decode(body, _BINDING_ARGS_DECODER, _BINDING_KEYS)


# --- bodies in any layout -------------------------------------------------------------------------------------------

_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_ERROR_LOCATION = re.compile(r"(?P<what>.*?)(?: - at (?P<where>.*))?", re.DOTALL)


def _decode(body: bytes, decoder: Decoder[T], shape: Shape, one_of: tuple[str, ...] = ()) -> T:
    """Decode the body after checking its text. Raises RequestError."""
    try:
        _check_text(body)
        return _read(body, decoder, shape, one_of)
    except (ValueError, RecursionError) as error:
        raise _request_error(error, body) from None


def _read(body: bytes, decoder: Decoder[T], shape: Shape, one_of: tuple[str, ...]) -> T:
    """Decode; if a required key or all fields in `one_of` are missing, decode once more with the keys in any case."""
    is_small = len(body) <= MAX_RESPELLED_BYTES
    try:
        value = decoder.decode(body)
        if not (is_small and one_of) or any(getattr(value, name) not in (None, NULL) for name in one_of):
            return value
    except msgspec.ValidationError:
        if not is_small:
            raise
    return decoder.decode(_respell(Raw(body.strip(b" \t\r\n")), shape))


def _check_text(body: bytes) -> None:
    """Reject an empty body, a byte order mark, bytes that are not UTF-8, and more than MAX_OBJECTS."""
    if not body or body.isspace():
        raise RequestError("the body is empty: a JSON object is expected")
    if body.startswith(b"\xef\xbb\xbf"):
        raise RequestError("the body starts with a byte order mark (byte 0): send UTF-8 without one")
    # Counted only in bodies that are large enough to have that many: counting in 128 MiB takes 0.2 s.
    if len(body) > MAX_OBJECTS * MIN_OBJECT_BYTES and body.count(b"{") > MAX_OBJECTS:
        raise RequestTooLarge(f"the body: more than {MAX_OBJECTS} objects")
    if body.isascii():
        return
    # In chunks: a decoded body of 128 MiB would take as much memory again, or four times as much.
    utf8 = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(body), _UTF8_CHUNK_BYTES):
        utf8.decode(body[start : start + _UTF8_CHUNK_BYTES], final=start + _UTF8_CHUNK_BYTES >= len(body))


def _respell(raw: Raw, shape: Shape) -> Raw:
    """Spell the keys of a value as Go does; the exact spelling wins, and unknown keys are left out.

    A value of a different shape is returned unchanged, for the decoder to reject.
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
    """Convert a decoder's error to one with a JSON path and without input: `Pod.spec.priority: expected …`.

    `of`: path within the body of the decoded part.
    """
    if isinstance(error, RequestError):
        return error
    if isinstance(error, RecursionError):
        return RequestError("the body: nested too deeply")
    if isinstance(error, UnicodeDecodeError):
        return RequestError("the body: text that is not valid UTF-8")
    match = _ERROR_LOCATION.fullmatch(str(error))
    # msgspec writes: Expected `int`, got `str` - at `$.Pod.spec.priority`; for a part, `$` is the path of that part.
    what, path = (match["what"], match["where"] or "") if match else (str(error), "")
    path = path.replace("`", "").replace("$.", f"{of}." if of else "").replace("$", of)
    # msgspec reports a lone surrogate as truncated or malformed data; Go never writes one, but other clients may.
    if not isinstance(error, msgspec.ValidationError) and _SURROGATE_ESCAPE.search(memoryview(body)):
        what += " (or a lone surrogate escape, \\ud800 to \\udfff)"
    return RequestError(f"{path or of or 'the body'}: {what}"[:_MAX_MESSAGE_CHARACTERS])


# --- the incoming pod -----------------------------------------------------------------------------------------------

_RESOURCE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9./_-]{0,62}")


def _decode_pod(raw: Raw) -> Pod:
    """Decode and validate the incoming pod. Raises RequestError, also for a pod that no API server would accept."""
    size = memoryview(raw).nbytes
    if size > MAX_POD_BYTES:
        raise RequestTooLarge(f"Pod: {size} bytes, at most {MAX_POD_BYTES} are accepted")
    try:
        pod = _POD_DECODER.decode(raw)
    except (ValueError, RecursionError) as error:
        raise _request_error(error, raw, of="Pod") from None
    metadata = pod.metadata
    for key, name in (("name", metadata.name), ("namespace", metadata.namespace), ("uid", metadata.uid)):
        if len(name) > MAX_NAME_CHARACTERS:
            limit = f"at most {MAX_NAME_CHARACTERS} are accepted"
            raise RequestError(f"Pod.metadata.{key}: {len(name)} characters, {limit}")
    for path, amounts in pod_resource_lists(pod):
        _check_amounts(f"Pod.{path}", amounts)
    try:
        if metadata.creation_timestamp:
            parse_time(metadata.creation_timestamp)
    except ValueError:
        raise RequestError("Pod.metadata.creationTimestamp: not a time such as 2026-01-31T08:00:00Z") from None
    return pod


def _check_amounts(path: str, amounts: ResourceList | None) -> None:
    """Raise RequestError with the path of a resource name or quantity that Kubernetes would not accept."""
    for name, amount in (amounts or {}).items():
        if len(name) > MAX_QUALIFIED_NAME_CHARACTERS:
            limit = f"at most {MAX_QUALIFIED_NAME_CHARACTERS} are accepted"
            raise RequestError(f"{path}: the name of a resource has {len(name)} characters, {limit}")
        try:
            quantity.parse(amount)
        except ValueError:
            # A name that is not a resource name could be anything, and errors never repeat the input.
            resource = name if _RESOURCE_NAME.fullmatch(name) else "…"
            raise RequestError(f"{path}[{resource}]: not a quantity (such as 500m, 2 or 1Gi)") from None


# --- whole nodes ----------------------------------------------------------------------------------------------------


def decode_node(raw: Raw, position: int) -> Node:
    """Decode and validate the whole Node at `position` of a request. Raises RequestError."""
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
