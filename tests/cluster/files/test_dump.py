"""A cache that is written to a file and read again decides as it did; what cannot be written leaves no half of it."""

import gzip
import json

import pytest
from hypothesis import given
from msgspec.structs import replace

from extender.cluster.files import dump
from extender.core.evaluation import Evaluation
from extender.core.profile import Profile
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.kinds import KINDS, ClusterObjects, kind_without_group
from tests.builders import budget, cluster, incoming, node, pod, stored_cluster, thing, typed
from tests.contract.test_recordings import KINDS as RECORDED_KINDS
from tests.contract.test_recordings import RECORDINGS
from tests.profiles import SEEDS, by_profile, examples
from tests.property.generate import case

RECORDED = sorted(RECORDINGS.glob("*/cluster/*.gz"))
PROFILE = Profile()


def again(objects, path):
    """Return the objects after a dump, read as `--cluster` reads it."""
    dump.write_file(dump.encode_list(objects), path)
    return stored_cluster(path)


def decided(objects, *pods):
    snapshot = Snapshot.build(objects)
    return [Evaluation(snapshot, one, PROFILE).to_dict() for one in pods]


# --- what is read decides as what was written -----------------------------------------------------------------------


@examples(10, 60, 5_000)
@given(seed=SEEDS)
def test_a_dump_of_a_generated_cluster_decides_the_same(seed, tmp_path):
    found = case(seed)
    objects, one = stored_cluster(found.cluster), typed(found.pod)
    assert decided(again(objects, tmp_path / "cluster.json"), one) == decided(objects, one), (
        "the dump decides otherwise than the cluster"
    )


def test_there_are_recorded_clusters():
    assert len(RECORDED) > 20


@pytest.mark.parametrize(
    "path", RECORDED[:: by_profile(3, 1, 1)], ids=lambda path: f"{path.parts[-3]}-{path.name.partition('.')[0]}"
)
def test_a_dump_of_a_recorded_cluster_decides_the_same(path, tmp_path):
    found = json.loads(gzip.decompress(path.read_bytes()))
    items = [{**one, "kind": kind} for key, kind in RECORDED_KINDS.items() for one in found.get(key, ())]
    objects = stored_cluster({"kind": "List", "items": items})
    read = again(objects, tmp_path / "cluster.json.gz")
    pods = [typed(incoming(cpu="2", memory="1Gi")), *objects.pods[:3]]
    assert decided(read, *pods) == decided(objects, *pods)


UNREAD = ("claims", "namespaces", "replica_sets", "volumes")


@examples(6, 30, 5_000)
@given(seed=SEEDS)
def test_what_may_not_be_read_is_not_read_again_either(seed, tmp_path):
    found = case(seed)
    objects = stored_cluster(found.cluster)
    objects = replace(objects, unreadable_tables=UNREAD, **dict.fromkeys(UNREAD, ()))
    read = again(objects, tmp_path / "cluster.json")
    assert read.unreadable_tables == UNREAD
    assert decided(read, typed(found.pod)) == decided(objects, typed(found.pod)), (
        "the dump decides otherwise than the cluster"
    )


def test_some_of_those_decisions_leave_something_out():
    left_out = set()
    for seed in range(60, 90):
        objects = replace(stored_cluster(case(seed).cluster), unreadable_tables=UNREAD, **dict.fromkeys(UNREAD, ()))
        (found,) = decided(objects, typed(case(seed).pod))
        left_out |= found.get("notEvaluated", {}).keys()
    assert {"VolumeBinding", "InterPodAffinity"} <= left_out


