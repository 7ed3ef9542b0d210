"""The payloads of `k8s.io/kube-scheduler/extender/v1`: bytes to typed requests, typed answers to bytes.

Keys are Go's field names, each spelled out below. A body that lacks a required key in that spelling is read once more
with the keys of the extender types in any case (`pod`, `nodenames`, `uid`), which older schedulers and people with curl
write; the keys of the Kubernetes objects inside have one spelling, the API's. Unknown keys are ignored, of duplicate
keys the last one counts, and `null` is what Go writes for the form that is not used.

A node that is offered twice is answered as it was offered in `/filter` (the scheduler accepts that), and once in
`/prioritize` (the scheduler adds up the scores of a host that is named twice).

Rule: what cannot be understood is a RequestError that says what and where and never repeats the input; nothing that was
sent is ever read as if it were absent.
"""

import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Annotated, TypeVar, cast

import msgspec
from msgspec import Meta, Raw, field
from msgspec.json import Decoder, Encoder

from extender.core.engine import Candidate, FilterDecision, SentCandidate
from extender.errors import RequestError
from extender.k8s import quantity
from extender.k8s.objects import Int64, Pod, ResourceList
from extender.k8s.time import parse_time

T = TypeVar("T")
_ENCODER = Encoder()
_EMPTY = Raw(b"{}")

# --- ExtenderArgs, ExtenderPreemptionArgs, ExtenderBindingArgs: what is read of them ------------------------------


AnyObject = Annotated[Raw, Meta(extra_json_schema={"type": "object"})]
"""A JSON object, kept as the bytes that it came as."""


class NodeList(msgspec.Struct, kw_only=True):
    metadata: AnyObject = field(default_factory=lambda: _EMPTY)
    items: list[AnyObject] | None


class ExtenderArgs(msgspec.Struct):
    pod: Pod = field(name="Pod")
    nodes: NodeList | None = field(default=None, name="Nodes")
    node_names: list[str] | None = field(default=None, name="NodeNames")


class MetaPod(msgspec.Struct, gc=False):
    uid: str = field(name="UID")


class MetaVictims(msgspec.Struct, gc=False):
    pods: list[MetaPod] | None = field(name="Pods")
    num_pdb_violations: Int64 = field(name="NumPDBViolations")


AnyMetaVictims = Annotated[Raw, Meta(extra_json_schema={"$ref": "#/components/schemas/MetaVictims"})]
"""MetaVictims as they came: of most nodes they are what was sent before, and need not be read again."""


class VictimMeta(msgspec.Struct):
    uid: str


class VictimPod(msgspec.Struct):
    """A whole Pod; who it is, is all that is read: the rest is in the cluster picture."""

    metadata: VictimMeta


class Victims(msgspec.Struct):
    pods: list[VictimPod] | None = field(name="Pods")
    num_pdb_violations: Int64 = field(name="NumPDBViolations")


class ExtenderPreemptionArgs(msgspec.Struct):
    pod: Pod = field(name="Pod")
    victims: dict[str, Victims] | None = field(default=None, name="NodeNameToVictims")
    meta_victims: dict[str, AnyMetaVictims] | None = field(default=None, name="NodeNameToMetaVictims")


NonEmpty = Annotated[str, Meta(min_length=1)]


class ExtenderBindingArgs(msgspec.Struct):
    pod_name: NonEmpty = field(name="PodName")
    pod_namespace: NonEmpty = field(name="PodNamespace")
    pod_uid: NonEmpty = field(name="PodUID")
    node: NonEmpty = field(name="Node")


class Named(msgspec.Struct, gc=False):
    name: str = ""


class NamedObject(msgspec.Struct, gc=False):
    metadata: Named


class NamedNodes(msgspec.Struct, kw_only=True):
    """A NodeList, of whose Nodes only the names are read."""

    metadata: AnyObject = field(default_factory=lambda: _EMPTY)
    items: list[NamedObject] | None


class NamedArgs(msgspec.Struct):
    """ExtenderArgs as decisions need them."""

    pod: Pod = field(name="Pod")
    nodes: NamedNodes | None = field(default=None, name="Nodes")
    node_names: list[str] | None = field(default=None, name="NodeNames")


