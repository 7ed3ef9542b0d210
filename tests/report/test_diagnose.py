"""One pod diagnosed: verdicts, sentences, reasons, preemption; pods that are not tried; a pod that has its node."""

import pytest
from msgspec.structs import replace

from extender.cluster.list.pod_history import PodHistory, PreemptedBy
from extender.core.profile import KubeScheduler, PreemptionPolicy, Profile
from extender.errors import RequestError
from extender.report.diagnose import diagnose, not_found, with_history
from tests.builders import JSON, NodeObject, budget, built, cluster, incoming, node, pod, snapshot, typed
from tests.device_builders import claim, device_class, devices, request, resource_slice, using_claims

Nodes = dict[NodeObject, list[JSON]]
SCHEDULER = KubeScheduler((Profile(),))
GPU_TAINT = {"key": "gpu", "effect": "NoSchedule"}
FULL = {node("n1", cpu="1"): [pod("a")], node("n2", cpu="1"): [pod("b", priority=500)]}


def reported(nodes, waiting, *, scheduler=SCHEDULER, show=None, **objects):
    """The report of a pending pod."""
    here = built(cluster(nodes, waiting=[waiting], **objects))
    return diagnose(here, typed(waiting), scheduler, node=show)


def reported_of(name, nodes, *, scheduler=SCHEDULER, show=None, **objects):
    """The report of a pod that has its node."""
    here = built(cluster(nodes, **objects))
    return diagnose(here, here.objects.pods["default", name], scheduler, node=show)


def test_the_amounts_of_a_request_have_units():
    found = reported(FULL, incoming(memory="1Gi", requests={"hugepages-2Mi": "4Mi", "example.com/gpu": "1"}))
    assert (found.requests["cpu"], found.requests["memory"]) == (1000, 1 << 30)
    assert found.units == {
        "cpu": "millicores", "memory": "bytes", "hugepages-2Mi": "bytes", "example.com/gpu": "count",
    }  # fmt: skip


# --- names that are not there -----------------------------------------------------------------------------------------


def owned(name, kind, owner, **fields):
    return pod(name, metadata={"ownerReferences": [{"kind": kind, "name": owner, "controller": True}]}, **fields)


NAMED = {
    node("worker-1"): [
        owned("web-5d9f-abcde", "ReplicaSet", "web-5d9f"),
        owned("nightly-28500000-xyz", "Job", "nightly-28500000"),
        owned("db-0", "StatefulSet", "db"),
        pod("cart-9", namespace="shop"),
        pod("checkout", namespace="production-payments"),
    ]
}


@pytest.mark.parametrize(
    ("namespace", "name", "why", "suggested"),
    [
        ("default", "cart-9", "; it has shop/cart-9", ["shop/cart-9"]),
        ("shop", "cart-8", " (did you mean shop/cart-9?)", ["shop/cart-9"]),
        ("default", "web", "; Deployment default/web has the pods default/web-5d9f-abcde", ["default/web-5d9f-abcde"]),
        ("shop", "db", "; StatefulSet default/db has the pods default/db-0", ["default/db-0"]),
        (
            "default",
            "nightly",
            "; CronJob default/nightly has the pods default/nightly-28500000-xyz",
            ["default/nightly-28500000-xyz"],
        ),
        ("default", "web-5d", " (did you mean default/web-5d9f-abcde?)", ["default/web-5d9f-abcde"]),
        ("shap", "cart-9x", " (did you mean shop/cart-9?)", ["shop/cart-9"]),
        ("default", "unlike-any", "", []),
        ("default", "Web-5d9f-ABCDE", " (did you mean default/web-5d9f-abcde?)", ["default/web-5d9f-abcde"]),
        ("Shop", "Cart-8", " (did you mean shop/cart-9?)", ["shop/cart-9"]),
        ("shop", "Cart-9", " (did you mean shop/cart-9?)", ["shop/cart-9"]),
        ("production-payments", "redis-0", "", []),
        ("production-payment", "redis-0", "", []),
    ],
)
def test_a_name_that_is_not_there_gets_those_that_may_be_meant(namespace, name, why, suggested):
    found = not_found(built(cluster(NAMED)), namespace, name, SCHEDULER)
    assert found.why == f"the cluster has no pod {namespace}/{name}{why}"
    assert found.suggestions == suggested


