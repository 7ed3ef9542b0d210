"""Words for facts: what exactly rejects a node, and many nodes, for the command line, the page and sentences.

Rule: words only; nothing is decided here.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Union, assert_never

import msgspec

from extender.k8s import quantity
from extender.report.facts import schema as facts
from extender.report.facts.schema import AnyFact, FactCount
from extender.utilities.text import format_together, join_names, more, pluralize, shortened

if TYPE_CHECKING:  # commands that ask a service start without the objects of Kubernetes
    from extender.k8s.objects import Taint
    from extender.report.pod_schema import NodeDiagnosis
    from extender.report.schema import NodeReport

MAX_FACTS = 2
"""Maximum number of facts that a sentence names."""

MAX_SUMMARIZED = 5
"""Maximum number of facts in a summary."""

CLAIM_PROBLEMS: dict[facts.ClaimProblem, str] = {
    "NotFound": "does not exist",
    "NotCreated": "is not created yet, for the pod's ephemeral volume",
    "BeingDeleted": "is being deleted",
    "NotOwner": "was not created for this pod",
    "VolumeNotFound": "is bound to volume {volume}, which does not exist",
    "NotBound": "of class {storage_class}, which binds at once, has no volume yet",
    "NoClass": "has neither a volume nor a storage class",
    "ClassNotFound": "needs storage class {storage_class}, which does not exist",
}

VOLUME_MISMATCHES: dict[facts.VolumeMismatch, str] = {
    "Phase": "is not Available",
    "AccessModes": "lacks an access mode",
    "Selector": "does not match the claim's selector",
    "VolumeMode": "has another volumeMode",
    "AttributesClass": "has another VolumeAttributesClass",
    "Deleted": "is being deleted",
    "Size": "is too small",
    "Class": "is of class {}",
    "NodeAffinity": "cannot be used on this node",
    "Taken": "goes to another claim of the pod",
}


def describe_fact(fact: AnyFact) -> str:
    """Return what rejects one node, and what is known of the other nodes."""
    return "; ".join((brief_fact(fact), *_in_the_cluster(fact)))


def describe_cause(found: FactCount, *, in_full: bool = False) -> str:
    """Return what rejects several nodes, in a few words; `in_full`: with what is known of the other nodes."""
    fact, phrase = found.fact, brief_fact(found.fact)
    match fact:
        case facts.NodeRequirementFact() if fact.requirement:
            phrase = f"{_requirement(fact)}, which {_nodes_that(fact.meeting, 'meets', 'meet')}"
        case facts.ResourceFact() if fact.resource != "pods" and fact.most_free_node and found.nodes > 1:
            requested, free, _, _ = _room(fact)
            phrase = f"requests {requested} {fact.resource}, most free: {free} on {found.node}"
        case facts.VolumeTopologyFact():
            phrase = _volume_fact(fact)
        case facts.ResourceFact(most_free_node="") if fact.resource != "pods":
            pass  # no node has the resource, whichever is looked at
        case facts.ResourceFact() | facts.PortFact() | facts.PodAffinityFact() | facts.NominatedFact():
            phrase += "" if isinstance(fact, facts.PodAffinityFact) else f" on {found.node}"
            phrase += f", likewise on {more(found.nodes - 1, 'node')}" if found.nodes > 1 else ""
    return "; ".join((phrase, *_in_the_cluster(fact))) if in_full else phrase


def in_brackets(causes: Sequence[FactCount], nodes: int, reason: str = "", looked_at: int | None = None) -> str:
    """Return the causes of `nodes` nodes as ` (a; b on 2)`, without counts where they hold for all; "" for none.

    `causes`: the most common first; a second one is left out if it is about less than half of the nodes, and
    claims that kube-scheduler's `reason` names already. `looked_at`: number of nodes that they are about, None for all.
    """
    every, nodes = nodes, nodes if looked_at is None else looked_at
    shown = [one for place, one in enumerate(causes[:MAX_FACTS]) if not place or 2 * one.nodes >= nodes]
    shown = [one for one in shown if not _is_named(one.fact, reason)]
    words = [describe_cause(one) + (f" on {one.nodes}" if one.nodes < nodes and not one.node else "") for one in shown]
    words += [f"{nodes} of {every} looked at"] if words and nodes < every else []
    return f" ({'; '.join(words)})" if words else ""


def _is_named(fact: AnyFact, reason: str) -> bool:
    if isinstance(fact, facts.ResourceClaimFact):
        return bool(fact.problem) and fact.problem in reason
    return isinstance(fact, facts.ClaimFact) and f'"{fact.claim.rpartition("/")[2]}"' in reason


def brief_fact(fact: AnyFact) -> str:
    """Return what rejects one node, in a few words."""
    match fact:
        case facts.MoreFact(count=count):
            return f"and {more(count)}" if count else "and more"
        case facts.PodAffinityFact():
            return _pod_affinity(fact)
        case facts.SpreadFact():
            return _spread(fact)
        case facts.PortFact() | facts.ResourceFact() | facts.ResizeFact() | facts.NominatedFact():
            return _brief_room_fact(fact)
    if isinstance(fact, facts.VolumeTopologyFact) and fact.labels:
        has = (f"no {key}" if value is None else f"{key}={value}" for key, value in fact.labels.items())
        return f"{_volume_fact(fact)}; the node has {', '.join(has)}"
    if isinstance(fact, facts.VolumeFact):
        return _volume_fact(fact)
    if isinstance(fact, facts.DeviceFact):
        return _device_fact(fact)
    return _pod_fact(fact) if isinstance(fact, facts.PodFact) else _brief_node_fact(fact)


def _brief_node_fact(fact: facts.NodeFact) -> str:
    match fact:
        case facts.TaintFact():
            return taint_text(fact)
        case facts.UnschedulableFact():
            return "spec.unschedulable"
        case facts.NodeNameFact(name=name, exists=exists):
            return f"spec.nodeName is {name}" + ("" if exists else ", which does not exist")
        case facts.DeclaredFeatureFact(feature=feature, declaring=count):
            return f"needs {feature}, which {_nodes_that(count, 'declares', 'declare')}"
        case facts.NodeRequirementFact(requirement=""):
            return f"{fact.source} without a valid term"
        case facts.NodeRequirementFact(key=key, value=value):
            return f"{_requirement(fact)}, the node has {f'no {key}' if value is None else value or repr(value)}"
    assert_never(fact)


def taint_text(taint: "Taint | facts.TaintFact") -> str:
    """Return `key=value:effect`, or `key:effect` without a value."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _brief_room_fact(fact: facts.RoomFact) -> str:
    match fact:
        case facts.PortFact(address=address, held_address=held):
            nominated = f"{fact.pod}, nominated to the node" if fact.nominated else fact.pod
            at = f" at {held}" if held and held != address else ""
            return f"{address}{':' if address else ''}{fact.port}/{fact.protocol} is held{at} by {nominated}"
        case facts.ResourceFact(resource="pods"):
            return f"{fact.used} of {fact.allocatable} pods"
        case facts.ResourceFact():
            requested, free, allocatable, _ = _room(fact)
            wanted = f"requests {requested} {fact.resource}"
            if not fact.most_free_node:
                return f"{wanted}, which no node has"
            too_small = ", too small even if empty" if fact.is_too_small else ""
            return f"{wanted}, {free} of {allocatable} free{too_small}"
        case facts.ResizeFact(resource=resource):
            allocated, wanted, counted = _in_one_unit(resource, fact.allocated, fact.wanted, fact.counted)
            resize = f"{fact.pod}: resize {fact.state}, {allocated} allocated, {wanted} wanted"
            return f"{resize}, {counted} {resource} counted as used"
        case facts.NominatedFact(pods=pods, count=count):
            return f"room is kept for the nominated {join_names(pods, len(pods), count)}"
    assert_never(fact)