# --- ExtenderFilterResult, HostPriorityList, ExtenderPreemptionResult, ExtenderBindingResult ----------------------


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


# --- the requests, as the rest of the house sees them ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FilterRequest:
    """A pod and the nodes it was offered, in the order offered. `/prioritize` sends the same."""

    pod: Pod
    nodes: list[str]
    whole: bytes | None
    """The ExtenderArgs with whole Nodes; None when only names were sent."""
    list_metadata: Raw
    items: memoryview | None = None
    """The list of whole Nodes as it came, if its place in `whole` is known."""

    @property
    def full(self) -> bool:
        return self.whole is not None

    def raw_nodes(self) -> list[Raw]:
        """The whole Nodes as they came, beside `nodes`: found when an answer is to hold them, and not before."""
        if self.whole is None:
            return []
        if self.items is not None:
            return _RAW_ITEMS.decode(self.items)
        args = _read(self.whole, _ARGS, _ARGS_KEYS, lambda a: a.nodes is not None)
        return (args.nodes and args.nodes.items) or []


PrioritizeRequest = FilterRequest


@dataclass(frozen=True, slots=True)
class PreemptRequest:
    pod: Pod
    offers: dict[str, SentCandidate]


@dataclass(frozen=True, slots=True)
class BindRequest:
    """Which pod is to run on which node; none of the four is empty, but they need not be names."""

    pod_namespace: str
    pod_name: str
    pod_uid: str
    node: str


# --- bytes -> requests ----------------------------------------------------------------------------------------------

_ARGS = Decoder(ExtenderArgs)
_NAMED_ARGS = Decoder(NamedArgs)
_POD = Decoder(Pod)
_NAMED_ITEMS = Decoder(list[NamedObject])
_RAW_ITEMS = Decoder(list[Raw])
_PREEMPTION_ARGS = Decoder(ExtenderPreemptionArgs)
_META_VICTIMS = Decoder(MetaVictims)
_BINDING_ARGS = Decoder(ExtenderBindingArgs)


@dataclass(frozen=True, slots=True)
class Fields:
    """The keys of a JSON object, each with what lies below it (None: of no interest, left as it is)."""

    keys: Mapping[str, "Fields | Each | None"]
    defaults: Mapping[str, Raw] = dataclass_field(default_factory=dict)
    """Keys that may be left out, as Go lets them be, and what they then mean."""


@dataclass(frozen=True, slots=True)
class Each:
    """Every member of a list or map."""

    member: "Fields | Each"


def _victims_keys(pod: Each | None) -> Fields:
    return Fields({"Pods": pod, "NumPDBViolations": None}, {"NumPDBViolations": Raw(b"0")})


_META_VICTIMS_KEYS = _victims_keys(Each(Fields({"UID": None})))
_ARGS_KEYS = Fields({"Pod": None, "Nodes": None, "NodeNames": None})
_PREEMPTION_KEYS = Fields(
    {
        "Pod": None,
        "NodeNameToVictims": Each(_victims_keys(None)),
        "NodeNameToMetaVictims": None,
    }
)
_BINDING_KEYS = Fields(dict.fromkeys(("PodName", "PodNamespace", "PodUID", "Node")))


def decode_filter(body: bytes) -> FilterRequest:
    """The pod and the nodes of an ExtenderArgs body; RequestError if it is none."""
    items = _items_between(body)
    args = None if items is None else _args_around(body, items)
    if args is None:
        items = None
        args = _decode(body, _NAMED_ARGS, _ARGS_KEYS, lambda a: not (a.nodes is None and a.node_names is None))
    _check_quantities(args.pod)
    _check_age(args.pod)
    if args.nodes is None and args.node_names is None:
        raise RequestError("neither Nodes nor NodeNames is there (or both are null): one of them must be a list")
    if args.nodes is None:
        return FilterRequest(args.pod, args.node_names or [], None, _EMPTY)
    if args.node_names is not None:
        raise RequestError("both Nodes and NodeNames are there: one of them must be null")
    return FilterRequest(args.pod, _names(args.nodes.items or ()), body, args.nodes.metadata, items)


