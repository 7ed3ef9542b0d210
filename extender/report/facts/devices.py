"""Facts about ResourceClaims and the devices of nodes (DynamicResources)."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice

from extender.core.devices.claims import UnsupportedRequest, each_claim, request_problem
from extender.core.devices.device_index import DeviceIndex
from extender.core.devices.extended_resources import IN_MEMORY, classes_by_resource, extended_resources
from extender.core.devices.structured.allocation import ClaimToAllocate
from extender.core.devices.structured.pools import AllocationError, NotEvaluated, PoolID
from extender.core.evaluation import Evaluation
from extender.core.framework.plugins import dynamic_resources
from extender.core.framework.scheduling_context import SchedulingContext
from extender.core.framework.status import Status
from extender.core.snapshot.derived import derived
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.devices.objects import ResourceClaim
from extender.k8s.limits.limits import facts_budget
from extender.k8s.selectors import compile_node_selector
from extender.report.device_reasons import DeviceReasons, requests_of, users_of_devices
from extender.report.devices import EXTENDED_RESOURCES
from extender.report.facts.collected import MAX_COLLECTED
from extender.report.facts.schema import (
    MAX_PODS,
    AnyFact,
    DeviceRequestFact,
    FactsOf,
    InUseFact,
    MissingOnNodeFact,
    ResourceClaimFact,
)

_NOT_LOOKED_AT = -1
"""Group of the nodes for which the budget is not enough."""


def device_facts(evaluation: Evaluation) -> FactsOf:
    """Name the claims that cannot be used, and the requests for which the node has too few devices."""
    context, verdicts = evaluation.context, dynamic_resources.verdicts(evaluation.context)
    if verdicts is None:
        unusable = list(islice(_unusable_claims(context), MAX_COLLECTED))
        return lambda _: unusable
    of_group, statuses = _FactsOfGroups(context.snapshot), [reason for _, reason in verdicts.statuses]
    unavailable = [(_allocated_fact(claim), nodes) for claim, nodes in verdicts.unavailable]
    has_resource = {
        name: context.snapshot.has_scalar(name)
        for name in extended_resources(context.snapshot, context.pod)
        if name not in classes_by_resource(context.snapshot)
    }
    state = dynamic_resources.state_data(context)
    names = [] if isinstance(state, Status) else [_key(claim) for claim in state.all if claim.status.allocation is None]

    def facts(row: int) -> Sequence[AnyFact]:
        match statuses[verdicts.status[row]]:
            case dynamic_resources.CANNOT_ALLOCATE:
                one = next(one for one in verdicts.allocations if one.nodes.outcome[row] >= 0)
                return of_group(one.claims, int(one.nodes.group[row]), row)
            case dynamic_resources.NOT_AVAILABLE:
                return [fact for fact, nodes in unavailable if nodes[row]][:MAX_COLLECTED]
            case dynamic_resources.CANNOT_FIT:
                lacking = [name for name, nodes in has_resource.items() if not nodes[row]]
                return [MissingOnNodeFact(resource=name) for name in lacking[:MAX_COLLECTED]]
            case reason:
                return [ResourceClaimFact(claim=", ".join(names[:MAX_PODS]), problem=reason)]

    return facts


def _unusable_claims(context: SchedulingContext) -> Iterator[ResourceClaimFact]:
    """Yield the claims for which PreFilter rejects the pod, or may after the ones before them."""
    for named, claim in each_claim(context.snapshot, context.pod):
        if isinstance(claim, str):
            namespace, name = context.pod.metadata.namespace, named.resource_claim_name
            yield ResourceClaimFact(claim=f"{namespace}/{name}" if name else named.name, problem=claim)
        elif claim is not None and claim.status.allocation is None:
            try:
                problem = request_problem(context.snapshot, claim)
            except UnsupportedRequest as error:
                problem = str(error)
            if problem is not None:
                yield ResourceClaimFact(claim=_key(claim), problem=problem)


def _allocated_fact(claim: ResourceClaim) -> ResourceClaimFact:
    allocation = claim.status.allocation
    results = (allocation.devices.results if allocation is not None else None) or ()
    selector = None if allocation is None else allocation.node_selector
    terms = () if selector is None else compile_node_selector(selector).terms or ()
    return ResourceClaimFact(
        claim=_key(claim),
        devices=tuple(f"{one.driver}/{one.pool}/{one.device}" for one in results[:MAX_PODS]),
        terms=tuple(" and ".join(map(str, (*one.labels, *one.fields)[:MAX_PODS])) for one in terms[:MAX_PODS]),
        pods=tuple(f"{claim.metadata.namespace}/{one.name}" for one in (claim.status.reserved_for or ())[:MAX_PODS]),
    )


def _key(claim: ResourceClaim) -> str:
    return EXTENDED_RESOURCES if claim.metadata.name == IN_MEMORY else claim.key


@derived("resource_claims", "resource_slices")
def _users_on_nodes(snapshot: Snapshot) -> dict[str, dict[str, None]]:
    """Return node name, or "" for devices of several nodes -> keys of the claims that have devices."""
    pool_node = {
        PoolID(one.spec.driver, one.spec.pool.name): one.spec.node_name
        for one in snapshot.objects.resource_slices.values()
        if one.spec.node_name
    }
    users_on: dict[str, dict[str, None]] = defaultdict(dict)
    for (driver, pool, _), claims in users_of_devices(snapshot).items():
        users_on[pool_node.get(PoolID(driver, pool), "")].update(dict.fromkeys(map(_key, claims)))
    return users_on


class _FactsOfGroups:
    """Facts about nodes whose devices do not suffice; nodes with equivalent devices are looked at once.

    One budget for all of them: where it is used up, a fact says that the devices were not looked at.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot, self._budget = snapshot, facts_budget()
        self._reasons = DeviceReasons(snapshot, (), self._budget)
        self._facts: dict[tuple[int, int], list[AnyFact]] = {}

    def __call__(self, claims: tuple[ClaimToAllocate, ...], group: int, row: int) -> Sequence[AnyFact]:
        key = id(claims), group
        if key not in self._facts and self._budget.left <= 0:
            key = id(claims), _NOT_LOOKED_AT
        if key not in self._facts:
            self._facts[key] = self._look_at(claims, row)
        facts = self._facts[key]
        if not any(isinstance(one, DeviceRequestFact) and one.allocated for one in facts):
            return facts
        # Equivalent nodes have devices of other claims.
        users = _users_on_nodes(self._snapshot)
        own, shared = (users.get(name, {}) for name in (self._snapshot.node_names[row], ""))
        return [*facts, InUseFact(users=tuple(islice(chain(own, shared), MAX_PODS)), total=len(own) + len(shared))]

    def _look_at(self, claims: tuple[ClaimToAllocate, ...], row: int) -> list[AnyFact]:
        try:
            pools = self._snapshot.index(DeviceIndex).pools_at(row)
        except (AllocationError, NotEvaluated) as error:
            return [ResourceClaimFact(claim=str(claims[0]), problem=str(error))]
        reasons = self._reasons.on_node(row, pools)
        named = [
            replace(one, namespace="", name=EXTENDED_RESOURCES) if one.name == IN_MEMORY else one for one in claims
        ]
        requests = [(claim, request) for claim in named for _, request in requests_of(claim.spec)]
        every = (reasons.fact(*one) for one in requests)
        short = (one for one in every if one.devices is None or one.free < (1 if one.count is None else one.count))
        found = [*islice(short, MAX_COLLECTED)]
        # Where each request by itself has enough, several requests or a constraint exclude each other.
        return [*(found or [reasons.fact(*one) for one in requests[:MAX_COLLECTED]])]
