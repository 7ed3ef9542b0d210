"""Cycles one after another: who is tried when, and what becomes of the cluster in between."""

import pytest

import extender
from extender.cluster.files.manifests import load_cluster
from extender.core.evaluation import Evaluation
from extender.core.eviction_history import EvictionHistory
from extender.core.profile import KubeScheduler, Limits, PreemptionPolicy, Profile
from extender.core.snapshot.snapshot import Snapshot
from extender.errors import RequestError
from extender.k8s.kinds import ClusterObjects
from extender.k8s.time import MINUTE
from extender.whatif.scenario import Scenario
from extender.whatif.simulator import simulate
from tests.builders import JSON, budget, built, cluster, incoming, node, placed, pod, raw, snapshot, thing, typed
from tests.whatif.steps import steps

LEAVING: JSON = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}


def run(here, *arriving, profile=None, pending=False, seed=None, **options):
    scenario = Scenario([typed(one) for one in arriving], pending=pending, seed=seed)
    return simulate(here, KubeScheduler((profile or Profile(),)), scenario, **options)


# --- the queue ----------------------------------------------------------------------------------------------------


def test_a_pod_that_is_bound_takes_its_room_from_the_next_one():
    here = snapshot({node("n1", cpu="2"): [], node("n2", cpu="1"): []})
    result = run(here, *(incoming(name) for name in "abcd"))
    assert steps(result) == ["a Scheduled n1", "b Scheduled n1", "c Scheduled n2", "d Unschedulable"]
    assert here.used[0].tolist() == [2000, 1000]
    assert [one.pod for one in result.pending] == ["default/d"]


def test_pending_pods_come_by_priority_then_age_then_name_and_arrivals_after_their_equals():
    def old(name, created, **fields):
        return incoming(name, metadata={"creationTimestamp": created}, **fields)

    here = snapshot(
        {node("n1"): []},
        waiting=[
            old("young", "2026-01-03T00:00:00Z"),
            old("b", "2026-01-02T00:00:00Z"),
            old("a", "2026-01-02T00:00:00Z"),
            old("low", "2026-01-01T00:00:00Z", priority=1),
        ],
    )
    result = run(here, incoming("given"), incoming("great", priority=2000), pending=True)
    assert [one.pod.removeprefix("default/") for one in result.cycles] == [
        "great",
        "a",
        "b",
        "young",
        "given",
        "low",
    ]


def test_only_pending_pods_of_the_cluster_are_tried():
    here = snapshot(
        {node("n1"): [pod("runs")]},
        waiting=[
            incoming("waits"),
            incoming("leaves", **LEAVING),
            incoming("over", status={"phase": "Failed"}),
            incoming("gated", schedulingGates=[{"name": "quota"}]),
            placed(incoming("lost"), "gone"),
        ],
    )
    result = run(here, pending=True)
    assert steps(result) == ["gated Skipped", "waits Scheduled n1"]
    assert (result.summary.scheduled, result.summary.pending, result.summary.skipped) == (1, 0, 1)


def test_pods_of_a_scheduler_that_is_not_ours_are_not_tried():
    here = snapshot(
        {node("n1"): [pod("runs", schedulerName="foreign")]},
        waiting=[
            incoming("own"),
            incoming("second", schedulerName="second"),
            incoming("foreign", schedulerName="foreign"),
        ],
    )
    result = simulate(here, KubeScheduler((Profile(), Profile("second"))), Scenario(pending=True))
    assert sorted(steps(result)) == ["foreign Skipped", "own Scheduled n1", "second Scheduled n1"]
    messages = [one.message for one in result.cycles if one.outcome == "Skipped"]
    assert messages == ['not tried: not ours: no profile has schedulerName "foreign"']


def test_an_evaluation_says_that_a_gated_pod_is_not_tried():
    here = snapshot({node("n1"): []})
    gated = typed(incoming(schedulingGates=[{"name": "quota"}]))
    found = Evaluation(here, gated, Profile()).to_dict()
    assert found["preEnqueue"]["reasons"] == ["waiting for scheduling gates: [quota]"]
    assert "preEnqueue" not in Evaluation(here, typed(incoming()), Profile()).to_dict()


