"""Resource claims in a simulation: which devices pods get, and what becomes of them when pods go."""

import msgspec
import pytest

from extender.core.profile import KubeScheduler, Profile
from extender.errors import RequestError
from extender.whatif.scenario import Scenario
from extender.whatif.simulator import simulate
from tests.builders import JSON, built, cluster, incoming, node, pod, thing, typed, written
from tests.device_builders import claim, device_class, devices, request, resource_slice, using_claims

TEMPLATE = thing("ResourceClaimTemplate", "t", namespace="default", spec={"spec": claim("x", request())["spec"]})
OF_TEMPLATE: JSON = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}


def here(*others: JSON, nodes: dict | None = None, count: int = 2):
    """Nodes n1 and n2 with that many devices each."""
    nodes = nodes or {node("n1"): [], node("n2"): []}
    slices = [resource_slice(one.name, one.name, devices(count)) for one in nodes]
    return built(cluster(nodes, others=[device_class(), *slices, *others]))


def run(snapshot, *arriving, **options):
    return simulate(snapshot, KubeScheduler((Profile(),)), Scenario([typed(one) for one in arriving], **options))


def devices_of(result):
    """`pod node claim: pool/device …` of each cycle that bound a pod."""
    return [
        f"{one.pod.removeprefix('default/')} {one.node} "
        + "; ".join(
            f"{own.claim.removeprefix('default/')} {own.allocation}: "
            + " ".join(f"{given.pool}/{given.device}" for given in own.devices)
            for own in one.claims
        )
        for one in result.cycles
        if one.outcome == "Scheduled"
    ]


def test_a_bound_pod_takes_its_devices_from_the_next_one():
    snapshot = here(*(claim(f"c{name}", request()) for name in "abc"), nodes={node("n1"): []})
    result = run(snapshot, *(incoming(name, **using_claims(f"c{name}")) for name in "abc"))
    assert devices_of(result) == ["a n1 ca new: n1/gpu-0", "b n1 cb new: n1/gpu-1"]
    (left,) = result.pending
    assert left.pod == "default/c"
    assert left.message.startswith("0/1 nodes are available: 1 cannot allocate all claims.")


def test_the_claim_is_stored_as_kube_scheduler_would():
    snapshot = here(claim("mine", request("gpu", count=2)))
    run(snapshot, incoming("a", **using_claims("mine"), nodeSelector={"kubernetes.io/hostname": "n2"}))
    stored = msgspec.to_builtins(snapshot.objects.resource_claims["default", "mine"].status)
    results = [{"request": "r", "driver": "gpu.example.com", "pool": "n2", "device": f"gpu-{at}"} for at in range(2)]
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]
    assert stored == {
        "allocation": {
            "devices": {"results": results},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
        },
        "reservedFor": [{"resource": "pods", "name": "a", "uid": "uid-a"}],
    }


def test_pods_that_share_a_claim_run_where_it_is_allocated():
    snapshot = here(claim("shared", request()))
    result = run(snapshot, *(incoming(name, **using_claims("shared")) for name in "ab"))
    assert devices_of(result) == ["a n1 shared new: n1/gpu-0", "b n1 shared existing: n1/gpu-0"]
    stored = snapshot.objects.resource_claims["default", "shared"]
    assert [one.name for one in stored.status.reserved_for] == ["a", "b"]


def test_an_evicted_pod_releases_its_claim_and_its_devices():
    """The resource claim controller deallocates a claim that no pod uses any more."""
    weak = pod("weak", cpu="3", **using_claims("theirs"))
    theirs = claim("theirs", request(), allocated=[("n1", "gpu-0")], node="n1", reserved_for=["weak"])
    snapshot = here(theirs, claim("mine", request()), nodes={node("n1"): [weak]}, count=1)
    result = run(
        snapshot,
        incoming("strong", cpu="3"),
        incoming("late", cpu="1", priority=5, **using_claims("mine")),
    )
    assert [one.outcome for one in result.cycles if one.pod == "default/strong"] == ["Nominated", "Scheduled"]
    assert devices_of(result) == ["late n1 mine new: n1/gpu-0", "strong n1 "]
    assert snapshot.objects.resource_claims["default", "theirs"].status.allocation is None


def test_a_shared_claim_stays_allocated_while_another_pod_uses_it():
    pods = [pod(name, **using_claims("both")) for name in ("weak", "other")]
    both = claim("both", request(), allocated=[("n1", "gpu-0")], node="n1", reserved_for=["weak", "other"])
    pods[1]["spec"]["priority"] = 5000
    snapshot = here(both, nodes={node("n1", cpu="2"): pods}, count=1)
    run(snapshot, incoming("strong", cpu="1"))
    stored = snapshot.objects.resource_claims["default", "both"].status
    assert [one.name for one in stored.reserved_for] == ["other"]
    assert stored.allocation is not None