def test_a_node_that_is_not_there_gets_those_that_may_be_meant():
    with pytest.raises(RequestError, match=r"^node 'worker-2' does not exist \(did you mean worker-1\?\)$"):
        reported(NAMED, incoming(), show="worker-2")


def test_a_missing_claim_ends_the_message_with_words_that_are_explained():
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    found = reported({node("n1"): []}, incoming(volumes=[volume]))
    assert found.message.endswith('persistentvolumeclaim "data" not found. not found')
    assert found.preemption is not None
    assert found.preemption.message == ""
    assert found.hint is not None
    assert "tries no preemption for this pod: the reason stands before it" in found.hint
    assert (found.cause, found.cause_nodes) == ('persistentvolumeclaim "data" not found', 0)


def test_the_counts_of_a_reason_say_what_the_dry_run_found():
    found = reported(FULL, incoming(priority=100))
    assert [(one.nodes, one.candidates) for one in found.reasons] == [(2, 1)]
    assert found.preemption is not None
    assert found.preemption.candidates == 1


# --- a pod without a node -------------------------------------------------------------------------------------------


def test_a_pod_that_fits_gets_the_node_with_the_highest_score():
    found = reported({node("n1"): [pod("a", cpu="2")], node("n2"): [], node("n3", unschedulable=True): []}, incoming())
    assert (found.state, found.verdict, found.message, found.node, found.feasible) == ("Pending", "Fits", "", "n2", 2)
    assert found.why == (
        "default/incoming fits on 2 of 3 nodes; kube-scheduler would bind it to n2, which has the highest score"
    )
    ranks = {one.name: one.scores and one.scores.rank for one in found.nodes}
    assert ranks == {"n1": 2, "n2": 1, "n3": None}
    assert found.preemption is None


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        pytest.param({node("n1"): []}, "default/incoming fits on 1 of 1 node: n1", id="a single node"),
        pytest.param(
            {node("n1"): [], node("n2"): []},
            "default/incoming fits on 2 of 2 nodes; kube-scheduler would bind it to n1, one of 2 with the highest "
            "score",
            id="equal nodes",
        ),
    ],
)
def test_the_sentence_says_how_the_node_is_chosen(nodes, why):
    assert reported(nodes, incoming()).why == why


def test_reasons_are_counted_with_their_nodes_the_most_common_first():
    nodes: Nodes = {node(f"n{number}", cpu="500m", memory="1Mi"): [] for number in (1, 2)}
    nodes |= {node("n3", cpu="500m"): [], node("t", taints=[GPU_TAINT]): [], node("u", unschedulable=True): []}
    found = reported(nodes, incoming(memory="1Gi"))
    assert [(one.nodes, one.plugin, one.reason, one.examples) for one in found.reasons] == [
        (3, "NodeResourcesFit", "Insufficient cpu", ["n1", "n2", "n3"]),
        (2, "NodeResourcesFit", "Insufficient memory", ["n1", "n2"]),
        (1, "TaintToleration", "node(s) had untolerated taint(s)", ["t"]),
        (1, "NodeUnschedulable", "node(s) were unschedulable", ["u"]),
    ]
    assert found.why == (
        "default/incoming fits on none of 5 nodes: 2 with too little cpu and memory "
        "(requests 1000m cpu, most free: 500m on n1; requests 1024Mi memory, most free: 1Mi on n1), "
        "1 cordoned, 1 with a taint that it does not tolerate, 1 with too little cpu; no eviction would make room"
    )
    assert found.verdict == "DoesNotFit"


