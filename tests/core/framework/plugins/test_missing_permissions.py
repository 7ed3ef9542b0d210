"""Objects that the extender may not list are not treated as missing: the plugins that need them are not evaluated."""

from dataclasses import replace
from typing import Any

import pytest

from extender.api import load_cluster
from extender.core import engine
from extender.core.evaluation import Evaluation
from extender.core.profile import PreemptionPolicy, Profile
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.candidates import SentCandidate
from extender.k8s.objects import TopologySpreadConstraint
from extender.k8s.version.features import DEFAULT_FEATURES
from tests.builders import built, cluster, incoming, node, pod, typed
from tests.device_builders import claim, using_claims

DEFAULT = Profile()
CLAIM: dict[str, Any] = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
TERM: dict[str, Any] = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
SELECTING: dict[str, Any] = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                TERM | {"namespaceSelector": {"matchLabels": {"team": "a"}}}
            ]
        }
    }
}
NAMING: dict[str, Any] = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}}


def without_permission(*fields, running=()):
    snapshot = built(cluster({node("n1", cpu="2"): running, node("n2"): []}))
    snapshot.unreadable_tables = frozenset(fields)
    return snapshot


def not_evaluated(snapshot, pod, profile=DEFAULT):
    decision = engine.filter(snapshot, typed(pod), ["n1", "n2"], profile)
    return decision.not_evaluated, len(decision.accepted)


@pytest.mark.parametrize(
    ("fields", "spec", "expected"),
    [
        pytest.param(
            ["claims"],
            CLAIM,
            ("NodeVolumeLimits", "VolumeBinding", "VolumeRestrictions", "VolumeZone"),
            id="a pod with a claim, where claims may not be read",
        ),
        pytest.param(["csi_storage_capacities"], CLAIM, ("VolumeBinding",), id="with a claim, without capacities"),
        pytest.param(["claims", "volumes", "storage_classes"], {}, (), id="a pod without volumes needs no claims"),
        pytest.param(["namespaces"], SELECTING, ("InterPodAffinity",), id="a term that selects namespaces"),
        pytest.param(["namespaces"], NAMING, (), id="a term that selects none needs no namespaces"),
        pytest.param(["services", "replica_sets"], {}, (), id="the default spread is not a filter"),
        pytest.param(["device_classes", "priority_classes"], CLAIM | NAMING, (), id="kinds that no filter needs"),
    ],
)
def test_a_filter_without_permission_is_not_evaluated(fields, spec, expected):
    assert not_evaluated(without_permission(*fields), incoming(**spec))[0] == expected


def test_an_unreadable_claim_rejects_no_node():
    assert not_evaluated(without_permission("claims"), incoming(**CLAIM))[1] == 2


def test_a_missing_claim_rejects_the_pod_where_claims_are_readable():
    assert not_evaluated(without_permission(), incoming(**CLAIM)) == ((), 0)


def test_a_running_pod_with_a_namespace_selector_requires_namespaces():
    snapshot = without_permission("namespaces", running=[pod("a", **SELECTING)])
    assert not_evaluated(snapshot, incoming())[0] == ("InterPodAffinity",)


def test_hard_default_constraints_require_services_and_controllers():
    hard = TopologySpreadConstraint(1, "kubernetes.io/hostname", "DoNotSchedule")
    profile = Profile(default_spread_constraints=(hard,))
    assert not_evaluated(without_permission("services"), incoming(), profile)[0] == ("PodTopologySpread",)


def test_a_score_plugin_without_permission_is_skipped():
    scored = Evaluation(without_permission(), typed(incoming()), Profile()).to_dict()["scores"]["n2"]
    left = Evaluation(without_permission("services"), typed(incoming()), Profile()).to_dict()["scores"]["n2"]
    assert "InterPodAffinity" not in left
    assert {name: value for name, value in scored.items() if name != "PodTopologySpread"} == {
        name: value for name, value in left.items() if name != "PodTopologySpread"
    }