def test_an_unschedulable_pod_is_not_requeued_without_an_event_that_may_help_it():
    here = snapshot({node("n1", cpu="2"): []})
    result = run(here, incoming("large", cpu="3", priority=2000), incoming("small"))
    assert steps(result) == ["large Unschedulable", "small Scheduled n1"]


def test_unschedulable_pods_are_requeued_after_an_eviction_behind_pods_not_tried_yet():
    """`waits` never preempts; the room beside the preemptor is enough for it once the victim has gone."""
    here = snapshot({node("n1", cpu="3"): [pod("victim", cpu="3")]})
    result = run(
        here,
        incoming("waits", priority=2000, preemptionPolicy="Never"),
        incoming("preemptor"),
        incoming("last", cpu="5", priority=0),
    )
    assert steps(result) == [
        "waits Unschedulable",
        "preemptor Nominated n1 -victim",
        "last Unschedulable",
        "waits Scheduled n1",
        "preemptor Scheduled n1",
    ]
    assert [one.attempt for one in result.cycles] == [1, 1, 1, 2, 2]


def test_a_binding_requeues_only_pods_with_inter_pod_constraints():
    term = {"labelSelector": {"matchLabels": {"app": "leader"}}, "topologyKey": "kubernetes.io/hostname"}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    result = run(
        snapshot({node("n1"): [], node("n2"): []}),
        incoming("follower", priority=2000, affinity=near),
        incoming("huge", cpu="9", priority=1500),
        incoming("leader"),
    )
    assert steps(result) == [
        "follower Unschedulable",
        "huge Unschedulable",
        "leader Scheduled n1",
        "follower Scheduled n1",
    ]


# --- preemption ---------------------------------------------------------------------------------------------------


def test_victims_are_evicted_and_the_preemptor_is_nominated_requeued_and_bound():
    here = snapshot({node("n1", cpu="2"): [pod("a", priority=5), pod("b", priority=9)]})
    result = run(here, incoming("new"))
    assert steps(result) == ["new Nominated n1 -a", "new Scheduled n1"]
    first, second = result.cycles
    assert first.message == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: found a potential placement for pod on node n1, "
        "preempting 1 victims"
    )
    assert (first.post_filter and first.post_filter.code, first.nominated_node, first.node) == ("Success", "n1", None)
    assert (second.attempt, second.feasible, second.nominated_node) == (2, 1, None)
    assert [one.metadata.name for one in here.pods_on("n1")] == ["new", "b"]
    assert ("default", "a") not in here.objects.pods
    assert here.objects.pods["default", "new"].status.nominated_node_name == ""


def test_room_of_a_nominated_pod_is_not_taken_by_less_important_ones_meanwhile():
    here = snapshot({node("n1", cpu="1"): [pod("victim", priority=1)]})
    result = run(here, incoming("new"), incoming("small", cpu="500m", priority=500))
    assert steps(result) == ["new Nominated n1 -victim", "small Unschedulable", "new Scheduled n1"]


def test_only_pods_of_lower_priority_lose_their_nomination_to_that_node():
    nominated = [
        incoming("lower", priority=500, status={"nominatedNodeName": "n1"}),
        incoming("equal", cpu="100m", status={"nominatedNodeName": "n1"}),
        incoming("elsewhere", priority=500, status={"nominatedNodeName": "n2"}),
    ]
    nodes = {node("n1", cpu="2"): [pod("victim", cpu="2", priority=1)], node("n2", cpu="1"): [pod("b", priority=5000)]}
    here = snapshot(nodes, waiting=nominated)
    result = run(here, incoming("new", cpu="1500m"))
    assert steps(result) == ["new Nominated n1 -victim", "new Scheduled n1"]
    kept = {key[1]: one.status.nominated_node_name for key, one in here.objects.pods.items() if not one.spec.node_name}
    assert kept == {"lower": "", "equal": "n1", "elsewhere": "n2"}


def test_nominations_of_another_scheduler_s_pods_stay():
    other = incoming("lower", priority=500, schedulerName="other", status={"nominatedNodeName": "n1"})
    here = snapshot({node("n1", cpu="1"): [pod("victim")]}, waiting=[other])
    run(here, incoming("new"))
    assert here.objects.pods["default", "lower"].status.nominated_node_name == "n1"