def test_a_preemption_is_told_with_its_victims_and_what_else_stands_for_choice():
    found = reported(FULL, incoming(), budgets=[budget(app="a")])
    assert (found.verdict, found.node) == ("FitsAfterPreemption", None)
    preemption = found.preemption
    assert preemption is not None
    assert (preemption.node, preemption.candidates, preemption.num_pdb_violations) == ("n2", 2, 0)
    assert [(one.pod, one.priority, one.budgets) for one in preemption.victims] == [("default/b", 500, [])]
    assert found.message == (
        "0/2 nodes are available: 2 Insufficient cpu. preemption: found a potential placement for pod on node n2, "
        "preempting 1 victims"
    )
    assert found.why.endswith(
        "2 with too little cpu (requests 1 cpu, most free: 0 on n1); evicting default/b from n2 would make room"
    )
    assert {one.name: one.preemption and one.preemption.victims for one in found.nodes} == {
        "n1": ["default/a"],
        "n2": ["default/b"],
    }


@pytest.mark.parametrize(
    ("waiting", "clause"),
    [
        pytest.param(
            incoming(preemptionPolicy="Never"), "it may not evict others (preemptionPolicy: Never)", id="never"
        ),
        pytest.param(incoming(priority=0), "no eviction would make room", id="not of higher priority"),
    ],
)
def test_the_sentence_says_why_no_pod_is_evicted(waiting, clause):
    found = reported({node("n1", cpu="1"): [pod("a")], node("n2", cpu="1"): [pod("b")]}, waiting)
    assert found.verdict == "DoesNotFit"
    assert found.why.endswith(f"; {clause}")


def test_policies_that_allow_no_eviction_are_named():
    strict = KubeScheduler((Profile(preemption=PreemptionPolicy(disruption_budgets="Strict")),))
    found = reported({node("n1", cpu="1"): [pod("a")]}, incoming(), scheduler=strict, budgets=[budget(app="a")])
    assert found.verdict == "DoesNotFit"
    assert "your policies allow no eviction for it (1 node: would break disruption budget default/budget)" in found.why
    assert found.policies == ["disruptionBudgets: Strict"]


def test_where_a_post_filter_that_is_not_in_tree_may_nominate_the_pod_the_verdict_is_not_known():
    own = KubeScheduler((Profile(not_evaluated_post_filters=("Ours",)),))
    full: Nodes = {node("n1", cpu="1"): [pod("a", priority=5000)]}
    found = reported(full, incoming(), scheduler=own)
    assert (found.verdict, found.not_evaluated) == ("Unknown", ["Ours"])
    assert reported({node("n1"): []}, incoming(), scheduler=own).verdict == "Fits"
    assert reported({}, incoming(), scheduler=own).verdict == "DoesNotFit"  # kube-scheduler runs no PostFilter


def test_where_policies_rank_otherwise_kube_scheduler_has_the_last_word():
    policy = PreemptionPolicy(ranking=("VictimCount",))
    fewest = KubeScheduler((Profile(preemption=policy, keep_candidates=2),))
    nodes = {node("n1", cpu="1"): [pod("a", priority=500)], node("n2", cpu="1"): [pod("b", "500m"), pod("c", "500m")]}
    found = reported(nodes, incoming(), scheduler=fewest).preemption
    assert found is not None
    assert (found.node, found.ties, found.candidates) == ("n2", ["n2"], 2)


def test_a_pod_whose_victims_still_terminate_waits_for_them():
    disrupted = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]}
    going = pod("a", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}, status=disrupted)
    found = reported({node("n1", cpu="1"): [going]}, incoming(status={"phase": "Pending", "nominatedNodeName": "n1"}))
    assert found.verdict == "FitsAfterPreemption"
    assert found.why.endswith("; it waits until the pods evicted for it on n1 are gone")


