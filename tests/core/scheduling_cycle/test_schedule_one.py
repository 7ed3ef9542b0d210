"""One scheduling cycle, step by step: skip, filter, score, choose a node; or choose victims, and report why."""

import pytest

from extender import Snapshot, load_cluster
from extender.core.engine import Candidate
from extender.core.eviction_history import Eviction, EvictionHistory
from extender.core.profile import KubeScheduler, Limits, PreemptionPolicy, Profile, Protection, ScoringStrategy
from extender.core.scheduling_cycle.schedule_one import (
    MAX_LISTED_TIES,
    pick_one_node_for_preemption,
    schedule_one,
    seeded_draw,
)
from extender.k8s.version.features import Features
from tests.builders import budget, built, cluster, incoming, node, pod, snapshot, typed
from tests.device_builders import undecided_claim, using_claims

STRICT = Profile(preemption=PreemptionPolicy(disruption_budgets="Strict"))


def cycle(nodes, arriving=None, profile=None, draw=None, **objects):
    scheduler = KubeScheduler((profile or Profile(),))
    return schedule_one(built(cluster(nodes, **objects)), typed(arriving or incoming()), scheduler, draw=draw)


def victims(found):
    return [victim.metadata.name for victim in found.victims]


# --- skipped ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arriving", "profile", "message"),
    [
        pytest.param(
            incoming(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
            Profile(),
            "skip schedule deleting pod: default/incoming",
            id="a pod that is being deleted",
        ),
        pytest.param(incoming(nodeName="n9"), Profile(), "is assigned to node n9 already", id="a pod with a node"),
        pytest.param(
            incoming(schedulingGates=[{"name": "quota"}, {"name": "data"}]),
            Profile(),
            "not tried: waiting for scheduling gates: [quota data]",
            id="a gated pod",
        ),
        pytest.param(
            incoming(schedulerName="other"),
            Profile(),
            'not tried: not ours: no profile has schedulerName "other"',
            id="a pod of another scheduler",
        ),
        pytest.param(
            incoming(status={"phase": "Succeeded"}), Profile(), "is Succeeded already", id="a pod that has finished"
        ),
    ],
)
def test_not_tried_is(arriving, profile, message):
    found = cycle({node("n1"): []}, arriving, profile)
    assert (found.outcome, found.message, found.node, found.feasible) == ("Skipped", message, None, 0)


def test_a_pod_is_tried_by_the_profile_of_its_scheduler_name():
    packing = Profile(
        "packing", fit_strategy=ScoringStrategy("MostAllocated"), score_weights=(("NodeResourcesFit", 1),)
    )
    scheduler, here = KubeScheduler((Profile(), packing)), snapshot({node("n1"): [pod("a", cpu="2")], node("n2"): []})
    found = {
        name: schedule_one(here, typed(incoming(schedulerName=name)), scheduler).node
        for name in ("default-scheduler", "packing")
    }
    assert found == {"default-scheduler": "n2", "packing": "n1"}


# --- a node -------------------------------------------------------------------------------------------------------


def test_a_node_that_is_alone_is_taken_without_scoring():
    found = cycle({node("n1"): [], node("n2", unschedulable=True): []})
    assert (found.outcome, found.node, found.feasible, found.score) == ("Scheduled", "n1", 1, None)


def test_of_several_the_one_with_the_highest_total_is_taken_with_its_scores():
    found = cycle({node("n1"): [pod("a", cpu="2")], node("n2"): []})
    assert (found.outcome, found.node, found.feasible) == ("Scheduled", "n2", 2)
    assert found.score is not None
    assert found.score.total == sum(found.score.plugins.values())
    assert (found.score.tied, found.score.ties) == (1, ["n2"])


def test_of_equals_the_first_by_name_is_taken():
    found = cycle({node("n2"): [], node("n10"): [], node("n1"): []})
    assert found.node == "n1"
    assert found.score is not None
    assert found.score.ties == ["n1", "n10", "n2"]


def test_of_equals_any_may_be_drawn():
    nodes: dict = {node(name): [] for name in ("n1", "n2", "n3")}
    assert [cycle(nodes, draw=lambda _, n=n: n).node for n in range(3)] == ["n1", "n2", "n3"]


def test_of_many_ties_ten_are_listed_and_all_are_counted():
    found = cycle({node(f"n{place:02}"): [] for place in range(15)})
    assert found.score is not None
    assert (found.score.tied, len(found.score.ties)) == (15, MAX_LISTED_TIES)


def test_nothing_is_drawn_where_there_is_no_choice():
    def draw(_):
        raise AssertionError("drawn")

    assert cycle({node("n1"): [], node("n2"): [pod("a")]}, draw=draw).node == "n1"


