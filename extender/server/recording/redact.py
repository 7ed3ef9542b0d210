"""Redact calls for recordings: keep the fields that decisions read, and drop everything else.

Pods and nodes are decoded into the extender's types and encoded again, which drops the fields that the types lack:
environment, arguments, commands, probes, unknown fields. Annotations are dropped unless decisions read them. Keys keep
their spelling and order, and null stays null, so the result is a request that kube-scheduler could have sent.

Rule: an object is redacted the same way in a request and in its answer. /filter returns whole nodes as they were sent,
so the answer to a redacted request equals the redacted answer.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from extender.cluster.watch.decode import strip_unread_fields
from extender.k8s.objects import Int64, Node, Pod
from extender.wire import ExtenderFilterResult, MetaVictims, NameOnlyNode, NodeList, VictimPod

Redactor = Callable[[Raw], Raw]

_FIELDS_DECODER = msgspec.json.Decoder(dict[str, Raw] | None)
_MEMBERS_DECODER = msgspec.json.Decoder(list[Raw] | dict[str, Raw] | None)
_POD_DECODER = msgspec.json.Decoder(Pod)
_NODE_DECODER = msgspec.json.Decoder(Node)
_VICTIM_DECODER = msgspec.json.Decoder(VictimPod)
_NODE_NAME_DECODER = msgspec.json.Decoder(NameOnlyNode)
_FILTER_RESULT_DECODER = msgspec.json.Decoder(ExtenderFilterResult)


def redact_request(verb: str, body: Raw, annotations: frozenset[str] = frozenset()) -> Raw:
    """Redact the body of a request; ValueError or RecursionError if the verb cannot decode it.

    `annotations`: pod annotations to keep, in addition to KEPT_ANNOTATIONS.
    """

    def pod(raw: Raw) -> Raw:
        return _encode(strip_unread_fields("Pod", _POD_DECODER.decode(raw), annotations))

    def uid(raw: Raw) -> Raw:
        return _encode({"metadata": {"uid": _VICTIM_DECODER.decode(raw).metadata.uid}})

    def by_node(pod_of_node: Redactor) -> Redactor:
        return _each(_fields(Pods=_each(pod_of_node), NumPDBViolations=_value(Int64)))

    if verb != "preempt":
        nodes = _fields(metadata=_list_metadata, items=_each(_node))
        return _fields(Pod=pod, Nodes=nodes, NodeNames=_value(list[str] | None))(body)
    victims = by_node(_either(pod, uid))
    # The types take 1/25 of the time, but know only Go's spelling of the keys.
    meta_victims = _either(_value(dict[str, MetaVictims] | None), by_node(_fields(UID=_value(str))))
    return _fields(Pod=pod, NodeNameToVictims=victims, NodeNameToMetaVictims=meta_victims)(body)


def redact_answer(verb: str, body: Raw) -> Raw:
    """Redact the body of an answer."""
    if verb != "filter":  # only whole nodes have anything to redact
        return body
    try:
        result = _FILTER_RESULT_DECODER.decode(body)
    except msgspec.ValidationError:  # an error answer
        return body
    if result.nodes is None:
        return body
    items = None if result.nodes.items is None else [_node(item) for item in result.nodes.items]
    return _encode(replace(result, nodes=NodeList(metadata=_list_metadata(result.nodes.metadata), items=items)))


# --- shapes -----------------------------------------------------------------------------------------------------------


def _encode(value: Any) -> Raw:
    return Raw(msgspec.json.encode(value))


def _value(type_: Any) -> Redactor:
    decoder = msgspec.json.Decoder(type_)
    return lambda raw: _encode(decoder.decode(raw))


def _fields(**shape: Redactor) -> Redactor:
    """Reduce a JSON object to these keys, matched as in `wire`: the exact spelling wins, else the last match."""
    by_fold = {name.casefold(): name for name in shape}

    def redact(raw: Raw) -> Raw:
        sent = _FIELDS_DECODER.decode(raw)
        if sent is None:
            return _encode(None)
        kept = {}
        for key, value in sent.items():
            name = by_fold.get(key.casefold())
            if name is not None and (key == name or name not in sent):
                kept[name] = key, value
        return _encode({key: shape[name](value) for name, (key, value) in kept.items()})

    return redact


def _each(member: Redactor) -> Redactor:
    """Redact every member of a list or a map."""

    def redact(raw: Raw) -> Raw:
        sent = _MEMBERS_DECODER.decode(raw)
        if isinstance(sent, dict):
            return _encode({key: member(one) for key, one in sent.items()})
        return _encode(sent and [member(one) for one in sent])

    return redact


def _either(first: Redactor, second: Redactor) -> Redactor:
    """Redact with the first redactor, or with the second if the first cannot decode the value."""

    def redact(raw: Raw) -> Raw:
        try:
            return first(raw)
        except (ValueError, RecursionError):
            return second(raw)

    return redact


_node = _either(
    lambda raw: _encode(strip_unread_fields("Node", _NODE_DECODER.decode(raw))),
    # Like `wire`, which reads only the name of a node that cannot be decoded.
    lambda raw: _encode({"metadata": {"name": _NODE_NAME_DECODER.decode(raw).metadata.name}}),
)


def _list_metadata(raw: Raw) -> Raw:
    """Reduce the metadata of a NodeList to its resourceVersion."""
    metadata = msgspec.json.decode(raw)
    if not isinstance(metadata, dict):
        return _encode(None)
    version = metadata.get("resourceVersion")
    return _encode({"resourceVersion": version} if isinstance(version, str) else {})
