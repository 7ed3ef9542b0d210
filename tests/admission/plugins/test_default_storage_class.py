"""DefaultStorageClass: the class of a claim without one."""

from extender.admission.plugins import default_storage_class
from tests.admission.plugins.requests import WHOLE, claim, cluster, request

GA, BETA = "storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"


def storage_class(name, annotation=GA, value="true", created=None):
    metadata = {"name": name, "annotations": {annotation: value}, "creationTimestamp": created}
    return {"kind": "StorageClass", "metadata": metadata, "provisioner": "p"}


def admitted(one, *objects, unreadable=()):
    made = request("PersistentVolumeClaim", one, cluster(*objects, unreadable=unreadable))
    default_storage_class.admit(made)
    return made.object["spec"].get("storageClassName"), made.findings.assumed


def test_a_claim_without_a_class_gets_the_default_one():
    assert admitted(claim(), storage_class("other", value="false"), storage_class("fast")) == ("fast", [])
    assert admitted(claim(), storage_class("old", BETA)) == ("old", [])


def test_the_newest_of_several_counts_then_the_first_by_name():
    older, newer = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    assert admitted(claim(), storage_class("a", created=older), storage_class("b", created=newer))[0] == "b"
    assert admitted(claim(), storage_class("b", created=older), storage_class("a", created=older))[0] == "a"
    assert admitted(claim(), storage_class("b"), storage_class("a"))[0] == "a"


def test_a_class_that_is_given_stays():
    assert admitted(claim(storageClassName=""), storage_class("fast"))[0] == ""
    assert admitted(claim(storageClassName="slow"), storage_class("fast"))[0] == "slow"
    annotated = claim()
    annotated["metadata"]["annotations"] = {"volume.beta.kubernetes.io/storage-class": "slow"}
    assert admitted(annotated, storage_class("fast"))[0] is None


def test_without_a_default_class_there_is_none():
    assert admitted(claim(), WHOLE) == (None, [])
    assert admitted(claim()) == (None, ["the default StorageClass"])
    assert admitted(claim(), WHOLE, unreadable=("storage_classes",)) == (None, ["the default StorageClass"])