def test_the_nominated_node_is_filtered_first_and_chosen_although_others_are_better():
    nodes = {node("n1"): [pod("a", cpu="2")], node("n2"): []}
    found = cycle(nodes, incoming(status={"nominatedNodeName": "n1"}))
    assert (found.outcome, found.node, found.feasible, found.score) == ("Scheduled", "n1", 1, None)
    assert found.nominated_node == ""


@pytest.mark.parametrize("nominated", ["n1", "gone"])
def test_where_the_pod_does_not_fit_on_its_nominated_node_all_others_are_filtered(nominated):
    nodes = {node("n1", cpu="1"): [pod("a", priority=2000)], node("n2"): [], node("n3"): []}
    found = cycle(nodes, incoming(status={"nominatedNodeName": nominated}))
    assert (found.node, found.feasible) == ("n2", 2)


def test_the_nominated_node_is_not_taken_where_a_more_important_nominee_needs_the_room():
    other = incoming("other", priority=5000, status={"nominatedNodeName": "n1"})
    nodes: dict = {node("n1", cpu="1"): [], node("n2", cpu="1"): []}
    found = cycle(nodes, incoming(status={"nominatedNodeName": "n1"}), waiting=[other])
    assert found.node == "n2"


def test_room_of_nominees_of_equal_priority_is_not_taken_and_that_of_lesser_ones_is():
    def taken(priority):
        waiting = [incoming("other", priority=priority, status={"nominatedNodeName": "n1"})]
        return cycle({node("n1", cpu="1"): []}, waiting=waiting).outcome

    assert [taken(priority) for priority in (999, 1000)] == ["Scheduled", "Unschedulable"]


# --- no node ------------------------------------------------------------------------------------------------------


def test_without_a_node_there_is_kube_scheduler_s_own_sentence():
    found = cycle({})
    assert (found.outcome, found.message, found.post_filter) == (
        "Unschedulable",
        "no nodes available to schedule pods",
        None,
    )


def test_reasons_are_counted_and_sorted_as_text():
    nodes = {node(f"n{place}", cpu="1"): [pod(f"p{place}", priority=5000)] for place in range(10)}
    nodes |= {node(f"u{place}", unschedulable=True): [] for place in range(2)}
    assert cycle(nodes).message == (
        "0/12 nodes are available: 10 Insufficient cpu, 2 node(s) were unschedulable. "
        "preemption: 0/12 nodes are available: 10 No preemption victims found for incoming pod, "
        "2 Preemption is not helpful for scheduling."
    )


def test_a_pod_that_never_preempts_gets_that_message_and_keeps_its_nomination():
    never = incoming(preemptionPolicy="Never", status={"nominatedNodeName": "n1"})
    found = cycle({node("n1", cpu="1"): [pod("a")]}, never)
    assert found.message == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never."
    )
    assert (found.nominated_node, victims(found)) == ("n1", [])


def test_a_pod_waits_for_its_terminating_victims():
    leaving = pod(
        "a",
        metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"},
        status={"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]},
    )
    nodes = {node("n1", cpu="1"): [leaving], node("n2", cpu="1"): [pod("b")]}
    found = cycle(nodes, incoming(status={"nominatedNodeName": "n1"}))
    assert found.outcome == "Unschedulable"
    assert found.message.endswith("preemption: not eligible due to a terminating pod on the nominated node.")
    assert found.nominated_node == "n1"


def test_where_no_eviction_helps_the_nomination_is_cleared():
    nodes = {node("n1", cpu="1"): [pod("a", priority=2000)]}
    found = cycle(nodes, incoming(status={"nominatedNodeName": "n1"}))
    assert (found.outcome, found.nominated_node) == ("Unschedulable", "")


def test_after_a_rejection_at_prefilter_preemption_is_not_even_tried():
    lost = incoming(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    found = cycle({node("n1", cpu="1"): [pod("a")]}, lost)
    assert found.message == '0/1 nodes are available: persistentvolumeclaim "data" not found. not found'
    assert found.post_filter is not None
    assert found.post_filter.code == "Error"
    assert found.unschedulable_plugins == {"VolumeRestrictions"}


def test_nodes_that_prefilter_leaves_out_are_counted_as_such_but_not_the_nominated_one():
    """It is asked before PreFilter's choice of nodes is looked at, so that it has a verdict of its own."""
    match = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [match]}}}
    nodes = {node("n1", cpu="1"): [pod("a", priority=2000)], node("n2"): [], node("n3"): []}

    def message(**fields):
        return cycle(nodes, incoming(affinity=affinity, **fields)).message.partition(". ")[0]

    left_out = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
    own = "node(s) didn't match Pod's node affinity/selector"
    assert message() == f"0/3 nodes are available: 1 Insufficient cpu, 2 {left_out}"
    assert message(status={"nominatedNodeName": "n2"}) == (
        f"0/3 nodes are available: 1 Insufficient cpu, 1 {own}, 1 {left_out}"
    )


