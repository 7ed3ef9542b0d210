"""DynamicResources: every verdict that is evaluated was also asked of kube-scheduler 1.36 itself."""

import pytest

import extender
from extender.config.scheduler.load import kube_scheduler_of
from extender.core import engine
from extender.core.devices.device_index import DeviceIndex
from extender.core.evaluation import Evaluation
from extender.core.eviction_history import EvictionHistory
from extender.core.framework.filter import run_filter_plugins, scheduling_context
from extender.core.framework.plugins.dynamic_resources import verdicts
from extender.core.profile import FILTER_PLUGINS, UPSTREAM, KubeScheduler, Profile
from extender.core.scheduling_cycle.fit_error import dynamic_resources_post_filter
from extender.core.snapshot.snapshot import Snapshot
from extender.k8s.candidates import SentCandidate
from extender.k8s.time import SECOND, parse_time
from extender.k8s.version.features import Features
from tests.builders import STARTED, built, cluster, incoming, node, pod, typed
from tests.device_builders import (
    alternative,
    claim,
    device_class,
    devices,
    first_available,
    request,
    resource_slice,
    undecided_claim,
    using_claims,
)

SLICES = [resource_slice("s1", "n1", devices(2)), resource_slice("s2", "n2", devices(1))]
"""n1 has two devices, n2 one."""
NOT_AVAILABLE = "resourceclaim not available on the node"
CANNOT_ALLOCATE = "cannot allocate all claims"
FITS = ""


def world(*others, nodes=None):
    given = {node("n1"): [], node("n2"): []} if nodes is None else nodes
    return cluster(given, others=[device_class("gpu"), *SLICES, *others])


def evaluated(*others, waiting=None, nodes=None, scheduler=None):
    """The evaluation of a pod with the claim `c`."""
    objects = world(*others, nodes=nodes)
    return extender.evaluate(objects, waiting or incoming(**using_claims("c")), scheduler=scheduler).to_dict()


def reasons(evaluation):
    return {name: ", ".join(verdict["reasons"]) for name, verdict in evaluation["filter"].items()}


def of_version(minor, **gates):
    return KubeScheduler((Profile(),), Features.of(minor, gates))


# --- PreFilter ------------------------------------------------------------------------------------------------------


TEMPLATE = [{"name": "g", "resourceClaimTemplateName": "t"}]


def from_template(*status):
    return incoming(resourceClaims=TEMPLATE, status={"resourceClaimStatuses": list(status)})


CREATED = {"name": "g", "resourceClaimName": "c"}
DELETED = claim("c", request(), metadata={"deletionTimestamp": STARTED})


@pytest.mark.parametrize(
    ("others", "waiting", "reason"),
    [
        ([], None, 'could not find ResourceClaim "default/c"'),
        ([claim("c", request(), namespace="other")], None, 'could not find ResourceClaim "default/c"'),
        ([DELETED], None, 'resourceclaim "c" is being deleted'),
        ([], from_template(), 'pod "default/incoming": ResourceClaim not created yet'),
        (
            [claim("c", request(), owner="other")],
            from_template(CREATED),
            "ResourceClaim default/c was not created for Pod default/incoming (Pod is not owner)",
        ),
        (
            [],
            incoming(resourceClaims=[{"name": "g"}]),
            'pod "default/incoming", spec.resourceClaim "g": none of the supported fields are set',
        ),
    ],
)
def test_a_claim_that_cannot_be_used_keeps_the_pod_out_of_the_queue_and_from_every_node(others, waiting, reason):
    found = evaluated(*others, waiting=waiting)
    status = {"code": "UnschedulableAndUnresolvable", "plugin": "DynamicResources", "reasons": [reason]}
    assert (found["prefilter"], found["preEnqueue"], found["filter"]) == (status, status, {})