def test_a_preemptor_without_room_left_preempts_elsewhere_or_loses_its_nomination():
    """`great` waits for a pod of app `low`; when that runs, it takes the room that was made for `preemptor`."""
    zone = {"zone": "a"}
    term = {"labelSelector": {"matchLabels": {"app": "low"}}, "topologyKey": "zone"}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    nodes = {node("n1", cpu="1", labels=zone): [pod("victim")], node("n2", cpu="100m", labels=zone): []}
    here = snapshot(nodes)
    result = run(
        here,
        incoming("great", priority=2000, affinity=near),
        incoming("preemptor"),
        incoming("low", cpu="100m", priority=1),
    )
    assert steps(result) == [
        "great Unschedulable",
        "preemptor Nominated n1 -victim",
        "low Scheduled n2",
        "great Scheduled n1",
        "preemptor Unschedulable",
    ]
    assert here.objects.pods["default", "preemptor"].status.nominated_node_name == ""
    assert result.pending[0].message == (
        "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are "
        "available: 1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling."
    )


def test_a_lost_nomination_requeues_the_pods_that_had_to_yield_to_it():
    """`big` is nominated but fits nowhere any more; `able`, tried before that is known, gets its room."""
    big = incoming("big", cpu="2", status={"nominatedNodeName": "n1"})
    here = snapshot(
        {node("n1", cpu="1"): []}, waiting=[big, incoming("able"), incoming("great", cpu="2", priority=2000)]
    )
    result = run(here, pending=True)
    assert steps(result) == [
        "great Unschedulable",
        "able Unschedulable",
        "big Unschedulable",
        "able Scheduled n1",
    ]


def test_terminating_pods_are_not_evicted_again_but_removed():
    here = snapshot({node("n1", cpu="1"): [pod("a", **LEAVING)]}, budgets=[budget(allowed=1, app="a")])
    result = run(here, incoming("new"))
    assert steps(result) == ["new Nominated n1 -a", "new Scheduled n1"]
    assert [one.terminating for one in result.evicted] == [True]
    assert here.objects.budgets["default", "budget"].status.disruptions_allowed == 1


def test_a_pod_that_was_bound_before_may_be_evicted_for_one_that_waited():
    term = {"labelSelector": {"matchLabels": {"app": "low"}}, "topologyKey": "zone"}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    zone = {"zone": "a"}
    nodes: dict = {node("n1", cpu="1", labels=zone): [], node("n2", cpu="100m", labels=zone): []}
    result = run(
        snapshot(nodes),
        incoming("great", priority=2000, affinity=near),
        incoming("middle", priority=1000),
        incoming("low", cpu="100m", priority=1),
    )
    assert steps(result)[-3:] == ["low Scheduled n2", "great Nominated n1 -middle", "great Scheduled n1"]
    assert (result.summary.scheduled, result.summary.evicted) == (2, 1)


# --- policies over a run ------------------------------------------------------------------------------------------

TWO_NODES = {node("n1", cpu="1"): [pod("a")], node("n2", cpu="1"): [pod("b")]}


def limited(**limits):
    return Profile(preemption=PreemptionPolicy(limits=Limits(**limits)))


def test_limits_count_what_was_evicted_in_the_run():
    result = run(snapshot(TWO_NODES), incoming("x"), incoming("y"), profile=limited(evictions_per_minute=1))
    assert steps(result) == ["x Nominated n1 -a", "y Unschedulable", "x Scheduled n1"]
    assert result.pending[0].vetoed == "eviction rate limit (1 per minute) reached: not until 1970-01-01T00:01:00Z"


def test_a_workload_cools_down_in_the_run():
    owner = [{"kind": "Job", "name": "j", "uid": "j", "controller": True}]
    nodes = {
        node(f"n{place}", cpu="1"): [pod(name, metadata={"ownerReferences": owner})] for place, name in enumerate("ab")
    }
    result = run(snapshot(nodes), incoming("x"), incoming("y"), profile=limited(workload_cooldown=5 * MINUTE))
    assert steps(result)[:2] == ["x Nominated n0 -a", "y Unschedulable"]
    assert run(snapshot(nodes), incoming("x"), incoming("y")).summary.evicted == 2