def test_a_claim_that_was_created_for_a_pod_goes_with_it():
    made = claim("weak-gpu", request(), allocated=[("n1", "gpu-0")], node="n1", reserved_for=["weak"], owner="weak")
    weak = pod(
        "weak",
        cpu="3",
        resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}],
        status={"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "weak-gpu"}]},
    )
    snapshot = here(made, nodes={node("n1"): [weak]}, count=1)
    run(snapshot, incoming("strong", cpu="3"))
    assert ("default", "weak-gpu") not in snapshot.objects.resource_claims


@pytest.mark.parametrize(
    ("others", "hint"),
    [
        (
            [],
            "no ResourceClaimTemplate t to create a claim from: put it beside a new pod, or put a ResourceClaim with ",
        ),
        ([TEMPLATE], "claims of ResourceClaimTemplate t are created for new pods only: put a ResourceClaim with its "),
    ],
    ids=["no template", "stored pod"],
)
def test_a_claim_of_a_template_that_is_not_created_is_said_with_what_to_do(others, hint):
    result = run(here(*others), incoming("a", **OF_TEMPLATE))
    (cycle,) = result.cycles
    assert cycle.outcome == "Skipped"
    assert cycle.message == 'not tried: pod "default/a": ResourceClaim not created yet'
    assert cycle.hint is not None
    assert cycle.hint.startswith(hint)


def test_a_new_pod_gets_a_claim_from_its_template():
    new = written(pod("a", **OF_TEMPLATE))
    for snapshot, beside in ((here(TEMPLATE), []), (here(), [written(TEMPLATE)])):
        result = simulate(snapshot, KubeScheduler(), Scenario([new, written(pod("b", **OF_TEMPLATE))], claims=beside))
        assert devices_of(result) == ["a n1 a-gpu-1 new: n1/gpu-0", "b n2 b-gpu-2 new: n2/gpu-0"]
        owner = snapshot.objects.resource_claims["default", "a-gpu-1"].metadata.controller
        assert owner is not None
        assert (owner.kind, owner.name) == ("Pod", "a")


def test_a_claim_that_does_not_exist_is_said_without_a_hint():
    (cycle,) = run(here(), incoming("a", **using_claims("nowhere"))).cycles
    assert (cycle.message, cycle.hint) == ('not tried: could not find ResourceClaim "default/nowhere"', None)


def test_extended_resources_get_a_claim_of_their_own():
    snapshot = built(
        cluster(
            {node("n1"): []},
            others=[device_class("gpu", extended_resource="example.com/gpu"), resource_slice("s", "n1", devices(2))],
        )
    )
    result = run(snapshot, *(incoming(name, requests={"example.com/gpu": "1"}) for name in "abc"))
    assert devices_of(result) == [
        "a n1 a-extended-resources-simulated created: n1/gpu-0",
        "b n1 b-extended-resources-simulated created: n1/gpu-1",
    ]
    assert [one.pod for one in result.pending] == ["default/c"]
    status = snapshot.objects.pods["default", "a"].status.extended_resource_claim_status
    assert status is not None
    assert status.resource_claim_name == "a-extended-resources-simulated"


def test_a_claim_that_nobody_uses_is_deallocated_where_its_pod_does_not_fit():
    unused = claim("mine", request(), allocated=[("n1", "gpu-0")], node="n1")
    nodes = {node("n1", cpu="1"): [pod("full", priority=5000)], node("n2"): []}
    result = run(here(unused, nodes=nodes), incoming("a", **using_claims("mine")))
    assert [(one.outcome, one.deallocated) for one in result.cycles] == [
        ("Unschedulable", "default/mine"),
        ("Scheduled", None),
    ]
    assert devices_of(result) == ["a n2 mine new: n2/gpu-0"]


def test_a_claim_comes_with_its_pod():
    mine = written(claim("mine", request()))
    assert devices_of(run(here(), incoming("a", **using_claims("mine")), claims=[mine])) == ["a n1 mine new: n1/gpu-0"]