# --- what 1.37 says of the PostFilter ---------------------------------------------------------------------------------


def of_minor(minor, nodes, arriving=None, **objects):
    features = Features.of(minor)
    here = Snapshot.build(load_cluster(cluster(nodes, **objects)), features)
    return schedule_one(here, typed(arriving or incoming()), KubeScheduler((Profile(),), features))


@pytest.mark.parametrize(
    ("minor", "said"),
    [
        pytest.param(36, "", id="1.36"),
        pytest.param(
            37, " preemption: found a potential placement for pod on node n1, preempting {} victims", id="1.37"
        ),
    ],
)
@pytest.mark.parametrize("count", [1, 2])
def test_the_message_of_a_pod_that_preempts_others_names_its_node_and_the_number_of_victims_since_1_37(
    minor, said, count
):
    """Messages of v1.36.3 and v1.37.2: without a full stop, and `1 victims`."""
    found = of_minor(
        minor, {node("n1", cpu="2"): [pod(name, cpu="1") for name in "ab"]}, incoming(cpu=str(count), priority=100)
    )
    assert (found.outcome, len(found.victims)) == ("Nominated", count)
    assert found.message == f"0/1 nodes are available: 1 Insufficient cpu.{said.format(count)}"
    assert found.post_filter is not None
    assert found.post_filter.message == said.format(count).strip()


def test_the_number_of_victims_is_that_of_the_policies_where_there_are_any():
    """kube-scheduler says what it was answered by its extenders."""
    nodes = {node("n1", cpu="2"): [pod("a", cpu="1"), pod("b", cpu="1")]}
    features = Features.of(37)
    here = Snapshot.build(load_cluster(cluster(nodes)), features)
    found = schedule_one(here, typed(incoming(cpu="1")), KubeScheduler((STRICT,), features))
    assert found.message.endswith("preemption: found a potential placement for pod on node n1, preempting 1 victims")


@pytest.mark.parametrize(
    ("minor", "said"), [pytest.param(36, "no new claims to deallocate, ", id="1.36"), pytest.param(37, "", id="1.37")]
)
def test_a_pod_without_claims_is_told_nothing_of_them_since_1_37(minor, said):
    found = of_minor(minor, {node("n1", cpu="1"): []}, incoming(cpu="2"))
    assert found.message == (
        f"0/1 nodes are available: 1 Insufficient cpu. {said}preemption: 0/1 nodes are available: "
        "1 Preemption is not helpful for scheduling."
    )


PORT_TAKEN = "1 node(s) didn't have free ports for the requested pod ports"


@pytest.mark.parametrize(
    ("targets", "nominated", "reasons", "plugins"),
    [
        pytest.param(["n1"], "", "4 node(s) didn't satisfy plugin(s) [NodeAffinity]", set(), id="none"),
        pytest.param(["n1"], "n9", "4 node(s) didn't satisfy plugin(s) [NodeAffinity]", set(), id="a missing node"),
        pytest.param(
            ["n1"], "n1", "4 node(s) didn't satisfy plugin(s) [NodeAffinity NodeResourcesFit]", set(), id="a full node"
        ),
        pytest.param(
            ["n1"],
            "n2",
            "1 node(s) didn't match Pod's node affinity/selector, 3 node(s) didn't satisfy plugin(s) [NodeAffinity]",
            set(),
            id="another node",
        ),
        pytest.param(
            ["n1"],
            "n3",
            "1 node(s) were unschedulable, 3 node(s) didn't satisfy plugin(s) [NodeAffinity NodeUnschedulable]",
            {"NodeUnschedulable"},
            id="a cordoned node",
        ),
        pytest.param(
            ["n1"],
            "n4",
            "1 node(s) had untolerated taint(s), 3 node(s) didn't satisfy plugin(s) [NodeAffinity TaintToleration]",
            {"TaintToleration"},
            id="a tainted node",
        ),
        pytest.param(
            ["n1", "n5"],
            "n5",
            f"{PORT_TAKEN}, 3 node(s) didn't satisfy plugin(s) [NodeAffinity NodePorts]",
            {"NodePorts"},
            id="a node whose port is taken and that is full",
        ),
        pytest.param(
            ["n1", "n5"],
            "n1",
            f"{PORT_TAKEN}, 3 node(s) didn't satisfy plugin(s) [NodeAffinity NodeResourcesFit]",
            {"NodePorts"},
            id="the other of two nodes that PreFilter leaves",
        ),
    ],
)
def test_the_plugin_that_rejected_the_nominated_node_is_named_for_the_nodes_that_prefilter_leaves_out(
    targets, nominated, reasons, plugins
):
    """Messages of kube-scheduler v1.36.2 on a cluster of these nodes."""
    nodes = {
        node("n1", cpu="1"): [pod("a", priority=2000)],
        node("n2", cpu="1"): [],
        node("n3", cpu="1", unschedulable=True): [],
        node("n4", cpu="1", taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}]): [],
        node("n5", cpu="1"): [pod("b", cpu="100m", priority=2000, ports=[{"hostPort": 80}])],
    }
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in targets]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    ports = [{"hostPort": 80}] if "n5" in targets else []
    found = cycle(nodes, incoming(affinity=affinity, ports=ports, status={"nominatedNodeName": nominated}))
    assert found.message == (
        f"0/5 nodes are available: 1 Insufficient cpu, {reasons}. preemption: 0/5 nodes "
        f"are available: {len(targets)} No preemption victims found for incoming pod, {5 - len(targets)} Preemption is "
        "not helpful for scheduling."
    )
    assert found.unschedulable_plugins == {"NodeAffinity", "NodeResourcesFit", *plugins}