def test_budgets_allow_less_after_an_eviction():
    budgets = [budget(allowed=1, selector={"matchExpressions": [{"key": "app", "operator": "Exists"}]})]
    result = run(snapshot(TWO_NODES, budgets=budgets), incoming("x"), incoming("y"))
    assert [one.num_pdb_violations for one in result.cycles] == [0, 1, 0, 0]
    assert result.summary.pdb_violations == 1
    assert [one.budgets for one in result.evicted] == [["default/budget"]] * 2
    strict = Profile(preemption=PreemptionPolicy(disruption_budgets="Strict"))
    result = run(snapshot(TWO_NODES, budgets=budgets), incoming("x"), incoming("y"), profile=strict)
    assert (result.summary.evicted, result.summary.pdb_violations, result.summary.pending) == (1, 0, 1)


@pytest.mark.parametrize(
    ("ready", "status", "left"),
    [
        pytest.param(True, {"currentHealthy": 3, "desiredHealthy": 1}, (1, 2), id="a ready pod is a healthy one less"),
        pytest.param(False, {"currentHealthy": 3, "desiredHealthy": 1}, (2, 3), id="one that is not ready is none"),
        pytest.param(False, {}, (1, 0), id="any pod counts where the healthy ones were not counted"),
    ],
)
def test_what_an_eviction_leaves_of_a_budget(ready, status, left):
    here_budget = budget(allowed=2, app="a")
    here_budget["status"] |= status
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    here = snapshot({node("n1", cpu="1"): [pod("a", status={"conditions": conditions})]}, budgets=[here_budget])
    run(here, incoming("x"))
    after = here.objects.budgets["default", "budget"].status
    assert (after.disruptions_allowed, after.current_healthy) == left


# --- the result ---------------------------------------------------------------------------------------------------


def test_the_summary_shows_the_nodes_that_changed_before_and_after():
    gpus = {"example.com/gpu": "4"}
    nodes = {
        node("n1", cpu="2", allocatable=gpus): [pod("a", cpu="2", memory="1Gi", requests={"example.com/gpu": "1"})],
        node("n2", cpu="1"): [pod("b", priority=5000)],
    }
    result = run(snapshot(nodes), incoming("new", memory="2Gi", requests={"example.com/gpu": "2"}))
    (changed,) = result.summary.nodes
    assert changed.name == "n1"
    wanted = {"cpu": (2000, 1000, 2000), "pods": (1, 1, 110), "example.com/gpu": (1, 2, 4)}
    wanted["memory"] = (2**30, 2 * 2**30, 8 * 2**30)
    assert {name: (changed.before[name], changed.after[name], changed.allocatable[name]) for name in wanted} == wanted


def test_a_watcher_sees_every_step_before_anything_has_come_of_it():
    here, seen = snapshot({node("n1", cpu="1"): [pod("a")]}), []
    run(here, incoming("new"), on_step=lambda step: seen.append((step.cycle.outcome, len(here.pods_on("n1")))))
    assert seen == [("Nominated", 1), ("Scheduled", 0)]


def test_a_seed_draws_the_same_nodes_every_time_and_others_than_another():
    def nodes_of(seed):
        here = snapshot({node(f"n{place}"): [] for place in range(5)})
        result = run(here, *(incoming(f"p{place}") for place in range(5)), seed=seed)
        assert result.seed == seed
        return [one.node for one in result.cycles]

    assert nodes_of(1) == nodes_of(1)
    assert len({tuple(nodes_of(seed)) for seed in range(5)}) > 1


def test_an_empty_question_has_an_empty_answer():
    result = run(built(cluster({})), pending=True)
    assert (result.cluster.nodes, result.cycles, result.summary.nodes) == (0, [], [])


def test_without_nodes_every_pod_stays_pending():
    result = simulate(built({"kind": "List", "items": []}), KubeScheduler(), Scenario([typed(incoming())]))
    assert [one.message for one in result.pending] == ["no nodes available to schedule pods"]


# --- arrivals -----------------------------------------------------------------------------------------------------

CLASSES = [
    {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7000, "preemptionPolicy": "Never"},
]


def arrive(arriving, nodes=None, others=CLASSES, unread=()):
    objects = load_cluster(cluster(nodes or {node("n1"): []}, others=others))
    fields = {name: getattr(objects, name) for name in objects.__struct_fields__} | {"unreadable_tables": unread}
    here = Snapshot.build(ClusterObjects(**fields))
    return here, simulate(here, KubeScheduler(), Scenario([raw(arriving)]))


