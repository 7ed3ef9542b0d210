"""Facts about the pod itself, whichever nodes there are."""

from collections.abc import Iterable, Iterator
from heapq import nsmallest

from extender.core.framework.filter import scheduling_context
from extender.core.framework.plugins import plugins_missing_permissions
from extender.core.profile import Profile
from extender.core.snapshot.pod_table import is_finished
from extender.core.snapshot.snapshot import Snapshot
from extender.core.snapshot.volume_index import storage
from extender.k8s.kinds import KINDS
from extender.k8s.objects import SCHEDULING, Pod
from extender.k8s.requests import is_resize_deferred, resize_pending_reason, resize_requests, running_usage
from extender.k8s.storage.volumes import WAIT_FOR_FIRST_CONSUMER, claim_class, claim_uses, selected_node
from extender.k8s.version.features import Features
from extender.report.facts.schema import (
    MAX_LISTED,
    AnyFact,
    NominationFact,
    PodGroupFact,
    PodStatusFact,
    ResizeFact,
    SchedulingGatesFact,
    UnboundClaimsFact,
    UnreadableFact,
)
from extender.utilities.text import format_amount

_KIND_OF_TABLE = {kind.field: name for name, kind in KINDS.items()}


def pod_facts(snapshot: Snapshot, pod: Pod, profile: Profile | None) -> list[AnyFact]:
    """Return what is particular about the pod; without a profile, it is another scheduler's."""
    status, gates, found = pod.status, pod.spec.scheduling_gates or (), list[AnyFact]()
    if status.reason:
        found.append(PodStatusFact(reason=status.reason, message=status.message))
    if gates and not pod.spec.node_name:
        found.append(SchedulingGatesFact(gates=tuple(one.name for one in gates[:MAX_LISTED]), total=len(gates)))
    unbound = [] if is_finished(pod) or not pod.spec.node_name else list(_unbound_claims(snapshot, pod))
    if unbound:
        claims = tuple(unbound[:MAX_LISTED])
        found.append(UnboundClaimsFact(node=pod.spec.node_name, claims=claims, total=len(unbound)))
    found += resize_facts(pod, snapshot.features)
    if pod.pod_group is not None:
        found.append(_pod_group(snapshot, pod))
    if profile is None or is_finished(pod):
        return found
    context = scheduling_context(snapshot, pod, profile)
    if status.nominated_node_name and not pod.spec.node_name:
        found += nomination_facts(snapshot, [pod])
    enabled = {*profile.prefilter_plugins, *profile.filter_plugins}
    unreadable = {
        plugin: tables for plugin, tables in plugins_missing_permissions(context, "filter").items() if plugin in enabled
    }
    if unreadable:
        kinds = {_KIND_OF_TABLE[table] for tables in unreadable.values() for table in tables}
        found.append(UnreadableFact(plugins=tuple(sorted(unreadable)), kinds=tuple(sorted(kinds))))
    return found


def nomination_facts(snapshot: Snapshot, pods: Iterable[Pod]) -> Iterator[NominationFact]:
    """Yield the nominations of the first few pods."""
    for one in nsmallest(MAX_LISTED, pods, key=lambda pod: pod.key):
        node = one.status.nominated_node_name
        yield NominationFact(pod=one.key, node=node, priority=one.priority, node_exists=node in snapshot.node_row)


def _unbound_claims(snapshot: Snapshot, pod: Pod) -> Iterator[str]:
    """Yield the claims that wait for a consumer, of a pod that kube-scheduler does not try: it has its node already."""
    found = storage(snapshot)
    for use in dict.fromkeys(claim_uses(pod)):
        claim = found.claim(pod, use.name)
        if claim is None or claim.spec.volume_name or selected_node(claim) is not None:
            continue
        storage_class = found.storage_class(claim_class(claim))
        if storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
            yield claim.key


def resize_facts(pod: Pod, features: Features) -> Iterator[ResizeFact]:
    """Yield the resources of which the pod wants more or less than its node has granted it yet."""
    if not resize_pending_reason(pod):
        return
    wanted, allocated = resize_requests(pod, features)
    counted = running_usage(pod, features).requests
    for name, amount in wanted.items():
        if amount != allocated.get(name, 0):
            yield ResizeFact(
                resource=name,
                pod=pod.key,
                state="Deferred" if is_resize_deferred(pod) else "Infeasible",
                allocated=format_amount(name, allocated.get(name, 0), is_exact=True),
                wanted=format_amount(name, amount, is_exact=True),
                counted=format_amount(name, counted.get(name, 0), is_exact=True),
            )


def _pod_group(snapshot: Snapshot, pod: Pod) -> PodGroupFact:
    named, namespace = pod.pod_group, pod.metadata.namespace
    assert named is not None, "the caller has looked"
    table = "pod_groups" if named.api_group == SCHEDULING else "coscheduling_groups"
    group = getattr(snapshot.objects, table).get((namespace, named.name))
    members = [
        one
        for one in snapshot.objects.pods.values()
        if one.pod_group == named and one.metadata.namespace == namespace and not is_finished(one)
    ]
    return PodGroupFact(
        group=f"{namespace}/{named.name}",
        exists=None if table in snapshot.unreadable_tables else group is not None,
        min_count=None if group is None else group.minimum,
        pods=len(members),
        assigned=sum(bool(one.spec.node_name) for one in members),
    )