def test_every_kind_is_written_with_its_api_group(tmp_path):
    items = [
        thing(
            kind_without_group(kind),
            "one",
            namespace="shop" if of_kind.namespaced else "",
            apiVersion=of_kind.api_version,
        )
        for kind, of_kind in KINDS.items()
    ]
    objects = stored_cluster({"kind": "List", "items": items})
    read = again(objects, tmp_path / "cluster.json")
    written = json.loads((tmp_path / "cluster.json").read_bytes())["items"]
    assert [(one["kind"], one["apiVersion"]) for one in written] == [
        (kind_without_group(kind), of_kind.api_version) for kind, of_kind in KINDS.items()
    ]
    assert all(len(getattr(read, of_kind.field)) == 1 for of_kind in KINDS.values())


def test_pod_groups_of_both_apis_are_written_so_that_each_is_read_as_what_it_is(tmp_path):
    native = thing("PodGroup", "one", namespace="shop", apiVersion="scheduling.k8s.io/v1alpha2")
    native |= {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}
    foreign = thing("PodGroup", "one", namespace="shop", apiVersion="scheduling.x-k8s.io/v1alpha1")
    foreign |= {"spec": {"minMember": 5}}
    objects = stored_cluster({"kind": "List", "items": [foreign, native]})
    assert ([one.minimum for one in objects.pod_groups], [one.minimum for one in objects.coscheduling_groups]) == (
        [3],
        [5],
    )
    assert again(objects, tmp_path / "cluster.json") == objects


def test_what_policies_read_of_pods_and_budgets_is_written_too(tmp_path):
    marks = {"karpenter.sh/do-not-disrupt": "true", "shop/keep": "1"}
    one = pod("a", metadata={"annotations": marks | {"note": "s3cret"}}, terminationGracePeriodSeconds=60)
    one["spec"]["schedulingGroup"] = {"podGroupName": "train"}
    one["status"] |= {"qosClass": "Burstable", "conditions": [{"type": "Ready", "status": "True"}]}
    watched = budget(app="a")
    watched["metadata"]["generation"], watched["status"]["observedGeneration"] = 5, 4
    objects = stored_cluster(cluster({node("n1"): [one]}, budgets=[watched]))
    dump.write_file(dump.encode_list(objects, frozenset({"shop/keep"})), tmp_path / "cluster.json")
    read = stored_cluster(tmp_path / "cluster.json")
    assert read.pods[0].metadata.annotations == marks
    assert (read.pods[0].spec, read.pods[0].status) == (objects.pods[0].spec, objects.pods[0].status)
    assert read.budgets == objects.budgets


def test_an_empty_cluster_can_be_dumped(tmp_path):
    assert again(ClusterObjects(), tmp_path / "cluster.json") == ClusterObjects()


# --- the file -------------------------------------------------------------------------------------------------------

SHOP = stored_cluster(cluster({node("n1"): [pod("a")]}, budgets=[budget(app="a")]))


def test_a_name_that_ends_in_gz_is_compressed(tmp_path):
    dump.write_file(dump.encode_list(SHOP), tmp_path / "cluster.json")
    dump.write_file(dump.encode_list(SHOP), tmp_path / "cluster.json.gz")
    packed = (tmp_path / "cluster.json.gz").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / "cluster.json").read_bytes()
    assert stored_cluster(tmp_path / "cluster.json.gz") == stored_cluster(tmp_path / "cluster.json")


def test_a_dump_of_a_dump_is_the_same_file(tmp_path):
    dump.write_file(dump.encode_list(SHOP), tmp_path / "one.json")
    dump.write_file(dump.encode_list(stored_cluster(tmp_path / "one.json")), tmp_path / "two.json")
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


@pytest.mark.parametrize("name", ["cluster.json", "cluster.json.gz"])
def test_what_fails_half_way_leaves_the_file_that_was_there(name, tmp_path, monkeypatch):
    def fail(*_):
        yield b'{"half": '
        raise OSError("the disk is full")

    path = tmp_path / name
    dump.write_file(dump.encode_list(SHOP), path)
    before = path.read_bytes()
    monkeypatch.setattr(dump, "encode_list", fail)
    with pytest.raises(OSError, match="full"):
        dump.write_file(dump.encode_list(SHOP), path)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == [name]