def manifest(**spec):
    return {"kind": "Pod", "metadata": {"name": "new"}, "spec": {"containers": [{"name": "main"}]} | spec}


@pytest.mark.parametrize(
    ("spec", "priority"),
    [
        pytest.param({"priorityClassName": "high"}, 7000, id="of its class"),
        pytest.param({"priorityClassName": "high", "priority": 7000}, 7000, id="of its class, given too"),
        pytest.param({"priorityClassName": "system-node-critical"}, 2_000_001_000, id="of a class of every cluster"),
        pytest.param({}, 0, id="none"),
    ],
)
def test_an_arrival_has_the_priority(spec, priority):
    here, result = arrive(manifest(**spec))
    assert [(one.pod, one.uid, one.priority) for one in result.cycles] == [("default/new", "default/new", priority)]
    assert here.objects.pods["default", "new"].priority == priority


def test_an_arrival_without_a_class_has_the_lowest_global_default():
    defaults = [
        {"kind": "PriorityClass", "metadata": {"name": name}, "value": value, "globalDefault": True}
        for name, value in (("default", 900), ("another", 901))
    ]
    here, result = arrive(manifest(), others=CLASSES + defaults)
    spec = here.objects.pods["default", "new"].spec
    assert (result.cycles[0].priority, spec.priority_class_name) == (900, "default")
    with pytest.raises(RequestError, match=r"the integer value of priority \(3\) must not be provided in pod spec"):
        arrive(manifest(priority=3), others=defaults)


def test_a_stored_arrival_keeps_its_priority():
    """Its class may have had another value then."""
    stored = manifest(priorityClassName="high", priority=3)
    stored["metadata"]["uid"] = "uid-new"
    here, result = arrive(stored)
    assert (result.cycles[0].priority, here.objects.pods["default", "new"].priority) == (3, 3)


def test_an_arrival_has_the_preemption_policy_of_its_class():
    _, result = arrive(manifest(priorityClassName="high", nodeSelector={"no": "node"}))
    assert result.pending[0].message.endswith("not eligible due to preemptionPolicy=Never.")


def test_an_arrival_requests_its_limits_where_it_requests_nothing_else():
    resources = {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"memory": "512Mi"}}
    here, _ = arrive(manifest(containers=[{"name": "main", "resources": resources}]))
    assert here.used[:2, 0].tolist() == [2000, 512 * 2**20]


def test_a_class_that_is_not_there_or_may_not_be_read_is_an_error():
    with pytest.raises(RequestError, match="Pod new is forbidden: no PriorityClass with name none was found"):
        arrive(manifest(priorityClassName="none"))
    with pytest.raises(
        RequestError, match=r"Pod new is forbidden: no permission to list PriorityClasses, so spec.priority must be set"
    ):
        arrive(manifest(priorityClassName="none"), unread=("priority_classes",))


def test_a_pod_that_waits_already_is_replaced_by_the_one_that_is_given():
    here = snapshot({node("n1"): []}, waiting=[incoming("new", cpu="9")])
    result = run(here, incoming("new", cpu="1"), pending=True)
    assert steps(result) == ["new Scheduled n1"]


def test_a_pod_that_runs_already_is_skipped():
    here = snapshot({node("n1"): [pod("runs")]})
    result = run(here, pod("runs"))
    assert [(one.outcome, one.message) for one in result.cycles] == [("Skipped", "is assigned to node n1 already")]


def test_a_pod_with_a_node_is_skipped_and_takes_no_room():
    here = snapshot({node("n1"): []})
    result = run(here, placed(pod("elsewhere"), "n1"))
    assert steps(result) == ["elsewhere Skipped"]
    assert here.pods_on("n1") == ()


@pytest.mark.parametrize(
    ("arriving", "problem"),
    [
        pytest.param([incoming("a"), incoming("a")], "duplicate pod 'default/a'", id="two of a name"),
        pytest.param(
            [incoming("runs")],
            "pod 'default/runs' already exists on node 'n1': choose another name",
            id="the name of a running pod",
        ),
        pytest.param([incoming("other", metadata={"uid": "uid-of-running"})], "has the same UID as pod", id="its UID"),
        pytest.param([incoming("a", cpu="x")], "pod 'default/a': 'x' is not a quantity of cpu", id="no quantity"),
    ],
)
def test_pods_that_cannot_be_admitted_are_named(arriving, problem):
    here = snapshot({node("n1"): [pod("runs", metadata={"uid": "uid-of-running"})]})
    with pytest.raises(RequestError) as refused:
        run(here, *arriving)
    assert problem in str(refused.value)