def test_the_plugins_that_rejected_nodes_are_listed():
    nodes = {node("n1", cpu="1"): [pod("a")], node("n2", unschedulable=True): []}
    assert cycle(nodes).unschedulable_plugins == {"NodeResourcesFit", "NodeUnschedulable"}


def test_plugins_that_are_not_evaluated_are_listed_for_every_outcome():
    for cpu in ("4", "500m"):
        objects = built(cluster({node("n1", cpu=cpu): []}, others=undecided_claim("gpu")))
        found = schedule_one(objects, typed(incoming(**using_claims("gpu"))), KubeScheduler((Profile(),)))
        assert found.not_evaluated == ("DynamicResources",)
    assert cycle({node("n1"): []}).not_evaluated == ()


# --- preemption ---------------------------------------------------------------------------------------------------


def test_the_best_candidate_is_nominated():
    nodes = {node("n1", cpu="1"): [pod("a", priority=10)], node("n2", cpu="1"): [pod("b", priority=5)]}
    found = cycle(nodes)
    assert (found.outcome, found.node, victims(found), found.nominated_node) == ("Nominated", "n2", ["b"], "n2")
    assert found.message == (
        "0/2 nodes are available: 2 Insufficient cpu. preemption: found a potential placement for pod on node n2, "
        "preempting 1 victims"
    )
    assert found.num_pdb_violations == 0


def test_of_equal_candidates_the_first_by_name_or_any_that_is_drawn():
    nodes = {node(name, cpu="1"): [pod(f"on-{name}")] for name in ("n2", "n1")}
    assert cycle(nodes).node == "n1"
    assert [cycle(nodes, draw=lambda _, n=n: n).node for n in range(2)] == ["n1", "n2"]


def test_budgets_are_broken_where_nothing_else_helps_and_that_is_counted():
    found = cycle({node("n1", cpu="1"): [pod("a")]}, budgets=[budget(app="a")])
    assert (victims(found), found.num_pdb_violations) == (["a"], 1)


TWO_LOW_OR_ONE_HIGH = {
    node("n1", cpu="1"): [pod("low", cpu="500m", priority=1), pod("lower", cpu="500m", priority=0)],
    node("n2", cpu="1"): [pod("high", priority=500)],
}


def test_with_other_policies_the_node_is_the_one_that_they_answer():
    by_count = PreemptionPolicy(ranking=("VictimCount",))
    assert cycle(TWO_LOW_OR_ONE_HIGH).node == "n1"
    found = cycle(TWO_LOW_OR_ONE_HIGH, profile=Profile(preemption=by_count))
    assert (found.node, victims(found)) == ("n2", ["high"])


def test_of_several_nodes_in_the_answer_kube_scheduler_takes_the_one_that_it_likes_best():
    by_count = Profile(preemption=PreemptionPolicy(ranking=("VictimCount",)), keep_candidates=None)
    assert cycle(TWO_LOW_OR_ONE_HIGH, profile=by_count).node == "n1"