def test_a_rejection_before_the_nodes_are_filtered_is_said_once():
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    found = reported({node("n1"): [], node("n2"): []}, incoming(volumes=[claim]))
    assert found.why.startswith(
        'default/incoming fits on none of 2 nodes: persistentvolumeclaim "data" not found; no eviction'
    )
    assert [(one.nodes, one.plugin) for one in found.reasons] == [(2, "VolumeRestrictions")]


def test_a_cluster_without_nodes():
    found = reported({}, incoming())
    assert (found.verdict, found.why) == ("DoesNotFit", "default/incoming fits nowhere: the cluster has no nodes")
    assert found.message == "no nodes available to schedule pods"


# --- a pod that kube-scheduler does not try -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("waiting", "state", "nodes", "why"),
    [
        pytest.param(
            incoming(schedulingGates=[{"name": "quota"}]),
            "Gated",
            1,
            "kube-scheduler does not try default/incoming yet: waiting for scheduling gates: [quota]",
            id="gated",
        ),
        pytest.param(
            incoming(schedulerName="other"),
            "NotOurs",
            0,
            'default/incoming is for another scheduler: no profile has schedulerName "other"',
            id="of another scheduler",
        ),
        pytest.param(
            incoming(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
            "Terminating",
            0,
            "default/incoming is being deleted: kube-scheduler does not try it any more",
            id="being deleted",
        ),
        pytest.param(
            incoming(status={"phase": "Succeeded"}),
            "Finished",
            0,
            "default/incoming has finished: it needs no node any more",
            id="finished",
        ),
        pytest.param(
            incoming(nodeName="n1", status={"phase": "Failed"}),
            "Finished",
            0,
            "default/incoming has finished: it needs no node any more",
            id="finished on its node",
        ),
    ],
)
def test_not_tried(waiting, state, nodes, why):
    found = reported({node("n1"): []}, waiting)
    assert (found.state, found.verdict, len(found.nodes), found.why) == (state, "Unknown", nodes, why)


def test_a_pod_that_does_not_exist():
    found = not_found(snapshot({node("n1"): []}), "shop", "x", SCHEDULER)
    assert (found.state, found.verdict, found.pod, found.why) == (
        "NotFound",
        "Unknown",
        "shop/x",
        "the cluster has no pod shop/x",
    )


EVICTED = PreemptedBy(
    message="Preempted by pod uid-b on node n1",
    time=None,
    node="n1",
    preemptor_uid="uid-b",
    preemptor="shop/b",
    preemptor_exists=True,
    preemptor_node="n1",
    is_running=True,
)


@pytest.mark.parametrize(
    ("by", "why"),
    [
        pytest.param({}, "shop/x was preempted on n1 by shop/b, which is on n1", id="running"),
        pytest.param(
            {"is_running": False}, "shop/x was preempted on n1 by shop/b, which is nominated to n1", id="nominated"
        ),
        pytest.param(
            {"is_running": False, "preemptor_node": None},
            "shop/x was preempted on n1 by shop/b, which is waiting",
            id="without a node",
        ),
        pytest.param(
            {"preemptor_exists": False},
            "shop/x was preempted on n1 by shop/b, which does not exist any more",
            id="gone",
        ),
        pytest.param(
            {"preemptor": None},
            "shop/x was preempted on n1: Preempted by pod uid-b on node n1",
            id="unknown",
        ),
    ],
)
def test_of_an_evicted_pod_the_sentence_says_which_one_took_its_place(by, why):
    found = not_found(snapshot({node("n1"): []}), "shop", "x", SCHEDULER)
    history = PodHistory(failed_scheduling=None, preempted=replace(EVICTED, **by), nominated_node=None, notes=[])
    assert with_history(found, history).why == why
    running = reported_of("a", {node("n1"): [pod("a")]})
    assert with_history(running, history).why == running.why


# --- a pod that has its node ----------------------------------------------------------------------------------------