@pytest.mark.parametrize(
    "asked",
    [
        {"name": "r", "exactly": {"deviceClassName": "gpu"}},
        {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount"}},
        {"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "gpu"}]},
    ],
    ids=["no mode", "no count", "alternative"],
)
def test_a_claim_as_a_person_writes_it_asks_for_one_device(asked):
    mine = written(claim("mine", asked))
    assert devices_of(run(here(), incoming("a", **using_claims("mine")), claims=[mine])) == ["a n1 mine new: n1/gpu-0"]


def test_a_claim_that_asks_for_all_devices_has_no_count():
    asked = {"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "All"}}
    mine = written(claim("mine", asked))
    result = run(here(), incoming("a", **using_claims("mine")), claims=[mine])
    assert devices_of(result) == ["a n1 mine new: n1/gpu-0 n1/gpu-1"]


def test_two_claims_of_one_name_are_refused():
    mine = written(claim("mine", request()))
    with pytest.raises(RequestError, match="duplicate ResourceClaim 'default/mine'"):
        run(here(), incoming("a", **using_claims("mine")), claims=[mine, mine])


def test_a_claim_that_comes_with_a_pod_does_not_replace_an_allocated_one():
    mine = written(claim("mine", request()))
    snapshot = here(claim("mine", request(), allocated=[("n1", "gpu-0")], node="n1"))
    with pytest.raises(RequestError, match="resource claim 'default/mine' already exists and is allocated"):
        run(snapshot, incoming("a", **using_claims("mine")), claims=[mine])


def test_a_pod_that_waits_for_the_claim_of_another_is_tried_again_once_that_is_bound():
    """`late` cannot use the shared claim before the first pod has allocated it on a node with room for both."""
    snapshot = here(claim("shared", request()), nodes={node("n1", cpu="4"): [], node("n2", cpu="1"): []}, count=1)
    result = run(snapshot, incoming("a", cpu="2", **using_claims("shared")), incoming("b", **using_claims("shared")))
    assert devices_of(result) == ["a n1 shared new: n1/gpu-0", "b n1 shared existing: n1/gpu-0"]


def test_a_cluster_file_of_other_kinds_is_left_alone():
    snapshot = built(cluster({node("n1"): []}, others=[thing("Namespace", "default")]))
    (cycle,) = run(snapshot, incoming("a")).cycles
    assert (cycle.claims, cycle.deallocated) == ([], None)


# --- evicted pods come back with claims of their own ------------------------------------------------------------------

OWNER: JSON = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "weak", "uid": "uid-set", "controller": True}


def test_a_pod_that_comes_back_gets_a_claim_like_the_one_of_the_evicted_pod():
    made = claim(
        "weak-abcde-gpu",
        request(),
        allocated=[("n1", "gpu-0")],
        node="n1",
        reserved_for=["weak-abcde"],
        owner="weak-abcde",
    )
    weak = pod(
        "weak-abcde",
        cpu="3",
        metadata={"ownerReferences": [OWNER]},
        resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}],
        status={"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "weak-abcde-gpu"}]},
    )
    snapshot = here(made, nodes={node("n1"): [weak], node("n2"): []}, count=1)
    result = run(snapshot, incoming("strong", cpu="3", nodeSelector={"kubernetes.io/hostname": "n1"}))
    (back,) = [one for one in result.cycles if one.pod == "default/weak-bbbbb"]
    assert (back.outcome, back.node, [one.allocation for one in back.claims]) == ("Scheduled", "n2", ["new"])
    (name,) = [name for _, name in snapshot.objects.resource_claims]
    assert back.claims[0].claim == f"default/{name}"
    owner = snapshot.objects.resource_claims["default", name].metadata.controller
    assert owner is not None
    assert owner.name == "weak-bbbbb"


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
def test_a_pod_that_comes_back_gets_new_claims_for_its_ephemeral_volumes(kind):
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "weak-0", "uid": "uid-weak-0", "controller": True}
    scratch = thing(
        "PersistentVolumeClaim",
        "weak-0-scratch",
        namespace="default",
        metadata={"ownerReferences": [owner], "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        spec={"volumeName": "v", "storageClassName": "later", "resources": {"requests": {"storage": "1Gi"}}},
        status={"phase": "Bound"},
    )
    later = thing("StorageClass", "later", provisioner="disk", volumeBindingMode="WaitForFirstConsumer")
    volume = thing("PersistentVolume", "v", spec={"storageClassName": "later", "capacity": {"storage": "1Gi"}})
    weak = pod(
        "weak-0",
        cpu="3",
        metadata={"ownerReferences": [OWNER | {"kind": kind}]},
        volumes=[{"name": "scratch", "ephemeral": {}}],
    )
    snapshot = built(cluster({node("n1"): [weak], node("n2"): []}, others=[later, volume, scratch]))
    result = run(snapshot, incoming("strong", cpu="3", nodeSelector={"kubernetes.io/hostname": "n1"}))
    (back,) = result.replacements
    assert (back.outcome, back.node) == ("Scheduled", "n2")
    name = back.pod.removeprefix("default/")
    stored = snapshot.objects.claims["default", f"{name}-scratch"]
    assert (stored.spec.volume_name, stored.spec.storage_class_name) == ("", "later")
    assert stored.metadata.annotations == {"volume.kubernetes.io/selected-node": "n2"}