def test_preemption_keeps_the_schedulers_victims_without_permission():
    snapshot = without_permission("claims", running=[pod("a"), pod("b", priority=5)])
    decision = engine.preempt(snapshot, typed(incoming(**CLAIM)), {"n1": SentCandidate(("uid-b",))}, Profile())
    assert [(one.node, [victim.metadata.name for victim in one.victims]) for one in decision.kept] == [("n1", ["b"])]
    assert decision.as_sent == {"n1"}


@pytest.mark.parametrize("resource", ["example.com/gpu", "deviceclass.resource.kubernetes.io/gpu"])
def test_with_unreadable_device_classes_any_extended_resource_may_be_backed_by_one(resource):
    asking = incoming(requests={resource: "1"})
    assert not_evaluated(without_permission(), asking) == ((), 0)
    assert not_evaluated(without_permission("device_classes"), asking) == (("DynamicResources",), 2)
    assert not_evaluated(without_permission("resource_claims", "resource_slices"), asking) == ((), 0)


@pytest.mark.parametrize("field", ["resource_claims", "resource_slices", "device_classes"])
def test_a_pod_with_resource_claims_is_not_evaluated_where_what_they_need_may_not_be_read(field):
    assert not_evaluated(without_permission(field), incoming(**using_claims("gpu"))) == (("DynamicResources",), 2)
    assert not_evaluated(without_permission(field), incoming()) == ((), 2)


def test_device_taint_rules_are_needed_where_their_gate_is_on():
    for on, plugins in ((False, ()), (True, ("DynamicResources",))):
        objects = load_cluster(cluster({node("n1"): [], node("n2"): []}, others=[claim("gpu")]))
        snapshot = Snapshot.build(objects, replace(DEFAULT_FEATURES, dra_device_taint_rules=on))
        snapshot.unreadable_tables = frozenset({"device_taint_rules"})
        assert not_evaluated(snapshot, incoming(**using_claims("gpu"))) == (plugins, 2)


def test_a_node_whose_device_plugin_has_the_resource_is_evaluated_although_device_classes_may_not_be_read():
    gpu = {"example.com/gpu": "1"}
    snapshot = built(cluster({node("n1", allocatable=gpu): [], node("n2"): []}))
    snapshot.unreadable_tables = frozenset({"device_classes"})
    evaluation = Evaluation(snapshot, typed(incoming(requests=gpu)), Profile()).to_dict()
    assert evaluation["notEvaluated"] == {"DynamicResources": ["n2"]}
    assert {name: one["code"] for name, one in evaluation["filter"].items()} == {"n1": "Success", "n2": "Success"}


# --- what protects pods ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "policy", "vetoed"),
    [
        (
            ["namespaces"],
            {"tenant_label": "team"},
            "cannot determine the pod's tenant: no permission to list Namespaces",
        ),
        (["namespaces"], {"preemption_toleration": True}, None),
        (
            ["priority_classes"],
            {"preemption_toleration": True},
            "cannot determine preemption tolerations: no permission to list PriorityClasses",
        ),
        (["priority_classes", "namespaces"], {}, None),
    ],
)
def test_no_pod_is_evicted_if_protections_cannot_be_evaluated(fields, policy, vetoed):
    """n1 has 2 cores: a takes them, the preemptor wants them."""
    snapshot = without_permission(*fields, running=[pod("a", cpu="2")])
    profile = Profile(preemption=PreemptionPolicy(**policy))
    decision = engine.preempt(snapshot, typed(incoming(cpu="2")), {"n1": SentCandidate(("uid-a",))}, profile)
    assert decision.vetoed == vetoed
    assert [candidate.node for candidate in decision.kept] == ([] if vetoed else ["n1"])


def test_without_csi_drivers_nothing_is_known_of_limits_where_these_scale():
    """VolumeLimitScaling asks the CSIDriver; without the gate NodeVolumeLimits does not read it."""
    for on, plugins in ((False, {"VolumeBinding"}), (True, {"NodeVolumeLimits", "VolumeBinding"})):
        objects = load_cluster(cluster({node("n1", cpu="2"): [], node("n2"): []}))
        snapshot = Snapshot.build(objects, replace(DEFAULT_FEATURES, volume_limit_scaling=on))
        snapshot.unreadable_tables = frozenset({"csi_drivers"})
        assert set(not_evaluated(snapshot, incoming(**CLAIM))[0]) == plugins