def _volume_fact(fact: facts.VolumeFact) -> str:
    match fact:
        case facts.ClaimFact():
            return f"claim {fact.claim} {CLAIM_PROBLEMS[fact.problem].format_map(msgspec.structs.asdict(fact))}"
        case facts.VolumeTopologyFact(volume=volume, claim=claim):
            by = f" ({fact.driver})" if fact.driver else ""
            made = f"class {fact.storage_class}{by} makes volumes for claim {claim}"
            found = f"volume {volume}{by} of claim {claim} is" if volume else made
            where = " or ".join(fact.terms) + (f" or {fact.more_terms} more terms" if fact.more_terms else "")
            return f"{found} only where {where or 'no node is'}"
        case facts.SelectedNodeFact():
            gone = "" if fact.node_exists else ", which does not exist"
            return f"the volume of claim {fact.claim} is made for node {fact.node}{gone} (annotation selected-node)"
        case facts.VolumeMatchFact():
            of = f" of class {fact.storage_class}" if fact.storage_class else ""
            found = (
                f"none of {fact.available} available volumes matches" if fact.available else "no volume is available"
            )
            why = " and ".join(VOLUME_MISMATCHES[one].format(fact.nearest_class) for one in fact.mismatches)
            requested, capacity = _in_one_unit("storage", fact.requested, fact.nearest_capacity or fact.requested)
            nearest = f"; the nearest, {fact.nearest} with {capacity}, {why}" if fact.nearest else ""
            wanted = " ".join((requested, *fact.access_modes))
            return f"claim {fact.claim}{of} needs {wanted}: {found}{nearest}"
        case facts.StorageCapacityFact(largest=largest):
            whose = f"for claim {fact.claim} of class {fact.storage_class}"
            if largest is None:
                return f"{fact.driver} publishes no capacity {whose}, which needs {fact.requested}"
            largest, requested = _in_one_unit("storage", largest, fact.requested)
            return f"{fact.driver} has {largest} of {requested} {whose}"
        case facts.VolumeLimitFact():
            empty = ", more than the limit even on an empty node" if fact.exceeds_empty_node else ""
            return f"{fact.driver}: needs {fact.needs}, limit {fact.limit}, in use {fact.in_use}{empty}"
    assert_never(fact)