decode_prioritize = decode_filter

_BEFORE_POD, _BEFORE_ITEMS, _AFTER_ITEMS = b'{"Pod":', b',"Nodes":{"metadata":{},"items":', b'},"NodeNames":null}'
"""What kube-scheduler writes around the pod and the whole Nodes."""


def _items_between(body: bytes) -> memoryview | None:
    """What stands where kube-scheduler writes the list of whole Nodes; None if nothing can."""
    if not (body.startswith(_BEFORE_POD) and body.endswith(_AFTER_ITEMS)):
        return None
    at = body.find(_BEFORE_ITEMS)
    return memoryview(body)[at + len(_BEFORE_ITEMS) : -len(_AFTER_ITEMS)] if at >= 0 else None


def _args_around(body: bytes, items: memoryview) -> NamedArgs | None:
    """The body, if `items` is the list of its Nodes. It is, if both that and what is before it are one value each."""
    pod = memoryview(body)[len(_BEFORE_POD) : -len(items) - len(_AFTER_ITEMS) - len(_BEFORE_ITEMS)]
    try:
        _check_text(body)
        return NamedArgs(_POD.decode(pod), NamedNodes(metadata=_EMPTY, items=_NAMED_ITEMS.decode(items)))
    except (ValueError, RecursionError):  # another form, or wrong: found out by who reads it as a whole
        return None


def decode_preempt(body: bytes) -> PreemptRequest:
    """The preemptor and what the scheduler would evict, by node in the order sent; RequestError if it is not there."""
    args = _decode(
        body, _PREEMPTION_ARGS, _PREEMPTION_KEYS, lambda a: not (a.victims is None and a.meta_victims is None)
    )
    _check_quantities(args.pod)
    _check_age(args.pod)
    if args.victims is not None and args.meta_victims is not None:
        raise RequestError("both NodeNameToVictims and NodeNameToMetaVictims are there: one of them must be null")
    if args.meta_victims is not None:
        metas = map(bytes, args.meta_victims.values())
        return PreemptRequest(args.pod, dict(zip(args.meta_victims, map(_OFFERS.__getitem__, metas), strict=True)))
    if args.victims is None:
        raise RequestError("neither NodeNameToVictims nor NodeNameToMetaVictims is there (or both are null)")
    wholes = args.victims.items()
    offers = {n: SentCandidate(tuple(p.metadata.uid for p in v.pods or ()), v.num_pdb_violations) for n, v in wholes}
    return PreemptRequest(args.pod, offers)


class _ReadOffers(dict[bytes, SentCandidate]):
    """MetaVictims as they came -> what they say, of those that were read lately and are sound.

    kube-scheduler offers nearly the same victims at every call; one node after another changes.
    """

    def __init__(self, most_bytes: int) -> None:
        super().__init__()
        self._most_bytes = most_bytes
        self._bytes = 0

    def __missing__(self, sent: bytes) -> SentCandidate:
        try:  # of a body that is known to be text
            victims = _META_VICTIMS.decode(sent)
        except (ValueError, RecursionError):  # with keys in other cases, or wrong
            victims = _decode(sent, _META_VICTIMS, _META_VICTIMS_KEYS, where="NodeNameToMetaVictims[...]")
        offer = SentCandidate(tuple([pod.uid for pod in victims.pods or ()]), victims.num_pdb_violations)
        if len(sent) > self._most_bytes:
            return offer
        if self._bytes + len(sent) > self._most_bytes:  # begin anew: what is still offered is soon known again
            self.clear()
            self._bytes = 0
        self._bytes += len(sent)
        self[sent] = offer
        return offer


_OFFERS = _ReadOffers(8 << 20)


def decode_bind(body: bytes) -> BindRequest:
    """The pod and the node of an ExtenderBindingArgs body; RequestError if one of the four is missing or empty."""
    args = _decode(body, _BINDING_ARGS, _BINDING_KEYS)
    return BindRequest(args.pod_namespace, args.pod_name, args.pod_uid, args.node)