@pytest.mark.parametrize(
    ("version", "names", "reason"),
    [("1.36", ["c"], "Insufficient cpu"), ("1.36", ["gone"], FITS), ("1.37", ["gone"], "Insufficient cpu")],
)
def test_up_to_1_36_a_nominated_pod_that_is_kept_out_of_the_queue_counts_nowhere(version, names, reason):
    nominated = incoming("nominated", "3", status={"nominatedNodeName": "n1"}, **using_claims(*names))
    objects = cluster({node("n1"): []}, waiting=[nominated], others=[claim("c", request())])
    scheduler = kube_scheduler_of({}, version=version)
    assert reasons(extender.evaluate(objects, incoming(cpu="2"), scheduler=scheduler).to_dict()) == {"n1": reason}


def test_up_to_1_35_the_claim_of_another_pod_is_said_otherwise():
    waiting, others = from_template(CREATED), [claim("c", request(), owner="other")]
    found = evaluated(*others, waiting=waiting, scheduler=of_version(35))["prefilter"]["reasons"]
    assert found == ["ResourceClaim default/c was not created for pod default/incoming (pod is not owner)"]


def test_a_claim_from_a_template_is_used_by_its_owner_and_left_out_if_none_was_needed():
    assert reasons(evaluated(claim("c", request(count=2), owner="incoming"), waiting=from_template(CREATED))) == {
        "n1": FITS,
        "n2": CANNOT_ALLOCATE,
    }
    assert reasons(evaluated(waiting=from_template({"name": "g"}))) == {"n1": FITS, "n2": FITS}


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (request("nope"), "request r: device class nope does not exist"),
        (first_available(alternative(), alternative("nope")), "request r/s1: device class nope does not exist"),
        ({"name": "r"}, "resource claim default/c, request r: unknown request type"),
    ],
)
def test_a_request_that_no_node_can_meet_rejects_the_pod_but_not_at_the_queue(asked, reason):
    found = evaluated(claim("c", asked))
    assert (found["prefilter"]["reasons"], "preEnqueue" in found) == ([reason], False)


def test_a_request_without_a_class_ends_the_cycle():
    error = 'running PreFilter plugin "DynamicResources": request r: unsupported request type'
    assert evaluated(claim("c", request("")))["cycleError"] == error


def test_prioritized_lists_need_their_gate():
    reason = "resource claim default/c, request r: has subrequests, but the DRAPrioritizedList feature is disabled"
    scheduler = of_version(36, DRAPrioritizedList=False)
    assert evaluated(claim("c", first_available(alternative())), scheduler=scheduler)["prefilter"]["reasons"] == [
        reason
    ]


def test_requests_of_a_claim_that_is_allocated_are_not_looked_at():
    assert reasons(evaluated(claim("c", request("nope"), allocated=[("n1", "gpu-0")]))) == {"n1": FITS, "n2": FITS}


# --- allocated claims -----------------------------------------------------------------------------------------------


def test_an_allocated_claim_is_available_on_the_nodes_that_it_selects_however_many_pods_it_is_reserved_for():
    reserved = [f"p{number}" for number in range(256)]
    held = claim("c", request(), allocated=[("n1", "gpu-0")], node="n1", reserved_for=reserved)
    assert reasons(evaluated(held)) == {"n1": FITS, "n2": NOT_AVAILABLE}


