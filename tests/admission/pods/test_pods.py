"""Admission of pods beyond the pairs: older minors, pods of cluster files, templates, and the cost of hostile ones."""

import time
from typing import Any

import pytest

from extender.admission import rules
from extender.admission.admit import admit
from extender.admission.cluster import AdmissionCluster
from extender.admission.findings import Refused
from extender.admission.request import Manifest, Request
from extender.k8s.kinds import ObjectTables
from extender.k8s.objects import ObjectMeta
from extender.k8s.version.features import Features
from extender.k8s.workloads import PodGroup

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
LABELS = {"app": "web", "version": "v2"}


def cluster(minor: int = 37, tables: ObjectTables | None = None, gates: dict[str, bool] | None = None) -> Any:
    return AdmissionCluster(tables or ObjectTables(), Features.of(minor, gates or {}), minor)


def pod(**spec: Any) -> Manifest:
    metadata = {"name": "a", "labels": LABELS}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container()], **spec}}


def container(name: str = "main", **fields: Any) -> Manifest:
    return {"name": name, "image": "app", **fields}


def anti_affinity(**term: Any) -> Manifest:
    return {"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone", "labelSelector": {}, **term}]}}


def spec_of(manifest: Manifest, minor: int = 37, *, is_state: bool = False, **gates: bool) -> Manifest:
    spec: Manifest = admit("Pod", manifest, cluster(minor, gates=gates), is_state=is_state)[0]["spec"]
    return spec


# --- selectors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("minor", "term"),
    [
        (30, {"labelSelector": {}}),
        (31, {"matchLabelKeys": ["version"],
              "labelSelector": {"matchExpressions": [{"key": "version", "operator": "In", "values": ["v2"]}]}}),
    ],
)  # fmt: skip
def test_label_keys_of_affinity_by_minor(minor: int, term: Manifest) -> None:
    spec = spec_of(pod(affinity=anti_affinity(matchLabelKeys=["version"])), minor)
    assert spec["affinity"]["podAntiAffinity"][REQUIRED] == [{"topologyKey": "zone", **term}]


@pytest.mark.parametrize(("minor", "is_merged"), [(33, False), (34, True)])
def test_label_keys_of_spread_constraints_by_minor(minor: int, is_merged: bool) -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {},
        "matchLabelKeys": ["version"],
    }
    merged = {"matchExpressions": [{"key": "version", "operator": "In", "values": ["v2"]}]} if is_merged else {}
    assert spec_of(pod(topologySpreadConstraints=[constraint]), minor)["topologySpreadConstraints"] == [
        {**constraint, "labelSelector": merged}
    ]


def test_a_pod_that_was_admitted_before_is_as_it_was() -> None:
    once = admit("Pod", pod(affinity=anti_affinity(matchLabelKeys=["version"]), nodeName="n1"), cluster())[0]
    assert admit("Pod", once, cluster(), is_state=True)[0] == once
    with pytest.raises(Refused, match="exists in both matchLabelKeys and labelSelector"):
        admit("Pod", once, cluster())


# --- status and gates -------------------------------------------------------------------------------------------------


def test_status_counts_for_a_pod_of_the_cluster_only() -> None:
    manifest = pod() | {"status": {"phase": "Running", "nominatedNodeName": "n1"}}
    assert admit("Pod", manifest, cluster())[0]["status"] == {"phase": "Pending"}
    assert admit("Pod", manifest, cluster(), is_state=True)[0]["status"] == manifest["status"]


def test_gated_pods_say_so() -> None:
    conditions = admit("Pod", pod(schedulingGates=[{"name": "a/b"}]), cluster())[0]["status"]["conditions"]
    assert [(one["type"], one["status"], one["reason"]) for one in conditions] == [
        ("PodScheduled", "False", "SchedulingGated")
    ]


def test_fields_of_disabled_gates_are_dropped() -> None:
    resources = {"requests": {"cpu": "1"}}
    assert "resources" in spec_of(pod(resources=resources), 34)
    assert "resources" not in spec_of(pod(resources=resources), 33)
    assert "resources" not in spec_of(pod(resources=resources), 34, PodLevelResources=False)
    policy = [container(restartPolicy="Never")]
    assert "restartPolicy" in spec_of(pod(containers=policy), 35)["containers"][0]
    assert "restartPolicy" not in spec_of(pod(containers=policy), 34)["containers"][0]
    with pytest.raises(Refused, match="may not be set for non-init containers"):
        spec_of(pod(containers=policy), 33)


def test_a_scheduling_group_needs_pod_groups() -> None:
    manifest = pod(schedulingGroup={"podGroupName": "g"})
    assert "schedulingGroup" not in spec_of(manifest)
    tables = ObjectTables(pod_groups={("default", "g"): PodGroup(metadata=ObjectMeta(name="g"))})
    assert "schedulingGroup" in admit("Pod", manifest, cluster(tables=tables))[0]["spec"]