def _names(nodes: Iterable[NamedObject]) -> list[str]:
    """`metadata.name` of each Node."""
    names = [node.metadata.name for node in nodes]
    if "" in names:
        raise RequestError(f"Nodes.items[{names.index('')}].metadata.name is missing or empty")
    return names


# --- reading with care ----------------------------------------------------------------------------------------------

_ANY_OBJECT = Decoder(dict[str, Raw])
_ANY_LIST = Decoder(list[Raw])
_UTF8_STEP = 1 << 20
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_WHERE = re.compile(r"(?P<what>.*?)(?: - at (?P<where>.*))?", re.DOTALL)
_LONGEST_MESSAGE = 250
_RESOURCE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9./_-]{0,62}")


def _decode(
    body: bytes,
    decoder: Decoder[T],
    fields: Fields,
    complete: Callable[[T], bool] = lambda _: True,
    where: str = "",
) -> T:
    """The body, or what stands in it there, as `decoder` reads it, once it is known to be text; RequestError."""
    try:
        _check_text(body)
        return _read(body, decoder, fields, complete)
    except (ValueError, RecursionError) as error:
        raise _request_error(error, body, where) from None


def _read(body: bytes, decoder: Decoder[T], fields: Fields, complete: Callable[[T], bool]) -> T:
    """What `decoder` finds; if keys are missing, once more with the keys of `fields` in any case."""
    try:
        value = decoder.decode(body)
        if complete(value):
            return value
    except msgspec.ValidationError:
        pass
    return decoder.decode(_respell_object(body, fields))


def _check_text(body: bytes) -> None:
    """Refuse what no JSON decoder may see: nothing at all, a byte order mark, bytes that are not UTF-8."""
    if not body or body.isspace():
        raise RequestError("the body is empty: a JSON object is expected")
    if body.startswith(b"\xef\xbb\xbf"):
        raise RequestError("the body starts with a byte order mark (byte 0): send UTF-8 without one")
    if body.isascii():
        return
    utf8 = codecs.getincrementaldecoder("utf-8")()
    for start in range(0, len(body), _UTF8_STEP):
        utf8.decode(body[start : start + _UTF8_STEP], final=start + _UTF8_STEP >= len(body))


def _respell(raw: Raw, shape: Fields | Each | None) -> Raw:
    """The value with the keys below it spelled as Go does; of another shape than expected: as it is, to be refused."""
    kind = bytes(memoryview(raw)[:1])
    if shape is None or kind not in (b"{", b"["):
        return raw
    if isinstance(shape, Fields):
        return Raw(_respell_object(raw, shape)) if kind == b"{" else raw
    if kind == b"[":
        return Raw(_ENCODER.encode([_respell(item, shape.member) for item in _ANY_LIST.decode(raw)]))
    members = _ANY_OBJECT.decode(raw)
    return Raw(_ENCODER.encode({key: _respell(item, shape.member) for key, item in members.items()}))


def _respell_object(raw: bytes | Raw, fields: Fields) -> bytes:
    """The JSON object with its keys spelled as Go does; the exact spelling wins, other keys are left out."""
    by_fold = {name.casefold(): name for name in fields.keys}
    sent = _ANY_OBJECT.decode(raw)
    found = dict(fields.defaults)
    for key, value in sent.items():
        name = by_fold.get(key.casefold())
        if name is not None and (key == name or name not in sent):
            found[name] = _respell(value, fields.keys[name])
    return _ENCODER.encode(found)


def _request_error(error: Exception, body: bytes, where: str = "") -> RequestError:
    """What a decoder found wrong, in the words of somebody who reads JSON paths: `Pod.spec.priority: expected …`."""
    if isinstance(error, RequestError):
        return error
    if isinstance(error, RecursionError):
        return RequestError(f"{where or 'the body'}: nested too deeply")
    if isinstance(error, UnicodeDecodeError):
        return RequestError(f"{where or 'the body'}: text that is not valid UTF-8")
    match = _WHERE.fullmatch(str(error))
    what, path = (match["what"], match["where"] or "") if match else (str(error), "")
    path = path.replace("`", "").replace("$.", "").replace("$", "")
    if not isinstance(error, msgspec.ValidationError) and _SURROGATE_ESCAPE.search(body):
        what += " (or a lone surrogate escape, \\ud800 to \\udfff)"
    place = ".".join(part for part in (where, path) if part) or "the body"
    return RequestError(f"{place}: {what}"[:_LONGEST_MESSAGE])


