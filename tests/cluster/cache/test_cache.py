"""One writer changes the cache; readers see the cache before a change or after it."""

import gc
import weakref

import msgspec
import pytest
from msgspec.structs import replace

from extender.cluster.cache.cache import Change, ClusterCache
from extender.config.scheduler.load import kube_scheduler_of
from extender.core.profile import KubeScheduler
from extender.core.snapshot.snapshot import Index
from extender.errors import NotReady
from extender.k8s.kinds import ClusterObjects
from extender.k8s.objects import (
    Condition,
    Node,
    NodeStatus,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodSpec,
    PodStatus,
    SchedulingGroup,
)
from tests.builders import stored_cluster


def node(name="n1", cpu="4"):
    return Node(ObjectMeta(name=name), status=NodeStatus(allocatable={"cpu": cpu}))


def pod(name, uid="", priority=0):
    return Pod(ObjectMeta(name=name, namespace="shop", uid=uid or name), PodSpec(node_name="n1", priority=priority))


def cache(*pods):
    filled = ClusterCache()
    filled.replace(ClusterObjects(nodes=(node(),), pods=pods))
    return filled


def pods(of):
    return [(one.metadata.name, one.metadata.uid, one.priority) for one in of.snapshot().objects.pods.values()]


def test_there_is_no_snapshot_before_the_first_sync():
    with pytest.raises(NotReady):
        ClusterCache().snapshot()


def test_a_change_before_the_first_sync_is_refused():
    with pytest.raises(NotReady):
        ClusterCache().apply(Change("Pod", pod("a")))


def test_an_empty_cluster_counts_as_synced():
    empty = ClusterCache()
    empty.replace(ClusterObjects())
    assert empty.snapshot().objects.frozen() == ClusterObjects()


def test_a_change_is_seen_by_the_next_reader():
    held = cache(pod("a"))
    assert held.snapshot() is held.snapshot()
    held.apply(Change("Pod", pod("b")))
    assert {one.metadata.name for one in held.snapshot().pods_on("n1")} == {"a", "b"}


def test_a_whole_new_snapshot_leaves_the_one_before_as_it_was():
    held = cache(pod("a"))
    before = held.snapshot()
    held.replace(ClusterObjects())
    assert [one.metadata.name for one in before.objects.pods.values()] == ["a"]


def test_what_could_not_be_read_when_a_file_was_written_is_not_known_to_its_reader_either():
    held = ClusterCache()
    held.replace(ClusterObjects(nodes=(node(),), unreadable_tables=("claims",)))
    assert held.snapshot().frozen() == ClusterObjects(nodes=(node(),), unreadable_tables=("claims",))


READY = PodStatus(conditions=[Condition("Ready", "True")])
POLICIES = {
    "readiness": {"status": READY},
    "a class of service": {"status": PodStatus(qos_class="Burstable")},
    "an annotation": {"metadata": {"annotations": {"karpenter.sh/do-not-disrupt": "true"}}},
    "an owner": {"metadata": {"owner_references": [OwnerReference(kind="Job", name="j", uid="j", controller=True)]}},
    "a priority class": {"spec": PodSpec(node_name="n1", priority_class_name="high")},
    "a group": {"spec": PodSpec(node_name="n1", scheduling_group=SchedulingGroup("train"))},
    "a time to end": {"spec": PodSpec(node_name="n1", termination_grace_period_seconds=60)},
}


def changed(one, *, metadata=None, version="2", **parts):
    """Return the pod at a later version."""
    about = replace(one.metadata, resource_version=version, **(metadata or {}))
    return replace(one, metadata=about, **parts)


class Seen(Index):
    """The pods that came to run."""

    def __init__(self, snapshot):
        super().__init__(snapshot)
        self.pods: list[Pod] = []

    def pod_added(self, row, pod):
        self.pods.append(pod)


@pytest.mark.parametrize("change", POLICIES.values(), ids=POLICIES)
def test_what_is_made_of_pods_hears_of_a_change_of(change):
    held = cache(pod("a"))
    seen = held.snapshot().index(Seen)
    after = changed(pod("a"), **change)
    held.apply(Change("Pod", after))
    assert seen.pods == [pod("a"), after]
    held.apply(Change("Pod", changed(after, version="3")))  # nothing but the version
    assert len(seen.pods) == 2
    assert held.snapshot().pods_on("n1")[0].metadata.resource_version == "3"


def test_what_is_made_of_pods_does_not_hear_of_conditions_that_nobody_reads():
    held = cache(changed(pod("a"), status=READY))
    seen = held.snapshot().index(Seen)
    status = PodStatus(conditions=[Condition("Initialized", "True"), Condition("Ready", "True", "kubelet")])
    held.apply(Change("Pod", changed(pod("a"), version="3", status=status)))
    assert len(seen.pods) == 1
    assert held.snapshot().pods_on("n1")[0].status == status


