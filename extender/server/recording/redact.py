"""What of a call may be written down: the fields that decisions read, and nothing else.

Pods and nodes are read into our own types and written from these, so that what no type has a place for is gone:
environment, arguments, commands, probes, unknown fields. Of annotations those stay that decisions read. Keys keep their
spelling and their order, and null stays null: what is left is a request that kube-scheduler could have sent.

Rule: the same bytes become the same bytes, whether they stand in a request or in its answer. An answer hands whole
nodes back as they came; so the answer to a redacted request is the redacted answer.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from extender.cluster.watch import decode
from extender.k8s.objects import Int64, Node, Pod, Value
from extender.wire import ExtenderFilterResult, MetaVictims, NamedObject, NodeList, VictimPod

Redactor = Callable[[Raw], bytes]

_ENCODER = msgspec.json.Encoder()
_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_LIST = msgspec.json.Decoder(list[Raw])
_POD = msgspec.json.Decoder(Pod)
_NODE = msgspec.json.Decoder(Node)
_VICTIM = msgspec.json.Decoder(VictimPod)
_NODE_NAME = msgspec.json.Decoder(NamedObject)
_ANSWER = msgspec.json.Decoder(ExtenderFilterResult)


# --- objects of the picture -----------------------------------------------------------------------------------------


def private(kind: str, one: Value, also: frozenset[str] = frozenset()) -> Value:
    """The object without what nothing reads; `also`: annotations of pods that are read beside KEPT_ANNOTATIONS."""
    return decode.slim(kind, one, also if kind == "Pod" else frozenset())


# --- requests and answers -------------------------------------------------------------------------------------------


def request(verb: str, body: bytes, also: frozenset[str] = frozenset()) -> bytes:
    """A body that the verb could read, on one line; ValueError if it could not."""
    shape = _preemption_args(also) if verb == "preempt" else _args(also)
    return shape(Raw(body))


def answer(verb: str, body: bytes) -> bytes:
    """What was answered; only whole nodes hold anything to redact."""
    if verb != "filter":
        return body
    try:
        result = _ANSWER.decode(body)
    except msgspec.ValidationError:  # an error
        return body
    if result.nodes is None:
        return body
    items = result.nodes.items
    nodes = NodeList(
        metadata=Raw(_list_metadata(result.nodes.metadata)),
        items=None if items is None else [Raw(_node(item)) for item in items],
    )
    return _ENCODER.encode(replace(result, nodes=nodes))


def _args(also: frozenset[str]) -> Redactor:
    nodes = _fields({"metadata": _list_metadata, "items": _each(_node)}, any_case=False)
    return _fields({"Pod": _pod(also), "Nodes": nodes, "NodeNames": _value(list[str] | None)})


def _preemption_args(also: frozenset[str]) -> Redactor:
    def by_node(pod: Redactor) -> Redactor:
        return _each(_fields({"Pods": _each(pod), "NumPDBViolations": _value(Int64)}))

    return _fields(
        {
            "Pod": _pod(also),
            "NodeNameToVictims": by_node(_victim(also)),
            "NodeNameToMetaVictims": _first(
                _value(dict[str, MetaVictims] | None), by_node(_fields({"UID": _value(str)}))
            ),
        }
    )


# --- shapes -----------------------------------------------------------------------------------------------------------


def _fields(shape: Mapping[str, Redactor], any_case: bool = True) -> Redactor:
    """A JSON object with these keys as `wire` understands them: the exact spelling wins, of others the last one."""
    by_fold = {name.casefold(): name for name in shape}

    def redact(raw: Raw) -> bytes:
        if _is_null(raw):
            return b"null"
        sent, kept = _OBJECT.decode(raw), {}
        for key, value in sent.items():
            name = by_fold.get(key.casefold(), "") if any_case else key
            if name in shape and (key == name or name not in sent):
                kept[name] = key, value
        return _ENCODER.encode({key: Raw(shape[name](value)) for name, (key, value) in kept.items()})

    return redact


def _each(member: Redactor) -> Redactor:
    """Every member of a list or of a map."""

    def redact(raw: Raw) -> bytes:
        if _is_null(raw):
            return b"null"
        if bytes(memoryview(raw)[:1]) == b"[":
            return _ENCODER.encode([Raw(member(one)) for one in _LIST.decode(raw)])
        return _ENCODER.encode({key: Raw(member(one)) for key, one in _OBJECT.decode(raw).items()})

    return redact


def _value(type_: Any) -> Redactor:
    decoder = msgspec.json.Decoder(type_)
    return lambda raw: _ENCODER.encode(decoder.decode(raw))


def _first(fast: Redactor, thorough: Redactor) -> Redactor:
    """The fast one for what is spelled as Go does."""

    def redact(raw: Raw) -> bytes:
        try:
            return fast(raw)
        except ValueError:
            return thorough(raw)

    return redact


def _pod(also: frozenset[str]) -> Redactor:
    return lambda raw: _ENCODER.encode(private("Pod", _POD.decode(raw), also))


def _victim(also: frozenset[str]) -> Redactor:
    """A victim need not be a Pod that we can read: only its UID counts."""
    whole = _pod(also)

    def redact(raw: Raw) -> bytes:
        try:
            return whole(raw)
        except (ValueError, RecursionError):
            return _ENCODER.encode({"metadata": {"uid": _VICTIM.decode(raw).metadata.uid}})

    return redact


def _node(raw: Raw) -> bytes:
    """The same of a node, of which only the name counts."""
    try:
        return _ENCODER.encode(private("Node", _NODE.decode(raw)))
    except (ValueError, RecursionError):
        return _ENCODER.encode({"metadata": {"name": _NODE_NAME.decode(raw).metadata.name}})


def _list_metadata(raw: Raw) -> bytes:
    """Of a NodeList: its version."""
    if bytes(memoryview(raw)[:1]) != b"{":
        return b"null"
    version = msgspec.json.decode(raw).get("resourceVersion")
    return _ENCODER.encode({"resourceVersion": version} if isinstance(version, str) else {})


def _is_null(raw: Raw) -> bool:
    return bytes(memoryview(raw)[:1]) == b"n"