# --- what stands in the incoming pod --------------------------------------------------------------------------------


def _check_age(pod: Pod) -> None:
    """RequestError for a time of creation that cannot be read."""
    created = pod.metadata.creation_timestamp
    try:
        if created:
            parse_time(created)
    except ValueError:
        raise RequestError("Pod.metadata.creationTimestamp: not a time such as 2026-01-31T08:00:00Z") from None


def _check_quantities(pod: Pod) -> None:
    """RequestError that names the field of the first quantity that Kubernetes would not parse."""
    for path, amounts in _resource_lists(pod):
        for name, amount in (amounts or {}).items():
            try:
                quantity.parse(amount)
            except ValueError:
                shown = name if _RESOURCE_NAME.fullmatch(name) else "…"
                raise RequestError(f"Pod.{path}[{shown}]: not a quantity (such as 500m, 2 or 1Gi)") from None


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


# --- answers -> bytes -----------------------------------------------------------------------------------------------


def encode_filter(request: FilterRequest, decision: FilterDecision) -> bytes:
    """ExtenderFilterResult in the form of the request; accepted Nodes byte for byte as they came."""
    nodes, names = None, None
    if not request.full:
        names = _pick(request.nodes, decision.accepted)
    else:
        nodes = NodeList(metadata=request.list_metadata, items=_accepted(request, decision.accepted))
    return _ENCODER.encode(ExtenderFilterResult(nodes, names, decision.failed, decision.unresolvable))


def encode_prioritize(nodes: Sequence[str], scores: Sequence[int]) -> bytes:
    """HostPriorityList, each host once: the scheduler adds up the scores of a host that is named twice."""
    by_host = dict(zip(nodes, scores, strict=True))
    return _ENCODER.encode(list(map(HostPriority, by_host, by_host.values())))


def encode_preempt(kept: Iterable[Candidate]) -> bytes:
    """ExtenderPreemptionResult: always NodeNameToMetaVictims, also when whole Pods were sent."""
    return _ENCODER.encode(ExtenderPreemptionResult({candidate.node: _meta(candidate) for candidate in kept}))


def encode_offers(offers: Mapping[str, SentCandidate]) -> bytes:
    """ExtenderPreemptionResult with what was offered: every node, its victims by UID in their order, its violations."""
    victims = {
        node: MetaVictims([MetaPod(uid) for uid in offer.victims], offer.num_pdb_violations)
        for node, offer in offers.items()
    }
    return _ENCODER.encode(ExtenderPreemptionResult(victims))


LONGEST_BIND_ERROR = 1 << 10
"""Bytes of UTF-8."""


def encode_bind(error: str = "") -> bytes:
    """ExtenderBindingResult: bound, or why not. A long text is cut, control characters become JSON escapes."""
    text = error.encode("utf-8", "replace")[:LONGEST_BIND_ERROR].decode("utf-8", "ignore")
    return _ENCODER.encode(ExtenderBindingResult(text))


def _meta(candidate: Candidate) -> MetaVictims:
    return MetaVictims([MetaPod(pod.metadata.uid) for pod in candidate.victims], candidate.num_pdb_violations)


def _accepted(request: FilterRequest, positions: Sequence[int]) -> list[Raw]:
    """The Nodes in these positions; all of them or none need not be told apart."""
    if not positions:
        return []
    if request.items is not None and len(positions) == len(request.nodes):
        return cast(list[Raw], Raw(request.items))
    return _pick(request.raw_nodes(), positions)


def _pick(offered: list[T], positions: Sequence[int]) -> list[T]:
    """The elements in these positions, ascending and each named once."""
    return offered if len(positions) == len(offered) else list(map(offered.__getitem__, positions))