def test_tolerations_compare_if_the_gate_is_on() -> None:
    manifest = pod(tolerations=[{"key": "sla", "operator": "Gt", "value": "95"}])
    assert spec_of(manifest, TaintTolerationComparisonOperators=True)["tolerations"][0]["operator"] == "Gt"
    with pytest.raises(Refused, match="operator: Unsupported value"):
        spec_of(manifest)
    wrong = pod(tolerations=[{"key": "sla", "operator": "Gt", "value": "095"}])
    with pytest.raises(Refused, match="must be a decimal integer"):
        spec_of(wrong, TaintTolerationComparisonOperators=True)


@pytest.mark.parametrize(("minor", "limits"), [(36, {}), (37, {"limits": {"cpu": "2"}})])
def test_pod_level_limits_are_completed_since_1_37(minor: int, limits: Manifest) -> None:
    manifest = pod(
        containers=[container(resources={"limits": {"cpu": "2"}, "requests": {"cpu": "1"}})],
        resources={"requests": {"cpu": "1"}},
    )
    assert spec_of(manifest, minor)["resources"] == {"requests": {"cpu": "1"}, **limits}


# --- left out, and templates ------------------------------------------------------------------------------------------


def test_name_and_image_may_be_left_out_unless_strict() -> None:
    manifest = pod(containers=[{}])
    assert admit("Pod", manifest, cluster())[1].left_out == ["spec.containers[0].image", "spec.containers[0].name"]
    with pytest.raises(Refused, match=r"spec.containers\[0\].image: Required value; .*name: Required value"):
        admit("Pod", manifest, cluster(), strict=True)


@pytest.mark.parametrize(
    ("spec", "mistakes"),
    [
        ({"hostNetwork": True, "containers": [container(ports=[{"containerPort": 80}])]}, []),
        ({"hostNetwork": True, "containers": [container(ports=[{"containerPort": 80, "hostPort": 81}])]},
         ["t.spec.containers[0].ports[0].hostPort"]),
        ({"containers": []}, ["t.spec.containers"]),
        ({"containers": [container()], "ephemeralContainers": [container("debug")]}, ["t.spec.ephemeralContainers"]),
        ({"containers": [container()], "tolerations": [{}]}, ["t.spec.tolerations[0].operator"]),
    ],
)  # fmt: skip
def test_templates(spec: Manifest, mistakes: list[str]) -> None:
    request = Request("Deployment", {}, cluster())
    rules.validate_type(request, "core.v1.PodTemplateSpec", "t", {"spec": spec})
    assert [one.partition(": ")[0] for one in request.findings.invalid] == mistakes


def test_all_mistakes_are_reported_with_their_places() -> None:
    with pytest.raises(Refused) as refused:
        spec_of(pod(nodeName="N 1", nodeSelector={"a": "b c"}, tolerations=[{"effect": "NoSchedul"}], priority=1))
    message = str(refused.value)
    for place in ("spec.nodeName", "spec.nodeSelector", "spec.tolerations[0].operator", "spec.tolerations[0].effect"):
        assert f"{place}: " in message


# --- cost -------------------------------------------------------------------------------------------------------------

COUNT = 1_000
HOSTILE: dict[str, Manifest] = {
    "claims of containers": pod(
        resourceClaims=[{"name": f"c{one}", "resourceClaimName": "x"} for one in range(COUNT)],
        containers=[container(f"m{one}", resources={"claims": [{"name": "absent"}]}) for one in range(COUNT)],
    ),
    "spread constraints": pod(
        topologySpreadConstraints=[
            {"maxSkew": 0, "topologyKey": f"k{one}", "whenUnsatisfiable": "DoNotSchedule"} for one in range(COUNT)
        ]
    ),
    "label keys": pod(
        affinity=anti_affinity(
            matchLabelKeys=[f"k{one}" for one in range(COUNT)], mismatchLabelKeys=[f"k{one}" for one in range(COUNT)]
        )
    ),
    "volumes": pod(
        volumes=[{"name": f"v{one}", "ephemeral": {}} for one in range(COUNT)],
        containers=[container(volumeMounts=[{"name": "absent", "mountPath": "/a"}] * COUNT)],
    ),
    "ports": pod(
        hostNetwork=True, containers=[container(ports=[{"containerPort": one} for one in range(1, COUNT)] * 2)]
    ),
    "sidecars": pod(
        resources={"limits": {"cpu": "1"}},
        initContainers=[
            container(f"i{one}", restartPolicy="Always", resources={"limits": {"cpu": "1", "memory": f"{one}Mi"}})
            for one in range(COUNT)
        ],
    ),
}


@pytest.mark.parametrize("manifest", HOSTILE.values(), ids=HOSTILE)
def test_cost_grows_with_the_pod(manifest: Manifest) -> None:
    started = time.process_time()
    with pytest.raises(Refused):
        spec_of(manifest)
    assert time.process_time() - started < 1