def test_a_running_pod_does_not_stand_in_its_own_way():
    port = [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    }
    found = reported_of("a", {node("n1", cpu="1"): [pod("a", ports=port, affinity=apart)], node("n2", cpu="1"): []})
    assert (found.state, found.verdict, found.feasible) == ("Assigned", "Fits", 2)
    assert found.placement is not None
    assert found.placement.status is not None
    assert found.placement.status.code == "Success"


def test_the_node_of_a_running_pod_is_compared_with_the_others():
    found = reported_of("a", {node("n1"): [pod("a"), pod("b", cpu="2")], node("n2"): [], node("n3", cpu="500m"): []})
    assert found.why.startswith("default/a is on n1, with rank 2 of 2 nodes on which it fits now: n2 would score ")
    assert found.why.endswith("; kube-scheduler does not move running pods")
    assert found.placement is not None
    assert found.placement.runners_up == ["n2"]


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        pytest.param({node("n1"): [pod("a")]}, "the only node of the cluster", id="alone"),
        pytest.param(
            {node("n1", unschedulable=True): [pod("a")], node("n2"): []},
            "where it would no longer fit: node(s) were unschedulable; kube-scheduler does not move running pods",
            id="a cordoned node",
        ),
        pytest.param(
            {node("n1"): [pod("a", metadata={"annotations": {"kubernetes.io/config.mirror": "x"}})]},
            "its kubelet runs it as a static pod, and kube-scheduler did not place it",
            id="a static pod",
        ),
        pytest.param(
            {node("n1"): [pod("a", schedulerName="other")]},
            'no profile has its schedulerName "other": another scheduler placed it',
            id="of another scheduler",
        ),
    ],
)
def test_why_a_pod_is_where_it_is(nodes, why):
    assert why in reported_of("a", nodes).why


@pytest.mark.parametrize("nodes", [{node("n1"): []}, {}], ids=["one node", "no node"])
def test_a_pod_on_a_node_that_is_gone(nodes):
    here = built(cluster(nodes, waiting=[pod("a", nodeName="n9")]))
    found = diagnose(here, here.objects.pods["default", "a"], SCHEDULER)
    assert found.why == "default/a is on n9, a node that no longer exists"


@pytest.mark.parametrize("shared", [False, True])
def test_the_devices_of_a_running_pod_count_as_free_unless_another_pod_uses_them(shared):
    users = ("a", "b") if shared else ("a",)
    given = claim("mine", request(), allocated=[("n1", "gpu-0")], node="n1", reserved_for=users)
    slices = [resource_slice(name, name, devices(1)) for name in ("n1", "n2")]
    here = {node("n1"): [pod("a", **using_claims("mine"))], node("n2"): []}
    found = reported_of("a", here, others=[device_class(), *slices, given])
    assert found.feasible == (1 if shared else 2)


def test_the_snapshot_is_afterwards_as_before():
    here = built(cluster({node("n1"): [pod("a"), pod("b")], node("n2"): []}))
    before, layout = here.frozen(), here.pods_on("n1")
    diagnose(here, here.objects.pods["default", "a"], SCHEDULER)
    assert here.frozen() == before
    assert here.pods_on("n1") == layout


# --- one node in full -----------------------------------------------------------------------------------------------


def test_one_node_is_shown_with_its_pods_and_resources():
    found = reported(FULL, incoming(), show="n1")
    details = found.details
    assert details is not None
    assert [(one.key, one.role) for one in details.pods] == [("default/a", "victim")]
    assert (details.allocatable["cpu"], details.used["cpu"], details.freed["cpu"]) == (1000, 1000, 1000)


def test_a_node_on_which_the_pod_fits_is_shown_too():
    details = reported({node("n1"): [pod("a")], node("n2"): []}, incoming(), show="n1").details
    assert details is not None
    assert (details.outcome, [one.role for one in details.pods], details.rank) == ("accepted", ["reprieved"], None)


def test_a_node_that_does_not_exist_is_an_error():
    with pytest.raises(RequestError, match="node 'n9' does not exist"):
        reported({node("n1"): []}, incoming(), show="n9")
