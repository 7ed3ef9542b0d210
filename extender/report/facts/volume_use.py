"""Facts about volumes that others use, and limits of volumes (VolumeRestrictions, NodeVolumeLimits, EBSLimits …)."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np

from extender.core.evaluation import Evaluation
from extender.core.framework.plugins import node_volume_limits, volume_restrictions
from extender.core.framework.plugins.shared.volume_limit_columns import VolumeLimitConstraint
from extender.core.framework.plugins.volume_restrictions import MountedDisk
from extender.core.snapshot.arrays import BoolArray, IntArray, mask_of
from extender.core.snapshot.volume_index import storage
from extender.k8s.objects import Pod
from extender.k8s.storage.volumes import named_claims
from extender.report.facts.collected import CollectedFacts, first_pods
from extender.report.facts.schema import FactsOf, InUseFact, MissingOnNodeFact, VolumeLimitFact
from extender.report.facts.volumes import claim_facts


def volume_restriction_facts(evaluation: Evaluation) -> FactsOf:
    """Name the pods that use a ReadWriteOncePod claim of the pod, anywhere, or one of its disks on the node."""
    context, snapshot = evaluation.context, evaluation.context.snapshot
    problems, namespace, size = claim_facts(context), context.pod.metadata.namespace, len(snapshot.nodes)
    nominees = [(snapshot.node_row[one.status.nominated_node_name], one) for one in context.nominees]
    # Disk or claim -> places in `nominees`. A pod may have thousands: each nominee is looked at once, not for each.
    nominated_users = defaultdict[MountedDisk | str, list[int]](list)
    for place, (_, one) in enumerate(nominees):
        used_by_pod: set[MountedDisk | str] = {*volume_restrictions.disks_of(one), *named_claims(one)}
        for used in used_by_pod:
            nominated_users[used].append(place)
    found, pods = CollectedFacts(size), snapshot.pods
    # 1. Disks, on the nodes where other pods mount them.
    mounts = snapshot.index(volume_restrictions.DiskMountIndex).users
    for disk in dict.fromkeys(volume_restrictions.disks_of(context.pod)):
        conflicting = volume_restrictions.conflicting_mounts(disk)
        rows = sorted({row for mount in conflicting for row in mounts.get(mount, ())})
        users = [(int(snapshot.pod_node[row]), pods[row]) for row in rows]
        users += [nominees[at] for at in sorted({at for mount in conflicting for at in nominated_users.get(mount, ())})]
        found.add(*_users_of_nodes(users, size, partial(_in_use, disk=" ".join(disk.identity))))
    # 2. ReadWriteOncePod claims, on all nodes if a running pod uses them.
    for name in sorted(volume_restrictions.exclusive_claims(context)):
        using = snapshot.index(volume_restrictions.ClaimUserIndex).users.get(name, ())
        running, fact = (
            [pods[row] for row in using if pods[row].metadata.namespace == namespace],
            partial(_in_use, claim=f"{namespace}/{name}"),
        )
        if running:
            found.add(np.ones(size, np.bool_), fact(running))
        else:
            found.add(*_users_of_nodes([nominees[at] for at in nominated_users.get(name, ())], size, fact))
    return lambda row: found(row) or problems


def _users_of_nodes(
    users: Iterable[tuple[int, Pod]], size: int, fact: Callable[[list[Pod]], InUseFact]
) -> tuple[BoolArray, Callable[[int], InUseFact]]:
    """Return ([node]: whether it has one of the `users`, (node row, pod), node row -> fact)."""
    of_node: dict[int, list[Pod]] = defaultdict(list)
    for node, pod in users:
        of_node[node].append(pod)
    return mask_of(np.fromiter(of_node, np.int64, len(of_node)), size), lambda row: fact(of_node[row])


def _in_use(users: list[Pod], *, claim: str = "", disk: str = "") -> InUseFact:
    return InUseFact(claim=claim, disk=disk, users=first_pods(users), total=len(users))


def volume_limit_facts(plugin: str, evaluation: Evaluation) -> FactsOf:
    """Count the volumes of each driver that the node cannot attach, and name drivers that it does not have."""
    context, snapshot, run = evaluation.context, evaluation.context.snapshot, evaluation.filter
    found, problems = CollectedFacts(len(snapshot.nodes)), claim_facts(context)
    if plugin == node_volume_limits.NAME:
        drivers = {driver for driver, _ in storage(snapshot).csi_volumes(context.pod)}
        for driver, missing in node_volume_limits.missing_drivers(context, drivers):
            found.add(missing, MissingOnNodeFact(driver=driver))
    for index, check in enumerate(run.checks):
        if isinstance(check, VolumeLimitConstraint) and check.plugin == plugin:
            # With the nominated pods, and where the pod fits beside them, without them.
            beside_nominated, alone = (headrooms[index] for headrooms in run.headrooms)
            fits = check.fits(beside_nominated)
            found.add(~fits, _limit_facts(check, beside_nominated))
            found.add(fits & ~check.fits(alone), _limit_facts(check, alone))
    return lambda row: found(row) or problems


def _limit_facts(check: VolumeLimitConstraint, headroom: IntArray) -> Callable[[int], VolumeLimitFact]:
    in_use, new = check.volumes(headroom)
    amounts = [*zip(new.tolist(), check.limits.tolist(), in_use.tolist(), strict=True)]
    facts = {
        (needs, limit, used): VolumeLimitFact(
            driver=check.driver, needs=needs, limit=limit, in_use=used, exceeds_empty_node=check.requested > limit
        )
        for needs, limit, used in set(amounts)
    }
    return lambda row: facts[amounts[row]]