# --- volumes ------------------------------------------------------------------------------------------------------


def local_volume(name, on, size="10Gi", **spec):
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}]}
    return thing(
        "PersistentVolume",
        name,
        spec={
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        }
        | spec,
        status={"phase": "Available"},
    )


def claim(name, size="5Gi", storage_class="local"):
    return thing(
        "PersistentVolumeClaim",
        name,
        namespace="default",
        spec={
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": size}},
        },
        status={"phase": "Pending"},
    )


def storage_class(name, provisioner="kubernetes.io/no-provisioner"):
    return thing("StorageClass", name, provisioner=provisioner, volumeBindingMode="WaitForFirstConsumer")


def using(name, *claims):
    volumes = [{"name": one, "persistentVolumeClaim": {"claimName": one}} for one in claims]
    return incoming(name, volumes=volumes)


def test_a_volume_that_a_pod_got_is_no_other_pod_s():
    others = [storage_class("local"), local_volume("v1", "n1"), claim("one"), claim("two")]
    here = built(cluster({node("n1"): [], node("n2"): []}, others=others))
    result = run(here, using("a", "one"), using("b", "two"))
    assert steps(result) == ["a Scheduled n1", "b Unschedulable"]
    assert "2 node(s) didn't find available persistent volumes to bind" in result.pending[0].message
    bound = here.objects.claims["default", "one"]
    assert (bound.spec.volume_name, bound.status.phase) == ("v1", "Bound")
    held = here.objects.volumes["", "v1"]
    assert held.spec.claim_ref is not None
    assert (held.spec.claim_ref.name, held.status.phase) == ("one", "Bound")


def test_the_smallest_volume_that_is_large_enough_is_taken_and_a_reserved_one_before_it():
    reserved = {"claimRef": {"namespace": "default", "name": "two"}}
    others = [
        storage_class("local"),
        local_volume("large", "n1", "50Gi"),
        local_volume("small", "n1", "1Gi"),
        local_volume("right", "n1", "6Gi"),
        local_volume("kept", "n1", "90Gi", **reserved),
        claim("one"),
        claim("two"),
    ]
    here = built(cluster({node("n1"): [], node("n2"): []}, others=others))
    run(here, using("a", "one", "two"))
    assert {key[1]: one.spec.volume_name for key, one in here.objects.claims.items()} == {"one": "right", "two": "kept"}


def test_a_claim_without_a_volume_has_one_made_on_the_node_that_its_first_pod_got():
    others = [storage_class("made", "csi.example.com"), claim("one", storage_class="made")]
    here = built(cluster({node("n1", cpu="1"): [], node("n2", cpu="8"): []}, others=others))
    result = run(here, using("a", "one"), using("b", "one"))
    assert steps(result) == ["a Scheduled n2", "b Scheduled n2"]
    annotations = here.objects.claims["default", "one"].metadata.annotations
    assert annotations == {"volume.kubernetes.io/selected-node": "n2"}


def test_time_stands_still_at_the_given_time():
    profile = Profile(preemption=PreemptionPolicy(min_pending_duration=MINUTE))
    young = incoming("new", metadata={"creationTimestamp": "1970-01-01T00:00:00Z"})
    assert run(snapshot(TWO_NODES), young, profile=profile, history=EvictionHistory(MINUTE - 1)).summary.evicted == 0
    assert run(snapshot(TWO_NODES), young, profile=profile, history=EvictionHistory(MINUTE)).summary.evicted == 1


def test_a_pod_with_a_uid_and_without_a_priority_has_that_of_its_class():
    classes = [{"kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 7000}]
    here = built(cluster({node("n1"): [pod("low", cpu="4", priority=1)]}, others=classes))
    one = {
        "metadata": {"name": "a", "uid": "1"},
        "spec": {"priorityClassName": "urgent", "containers": [{"name": "c"}]},
    }
    found = extender.simulate(here, [one])
    assert found.cycles[0].priority == 7000
    assert extender.simulate(here, [one], admission="none").cycles[0].priority == 0
