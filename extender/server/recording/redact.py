"""Redact calls for recordings: keep the fields that decisions read, and drop everything else.

Pods and nodes are decoded into the extender's types and encoded again, which drops every field that the types lack:
environment, arguments, commands, probes, unknown fields. Only annotations that decisions read are kept. Keys keep their
spelling and order, and null stays null, so the result is a request that kube-scheduler could have sent.

Rule: redaction depends only on the bytes of an object, not on whether it is in a request or in its answer. /filter
returns whole nodes as they were sent, so the answer to a redacted request equals the redacted answer.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from extender.cluster.watch import decode
from extender.k8s.objects import Int64, Node, Pod, Value
from extender.server.recording.lines import CallLine
from extender.wire import ExtenderFilterResult, MetaVictims, NameOnlyNode, NodeList, VictimPod

Redactor = Callable[[Raw], bytes]

_ENCODER = msgspec.json.Encoder()
_OBJECT_DECODER = msgspec.json.Decoder(dict[str, Raw])
_LIST_DECODER = msgspec.json.Decoder(list[Raw])
_POD_DECODER = msgspec.json.Decoder(Pod)
_NODE_DECODER = msgspec.json.Decoder(Node)
_VICTIM_DECODER = msgspec.json.Decoder(VictimPod)
_NODE_NAME_DECODER = msgspec.json.Decoder(NameOnlyNode)
_FILTER_RESULT_DECODER = msgspec.json.Decoder(ExtenderFilterResult)


# --- cluster objects -----------------------------------------------------------------------------------------


def redact_object(kind: str, one: Value, annotations: frozenset[str] = frozenset()) -> Value:
    """Return the object with the fields that decisions read.

    `annotations`: keys of pod annotations to keep in addition to KEPT_ANNOTATIONS.
    """
    return decode.strip_unread_fields(kind, one, annotations if kind == "Pod" else frozenset())


# --- calls -------------------------------------------------------------------------------------------


def redact_call(call: CallLine, annotations: frozenset[str]) -> CallLine:
    """Redact request and answer; ValueError or RecursionError if they cannot be decoded."""
    request, answer = bytes(call.request), bytes(call.answer)
    return replace(
        call,
        request=Raw(redact_request(call.verb, request, annotations)),
        answer=Raw(redact_answer(call.verb, answer)),
    )


def redact_request(verb: str, body: bytes, annotations: frozenset[str] = frozenset()) -> bytes:
    """Redact the body of a request, on one line; ValueError if the verb cannot decode it."""
    shape = _preemption_args(annotations) if verb == "preempt" else _args(annotations)
    return shape(Raw(body))


def redact_answer(verb: str, body: bytes) -> bytes:
    """Redact the body of an answer; only whole nodes hold anything to redact."""
    if verb != "filter":
        return body
    try:
        result = _FILTER_RESULT_DECODER.decode(body)
    except msgspec.ValidationError:  # an error answer
        return body
    if result.nodes is None:
        return body
    items = result.nodes.items
    nodes = NodeList(
        metadata=Raw(_list_metadata(result.nodes.metadata)),
        items=None if items is None else [Raw(_node(item)) for item in items],
    )
    return _ENCODER.encode(replace(result, nodes=nodes))


def _args(annotations: frozenset[str]) -> Redactor:
    nodes = _fields({"metadata": _list_metadata, "items": _each(_node)}, any_case=False)
    return _fields({"Pod": _pod(annotations), "Nodes": nodes, "NodeNames": _value(list[str] | None)})


def _preemption_args(annotations: frozenset[str]) -> Redactor:
    def by_node(pod: Redactor) -> Redactor:
        return _each(_fields({"Pods": _each(pod), "NumPDBViolations": _value(Int64)}))

    return _fields(
        {
            "Pod": _pod(annotations),
            "NodeNameToVictims": by_node(_victim(annotations)),
            "NodeNameToMetaVictims": _first(
                _value(dict[str, MetaVictims] | None), by_node(_fields({"UID": _value(str)}))
            ),
        }
    )


# --- shapes -----------------------------------------------------------------------------------------------------------


def _fields(shape: Mapping[str, Redactor], any_case: bool = True) -> Redactor:
    """Reduce a JSON object to these keys, matched as in `wire`: the exact spelling wins, else the last match."""
    by_fold = {name.casefold(): name for name in shape}

    def redact(raw: Raw) -> bytes:
        if _is_null(raw):
            return b"null"
        sent, kept = _OBJECT_DECODER.decode(raw), {}
        for key, value in sent.items():
            name = by_fold.get(key.casefold(), "") if any_case else key
            if name in shape and (key == name or name not in sent):
                kept[name] = key, value
        return _ENCODER.encode({key: Raw(shape[name](value)) for name, (key, value) in kept.items()})

    return redact


def _each(member: Redactor) -> Redactor:
    """Redact every member of a list or a map."""

    def redact(raw: Raw) -> bytes:
        if _is_null(raw):
            return b"null"
        if bytes(memoryview(raw)[:1]) == b"[":
            return _ENCODER.encode([Raw(member(one)) for one in _LIST_DECODER.decode(raw)])
        return _ENCODER.encode({key: Raw(member(one)) for key, one in _OBJECT_DECODER.decode(raw).items()})

    return redact


def _value(type_: Any) -> Redactor:
    decoder = msgspec.json.Decoder(type_)
    return lambda raw: _ENCODER.encode(decoder.decode(raw))


def _first(fast: Redactor, thorough: Redactor) -> Redactor:
    """Try the fast redactor, which accepts only Go's spelling of the keys, then the thorough one."""

    def redact(raw: Raw) -> bytes:
        try:
            return fast(raw)
        except ValueError:
            return thorough(raw)

    return redact


def _pod(annotations: frozenset[str]) -> Redactor:
    return lambda raw: _ENCODER.encode(redact_object("Pod", _POD_DECODER.decode(raw), annotations))


def _victim(annotations: frozenset[str]) -> Redactor:
    """Redact a victim; one that cannot be decoded as a Pod is reduced to its UID, the only field that counts."""
    whole = _pod(annotations)

    def redact(raw: Raw) -> bytes:
        try:
            return whole(raw)
        except (ValueError, RecursionError):
            return _ENCODER.encode({"metadata": {"uid": _VICTIM_DECODER.decode(raw).metadata.uid}})

    return redact


def _node(raw: Raw) -> bytes:
    """Redact a node; one that cannot be decoded is reduced to its name, the only field that counts."""
    try:
        return _ENCODER.encode(redact_object("Node", _NODE_DECODER.decode(raw)))
    except (ValueError, RecursionError):
        return _ENCODER.encode({"metadata": {"name": _NODE_NAME_DECODER.decode(raw).metadata.name}})


def _list_metadata(raw: Raw) -> bytes:
    """Reduce the metadata of a NodeList to its resourceVersion."""
    if bytes(memoryview(raw)[:1]) != b"{":
        return b"null"
    version = msgspec.json.decode(raw).get("resourceVersion")
    return _ENCODER.encode({"resourceVersion": version} if isinstance(version, str) else {})


def _is_null(raw: Raw) -> bool:
    return bytes(memoryview(raw)[:1]) == b"n"