def test_a_snapshot_that_was_replaced_is_gone_with_its_last_reader():
    held = cache(pod("a"))
    before = weakref.ref(held.snapshot())
    gc.disable()
    try:
        held.replace(ClusterObjects())
        assert before() is None
    finally:
        gc.enable()


def test_the_version_counts_changes_and_nothing_else():
    held = ClusterCache()
    versions = [held.version]
    held.replace(ClusterObjects(nodes=(node(),), pods=(pod("a"),)))
    versions.append(held.version)
    held.apply(Change("Pod", pod("a", priority=1)))
    versions.append(held.version)
    held.snapshot()
    held.apply(Change("Pod", pod("a", priority=1)))  # the same again
    held.apply(Change("Pod", pod("unknown"), deleted=True))
    versions.append(held.version)
    assert versions == [0, 1, 2, 2]


def test_an_update_keeps_its_place_in_the_list():
    held = cache(pod("a"), pod("b"))
    held.apply(Change("Pod", pod("a", priority=7)))
    assert pods(held) == [("a", "a", 7), ("b", "b", 0)]


def test_the_same_name_with_a_new_uid_replaces_the_old_pod_and_comes_last():
    held = cache(pod("a", "old"), pod("b"))
    held.apply(Change("Pod", pod("a", "new")))
    assert pods(held) == [("b", "b", 0), ("a", "new", 0)]


def test_a_deletion_takes_the_object_away():
    held = cache(pod("a"), pod("b"))
    held.apply(Change("Pod", pod("a"), deleted=True))
    assert pods(held) == [("b", "b", 0)]


def test_a_late_deletion_of_the_old_uid_does_not_touch_the_new_pod():
    held = cache(pod("a", "new"))
    held.apply(Change("Pod", pod("a", "old"), deleted=True))
    assert pods(held) == [("a", "new", 0)]


def test_a_deletion_without_a_uid_takes_whatever_bears_the_name():
    held = cache(pod("a", "some-uid"))
    held.apply(Change("Pod", Pod(ObjectMeta(name="a", namespace="shop")), deleted=True))
    assert pods(held) == []


def test_pods_of_one_name_in_two_namespaces_are_two():
    held = cache(pod("a"))
    other = pod("a", "other")
    held.apply(Change("Pod", msgspec.structs.replace(other, metadata=ObjectMeta("a", "batch", "other"))))
    assert [one.key for one in held.snapshot().objects.pods.values()] == ["shop/a", "batch/a"]


def test_an_object_that_cannot_be_read_changes_nothing():
    held = cache(pod("a"))
    before, version = held.snapshot(), held.version
    with pytest.raises(ValueError, match="cpu"):
        held.apply(Change("Node", node(cpu="many")))
    with pytest.raises(ValueError, match="many"):
        held.replace(ClusterObjects(nodes=(node(cpu="many"),)))
    assert held.snapshot() is before
    assert held.version == version


def test_the_first_build_is_for_the_kube_scheduler_that_is_wanted_at_its_end():
    """A reload during the first build: its objects are kept, the snapshot is that of the other version."""
    held, newest, oldest = ClusterCache(), KubeScheduler(), kube_scheduler_of({}, version="1.30")
    held.prepare_for(newest)
    steps = held.build({"Node": (node(),), "Pod": (pod("a"),)})
    next(steps)
    held.prepare_for(oldest)
    for _ in steps:
        assert held.version == 0
    assert held.snapshot().features == oldest.features
    assert pods(held) == [("a", "a", 0)]
    assert held.version == 1
    for _ in held.rebuild():
        pass
    assert held.snapshot().features == oldest.features


def test_applying_one_by_one_gives_what_replacing_by_all_gives():
    wanted = stored_cluster(
        {
            "kind": "List",
            "items": [
                {"kind": kind, "metadata": {"name": name}}
                for kind in ("Node", "Pod", "PodDisruptionBudget", "Namespace", "PriorityClass")
                for name in ("x", "y")
            ],
        }
    )
    held = ClusterCache()
    held.replace(ClusterObjects())
    for field, kind in [
        ("nodes", "Node"),
        ("pods", "Pod"),
        ("budgets", "PodDisruptionBudget"),
        ("namespaces", "Namespace"),
        ("priority_classes", "PriorityClass"),
    ]:
        for one in getattr(wanted, field):
            held.apply(Change(kind, one))
    assert held.snapshot().objects.frozen() == wanted