def _device_fact(fact: facts.DeviceFact) -> str:
    match fact:
        case facts.MissingOnNodeFact():
            return f"no driver {fact.driver}" if fact.driver else f"no {fact.resource}, and no DeviceClass backs it"
        case facts.InUseFact(claim=claim, disk=disk):
            what = f"claim {claim} (ReadWriteOncePod)" if claim else f"disk {disk}" if disk else "devices"
            return f"{what} in use by {join_names(fact.users, len(fact.users), fact.total)}"
        case facts.ResourceClaimFact(problem=problem, terms=terms):
            if problem:
                return f"claim {fact.claim}: {problem}"
            where = f"only where {' or '.join(terms)}" if terms else "on no node: preparing its devices failed"
            by = f", reserved for {', '.join(fact.pods)}" if fact.pods else ""
            return f"claim {fact.claim} is allocated ({', '.join(fact.devices) or 'no devices'}{by}), {where}"
        case facts.DeviceRequestFact():
            wanted = f"claim {fact.claim}, request {fact.request} of class {fact.device_class}: needs "
            wanted += "all devices that match" if fact.count is None else pluralize(fact.count, "device")
            if fact.devices is None:
                return f"{wanted}, devices not looked at"
            why = [f"{one.failed} without {shortened(one.expression)} ({one.of})" for one in fact.selectors]
            why += [f"{fact.tainted} tainted"] if fact.tainted else []
            why += [f"{fact.allocated} allocated"] if fact.allocated else []
            why += [fact.problem] if fact.problem else []
            found = f"{fact.matching} of {fact.devices} match, {fact.free} free"
            return f"{wanted}; {found}{': ' if why else ''}{', '.join(why)}"
    assert_never(fact)


