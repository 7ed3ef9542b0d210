"""Encode the responses of the four verbs (extender/v1).

A node that was sent twice is answered twice in `/filter`, which kube-scheduler accepts, but once in `/prioritize`:
kube-scheduler adds up the scores of a host that occurs twice.

Rule: a response has the form of its request, and repeats whole Nodes byte for byte.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Protocol, TypeVar, cast

from msgspec import Raw
from msgspec.json import Encoder

from extender.k8s.candidates import SentCandidate
from extender.k8s.objects import Pod
from extender.wire import (
    ExtenderBindingResult,
    ExtenderFilterResult,
    ExtenderPreemptionResult,
    HostPriority,
    MetaPod,
    MetaVictims,
    NodeList,
)
from extender.wire.decode import FilterRequest

# Maximum number of UTF-8 bytes of the error in a response.
MAX_ERROR_BYTES: Final = 1 << 10

T = TypeVar("T")
_ENCODER = Encoder()


class VictimsOnNode(Protocol):
    """A node with the pods to evict from it, as the engine returns it."""

    @property
    def node(self) -> str: ...
    @property
    def victims(self) -> Sequence[Pod]: ...
    @property
    def num_pdb_violations(self) -> int: ...


def encode_filter(
    request: FilterRequest, accepted: Sequence[int], failed: dict[str, str], unresolvable: dict[str, str]
) -> bytes:
    """Encode ExtenderFilterResult with Nodes or NodeNames, whichever was sent.

    `accepted`: indexes of the accepted nodes in the requested list, ascending; `failed`, `unresolvable`: node ->
    message, for nodes where evicting pods would help, and would not.
    """
    nodes = names = None
    if request.has_whole_nodes:
        nodes = NodeList(metadata=request.list_metadata, items=_accepted(request, accepted, request.raw_nodes))
    else:
        names = _accepted(request, accepted, lambda: request.nodes)
    return _ENCODER.encode(ExtenderFilterResult(nodes, names, failed, unresolvable))


def _accepted(request: FilterRequest, positions: Sequence[int], sent: Callable[[], list[T]]) -> list[T]:
    """Return the sent Nodes or names at the given positions, which are ascending and distinct."""
    if not positions:
        return []
    if len(positions) < len(request.nodes):
        return list(map(sent().__getitem__, positions))
    # All nodes fit, as in most calls: the bytes of the request are copied, and no Node is located or encoded.
    return sent() if request.items is None else cast(list[T], Raw(request.items))


def encode_filter_error(error: str) -> bytes:
    """Encode an ExtenderFilterResult without nodes, with the error cut to MAX_ERROR_BYTES."""
    return _ENCODER.encode(ExtenderFilterResult(None, None, {}, {}, _cut(error)))


def encode_prioritize(nodes: Sequence[str], scores: Sequence[int]) -> bytes:
    """Encode HostPriorityList with each host once."""
    by_host = dict(zip(nodes, scores, strict=True))
    return _ENCODER.encode(list(map(HostPriority, by_host, by_host.values())))


def encode_preempt(kept: Iterable[VictimsOnNode]) -> bytes:
    """Encode ExtenderPreemptionResult: always NodeNameToMetaVictims, even if whole Pods were sent."""
    return _encode_victims(
        {one.node: ([pod.metadata.uid for pod in one.victims], one.num_pdb_violations) for one in kept}
    )


def encode_sent_candidates(sent: Mapping[str, SentCandidate]) -> bytes:
    """Encode ExtenderPreemptionResult with every candidate unchanged: kube-scheduler then makes its own choice."""
    return _encode_victims({node: (one.victims, one.num_pdb_violations) for node, one in sent.items()})


def _encode_victims(victims: Mapping[str, tuple[Sequence[str], int]]) -> bytes:
    """Encode node -> (UIDs of the victims, PDB violations)."""
    meta = {node: MetaVictims([MetaPod(uid) for uid in uids], count) for node, (uids, count) in victims.items()}
    return _ENCODER.encode(ExtenderPreemptionResult(meta))


def encode_bind(error: str = "") -> bytes:
    """Encode ExtenderBindingResult: "" for a bound pod, else the error, cut to MAX_ERROR_BYTES."""
    return _ENCODER.encode(ExtenderBindingResult(_cut(error)))


def _cut(error: str) -> str:
    # "replace" for lone surrogates, "ignore" for a character that the cut splits.
    return error.encode("utf-8", "replace")[:MAX_ERROR_BYTES].decode("utf-8", "ignore")