CONDITIONS = {"pool": "n1", "device": "gpu-0", "bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}


def bound_by(*, since=None, **conditions):
    of_device = {"driver": "gpu.example.com", "pool": "n1", "device": "gpu-0"}
    status = of_device | {"conditions": [{"type": name, "status": value} for name, value in conditions.items()]}
    found = claim("c", request(), allocated=[CONDITIONS], devices=[status] if conditions else [])
    if since:
        found["status"]["allocation"]["allocationTimestamp"] = since
    return found


@pytest.mark.parametrize(
    ("held", "reason"),
    [
        (bound_by(since=STARTED, ready="True"), FITS),
        (bound_by(since=STARTED, ready="True", broken="False"), FITS),
        (bound_by(), FITS),  # it waits, but not since any time
        (bound_by(ready="False"), FITS),
        (bound_by(ready="True", broken="True"), NOT_AVAILABLE),
        (bound_by(since=STARTED, broken="True"), NOT_AVAILABLE),
    ],
)
def test_a_claim_whose_device_cannot_be_prepared_is_available_nowhere(held, reason):
    found = evaluated(held)
    assert (reasons(found), "notEvaluated" in found) == ({"n1": reason, "n2": reason}, False)
    off = of_version(36, DRADeviceBindingConditions=False)
    assert reasons(evaluated(held, scheduler=off)) == {"n1": FITS, "n2": FITS}


def at(seconds):
    """A history of which only the time matters: so many seconds after STARTED."""
    return EvictionHistory(parse_time(STARTED) + int(seconds * SECOND))


def test_a_claim_may_wait_for_so_long():
    waiting, objects = incoming(**using_claims("c")), world(bound_by(since=STARTED))
    ask = lambda seconds, **more: reasons(  # noqa: E731
        extender.evaluate(objects, waiting, history=at(seconds), **more).to_dict()
    )
    assert ask(600) == {"n1": FITS, "n2": FITS}
    assert ask(600.1) == {"n1": NOT_AVAILABLE, "n2": NOT_AVAILABLE}
    arguments = [{"name": "DynamicResources", "args": {"bindingTimeout": "20s"}}]
    profiles = [{"schedulerName": "default-scheduler", "pluginConfig": arguments}]
    document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    scheduler = kube_scheduler_of(document | {"profiles": profiles})
    assert ask(20, scheduler=scheduler) == {"n1": FITS, "n2": FITS}
    assert ask(21, scheduler=scheduler) == {"n1": NOT_AVAILABLE, "n2": NOT_AVAILABLE}


def test_the_time_of_the_call_counts_also_where_nothing_else_changes():
    snapshot, waiting = built(world(bound_by(since=STARTED))), typed(incoming(**using_claims("c")))
    for seconds, fits in ((1, 2), (2, 2), (601, 0), (602, 0), (600, 2)):
        assert len(engine.filter(snapshot, waiting, ["n1", "n2"], UPSTREAM, at(seconds)).accepted) == fits


def test_without_a_time_it_is_not_evaluated_where_that_decides():
    def found(*others, names=("c",)):
        snapshot = built(world(bound_by(since=STARTED), *others))
        said = Evaluation(snapshot, typed(incoming(**using_claims(*names))), UPSTREAM).to_dict()
        return reasons(said), said["notEvaluated"]

    assert found() == ({"n1": FITS, "n2": FITS}, {"DynamicResources": ["n1", "n2"]})
    held = claim("d", request(), allocated=[("n1", "gpu-1")], node="n1")
    assert found(held, names=("c", "d")) == ({"n1": FITS, "n2": NOT_AVAILABLE}, {"DynamicResources": ["n1"]})


# --- allocation -----------------------------------------------------------------------------------------------------


def test_devices_must_be_free():
    one, two = claim("c", request()), claim("c", request(count=2))
    assert reasons(evaluated(one)) == {"n1": FITS, "n2": FITS}
    assert reasons(evaluated(two)) == {"n1": FITS, "n2": CANNOT_ALLOCATE}
    taken = claim("theirs", request(), allocated=[("n1", "gpu-0")])
    assert reasons(evaluated(two, taken)) == {"n1": CANNOT_ALLOCATE, "n2": CANNOT_ALLOCATE}


def test_each_claim_takes_devices_of_its_own_one_that_is_named_twice_too():
    waiting = incoming(**using_claims("c", "c"))
    assert reasons(evaluated(claim("c", request()), waiting=waiting)) == {"n1": FITS, "n2": CANNOT_ALLOCATE}


def test_what_cannot_be_allocated_is_said_before_what_is_not_available():
    held = claim("c", request(), allocated=[("n1", "gpu-0")], node="elsewhere")
    found = evaluated(held, claim("d", request(count=2)), waiting=incoming(**using_claims("c", "d")))
    assert reasons(found) == {"n1": CANNOT_ALLOCATE, "n2": CANNOT_ALLOCATE}
    found = evaluated(held, claim("d", request()), waiting=incoming(**using_claims("c", "d")))
    assert reasons(found) == {"n1": NOT_AVAILABLE, "n2": NOT_AVAILABLE}


def test_an_error_of_the_allocation_ends_the_cycle():
    error = (
        'running "DynamicResources" filter plugin: '
        "claim default/c, request r: adding 33 devices exceeds the claim limit of 32, with 0 already accounted for"
    )
    found = evaluated(claim("c", request(count=33)))
    assert (found["cycleError"], reasons(found)) == (error, {"n1": error, "n2": error})
    assert {one["code"] for one in found["filter"].values()} == {"Error"}


def test_no_eviction_frees_a_device():
    """On n1 only cpu is lacking, on n2 the device too."""
    nodes = {node(name, cpu="1"): [pod(f"of-{name}", priority=1)] for name in ("n1", "n2")}
    found = evaluated(claim("c", request(count=2)), nodes=nodes)
    assert (found["selected"], list(found["candidates"])) == ("n1", ["n1"])
    assert found["nonCandidates"]["n2"]["reasons"] == [CANNOT_ALLOCATE]


def test_kube_scheduler_s_victims_are_kept_only_on_nodes_that_are_not_evaluated():
    """One victim would do on either node."""
    nodes = {node(name, cpu="2"): [pod(f"a-{name}", priority=1), pod(f"b-{name}", priority=2)] for name in ("n1", "n2")}
    sent = {name: SentCandidate((f"uid-a-{name}", f"uid-b-{name}")) for name in ("n1", "n2")}
    for objects, as_sent in ((undecided_claim("c"), {"n1", "n2"}), ([claim("c", request())], set())):
        snapshot, waiting = built(world(*objects, nodes=nodes)), typed(incoming(**using_claims("c")))
        decision = engine.preempt(snapshot, waiting, sent, Profile(keep_candidates=None))
        assert decision.as_sent == as_sent
        assert {len(kept.victims) for kept in decision.kept} == {2 if as_sent else 1}


# --- what is not evaluated --------------------------------------------------------------------------------------------


def followed(minor, waiting=None, **gates):
    objects = world(claim("c", request()))
    snapshot = Snapshot.build(extender.load_cluster(objects), Features.of(minor, gates))
    found = verdicts(scheduling_context(snapshot, typed(waiting or incoming(**using_claims("c"))), UPSTREAM))
    return None if found is None else tuple(found.not_followed)


def test_features_that_are_not_followed_are_named():
    assert followed(36) == followed(35) == followed(34) == ()
    assert followed(33) is None
    assert followed(33, DynamicResourceAllocation=True) == ("claims before 1.34",)
    assert followed(35, DRADeviceTaints=True) == ("DRADeviceTaints before 1.36",)
    assert followed(34, incoming(), DRADeviceTaints=True) is None
    by_class = incoming(requests={"deviceclass.resource.kubernetes.io/gpu": "1"})
    assert followed(36, by_class) == ()
    assert followed(34, by_class, DRAExtendedResource=True) == ("extended resources of device classes before 1.35",)


def test_a_pod_may_have_so_many_claims_and_containers():
    named = [{"name": f"c{number}", "resourceClaimName": "c"} for number in range(257)]
    assert followed(36, incoming(resourceClaims=named[:256])) == ()
    assert followed(36, incoming(resourceClaims=named)) == ("more than 256 claims of a pod",)
    asked = {"resources": {"requests": {"deviceclass.resource.kubernetes.io/gpu": "1"}}}
    containers = [{"name": f"c{number}"} | asked for number in range(1_001)]
    (feature,) = followed(36, incoming(containers=containers))
    assert feature == "more than 1000 containers of a pod with extended resources of device classes"


def test_before_1_34_a_pod_with_claims_is_not_evaluated_where_the_gate_is_on():
    found = evaluated(scheduler=of_version(33, DynamicResourceAllocation=True))
    profile = Profile()
    assert "DynamicResources" in profile.filter_plugins
    assert (reasons(found), found["notEvaluated"]) == ({"n1": FITS, "n2": FITS}, {"DynamicResources": ["n1", "n2"]})
    assert "notEvaluated" not in evaluated(scheduler=of_version(33))


def test_a_pod_without_claims_in_a_cluster_without_classes_costs_nothing():
    snapshot = built(cluster({node("n1"): []}, others=SLICES))
    context = scheduling_context(snapshot, typed(incoming(requests={"example.com/gpu": "1"})), UPSTREAM)
    run_filter_plugins(context)
    assert verdicts(context) is None
    assert not any(isinstance(index, DeviceIndex) for index in snapshot._indexes.values())


# --- Score ------------------------------------------------------------------------------------------------------------


def scores(*others, waiting=None, scheduler=None):
    found = evaluated(*others, waiting=waiting, scheduler=scheduler)["scores"]
    return {name: one["plugins"].get("DynamicResources") for name, one in found.items()}


def test_earlier_alternatives_score_higher():
    preferred = claim("c", first_available(alternative(count=2), alternative()))
    assert scores(preferred) == {"n1": 200, "n2": 174}  # 8 and 7 of 8, weight 2
    assert scores(preferred, scheduler=of_version(34)) == {"n1": None, "n2": None}
    assert scores(claim("c", request())) == {"n1": None, "n2": None}


def test_without_its_filter_nothing_is_allocated_and_nothing_scores():
    filters = tuple(name for name in FILTER_PLUGINS if name != "DynamicResources")
    scheduler = KubeScheduler((Profile(filter_plugins=filters),))
    assert scores(claim("c", first_available(alternative())), scheduler=scheduler) == {"n1": None, "n2": None}


def test_alternatives_of_a_claim_that_is_allocated_score_beside_one_that_is_not():
    held = claim("c", first_available(alternative(count=2), alternative()), allocated=[("n1", "gpu-0", "r/s1")])
    assert scores(held) == {"n1": 0, "n2": 0}
    assert scores(held, claim("d", request()), waiting=incoming(**using_claims("c", "d"))) == {"n1": 200, "n2": 200}


# --- PostFilter -------------------------------------------------------------------------------------------------------


def post_filter(*others, waiting=None, minor=36):
    """Its reason, and the claim that it changes."""
    snapshot = Snapshot.build(extender.load_cluster(world(*others)), Features.of(minor))
    run = run_filter_plugins(scheduling_context(snapshot, typed(waiting or incoming(**using_claims("c"))), UPSTREAM))
    status, changed = dynamic_resources_post_filter(run)
    return ", ".join(status.reasons), changed


def held_elsewhere(name="c", **fields):
    return claim(name, request(), allocated=[("n1", "gpu-0")], node="elsewhere", **fields)


def test_a_claim_that_is_not_available_is_deallocated_if_nobody_else_has_it():
    done = ("deallocation of ResourceClaim completed", ("default", "c"))
    assert post_filter(held_elsewhere()) == done
    assert post_filter(held_elsewhere(reserved_for=["incoming"])) == done
    still = ("still not schedulable", None)
    assert post_filter(held_elsewhere(reserved_for=["other"])) == still
    assert post_filter(held_elsewhere(reserved_for=["incoming", "other"])) == still


def test_since_1_37_it_gives_a_reason_only_where_it_changes_a_claim():
    assert post_filter(minor=37) == ("", None)
    assert post_filter(held_elsewhere(reserved_for=["other"]), minor=37) == ("", None)
    done = ("deallocation of ResourceClaim completed", ("default", "c"))
    assert post_filter(held_elsewhere(), minor=37) == done


def test_what_cannot_be_allocated_comes_first_so_that_nothing_is_deallocated():
    waiting = incoming(**using_claims("c", "d"))
    assert post_filter(held_elsewhere(), claim("d", request(count=3)), waiting=waiting) == (
        "still not schedulable",
        None,
    )


def test_without_a_claim_that_can_be_used_there_is_nothing_to_deallocate():
    assert post_filter() == ("no new claims to deallocate", None)
    assert post_filter(waiting=incoming(cpu="9")) == ("no new claims to deallocate", None)