def _pod_fact(fact: facts.PodFact) -> str:
    match fact:
        case facts.PodGroupFact(min_count=minimum):
            missing = " (the group does not exist)" if fact.exists is False else ""
            needed = f" of at least {minimum}" if minimum else ""
            exist = f"{fact.pods}{needed} pods exist" if needed else pluralize(fact.pods, "pod exists", "pods exist")
            have = "has" if fact.assigned == 1 else "have"
            return f"pod group {fact.group}{missing}: {exist}, {fact.assigned} {have} a node"
        case facts.NominationFact():
            gone = "" if fact.node_exists else ", which does not exist"
            return f"{fact.pod} (priority {fact.priority}) is nominated to {fact.node}{gone}"
        case facts.UnboundClaimsFact():
            names = join_names(fact.claims, len(fact.claims), fact.total)
            stay = "claim {} stays" if fact.total == 1 else "claims {} stay"
            why = f"the pod has its node {fact.node} not from kube-scheduler, which binds claims first"
            return f"{stay.format(names)} unbound: {why}"
        case facts.PodStatusFact():
            return f"{fact.reason}: {fact.message}" if fact.message else fact.reason
        case facts.SchedulingGatesFact():
            return f"scheduling gates {join_names(fact.gates, len(fact.gates), fact.total)}"
        case facts.UnreadableFact():
            return f"no permission to list {', '.join(fact.kinds)}"  # reports list what is not evaluated besides
    assert_never(fact)


def _in_the_cluster(fact: AnyFact) -> Iterator[str]:
    """Yield what is known of the other nodes."""
    match fact:
        case facts.NodeRequirementFact(values=values) if values:
            yield "nodes have " + ", ".join(f"{value} ({nodes})" for value, nodes in values.items())
        case facts.ResourceFact(most_free_node=node) if node and fact.resource != "pods":
            most = f"most free in the cluster: {_room(fact)[-1]} on {node}"
            yield most if fact.most_free != fact.free else "no node has more free"
        case facts.SpreadFact(missing_label=False):
            yield f"selector {fact.selector}"
            domains = [f"{one.domain}: {one.pods}{_rejected(one, ' ({})')}" for one in fact.domains]
            yield f"domains {join_names(domains, len(domains), fact.count)}"


def _nodes_that(count: int, verb: str, verb_of_many: str) -> str:
    return f"{pluralize(count, 'node')} {verb if count == 1 else verb_of_many}" if count else f"no node {verb}"


def _requirement(fact: facts.NodeRequirementFact) -> str:
    term = f" term {fact.term} of {fact.terms}" if fact.terms > 1 else ""
    return f"{fact.source}{term} {fact.requirement}"


def _room(fact: facts.ResourceFact) -> list[str]:
    """Return what is requested, free, allocatable and most free, in one unit: sentences about a fact share it."""
    return _in_one_unit(fact.resource, fact.requested, fact.free, fact.allocatable, fact.most_free)


def _in_one_unit(resource: str, *exact: str) -> list[str]:
    """Return quantities in one unit, 15839424Ki and 32Gi as 15.11Gi and 32Gi; those of one unit as they are written."""
    if resource == "storage" and len({text.lstrip("0123456789.") for text in exact}) == 1:
        return [*exact]
    in_units = quantity.milli_value if resource == "cpu" else quantity.value
    return format_together(resource, [in_units(quantity.parse(one)) for one in exact])


def _pod_affinity(fact: facts.PodAffinityFact) -> str:
    if fact.missing_label:
        return f"no label {fact.topology_key}"
    where = f"{fact.topology_key}={fact.domain}"
    term = f"{fact.selector or 'one of many terms'}" + (f" in namespaces {fact.namespaces}" if fact.namespaces else "")
    pods = join_names(fact.pods, len(fact.pods), fact.count)
    match fact.rule:
        case "antiAffinity":
            return f"anti-affinity to {term}: {pods} in {where}"
        case "existingAntiAffinity":
            return f"anti-affinity of {pods} to {term} in {where}"
    if not fact.count:
        return f"affinity to {term}, which no pod on a node with {fact.topology_key} matches, in {where}"
    domains = [f"{one.domain}: {one.pods}" for one in fact.domains]
    return f"affinity to {term}, which no pod in {where} matches, but {', '.join(domains)}"


