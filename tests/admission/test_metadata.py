"""Names, labels and selectors, and the metadata that an API server fills in."""

from typing import Any

import pytest

from extender.admission import names, rules
from extender.admission.cluster import AdmissionCluster
from extender.admission.metadata import fill_metadata
from extender.admission.request import Request
from extender.k8s.kinds import ObjectTables
from extender.k8s.objects import ObjectMeta, Pod
from extender.k8s.version.features import Features


def request_of(
    metadata: dict[str, Any], kind: str = "Pod", taken: tuple[str, ...] = (), *, is_state: bool = False
) -> Request:
    tables = ObjectTables(pods={("default", one): Pod(metadata=ObjectMeta(name=one)) for one in taken})
    return Request(kind, {"metadata": metadata}, AdmissionCluster(tables, Features.of(37), 37), is_state)


@pytest.mark.parametrize(
    ("check", "valid", "invalid"),
    [
        (names.dns_label, ["a", "a-1", "1"], ["", "A", "a.b", "-a", "a" * 64]),
        (names.dns_subdomain, ["a", "a.b-1"], ["", "A", "a..b", "a" * 254, "a_b"]),
        (names.dns_1035_label, ["a", "a-1"], ["", "1a", "a.b", "a" * 64]),
        (names.qualified_name, ["a", "a.b/C_d"], ["", "/a", "a/", "A/b", "a/b/c", "a b", "a" * 64]),
        (names.label_value, ["", "A_b.c"], ["a b", "-", "a" * 64]),
        (names.port_name, ["http", "h2-c"], ["", "80", "a--b", "-a", "a" * 16, "A"]),
    ],
)
def test_names(check: Any, valid: list[str], invalid: list[str]) -> None:
    assert [check(one) for one in valid] == [None] * len(valid)
    assert all(check(one) for one in invalid), [check(one) for one in invalid]


def test_generate_name_gives_a_free_name_the_same_each_time() -> None:
    first = request_of({"generateName": "worker-"})
    fill_metadata(first)
    name = first.object["metadata"]["name"]
    assert len(name) == len("worker-") + 5
    assert set(name[-5:]) <= set(names.SAFE_CHARACTERS)
    again = request_of({"generateName": "worker-"})
    fill_metadata(again)
    assert again.object["metadata"]["name"] == name
    beside = request_of({"generateName": "worker-"}, taken=(name,))
    fill_metadata(beside)
    assert beside.object["metadata"]["name"] != name
    further = request_of({"generateName": "worker-"}, taken=("other",))
    fill_metadata(further)
    assert further.object["metadata"]["name"] != name


def test_name_wins_over_generate_name() -> None:
    request = request_of({"name": "a", "generateName": "worker-"})
    fill_metadata(request)
    assert request.object["metadata"]["name"] == "a"


def test_what_only_an_api_server_sets_is_dropped() -> None:
    given = {"name": "a", "resourceVersion": "1", "managedFields": [], "creationTimestamp": "2020-01-01T00:00:00Z"}
    new, state = request_of(dict(given)), request_of(dict(given), is_state=True)
    fill_metadata(new)
    fill_metadata(state)
    assert new.object["metadata"] == {"name": "a", "namespace": "default"}
    assert state.object["metadata"] == {
        "name": "a",
        "namespace": "default",
        "creationTimestamp": "2020-01-01T00:00:00Z",
    }


def test_objects_of_the_cluster_have_no_namespace() -> None:
    request = request_of({"name": "a", "namespace": "shop"}, "Node")
    fill_metadata(request)
    assert request.object["metadata"] == {"name": "a"}


@pytest.mark.parametrize(
    ("metadata", "places"),
    [
        ({}, ["metadata.name"]),
        ({"name": "My_Pod"}, ["metadata.name"]),
        ({"name": "a", "generateName": "worker-"}, []),
        ({"name": "a", "generateName": "Worker-"}, ["metadata.generateName"]),
        ({"name": "a", "namespace": "a.b"}, ["metadata.namespace"]),
        ({"name": "a", "labels": {"a b": "c d"}}, ["metadata.labels", "metadata.labels"]),
        ({"name": "a", "annotations": {"Team": "any text", "a b": ""}}, ["metadata.annotations"]),
        ({"name": "a", "annotations": {"a": "x" * (256 << 10)}}, ["metadata.annotations"]),
        ({"name": "a", "finalizers": ["a b"]}, ["metadata.finalizers[0]"]),
        ({"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "Job", "uid": "u"}]},
         ["metadata.ownerReferences[0].name"]),
    ],
)  # fmt: skip
def test_metadata_is_checked(metadata: dict[str, Any], places: list[str]) -> None:
    request = request_of(metadata, "Node")
    rules.validate(request)
    assert [one.partition(":")[0] for one in request.findings.invalid] == places


def test_one_owner_controls() -> None:
    owner = {"apiVersion": "v1", "kind": "Job", "name": "j", "controller": True}
    request = request_of({"name": "a", "ownerReferences": [owner, owner]}, "Node")
    rules.validate(request)
    assert len(request.findings.invalid) == 1
    assert request.findings.left_out == ["metadata.ownerReferences[0].uid", "metadata.ownerReferences[1].uid"]


@pytest.mark.parametrize(
    ("selector", "places"),
    [
        ({}, []),
        ({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "Exists"}]}, []),
        ({"matchLabels": {"a b": ""}}, ["s.matchLabels"]),
        ({"matchExpressions": [{"key": "a", "operator": "in"}]}, ["s.matchExpressions[0].operator"]),
        ({"matchExpressions": [{"key": "a", "operator": "In"}]}, ["s.matchExpressions[0].values"]),
        ({"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}, ["s.matchExpressions[0].values"]),
        ({"matchExpressions": [{"key": "", "operator": "In", "values": ["b c"]}]},
         ["s.matchExpressions[0].key", "s.matchExpressions[0].values[0]"]),
    ],
)  # fmt: skip
def test_label_selectors(selector: dict[str, Any], places: list[str]) -> None:
    request = request_of({})
    rules.validate_type(request, "meta.v1.LabelSelector", "s", selector)
    assert [one.partition(":")[0] for one in request.findings.invalid] == places
