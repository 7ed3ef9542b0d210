"""Decoding a manifest by the types of its API version."""

import json
import time
from typing import Any

import pytest

from extender.admission.cluster import AdmissionCluster
from extender.admission.findings import MAX_KEPT
from extender.admission.request import Request
from extender.admission.schema import decode
from extender.k8s.kinds import ObjectTables
from extender.k8s.version.features import Features


def decoded(manifest: dict[str, Any], kind: str = "Pod", minor: int = 37) -> Request:
    request = Request(kind, manifest, AdmissionCluster(ObjectTables(), Features.of(minor), minor))
    decode(request)
    return request


def pod(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}


@pytest.mark.parametrize(
    ("spec", "mistake"),
    [
        ({"priority": "5"}, 'spec.priority: expected an integer, got "5"'),
        ({"priority": 5.0}, "spec.priority: expected an integer, got 5.0"),
        ({"priority": True}, "spec.priority: expected an integer, got true"),
        ({"priority": 2**31}, "spec.priority: expected an integer of 32 bits, got 2147483648"),
        ({"hostNetwork": "yes"}, 'spec.hostNetwork: expected true or false, got "yes"'),
        ({"hostNetwork": 1}, "spec.hostNetwork: expected true or false, got 1"),
        ({"nodeName": 7}, "spec.nodeName: expected a string, got 7; put it in quotes"),
        ({"nodeSelector": {"a/b": 1.1}}, "spec.nodeSelector[a/b]: expected a string, got 1.1; put it in quotes"),
        ({"nodeSelector": []}, "spec.nodeSelector: expected an object, got a list"),
        ({"tolerations": {}}, "spec.tolerations: expected a list, got an object"),
        ({"tolerations": ["a"]}, 'spec.tolerations[0]: expected an object, got "a"'),
        ({"overhead": {"cpu": []}}, "spec.overhead[cpu]: expected a quantity, got a list"),
        ({"overhead": {"cpu": True}}, "spec.overhead[cpu]: expected a quantity, got true"),
        ({"containers": [{"livenessProbe": {"httpGet": {"port": 8.5}}}]},
         "spec.containers[0].livenessProbe.httpGet.port: expected an integer, got 8.5"),
    ],
)  # fmt: skip
def test_wrong_types_are_refused_with_their_places(spec: dict[str, Any], mistake: str) -> None:
    assert decoded(pod(**spec)).findings.invalid == [mistake]


def test_all_wrong_types_are_reported() -> None:
    found = decoded({"metadata": {"creationTimestamp": "yesterday"}, "spec": {"priority": "5", "nodeName": 3}}).findings
    assert [one.partition(":")[0] for one in found.invalid] == [
        "metadata.creationTimestamp",
        "spec.priority",
        "spec.nodeName",
    ]


@pytest.mark.parametrize("text", ["2026-01-31T08:00:00Z", "2026-01-31T08:00:00.123456+02:00", "9999-12-31T23:59:59Z"])
def test_times(text: str) -> None:
    assert not decoded({"metadata": {"creationTimestamp": text}}).findings.invalid


@pytest.mark.parametrize(
    "text", ["", "2026-01-31", "2026-01-31 08:00:00Z", "2026-01-31T08:00:00", "2026-13-31T08:00:00Z"]
)
def test_no_times(text: str) -> None:
    assert decoded({"metadata": {"creationTimestamp": text}}).findings.invalid


def test_null_is_absent_and_the_zero_value_of_an_element() -> None:
    request = decoded(
        pod(
            priority=None,
            nodeSelector={"disk": None},
            tolerations=[None],
            overhead={"cpu": None},
            containers=[{"name": "main", "ports": None, "args": [None]}],
        )
    )
    assert not request.findings.invalid
    assert request.object["spec"] == {
        "nodeSelector": {"disk": ""},
        "tolerations": [{}],
        "overhead": {"cpu": "0"},
        "containers": [{"name": "main", "args": [""]}],
    }


def test_unknown_fields_are_dropped_and_named_with_the_nearest_name() -> None:
    request = decoded(
        pod(hostnetwork=True, nodeSelecter={"a": "b"}, nodeselector={"a": "b"}, nodeSelector={"c": "d"}, x=1)
    )
    assert request.object["spec"] == {"nodeSelector": {"c": "d"}}
    assert request.findings.pruned == [
        "spec.hostnetwork (did you mean hostNetwork?)",
        "spec.nodeSelecter (did you mean nodeSelector?)",
        "spec.nodeselector (did you mean nodeSelector?)",
        "spec.x",
    ]


def test_a_field_belongs_to_its_minors() -> None:
    group = {"podGroupName": "g"}
    assert decoded(pod(schedulingGroup=group)).object["spec"] == {"schedulingGroup": group}
    older = decoded(pod(schedulingGroup=group), minor=35)
    assert older.object["spec"] == {}
    assert older.findings.pruned == ["spec.schedulingGroup (since 1.36)"]
    assert decoded(pod(workloadRef={"name": "w"})).findings.pruned == ["spec.workloadRef (until 1.35)"]


def test_the_manifest_does_not_change() -> None:
    manifest = pod(nodeSelector={"a": "b"}, tolerations=[{"key": "a"}])
    before = json.dumps(manifest)
    request = decoded(manifest)
    request.object["spec"]["tolerations"][0]["key"] = "other"
    request.object["spec"]["nodeSelector"]["a"] = "other"
    assert json.dumps(manifest) == before


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        ("Pod", "v2"),
        ("Deployment", "extensions/v1beta1"),
        ("PodDisruptionBudget", "policy/v1beta1"),
        ("Pod", "apps/v1"),
    ],
)
def test_other_versions_are_refused(kind: str, version: str) -> None:
    invalid = decoded({"apiVersion": version, "metadata": {"name": "a"}}, kind).findings.invalid
    assert len(invalid) == 1
    assert invalid[0].startswith(f'no matches for kind "{kind}" in version "{version}"')


def test_types_of_a_version() -> None:
    claim = {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}}
    for version in ("resource.k8s.io/v1", "resource.k8s.io/v1beta2"):
        request = decoded({"apiVersion": version, **claim}, "ResourceClaim")
        assert request.object == {"apiVersion": version, **claim}
        assert request.findings.pruned == []


def test_custom_resources_keep_all_fields() -> None:
    request = decoded({"metadata": {"name": "g"}, "spec": {"minMember": "x"}}, "PodGroup.scheduling.x-k8s.io")
    assert request.object["spec"] == {"minMember": "x"}
    assert decoded({"metadata": {"name": 1}}, "PodGroup.scheduling.x-k8s.io").findings.invalid


def test_work_and_memory_are_bounded() -> None:
    started = time.process_time()
    many = decoded(pod(tolerations=[1] * 20_000, **{f"key{number}": 1 for number in range(5_000)}))
    assert time.process_time() - started < 0.5
    assert len(many.findings.invalid) == len(many.findings.pruned) == MAX_KEPT