def _spread(fact: facts.SpreadFact) -> str:
    key, skew = fact.topology_key, f"> maxSkew {fact.max_skew}"
    if fact.missing_label:
        return f"no label {key}"
    nominated = f" + {fact.nominated} nominated" if fact.nominated else ""
    matching = f"{fact.matching - fact.nominated}{nominated}"
    phrase = f"{fact.domain}: {matching} + {fact.self_matching} - {fact.minimum} {skew} by {key}"
    if fact.min_domains:
        return f"{phrase}, {pluralize(fact.count, 'domain')} of minDomains {fact.min_domains}"
    # The domain that the pod cannot use is the one to name: it keeps the minimum down.
    least = sorted((one for one in fact.domains if one.pods == fact.minimum), key=lambda one: not one.rejected_by)
    return phrase + "".join(f", domain {one.domain}: {one.pods}{_rejected(one, ', {}')}" for one in least[:1])


def _rejected(domain: facts.DomainCount, template: str) -> str:
    """Return why the pod cannot use the domain, put into the template; "" if it can."""
    reasons = [ALL_REJECTED_BY.get(one, f"rejected by {one}") for one in domain.rejected_by]
    return template.format("all nodes " + " or ".join(reasons)) if reasons else ""


ALL_REJECTED_BY = {"TaintToleration": "tainted", "NodeUnschedulable": "cordoned", "NodeResourcesFit": "full"}
"""Plugin -> word for all nodes of a domain that it rejects."""


# --- what many nodes have in common -----------------------------------------------------------------------------------


class NodeFacts(NamedTuple):
    """The facts about a node."""

    name: str
    facts: Sequence[AnyFact]


AnyNode = Union[NodeFacts, "NodeDiagnosis", "NodeReport"]
"""A node with its name and facts."""


def summarize(
    nodes: Iterable[AnyNode], relevant: Callable[[Sequence[AnyFact]], Iterable[AnyFact]] = iter
) -> list[FactCount]:
    """Return the most common causes among the facts of these nodes, with the number of nodes.

    `relevant`: selects the facts of a node that count.
    """
    nodes_of: dict[Hashable, int] = defaultdict(int)
    closest: dict[Hashable, tuple[int, str, AnyFact]] = {}
    alike: dict[tuple[int, ...], tuple[AnyNode, int]] = {}
    for node in nodes:  # many nodes have the same facts, as the same objects
        key = tuple(map(id, node.facts))
        first, size = alike.get(key, (node, 0))
        alike[key] = first, size + 1
    for node, size in alike.values():
        seen = set[Hashable]()
        for fact in relevant(node.facts):
            cause = (type(fact), *[getattr(fact, name) for name in fact.cause]) if fact.cause else fact
            if cause in seen:  # such as two pods that have a port
                continue
            seen.add(cause)
            nodes_of[cause] += size
            missing = _MISSING[type(fact)](fact) if type(fact) in _MISSING else 0
            if cause not in closest or missing < closest[cause][0]:
                closest[cause] = missing, node.name, fact
    most_common = heapq.nlargest(MAX_SUMMARIZED, nodes_of, key=nodes_of.__getitem__)
    found = [(nodes_of[cause], *closest[cause][1:]) for cause in most_common]
    return [FactCount(fact=fact, nodes=count, node=name if fact.cause else "") for count, name, fact in found]


_MISSING: dict[type, Callable[[Any], int]] = {
    facts.ResourceFact: lambda fact: -quantity.parse(fact.free),
    facts.SpreadFact: lambda fact: fact.matching,
    facts.StorageCapacityFact: lambda fact: -quantity.parse(fact.largest),
    facts.VolumeLimitFact: lambda fact: fact.needs + fact.in_use - fact.limit,
    facts.VolumeMatchFact: lambda fact: len(fact.mismatches),
    facts.DeviceRequestFact: lambda fact: -fact.free,
}
"""Kind of fact -> how far the node is from fitting. Of other kinds the first node stands for all."""