def test_pods_that_a_policy_protects_stay():
    keep = Protection("keep", priority_classes=frozenset({"keep"}))
    nodes = {
        node("n1", cpu="1"): [pod("a", priority=1, priorityClassName="keep")],
        node("n2", cpu="1"): [pod("b", priority=2)],
    }
    assert cycle(nodes).node == "n1"
    found = cycle(nodes, profile=Profile(preemption=PreemptionPolicy(protections=(keep,))))
    assert (found.node, victims(found)) == ("n2", ["b"])


def test_a_veto_leaves_the_pod_pending_with_kube_scheduler_s_words_and_the_extender_s_reason():
    waiting = incoming(status={"nominatedNodeName": "gone"})
    found = cycle({node("n1", cpu="1"): [pod("a")]}, waiting, STRICT, budgets=[budget(app="a")])
    assert found.outcome == "Unschedulable"
    assert found.message == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: no candidate node for preemption"
    )
    assert found.vetoed == "1 node: would break disruption budget default/budget"
    assert found.nominated_node == "gone"


def test_shared_reasons_are_listed_once_and_only_the_most_common_three():
    nodes = {node(f"n{place}", cpu="1"): [pod(f"p{place}", labels={"app": f"a{place // 2}"})] for place in range(8)}
    budgets = [budget(f"b{number}", app=f"a{number}") for number in range(4)]
    found = cycle(nodes, profile=STRICT, budgets=budgets)
    assert found.vetoed is not None
    assert found.vetoed.split("; ") == [
        f"2 nodes: would break disruption budget default/b{number}" for number in range(3)
    ]


def test_a_veto_for_all_nodes_is_listed_once():
    profile = Profile(preemption=PreemptionPolicy(limits=Limits(evictions_per_minute=1)))
    before = EvictionHistory(0, (Eviction(0, ("default", "Pod", "x")),))
    here = snapshot({node(f"n{place}", cpu="1"): [pod(f"p{place}")] for place in range(3)})
    found = schedule_one(here, typed(incoming()), KubeScheduler((profile,)), before)
    assert found.vetoed == "eviction rate limit (1 per minute) reached: not until 1970-01-01T00:01:00Z"


def test_all_nodes_helps_only_where_kube_scheduler_has_a_candidate_to_ask_about():
    profile = Profile(preemption=PreemptionPolicy(candidates="AllNodes"))
    hopeless = {node("n1", cpu="1"): [pod("a", priority=2000)]}
    found = cycle(hopeless, profile=profile)
    assert (found.outcome, found.vetoed) == ("Unschedulable", None)


# --- of several nodes in an extender's answer ------------------------------------------------------------------------


def candidate(name, *pods, violations=0):
    return Candidate(name, tuple(map(typed, pods)), violations)


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        pytest.param(
            candidate("z", pod("a", priority=9)), candidate("a", pod("b", priority=1), violations=1), id="violations"
        ),
        pytest.param(
            candidate("z", pod("a", priority=1), pod("b", priority=1)),
            candidate("a", pod("c", priority=2)),
            id="the highest priority",
        ),
        pytest.param(
            candidate("z", pod("a", priority=5)),
            candidate("a", pod("b", priority=5), pod("c", priority=-5)),
            id="the sum of priorities, each made positive",
        ),
        pytest.param(
            candidate("z", pod("a", start="2026-01-02T00:00:00Z")),
            candidate("a", pod("b", start="2026-01-01T00:00:00Z")),
            id="the latest start",
        ),
        pytest.param(candidate("z", pod("a", start=None)), candidate("a", pod("b")), id="a pod that has not started"),
    ],
)
def test_kube_scheduler_picks_by(better, worse):
    assert pick_one_node_for_preemption([worse, better]).node == "z"
    assert pick_one_node_for_preemption([better, worse]).node == "z"


def test_of_equal_answers_the_first_by_name_or_any_that_is_drawn():
    equal = [candidate("b", pod("x")), candidate("a", pod("y")), candidate("c", pod("z"), violations=1)]
    assert pick_one_node_for_preemption(equal).node == "a"
    assert pick_one_node_for_preemption(equal, lambda _: 1).node == "b"


# --- chance ----------------------------------------------------------------------------------------------------------


def test_draws_are_the_same_for_a_seed_and_others_for_another():
    one, same, other = seeded_draw(7), seeded_draw(7), seeded_draw(8)
    numbers = [one(1000) for _ in range(20)]
    assert numbers == [same(1000) for _ in range(20)]
    assert numbers != [other(1000) for _ in range(20)]
    assert numbers[:3] == [389, 16, 900]


def test_draws_reach_every_number_below_the_limit_about_as_often():
    draw = seeded_draw(1)
    counts = [0] * 6
    for _ in range(6000):
        counts[draw(6)] += 1
    assert all(900 < count < 1100 for count in counts)
